"""Native tasks of a user's own: `module:Class`, a class that is a `Dynamics` (`envs.vector`)."""

from __future__ import annotations

import copy
import functools
from typing import Any

import gymnasium
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Space

from envs import entry_points, testing
from envs.entry_points import located
from envs.errors import ANY_FAULT, TaskError
from envs.guard import GuardedVectorEnv
from envs.options import TaskOptions
from envs.task import LONGEST_EPISODE, Task, native_task
from envs.vector import Dynamics, brief, positive_int


def find(id: str, options: TaskOptions) -> Task | None:
    """The task of a class that is a `Dynamics`; None for any other name.

    The class's docstring is the task's description, the module's file its source, the docstring of its
    `success` says what success is, and `time_limit` of an instance is the task's own limit.

    Raises:
        TaskError: one line, for a class that cannot be made.
        ValueError: one line, for a module that cannot be imported, and for spaces and texts that a `Dynamics`
            cannot have.
    """
    parts = entry_points.split(id)
    if parts is None or id in gymnasium.registry:
        return None
    target = getattr(entry_points.load(parts[0], id), parts[1], None)
    if not (isinstance(target, type) and issubclass(target, Dynamics)):
        return None
    kwargs = dict(options.kwargs or {})
    entry_points.check_kwargs(id, target, kwargs)
    make = functools.partial(_make, id, target, kwargs)
    vector = functools.partial(GuardedVectorEnv, id)
    made = make()
    task = native_task(made, make, options, ("kwargs",), vector, **_facts(id, target, made))
    return task._replace(try_out=functools.partial(testing.try_out, task))


def _make(id: str, target: type[Dynamics], kwargs: dict[str, Any]) -> Dynamics:
    try:
        return target(**copy.deepcopy(kwargs))  # it may change them
    except ANY_FAULT as error:  # whatever a user's class raises
        raise TaskError(id, f"it cannot be made: {located(error)}") from error


def _facts(id: str, target: type[Dynamics], made: Dynamics) -> dict[str, Any]:
    _check_spaces(id, made)
    limit = made.time_limit
    success = None
    if target.success is not Dynamics.success:
        success = entry_points.first_line(target.success) or f"as {target.__name__}.success says"
    return {
        "id": id,
        "description": entry_points.first_line(target) or f"{id}, a task of your own.",
        "time_limit": LONGEST_EPISODE if limit is None else positive_int(f"task {id}: its time_limit", limit),
        "success": success,
        "source": entry_points.source(id),
        "action_names": _action_names(id, made),
    }


def _check_spaces(id: str, made: Dynamics) -> None:
    """A ValueError for spaces that a task which is one array program cannot have."""
    for name in ("observation_space", "action_space"):
        space = getattr(made, name, None)
        if not isinstance(space, Space):
            raise ValueError(f"task {id}: its {name} is {brief(space)}; it must be a space of Gymnasium's")
    if not isinstance(made.observation_space, Box | Discrete | MultiDiscrete | MultiBinary):
        raise ValueError(
            f"task {id}: its observation_space is {brief(made.observation_space)}; a Dynamics needs "
            "Discrete, MultiDiscrete, MultiBinary or Box (a gymnasium.Env may have Dict and Tuple)"
        )
    match actions := made.action_space:
        case Discrete() if actions.start == 0:
            return
        case Box() if actions.is_bounded() and actions.dtype.kind == "f":
            return
    raise ValueError(
        f"task {id}: its action_space is {brief(actions)}; a Dynamics needs Discrete from 0, or a bounded "
        "Box of floats (a gymnasium.Env may have others)"
    )


def _action_names(id: str, made: Dynamics) -> tuple[str, ...]:
    """Its names of the actions; a ValueError where they are not one for each."""
    if not isinstance(made.action_names, tuple | list):
        raise ValueError(f"task {id}: its action_names are {brief(made.action_names)}; they must be a tuple")
    names = tuple(map(str, made.action_names))
    actions = getattr(made.action_space, "n", 0)
    if names and len(names) != actions:
        raise ValueError(
            f"task {id}: it has {len(names)} action_names; it must have one for each of {actions}"
        )
    return names
