"""The tasks by name: what each is, and how to make it."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import gymnasium
import numpy as np

from envs import entry_points, this_process
from envs.families import FAMILIES, ids
from envs.options import TaskOptions
from envs.task import Task, TaskSpec
from envs.vector import AnyVectorEnv, Seed
from envs.wrappers import wrapped

Named: TypeAlias = str | Callable[..., Any]
"""A task's name, or a class or function of one's own that makes it."""


class TaskRow(NamedTuple):
    """A line of the list of tasks, as text."""

    id: str
    observation: str
    actions: str
    time_limit: str
    success: str
    source: str


def task(id: Named, **options: Any) -> Task:
    """The task `id`, with `options` (`TaskOptions`) applied: what it is and how to make it.

    Raises:
        ValueError: for an unknown id, naming the nearest known ones, and for options that the task lacks.
    """
    asked = TaskOptions.read(options)
    id = this_process.name_of(id) if callable(id) else id
    for family in FAMILIES:
        found = family.find(id, asked)
        if found is not None:
            return wrapped(found, asked)
    near = difflib.get_close_matches(str(id), ids(), n=3, cutoff=0.4)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    own_form = entry_points.own_form(str(id))
    own_class = f"; a class of your own is written {own_form}" if own_form else ""
    raise ValueError(f"unknown task {id!r}{hint} (the command `envs` lists all{own_class})")


def spec(id: Named, **options: Any) -> TaskSpec:
    """The facts of the task `id`, with `options` (`TaskOptions`) applied; errors as of `task`."""
    return task(id, **options).spec


def is_task(id: str) -> bool:
    """Whether there is a task of this name, even if it cannot be made without options."""
    from envs.adapters.family import is_known  # a native task needs none of that

    try:
        spec(id)
    except ValueError:
        try:
            return is_known(id)
        except ValueError:
            return False
    return True


def try_task(id: Named, **options: Any) -> dict[str, float]:
    """Tries a task that is not this project's own: plays a few steps of it, in an environment of its own.

    Nothing is done for this project's own tasks. A usual task takes a small part of a second.

    Returns:
        By part of its observations ("" where they are one array), the largest number in size; empty where
        that was not looked at.

    Raises:
        TaskError: one line that names task and field, for the first thing that breaks Gymnasium's interface
            or is outside the task's own spaces.
        ValueError: as `spec`.
    """
    try_out = task(id, **options).try_out
    return (try_out() if try_out is not None else None) or {}


def check_task(id: Named, **options: Any) -> None:
    """Puts a native task to the checks that every listed task passes (`envs.testing`), within seconds.

    For a task of a user's own that is a `Dynamics`: `check_task("my_module:MyTask", kwargs={"length": 4})`.

    Raises:
        TaskError: one line that names the first promise that is broken.
        ValueError: as `spec`.
    """
    from envs import testing  # not needed where nothing is checked

    for check in testing.CHECKS:
        check(lambda **changes: task(id, **{**options, **changes}))


def make_vector(
    id: Named, num_envs: int, seed: Seed = None, *, render_mode: str | None = None, **options: Any
) -> AnyVectorEnv:
    """`num_envs` environments of the task `id` as one vector environment with NEXT_STEP autoreset.

    Besides Gymnasium's interface it has `get_state()` and `set_state(state)`, and where the task defines
    success, each step's `infos["is_success"]` is bool [num_envs], True on the last timestep of a success.

    Args:
        id: a name from `ids()`, or another that a family of tasks knows.
        num_envs: number of environments, at least 1.
        seed: of the generator that all share; None takes entropy from the system.
        render_mode: "rgb_array" or None.
        options: as `TaskOptions`; `time_limit=50`, say.

    Raises:
        ValueError: for an unknown id, naming the nearest known ones, and for arguments out of range.
    """
    return task(id, **options).make_vector(num_envs, seed, render_mode=render_mode)


def gymnasium_env(name: str, render_mode: str | None = None, **options: Any) -> gymnasium.Env[Any, Any]:
    """One environment of the task `name` for `gymnasium.make`; arguments as for `make_vector`."""
    return task(name, **options).make_single(render_mode=render_mode)


def gymnasium_vector_env(name: str, num_envs: int, **kwargs: Any) -> AnyVectorEnv:
    """`make_vector` for `gymnasium.make_vec`: without an argument `id`, which would clash there."""
    return make_vector(name, num_envs, **kwargs)


def rows() -> list[TaskRow]:
    """The list of tasks as text, for the command `envs`."""
    return [
        TaskRow(
            id=s.id,
            observation=_space_text(s.observation_space),
            actions=_space_text(s.action_space),
            time_limit=str(s.time_limit or "-"),
            success=(s.success or "-") + s.ceiling_note,
            source=s.source,
        )
        for s in map(spec, ids())
    ]


def facts(id: str, **options: Any) -> dict[str, str]:
    """All that is known of one task, as text, for the command `envs --env X`."""
    s = spec(id, **options)
    return {
        "id": s.id,
        "description": s.description,
        "observation": _space_text(s.observation_space),
        "actions": str(s.action_space),
        "time limit": "none" if s.time_limit is None else f"{s.time_limit} steps",
        "success": (s.success or "not defined") + s.ceiling_note,
        "best return": "not known" if s.best_return is None else f"{s.best_return:g}",
        "source": s.source,
    }


def _space_text(space: gymnasium.Space[Any]) -> str:
    """A space on one line: `MultiDiscrete([21] * 6)`, and `MultiDiscrete(7 x 7 x [11, 2, 5])` of cells."""
    if isinstance(space, gymnasium.spaces.Dict):
        return f"Dict({', '.join(f'{key}: {_space_text(part)}' for key, part in space.items())})"
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        nvec, first = space.nvec, space.nvec[(0,) * (space.nvec.ndim - 1)]
        if nvec.ndim > 1 and (nvec == first).all():
            return f"MultiDiscrete({' x '.join(map(str, nvec.shape[:-1]))} x {first.tolist()})"
        if np.unique(nvec).size == 1:
            return f"MultiDiscrete([{nvec[0]}] * {len(nvec)})"
    return " ".join(str(space).split())


def register_with_gymnasium() -> None:
    """Makes every task known to `gymnasium.make` and `gymnasium.make_vec`."""
    for id in ids():
        # No max_episode_steps: the environments keep their own time limit, so that it can be an argument.
        gymnasium.register(
            id=id,
            entry_point="envs.registry:gymnasium_env",
            vector_entry_point="envs.registry:gymnasium_vector_env",
            kwargs={"name": id},
        )
