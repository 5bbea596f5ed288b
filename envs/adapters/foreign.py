"""A task of Gymnasium environments that are not this project's own, however they are made."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar, cast

import gymnasium
import numpy as np
from gymnasium.spaces import MultiDiscrete

from envs.adapters import trial
from envs.adapters.plain import PlainEnv, SuccessRule, attempt
from envs.adapters.spaces import actions, observations
from envs.adapters.trial import TriedEnv
from envs.adapters.vector import AdaptedVectorEnv
from envs.entry_points import brief_error
from envs.errors import ANY_FAULT, NoPictureError
from envs.language import Language
from envs.options import TaskOptions
from envs.task import Task, TaskSpec
from envs.vector import AnyVectorEnv, Seed, brief

Plain = TypeVar("Plain", bound=PlainEnv)


class Recipe(NamedTuple):
    """How a copy is made, in any process: by `maker(*arguments, render_mode)`, a function of a module."""

    id: str
    """The task's."""
    maker: Callable[..., gymnasium.Env[Any, Any]]
    arguments: tuple[Hashable, ...]
    resets_quickly: bool = True
    """Whether a reset costs little, so that it can be looked at wherever the task is asked for."""


class Facts(NamedTuple):
    """The facts that are seen by making a task once."""

    language: Language
    time_limit: int | None
    says_success: bool
    """Whether the info of a reset holds `is_success`."""
    render_modes: tuple[str, ...]


def foreign_task(
    recipe: Recipe,
    options: TaskOptions,
    *,
    description: str,
    source: str,
    success: SuccessRule | None = None,
    takes: tuple[str, ...] = (),
) -> Task:
    """
    Args:
        recipe: the time limit and other options are already in it.
        description, source: of the `TaskSpec`.
        success: the rule where neither the user gives one nor the environment itself says it.
        takes: options that the task has beside those of every task and of every foreign task.

    Raises:
        ValueError: one line, for an environment that cannot be made, spaces that have no place here, and
            options that the task lacks.
    """
    options.refuse(recipe.id, but=("success", *takes))
    facts = _facts(recipe)
    if options.success is not None:
        success = SuccessRule.read(options.success)
    elif facts.says_success:
        success = SuccessRule(key="is_success")
    spec = TaskSpec(
        id=recipe.id,
        description=description,
        observation_space=facts.language.observations.space,
        action_space=facts.language.actions.space,
        time_limit=facts.time_limit,
        success=None if success is None else success.text,
        source=source,
    )

    def make_vector(num_envs: int, seed: Seed = None, *, render_mode: str | None = None) -> AnyVectorEnv:
        make = functools.partial(_plain, PlainEnv, recipe, success, render_mode)
        return AdaptedVectorEnv(spec, make, num_envs, seed)

    return Task(spec, make_vector, functools.partial(_try, recipe, success), facts.language)


@functools.lru_cache(maxsize=64)  # once is enough: where it fails, nothing is kept
def _try(recipe: Recipe, success: SuccessRule | None) -> dict[str, float]:
    with contextlib.closing(_plain(TriedEnv, recipe, success, None)) as env:
        env.try_out()
    if recipe.resets_quickly:
        trial.compare_copies(recipe.id, functools.partial(_plain, PlainEnv, recipe, success, None))
    return env.largest


@functools.lru_cache(maxsize=64)
def _facts(recipe: Recipe) -> Facts:
    """The facts of a task; says once which parts of its observations are left out."""
    id, env = recipe.id, recipe.maker(*recipe.arguments, None)
    with contextlib.ExitStack() as closing:
        closing.enter_context(contextlib.chdir("."))  # the trial tells of an environment that changes it
        closing.callback(attempt, id, "close", env.close)
        try:
            seen, done = observations(env.observation_space, _minigrid_codes(env)), actions(env.action_space)
            facts = Facts(
                Language(env.observation_space, seen, env.action_space, done),
                _time_limit(env),
                False,
                tuple(env.metadata.get("render_modes", ())),
            )
        except ANY_FAULT as error:  # a space that is not there, or has no place here
            raise ValueError(f"task {id} cannot be made: {brief_error(error)}") from None
        if recipe.resets_quickly:
            plain = PlainEnv(env, id, seen, done, None)
            _, info = plain.row("reset", lambda: env.reset(seed=0))
            facts = facts._replace(says_success="is_success" in info, time_limit=_time_limit(env))
    if seen.left_out:
        print(f"{id}: {', '.join(seen.left_out)} is text and left out", file=sys.stderr)
    return facts


def _plain(kind: type[Plain], recipe: Recipe, success: SuccessRule | None, render_mode: str | None) -> Plain:
    """One copy."""
    facts = _facts(recipe)
    if render_mode is not None and render_mode not in facts.render_modes:
        raise NoPictureError(f"render_mode is {render_mode!r}; {recipe.id} has {brief(facts.render_modes)}")
    if render_mode is not None and not any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY"))):
        # pygame draws without a display, but its library says `error: XDG_RUNTIME_DIR is invalid`.
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    env = recipe.maker(*recipe.arguments, render_mode)
    language = facts.language
    return kind(env, recipe.id, language.observations, language.actions, success, render_mode is not None)


def _time_limit(env: gymnasium.Env[Any, Any]) -> int | None:
    """The smallest limit that is known: of Gymnasium's wrapper, or MiniGrid's own."""
    limits = []
    layer: Any = env
    while isinstance(layer, gymnasium.Wrapper):
        if isinstance(layer, gymnasium.wrappers.TimeLimit):
            limits.append(int(layer._max_episode_steps))
        layer = layer.env
    own = _minigrid_steps(env)
    return min([*limits, *([] if own is None else [own])], default=None)


def _minigrid_steps(env: gymnasium.Env[Any, Any]) -> int | None:
    """The limit that a MiniGrid environment keeps, which some set in their reset; None for others."""
    return int(cast(Any, env.unwrapped).max_steps) or None if _is_minigrid(env) else None


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
    numbers = np.broadcast_to([*sizes, 4], space["image"].shape or ())
    return {"image": MultiDiscrete(numbers, dtype=np.uint8)}
