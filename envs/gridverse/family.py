"""The gridverse tasks by name: those of DTQN, those of gym-gridverse, and worlds in files of a user's own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final

import gymnasium

from envs.gridverse import views
from envs.gridverse.checks import check_world
from envs.gridverse.dynamics import make_dynamics
from envs.gridverse.representations import OBSERVATIONS, Representation
from envs.gridverse.world import WorldSpec, load_world
from envs.gridverse.worlds import DTQN, PACKAGE, world
from envs.options import TaskOptions
from envs.task import Task, TaskSpec, native_task
from envs.vector import Dynamics

FILE_PREFIX: Final = "gridverse:"
TIME_LIMIT: Final = 250
"""DTQN's for the same worlds; the package has none. The longest of 5,000 shortest ways to an exit in its
largest world was 20 steps, so this leaves room to search."""

# Best expected return by exact search over information states (docs/tasks/gridverse.md).
_BEST_RETURN: Final = {
    f"gridverse-memory-{n}x{n}": best
    for n, best in {5: 4.85, 7: 4.45, 9: 4.10, 11: 3.75, 13: 3.40, 21: 2.00}.items()
}
# The share of layouts that can be won, half of those counted in which no beacon can be seen: of 7x7 all
# 1,860,480 layouts, of the others samples of 80,000 or more (standard error below 0.0003).
_CEILING: Final = {
    "gridverse-memory-four-rooms-7x7": 0.943,
    "gridverse-memory-four-rooms-9x9": 0.982,
    "GV-MemoryFourRooms-7x7-v0": 0.985,
    "GV-MemoryFourRooms-9x9-v0": 0.996,
    "GV-MemoryNineRooms-10x10-v0": 0.997,
    "GV-MemoryNineRooms-13x13-v0": 0.999,
}
_DESCRIPTIONS: Final = {
    "memory": "Find the exit that has the colour of the beacons",
    "memory_rooms": "Find the exit that has the colour of the beacon in a maze of rooms",
    "rooms": "Find the exit in a maze of rooms",
    "empty": "Find the exit of an empty room",
    "crossing": "Find the exit through openings in walls",
    "dynamic_obstacles": "Find the exit without touching walls or moving obstacles",
    "keydoor": "Fetch the key, unlock the door and find the exit",
    "teleport": "Find the exit of a room with two telepods",
}


def ids() -> tuple[str, ...]:
    return (*DTQN, *PACKAGE)


def find(id: str, options: TaskOptions) -> Task | None:
    """The task of a shipped world, or of the file in `gridverse:path/to/world.yaml`."""
    if id.startswith(FILE_PREFIX):
        spec = load_world(id.removeprefix(FILE_PREFIX))
        check_world(spec)
        return _task(id, spec, "grid", "a file of your own", options)
    if id in DTQN:
        return _task(id, world(id), "vector", "DTQN (arXiv 2206.01078), gym-gridverse", options)
    if id in PACKAGE:
        return _task(id, world(id), "grid", "gym-gridverse (github.com/abaisero/gym-gridverse)", options)
    return None


def _task(id: str, world: WorldSpec, observation: str, source: str, options: TaskOptions) -> Task:
    """`observation` is the task's own choice, which an option may replace."""
    observation = options.observation or observation
    if observation not in OBSERVATIONS:
        raise ValueError(f"task.observation is {observation!r}; it must be one of {', '.join(OBSERVATIONS)}")
    make = _dynamics(world, observation, options.backend)
    spec = TaskSpec(
        id=id,
        description=_description(world),
        observation_space=Representation(world, observation).space,
        action_space=gymnasium.spaces.Discrete(len(world.actions)),
        time_limit=TIME_LIMIT,
        success=_success(id, world),
        best_return=_BEST_RETURN.get(id),
        source=source,
        success_ceiling=_CEILING.get(id, 1.0),
    )
    return native_task(spec, make, options, takes=("observation", "backend"))


def _description(world: WorldSpec) -> str:
    height, width = views.size(world.area)
    return f"{_DESCRIPTIONS[world.reset.name]}, with {height} x {width} cells in view."


def _success(id: str, world: WorldSpec) -> str | None:
    if not world.has_good_exit:
        return "the episode ends on the exit" if world.ends_on_exit else None
    text = "undiscounted return > 0"
    return text if id.startswith(FILE_PREFIX) else f"{text}: the good exit within 100 steps"


def _dynamics(world: WorldSpec, observation: str, backend: str) -> Callable[[], Dynamics]:
    if backend == "native":
        return functools.partial(make_dynamics, world, observation)
    if backend == "gym-gridverse":
        from envs.gridverse import package  # nobody else needs it

        package.load()  # what is missing is said now
        return functools.partial(package.PackageDynamics, world, observation)
    raise ValueError(f"task.backend is {backend!r}; it must be one of native, gym-gridverse")
