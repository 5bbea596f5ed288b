"""The tasks by name: what each is, and how to make it."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

from envs.gridverse.single import GridverseEnv
from envs.gridverse.vector import GridverseVectorEnv, Seed, action_space, observation_space
from envs.gridverse.world import memory_world


@dataclass(frozen=True)
class TaskSpec:
    """What is to be known of a task without making it."""

    id: str
    """Name, in this registry and in Gymnasium's."""
    description: str
    """One line."""
    observation_space: gymnasium.Space[Any]
    """Of one copy."""
    action_space: gymnasium.Space[Any]
    """Of one copy."""
    time_limit: int
    """Steps after which an episode is truncated, unless another limit is asked for."""
    success: str | None
    """What counts as success; None where the task defines none."""
    best_return: float | None
    """The best achievable expected undiscounted return, where it is known."""
    source: str
    """Where the task comes from."""

    @property
    def has_success(self) -> bool:
        """Whether `infos["is_success"]` is there."""
        return self.success is not None


class TaskRow(NamedTuple):
    """A line of the list of tasks, as text."""

    id: str
    observation: str
    actions: str
    time_limit: str
    success: str
    source: str


class _Task(NamedTuple):
    spec: TaskSpec
    make_vector: Callable[..., VectorEnv[Any, Any, Any]]
    make_single: Callable[..., gymnasium.Env[Any, Any]]


# Best expected return by size, by exact search over information states (docs/tasks.md).
_MEMORY_BEST_RETURN = {5: 4.85, 7: 4.45, 9: 4.10, 11: 3.75, 13: 3.40, 21: 2.00}


def _memory_task(size: int) -> _Task:
    """DTQN's memory world of `size` x `size` cells."""
    world = memory_world(size)
    spec = TaskSpec(
        id=f"gridverse-memory-{size}x{size}",
        description="Find the exit that has the colour of the beacons, seeing 2 x 3 cells at a time.",
        observation_space=observation_space(world),
        action_space=action_space(world),
        time_limit=250,
        success="undiscounted return > 0: the good exit within 100 steps",
        best_return=_MEMORY_BEST_RETURN[size],
        source="DTQN (arXiv 2206.01078), gym-gridverse",
    )
    return _Task(spec, functools.partial(GridverseVectorEnv, world), functools.partial(GridverseEnv, world))


_TASKS: dict[str, _Task] = {
    task.spec.id: task for task in (_memory_task(size) for size in _MEMORY_BEST_RETURN)
}


def ids() -> tuple[str, ...]:
    """Names of all tasks."""
    return tuple(_TASKS)


def _find(id: str) -> _Task:
    if id not in _TASKS:
        near = difflib.get_close_matches(str(id), _TASKS, n=3, cutoff=0.4)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ValueError(f"unknown task {id!r}{hint} (python run.py envs lists all)")
    return _TASKS[id]


def spec(id: str) -> TaskSpec:
    """What the task `id` is.

    Raises:
        ValueError: for an unknown id, naming the nearest known ones.
    """
    return _find(id).spec


def make_vector(
    id: str,
    num_envs: int,
    seed: Seed = None,
    time_limit: int | None = None,
    *,
    render_mode: str | None = None,
) -> VectorEnv[Any, Any, Any]:
    """`num_envs` copies of the task `id` as one vector environment with NEXT_STEP autoreset.

    Besides Gymnasium's interface it has `get_state()` and `set_state(state)`, and where the task defines
    success, each step's `infos["is_success"]` is a bool array [num_envs], True on the last row of a success.

    Args:
        id: a name from `ids()`.
        num_envs: number of copies, at least 1.
        seed: of the one generator of all copies; None takes entropy from the system.
        time_limit: steps after which an episode is truncated; None takes the task's own.
        render_mode: "rgb_array" or None.

    Raises:
        ValueError: for an unknown id, naming the nearest known ones, and for arguments out of range.
    """
    task = _find(id)
    limit = task.spec.time_limit if time_limit is None else time_limit
    return task.make_vector(num_envs, seed, time_limit=limit, render_mode=render_mode)


def gymnasium_env(
    task: str, time_limit: int | None = None, render_mode: str | None = None
) -> gymnasium.Env[Any, Any]:
    """What `gymnasium.make` calls: one copy of a task, arguments as for `make_vector`."""
    found = _find(task)
    limit = found.spec.time_limit if time_limit is None else time_limit
    return found.make_single(time_limit=limit, render_mode=render_mode)


def gymnasium_vector_env(task: str, num_envs: int, **kwargs: Any) -> VectorEnv[Any, Any, Any]:
    """What `gymnasium.make_vec` calls: `make_vector` without an argument `id`, which would clash there."""
    return make_vector(task, num_envs, **kwargs)


def rows() -> list[TaskRow]:
    """The list of tasks as text, for `python run.py envs`."""
    return [
        TaskRow(
            id=s.id,
            observation=_space_text(s.observation_space),
            actions=_space_text(s.action_space),
            time_limit=str(s.time_limit),
            success=s.success or "-",
            source=s.source,
        )
        for s in (task.spec for task in _TASKS.values())
    ]


def _space_text(space: gymnasium.Space[Any]) -> str:
    """A space in a few characters: `MultiDiscrete([21] * 6)` where all entries are alike."""
    if isinstance(space, gymnasium.spaces.MultiDiscrete) and np.unique(space.nvec).size == 1:
        return f"MultiDiscrete([{space.nvec[0]}] * {len(space.nvec)})"
    return str(space)


def register_with_gymnasium() -> None:
    """Makes every task known to `gymnasium.make` and `gymnasium.make_vec`."""
    for id in _TASKS:
        # No max_episode_steps: the environments keep their own time limit, so that it can be an argument.
        gymnasium.register(
            id=id,
            entry_point="envs.registry:gymnasium_env",
            vector_entry_point="envs.registry:gymnasium_vector_env",
            kwargs={"task": id},
        )
