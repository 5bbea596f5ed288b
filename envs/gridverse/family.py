"""The gridverse tasks by name: DTQN's, gym-gridverse's, and worlds in a user's own files."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from envs.errors import unreadable
from envs.families import GRIDVERSE_FILE
from envs.gridverse import views
from envs.gridverse.checks import check_world
from envs.gridverse.dynamics import make_dynamics
from envs.gridverse.representations import chosen
from envs.gridverse.world import WorldSpec
from envs.gridverse.worlds import SHIPPED, world
from envs.options import TaskOptions
from envs.task import Task, native_task
from envs.vector import Dynamics

# 250 steps are DTQN's for its worlds; the package has none. The longest of 5,000 shortest ways to an exit in
# its largest world was 20 steps, so this leaves room to search.
_TIME_LIMIT: Final = 250
_BACKENDS: Final = ("native", "gym-gridverse")


def find(id: str, options: TaskOptions) -> Task | None:
    """The task of a shipped world, or of the file in `gridverse:path/to/world.yaml`."""
    if id in SHIPPED:
        return _task(id, world(id), options)
    if not id.startswith(GRIDVERSE_FILE):
        return None
    from envs import yaml_file  # only files need it

    path = id.removeprefix(GRIDVERSE_FILE)
    try:
        spec = WorldSpec.from_data(yaml_file.read(path))
        check_world(spec)
    except OSError as error:
        raise ValueError(unreadable(Path(path), error)) from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return _task(id, spec, options)


def _task(id: str, world: WorldSpec, options: TaskOptions) -> Task:
    height, width = views.size(world.area)
    facts: dict[str, Any] = {
        "description": f"A world of the kind {world.reset.name!r}, with {height} x {width} cells in view.",
        "source": id.removeprefix(GRIDVERSE_FILE),
        "time_limit": _TIME_LIMIT,
        **world.facts,
    }
    observation = chosen(options.observation, facts.pop("observation", "grid"))
    make = _dynamics(world, observation, options.backend)
    return native_task(
        make(),
        make,
        options,
        ("observation", "backend"),
        id=id,
        success=_success(id, world),
        view=(height, width) if observation == "vector" else None,
        **facts,
    )


def _success(id: str, world: WorldSpec) -> str | None:
    if not world.has_good_exit:
        return "the episode ends on the exit" if world.ends_on_exit else None
    text = "undiscounted return > 0"
    return text if id.startswith(GRIDVERSE_FILE) else f"{text}: the good exit within 100 steps"


def _dynamics(world: WorldSpec, observation: str, backend: str) -> Callable[[], Dynamics]:
    if backend == "native":
        return functools.partial(make_dynamics, world, observation)
    if backend == "gym-gridverse":
        from envs.gridverse import package  # nobody else needs it

        package.load()  # what is missing is said now
        return functools.partial(package.PackageDynamics, world, observation)
    raise ValueError(f"task.backend is {backend!r}; it must be one of {', '.join(_BACKENDS)}")
