"""The gridverse tasks by name."""

from __future__ import annotations

import functools

import gymnasium

from envs.gridverse.dynamics import make_dynamics, observation_space
from envs.gridverse.world import memory_world
from envs.task import Task, TaskOptions, TaskSpec, native_task

# Best expected return by size, by exact search over information states (docs/tasks.md).
_MEMORY_BEST_RETURN = {5: 4.85, 7: 4.45, 9: 4.10, 11: 3.75, 13: 3.40, 21: 2.00}
_MEMORY_IDS = {f"gridverse-memory-{size}x{size}": size for size in _MEMORY_BEST_RETURN}


def _memory_task(size: int, options: TaskOptions) -> Task:
    """DTQN's memory world of `size` x `size` cells."""
    world = memory_world(size)
    spec = TaskSpec(
        id=f"gridverse-memory-{size}x{size}",
        description="Find the exit that has the colour of the beacons, seeing 2 x 3 cells at a time.",
        observation_space=observation_space(world),
        action_space=gymnasium.spaces.Discrete(len(world.actions)),
        time_limit=250,
        success="undiscounted return > 0: the good exit within 100 steps",
        best_return=_MEMORY_BEST_RETURN[size],
        source="DTQN (arXiv 2206.01078), gym-gridverse",
    )
    return native_task(spec, functools.partial(make_dynamics, world), options)


def ids() -> tuple[str, ...]:
    return tuple(_MEMORY_IDS)


def find(id: str, options: TaskOptions) -> Task | None:
    return _memory_task(_MEMORY_IDS[id], options) if id in _MEMORY_IDS else None
