"""Any Gymnasium environment by its id, `CartPole-v1`, or by where it is, `package.module:Class`.

Packages whose ids are known are imported when one is asked for; another package's ids can be had as
`package:Id-v0`, which imports it first (Gymnasium's own notation).
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import inspect
import json
import re
import sys
from typing import Any, NamedTuple

import gymnasium
from gymnasium.envs.registration import load_env_creator

from envs import entry_points
from envs.adapters import memory_maze
from envs.adapters.foreign import Recipe, foreign_task
from envs.adapters.plain import SuccessRule, kept
from envs.entry_points import brief_error, located
from envs.errors import ANY_FAULT
from envs.options import TaskOptions
from envs.task import Task
from envs.vector import brief, positive_int


class Package(NamedTuple):
    """A package with tasks."""

    prefix: str
    """The beginning of its ids, a regular expression for letters of either case."""
    module: str
    """The module to import so that Gymnasium knows them."""
    extra: str
    """This project's extra that installs it."""


PACKAGES = (
    Package("MiniGrid-", "minigrid", "minigrid"),
    Package("BabyAI-", "minigrid", "minigrid"),
    Package("popgym-(?!(?-i:[a-z]))", "popgym", "popgym"),  # in lower case they are native
    Package("ALE/", "ale_py", "atari"),
    Package("MemoryMaze-", "memory_maze.tasks", "memory-maze"),
)
# MiniGrid's manual: a reward above 0 is given for success, and for nothing else. The playground gives none.
_POSITIVE_RETURN = re.compile(r"(MiniGrid|BabyAI)-(?!Playground)")


def find(id: str, options: TaskOptions) -> Task | None:
    """The task of a Gymnasium id or of an entry point; None for a name that is neither.

    Raises:
        ValueError: one line, for a package that is not installed, an id that it lacks, an environment that
            cannot be made, spaces that have no place here, and options that such tasks lack.
    """
    if not is_known(id):
        return None
    limit = None if options.time_limit is None else positive_int("task.time_limit", options.time_limit)
    recipe = Recipe(id, _make, (id, limit, json.dumps(options.kwargs or {})), id not in memory_maze.IDS)
    return foreign_task(
        recipe,
        options,
        description=_description(id),
        source=_source(id),
        success=SuccessRule(bound=0.0) if _POSITIVE_RETURN.match(id.rpartition(":")[2]) else None,
        takes=("kwargs",) if recipe.resets_quickly else (),
    )


def modules(id: str) -> tuple[str, ...]:
    """The modules that say what a task of `find` is: the one that its name holds, and its entry point's.

    None for a native task's id. Errors as `find`, but for those of making the environment.
    """
    package, parts = _package(id), entry_points.split(id)
    if package is not None:
        _import(package, id)
    if id in memory_maze.IDS:
        return ("memory_maze.tasks",)
    if parts is not None:
        entry_points.load(parts[0], id)
    names = [] if parts is None else [parts[0]]
    registered = gymnasium.registry.get(id) or gymnasium.registry.get(id.rpartition(":")[2])
    if registered is not None and not _is_native(registered) and registered.entry_point is not None:
        entry = registered.entry_point
        names.append(
            entry.partition(":")[0] if isinstance(entry, str) else str(getattr(entry, "__module__", ""))
        )
    return tuple(dict.fromkeys(names))


def _package(id: str) -> Package | None:
    return next((package for package in PACKAGES if re.match(package.prefix, id, re.IGNORECASE)), None)


def is_known(id: str) -> bool:
    """Whether the name is a task of another package; a ValueError where it is nearly one."""
    package = _package(id)
    if package is not None:
        _import(package, id)
    if id in gymnasium.registry or id in memory_maze.IDS:
        return True
    parts = entry_points.split(id)
    if parts is not None:
        module, name = entry_points.load(parts[0], id), parts[1]
        if hasattr(module, name) or name in gymnasium.registry:
            return True
        raise ValueError(
            f"unknown task {id!r}: {parts[0]} has neither a class nor a registered task {name!r} "
            f"(it is {getattr(module, '__file__', 'built in')})"
        )
    known = [*memory_maze.IDS, *(key for key, spec in gymnasium.registry.items() if not _is_native(spec))]
    near = difflib.get_close_matches(id, known, n=2, cutoff=0.85)
    if near or package is not None:
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ValueError(f"unknown task {id!r}{hint}")
    return False


def _is_native(spec: Any) -> bool:
    return spec.entry_point == "envs.registry:gymnasium_env"


def _import(package: Package, id: str) -> None:
    hint = f"; install it: pip install 'dtqn[{package.extra}]'"
    own_way = memory_maze.tasks if package.module == "memory_maze.tasks" else None
    module = entry_points.load(package.module, id, hint, own_way)
    if package.module == "ale_py":  # no greeting from every copy
        module.ALEInterface.setLoggerMode(module.LoggerMode.Error)


def _make(
    id: str, time_limit: int | None, kwargs_json: str, render_mode: str | None
) -> gymnasium.Env[Any, Any]:
    """The environment as its package makes it, with the time limit; `kwargs_json` are of its constructor."""
    kwargs = json.loads(kwargs_json)
    if not is_known(id):  # imports the package, in a process that has not done so yet
        raise ValueError(f"unknown task {id!r}")
    target = _target(id)
    wanted = {} if render_mode is None and not _needs_render_mode(target) else {"render_mode": render_mode}
    if id in memory_maze.IDS:
        own = memory_maze.time_limit(id)
        make, time_limit = functools.partial(memory_maze.make, id, render_mode), min(own, time_limit or own)
    elif target is not None:
        entry_points.check_kwargs(id, target, kwargs)
        make = functools.partial(target, **wanted, **kwargs)
    else:
        name = id if id in gymnasium.registry else id.partition(":")[2]
        registered = gymnasium.registry[name]
        entry_points.check_kwargs(id, _creator(id, registered.entry_point), kwargs, registered.kwargs)
        make = functools.partial(
            gymnasium.make, name, time_limit, disable_env_checker=True, **wanted, **kwargs
        )
        time_limit = None
    try:
        with contextlib.chdir("."), kept():  # constructors that change the working directory are common
            env = make()
    except ANY_FAULT as error:  # whatever another package raises
        raise ValueError(f"task {id} cannot be made: {located(error)}") from None
    if not isinstance(env, gymnasium.Env):
        raise ValueError(f"task {id} is no gymnasium.Env: it makes a {type(env).__name__}")
    return env if time_limit is None else gymnasium.wrappers.TimeLimit(env, time_limit)


def _target(id: str) -> Any:
    """The class named `module:Name`, if that is no registered task; None for a name of another form."""
    parts = entry_points.split(id)
    if parts is None or id in gymnasium.registry:
        return None
    target = getattr(sys.modules[parts[0]], parts[1], None)
    if target is not None and not callable(target):
        raise ValueError(f"task {id} is no gymnasium.Env: it is {brief(target)}")
    return target


def _needs_render_mode(target: Any) -> bool:
    """Whether it has to be called with a `render_mode`, be that None."""
    with contextlib.suppress(TypeError, ValueError):
        parameter = inspect.signature(target).parameters.get("render_mode")
        return parameter is not None and parameter.default is parameter.empty
    return False


def _creator(id: str, entry_point: Any) -> Any:
    """The callable by which Gymnasium makes a registered task."""
    if not isinstance(entry_point, str):
        return entry_point
    try:
        return load_env_creator(entry_point)
    except ANY_FAULT as error:  # a package that is not installed, say, of which Gymnasium tells the command
        raise ValueError(f"task {id} cannot be made: {brief_error(error)}") from None


def _description(id: str) -> str:
    return entry_points.first_line(_target(id)) or f"{id}, as its package defines it."


def _source(id: str) -> str:
    if _target(id) is not None:
        return entry_points.source(id)
    spec = gymnasium.registry.get(id.rpartition(":")[2])
    if spec is None or spec.entry_point is None:
        return "memory-maze"
    return spec.entry_point if isinstance(spec.entry_point, str) else "gymnasium.registry"
