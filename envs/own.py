"""Native tasks of a user's own: `module:Class`, a class that is a `Dynamics` (`envs.vector`)."""

from __future__ import annotations

import functools

import gymnasium

from envs import entry_points, testing
from envs.entry_points import located
from envs.options import TaskOptions
from envs.task import Task, TaskSpec, native_task
from envs.vector import Dynamics, brief


def ids() -> tuple[str, ...]:
    """None: tasks of a user's own are not listed."""
    return ()


def find(id: str, options: TaskOptions) -> Task | None:
    """The task of a class that is a `Dynamics`; None for any other name.

    The class's docstring is the task's description, the module's file its source, the docstring of its
    `success` says what success is, and `time_limit` of an instance is the task's own limit.

    Raises:
        ValueError: one line, for a module that cannot be imported and a class that cannot be made.
    """
    parts = entry_points.split(id)
    if parts is None or id in gymnasium.registry:
        return None
    target = getattr(entry_points.load(parts[0], id), parts[1], None)
    if not (isinstance(target, type) and issubclass(target, Dynamics)):
        return None
    kwargs = dict(options.kwargs or {})
    entry_points.check_kwargs(id, target, kwargs)
    make: functools.partial[Dynamics] = functools.partial(target, **kwargs)
    task = native_task(_spec(id, target, make), make, options, takes=("kwargs",))
    return task._replace(try_out=functools.partial(testing.try_out, task))


def _spec(id: str, target: type[Dynamics], make: functools.partial[Dynamics]) -> TaskSpec:
    try:
        made = make()
    except Exception as error:  # whatever a user's class raises
        raise ValueError(f"task {id} cannot be made: {located(error)}") from None
    for name in ("observation_space", "action_space"):
        space = getattr(made, name, None)
        if not isinstance(space, gymnasium.Space):
            raise ValueError(f"task {id}: its {name} is {brief(space)}; it must be a space of Gymnasium's")
    success = None
    if target.success is not Dynamics.success:
        success = entry_points.first_line(target.success) or f"as {target.__name__}.success says"
    return TaskSpec(
        id=id,
        description=entry_points.first_line(target) or f"{id}, a task of your own.",
        observation_space=made.observation_space,
        action_space=made.action_space,
        time_limit=made.time_limit,
        success=success,
        best_return=None,
        source=entry_points.source(id),
        action_names=_action_names(id, made),
    )


def _action_names(id: str, made: Dynamics) -> tuple[str, ...]:
    """Its names of the actions; a ValueError where they are not one for each."""
    names = tuple(map(str, made.action_names))
    actions = getattr(made.action_space, "n", 0)
    if names and len(names) != actions:
        raise ValueError(
            f"task {id}: it has {len(names)} action_names; it must have one for each of {actions}"
        )
    return names
