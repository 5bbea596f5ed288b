"""Any Gymnasium environment by its id, `CartPole-v1`, or by where it is, `package.module:Class`.

Packages whose ids are known are imported when one is asked for; another package's ids can be had as
`package:Id-v0`, which imports it first (Gymnasium's own notation).
"""

from __future__ import annotations

import difflib
import functools
import importlib
import re
import sys
from typing import Any, NamedTuple, cast

import gymnasium
import numpy as np
from gymnasium.spaces import MultiDiscrete
from gymnasium.vector import VectorEnv

from envs.adapters import memory_maze
from envs.adapters.plain import PlainEnv, SuccessRule
from envs.adapters.spaces import Actions, Observations, actions, observations
from envs.adapters.vector import AdaptedVectorEnv
from envs.options import TaskOptions
from envs.task import Task, TaskSpec
from envs.vector import Seed, brief, positive_int


class Package(NamedTuple):
    """A package with tasks."""

    prefix: str
    """What its ids begin with."""
    module: str
    """What to import so that Gymnasium knows them."""
    extra: str
    """This project's extra that installs it."""


PACKAGES = (
    Package("MiniGrid-", "minigrid", "minigrid"),
    Package("BabyAI-", "minigrid", "minigrid"),
    Package("popgym-", "popgym", "popgym"),
    Package("ALE/", "ale_py", "atari"),
    Package("MemoryMaze-", "memory_maze.tasks", "memory-maze"),
)
# MiniGrid's manual: a reward above 0 is given for success, and for nothing else. The playground gives none.
_POSITIVE_RETURN = re.compile(r"(MiniGrid|BabyAI)-(?!Playground)")


class Facts(NamedTuple):
    """What is seen by making a task once."""

    observations: Observations
    actions: Actions
    time_limit: int | None
    success: SuccessRule
    render_modes: tuple[str, ...]


def ids() -> tuple[str, ...]:
    """None: tasks of other packages are not listed."""
    return ()


def find(id: str, options: TaskOptions) -> Task | None:
    """The task of a Gymnasium id or of an entry point; None for a name that is neither.

    Raises:
        ValueError: one line, for a package that is not installed, an id that it lacks, an environment that
            cannot be made, spaces that have no place here, and options that such tasks lack.
    """
    if not _is_known(id):
        return None
    options.refuse(id, but=("vectorization",))
    if options.vectorization not in ("sync", "async"):
        raise ValueError(f"task.vectorization is {options.vectorization!r}; it must be sync or async")
    limit = None if options.time_limit is None else positive_int("task.time_limit", options.time_limit)
    facts = _facts(id, limit)
    spec = TaskSpec(
        id=id,
        description=f"{id}, as its package defines it.",
        observation_space=facts.observations.space,
        action_space=facts.actions.space,
        time_limit=facts.time_limit,
        success=_SUCCESS[facts.success],
        best_return=None,
        source=_source(id),
    )
    make_plain = functools.partial(_make_plain, id, limit)

    def make_vector(
        num_envs: int, seed: Seed = None, *, render_mode: str | None = None
    ) -> VectorEnv[Any, Any, Any]:
        return AdaptedVectorEnv(
            functools.partial(make_plain, render_mode),
            num_envs,
            seed,
            vectorization=options.vectorization,
            time_limit=spec.time_limit,
        )

    def make_single(*, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
        return make_plain(render_mode)

    return Task(spec, make_vector, make_single)


_SUCCESS: dict[SuccessRule, str | None] = {
    None: None,
    "info": 'info["is_success"] of the environment on its last row',
    "positive return": "undiscounted return > 0",
}


def _package(id: str) -> Package | None:
    return next((package for package in PACKAGES if id.startswith(package.prefix)), None)


def _is_known(id: str) -> bool:
    """Whether the name is a task of another package; a ValueError where it is nearly one."""
    package = _package(id)
    if package is not None:
        _import(package.module, id, package.extra)
    if id in gymnasium.registry or id in memory_maze.IDS:
        return True
    module, _, name = id.partition(":")
    if name and re.fullmatch(r"[A-Za-z_][\w.]*", module):
        imported = _import(module, id)
        if hasattr(imported, name) or name in gymnasium.registry:
            return True
        raise ValueError(f"unknown task {id!r}: {module} has neither a class nor a registered task {name!r}")
    known = [*memory_maze.IDS, *(key for key, spec in gymnasium.registry.items() if not _is_native(spec))]
    near = difflib.get_close_matches(id, known, n=2, cutoff=0.85)
    if near or package is not None:
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ValueError(f"unknown task {id!r}{hint}")
    return False


def _is_native(spec: Any) -> bool:
    return spec.entry_point == "envs.registry:gymnasium_env"


def _import(module: str, id: str, extra: str | None = None) -> Any:
    try:
        if module == "memory_maze.tasks":
            return memory_maze.tasks()
        imported = importlib.import_module(module)
    except ImportError as error:
        how = f"; install it: python -m pip install -c constraints.txt -e '.[{extra}]'" if extra else ""
        raise ValueError(f"task {id} needs {module}, which cannot be imported ({error}){how}") from None
    if module == "ale_py":  # no greeting from every copy
        imported.ALEInterface.setLoggerMode(imported.LoggerMode.Error)
    return imported


def _make(id: str, time_limit: int | None, render_mode: str | None) -> gymnasium.Env[Any, Any]:
    """The environment as its package makes it, with the time limit."""
    if not _is_known(id):  # imports the package, in a process that has not done so yet
        raise ValueError(f"unknown task {id!r}")
    wanted = {} if render_mode is None else {"render_mode": render_mode}
    if id in gymnasium.registry:
        return gymnasium.make(id, time_limit, disable_env_checker=True, **wanted)
    if id in memory_maze.IDS:
        env, own = memory_maze.make(id, render_mode), memory_maze.time_limit(id)
        return gymnasium.wrappers.TimeLimit(env, min(own, time_limit or own))
    module, _, name = id.partition(":")
    made = getattr(sys.modules[module], name, None)
    if made is None:
        return gymnasium.make(name, time_limit, disable_env_checker=True, **wanted)
    env = made(**wanted)
    return env if time_limit is None else gymnasium.wrappers.TimeLimit(env, time_limit)


@functools.lru_cache(maxsize=64)
def _facts(id: str, time_limit: int | None) -> Facts:
    """What is to be known of a task; says once what of its observations is left out."""
    try:
        env = _make(id, time_limit, None)
        info = {} if id in memory_maze.IDS else env.reset(seed=0)[1]  # a maze takes seconds
        codes = _minigrid_codes(env)
        facts = Facts(
            observations(env.observation_space, codes),
            actions(env.action_space),
            _time_limit(env),
            _success(id, info),
            tuple(env.metadata.get("render_modes", ())),
        )
        env.close()
    except Exception as error:  # whatever another package raises
        raise ValueError(f"task {id} cannot be made: {brief_error(error)}") from None
    if facts.observations.left_out:
        print(f"{id}: {', '.join(facts.observations.left_out)} is text and left out", file=sys.stderr)
    return facts


def _make_plain(id: str, time_limit: int | None, render_mode: str | None) -> PlainEnv:
    facts = _facts(id, time_limit)
    if render_mode is not None and render_mode not in facts.render_modes:
        raise ValueError(f"render_mode is {render_mode!r}; {id} has {brief(facts.render_modes)}")
    return PlainEnv(_make(id, time_limit, render_mode), facts.observations, facts.actions, facts.success)


def _time_limit(env: gymnasium.Env[Any, Any]) -> int | None:
    """The smallest limit that is known: of Gymnasium's wrapper, or MiniGrid's own."""
    limits = []
    layer: Any = env
    while isinstance(layer, gymnasium.Wrapper):
        if isinstance(layer, gymnasium.wrappers.TimeLimit):
            limits.append(int(layer._max_episode_steps))
        layer = layer.env
    if _is_minigrid(env):
        limits.append(int(cast(Any, env.unwrapped).max_steps))
    return min(limits, default=None)


def _success(id: str, info: dict[str, Any]) -> SuccessRule:
    if "is_success" in info:
        return "info"
    return "positive return" if _POSITIVE_RETURN.match(id.rpartition(":")[2]) else None


def _is_minigrid(env: gymnasium.Env[Any, Any]) -> bool:
    module = sys.modules.get("minigrid.minigrid_env")
    return module is not None and isinstance(env.unwrapped, module.MiniGridEnv)


def _minigrid_codes(env: gymnasium.Env[Any, Any]) -> dict[str, gymnasium.Space[Any]]:
    """MiniGrid declares bytes, but its picture holds codes: object, colour, state (or direction) of cells."""
    space = env.observation_space
    if not _is_minigrid(env) or not isinstance(space, gymnasium.spaces.Dict) or "image" not in space.spaces:
        return {}
    if space["image"] != cast(Any, env.unwrapped.observation_space)["image"]:
        return {}  # a wrapper's picture
    constants = importlib.import_module("minigrid.core.constants")
    sizes = [max(t.values()) + 1 for t in (constants.OBJECT_TO_IDX, constants.COLOR_TO_IDX)]
    codes = np.broadcast_to([*sizes, 4], space["image"].shape or ())
    return {"image": MultiDiscrete(codes, dtype=np.uint8)}


def _source(id: str) -> str:
    spec = gymnasium.registry.get(id.rpartition(":")[2])
    if spec is None or spec.entry_point is None:
        return id.partition(":")[0] if ":" in id else "memory-maze"
    return spec.entry_point if isinstance(spec.entry_point, str) else "gymnasium.registry"


def brief_error(error: Exception) -> str:
    """An exception on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
