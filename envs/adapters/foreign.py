"""Tasks of Gymnasium environments that are not this project's own."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar, cast

import gymnasium
import numpy as np
from gymnasium.envs.registration import load_env_creator
from gymnasium.spaces import MultiDiscrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from envs import entry_points
from envs.adapters import trial
from envs.adapters.family import is_known
from envs.adapters.plain import PlainEnv, SuccessRule, attempt, kept
from envs.adapters.spaces import actions, observations
from envs.adapters.trial import TriedEnv
from envs.checks import ObservationCheck
from envs.entry_points import brief_error, located
from envs.errors import ANY_FAULT, NoPictureError, TaskError
from envs.language import Language
from envs.options import TaskOptions
from envs.task import LONGEST_EPISODE, Task, TaskSpec
from envs.vector import AnyVectorEnv, AnyWrapper, FirstStep, Seed, Timestep, brief, generator, positive_int

Plain = TypeVar("Plain", bound=PlainEnv)


# MiniGrid's manual: a reward above 0 is given for success, and for nothing else. The playground gives none.
_POSITIVE_RETURN = re.compile(r"(MiniGrid|BabyAI)-(?!Playground)")


class Recipe(NamedTuple):
    """How an environment is made, in any process."""

    id: str
    """The task's."""
    time_limit: int | None
    kwargs_json: str
    """Arguments of the constructor."""


class Facts(NamedTuple):
    """The facts that are seen by making a task once."""

    language: Language
    time_limit: int
    says_success: bool
    """Whether the info of a reset holds `is_success`."""
    render_modes: tuple[str, ...]


def find(id: str, options: TaskOptions) -> Task | None:
    """The task of a Gymnasium id or of an entry point; None for a name that is neither.

    Raises:
        ValueError: one line, for a package that is not installed, an id that it lacks, an environment that
            cannot be made, spaces that have no place here, and options that such tasks lack.
    """
    if not is_known(id):
        return None
    limit = None if options.time_limit is None else positive_int("task.time_limit", options.time_limit)
    recipe = Recipe(id, limit, json.dumps(options.kwargs or {}))
    options.refuse(id, but=("success", "kwargs"))
    facts = _facts(recipe)
    success = SuccessRule(bound=0.0) if _POSITIVE_RETURN.match(id.rpartition(":")[2]) else None
    if options.success is not None:
        success = SuccessRule.read(options.success)
    elif facts.says_success:
        success = SuccessRule(key="is_success")
    spec = TaskSpec(
        id=id,
        description=entry_points.first_line(_target(id)) or f"{id}, as its package defines it.",
        observation_space=facts.language.observations.space,
        action_space=facts.language.actions.space,
        time_limit=facts.time_limit,
        success=None if success is None else success.text,
        source=_source(id),
    )

    def make_vector(num_envs: int, seed: Seed = None, *, render_mode: str | None = None) -> AnyVectorEnv:
        make = functools.partial(_plain, PlainEnv, recipe, success, render_mode)
        return AdaptedVectorEnv(spec, make, num_envs, seed)

    return Task(spec, make_vector, functools.partial(_try, recipe, success), facts.language)


@functools.lru_cache(maxsize=64)  # once is enough: where it fails, nothing is kept
def _try(recipe: Recipe, success: SuccessRule | None) -> dict[str, float]:
    with contextlib.closing(_plain(TriedEnv, recipe, success, None)) as env:
        env.try_out()
    trial.compare_envs(recipe.id, functools.partial(_plain, PlainEnv, recipe, success, None))
    return env.largest


@functools.lru_cache(maxsize=64)
def _facts(recipe: Recipe) -> Facts:
    """The facts of a task; says once which parts of its observations are left out."""
    id, env = recipe.id, _make(*recipe, None)
    with contextlib.ExitStack() as closing:
        closing.enter_context(contextlib.chdir("."))  # the trial tells of an environment that changes it
        closing.callback(attempt, id, "close", env.close)
        try:
            seen, done = observations(env.observation_space, _minigrid_codes(env)), actions(env.action_space)
            language = Language(env.observation_space, seen, env.action_space, done)
            render_modes = tuple(env.metadata.get("render_modes", ()))
        except ANY_FAULT as error:  # a space that is not there, or has no place here
            raise ValueError(f"task {id} cannot be made: {brief_error(error)}") from None
        _, info = PlainEnv(env, id, seen, done, None, LONGEST_EPISODE).timestep(
            "reset", lambda: env.reset(seed=0)
        )
        facts = Facts(language, _time_limit(env, recipe.time_limit), "is_success" in info, render_modes)
    if seen.left_out:
        print(f"{id}: {', '.join(seen.left_out)} is text and left out", file=sys.stderr)
    return facts


def forget() -> None:
    """Ask all tasks anew for what they are."""
    _try.cache_clear()
    _facts.cache_clear()


def _plain(kind: type[Plain], recipe: Recipe, success: SuccessRule | None, render_mode: str | None) -> Plain:
    """One environment."""
    facts = _facts(recipe)
    if render_mode is not None and render_mode not in facts.render_modes:
        raise NoPictureError(f"render_mode is {render_mode!r}; {recipe.id} has {brief(facts.render_modes)}")
    if render_mode is not None and not any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY"))):
        # pygame draws without a display, but its library says `error: XDG_RUNTIME_DIR is invalid`.
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    env = _make(*recipe, render_mode)
    read, act = facts.language.observations, facts.language.actions
    limit = recipe.time_limit or max(facts.time_limit, LONGEST_EPISODE)  # its own may differ by the episode
    return kind(env, recipe.id, read, act, success, limit, draws=render_mode is not None)


def _time_limit(env: gymnasium.Env[Any, Any], asked: int | None) -> int:
    """The smallest limit that is known: the one asked for, of Gymnasium's wrapper, or MiniGrid's own."""
    limits = [] if asked is None else [asked]
    layer: Any = env
    while isinstance(layer, gymnasium.Wrapper):
        if isinstance(layer, gymnasium.wrappers.TimeLimit):
            limits.append(int(layer._max_episode_steps))
        layer = layer.env
    if _is_minigrid(env) and (own := int(cast(Any, env.unwrapped).max_steps)):  # some set it in their reset
        limits.append(own)
    return min(limits, default=LONGEST_EPISODE)


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


def _make(
    id: str, time_limit: int | None, kwargs_json: str, render_mode: str | None
) -> gymnasium.Env[Any, Any]:
    """The environment as its package makes it; `kwargs_json` are of its constructor."""
    kwargs = json.loads(kwargs_json)
    if not is_known(id):  # imports the package, in a process that has not done so yet
        raise ValueError(f"unknown task {id!r}")
    target = _target(id)
    wanted = {} if render_mode is None and not _needs_render_mode(target) else {"render_mode": render_mode}
    if target is not None:
        entry_points.check_kwargs(id, target, kwargs)
        make = functools.partial(target, **wanted, **kwargs)
    else:
        name = id if id in gymnasium.registry else id.partition(":")[2]
        registered = gymnasium.registry[name]
        entry_points.check_kwargs(id, _creator(id, registered.entry_point), kwargs, registered.kwargs)
        make = functools.partial(
            gymnasium.make, name, time_limit, disable_env_checker=True, **wanted, **kwargs
        )
    try:
        with contextlib.chdir("."), kept():  # constructors that change the working directory are common
            env = make()
    except ANY_FAULT as error:  # whatever another package raises
        raise ValueError(f"task {id} cannot be made: {located(error)}") from None
    if not isinstance(env, gymnasium.Env):
        raise ValueError(f"task {id} is not a gymnasium.Env: it makes a {type(env).__name__}")
    return env


def _target(id: str) -> Any:
    """The class named `module:Name`, if that is no registered task; None for a name of another form."""
    parts = entry_points.split(id)
    if parts is None or id in gymnasium.registry:
        return None
    target = getattr(sys.modules[parts[0]], parts[1], None)
    if target is not None and not callable(target):
        raise ValueError(f"task {id} is not a gymnasium.Env: it is {brief(target)}")
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
    except ANY_FAULT as error:  # say of a missing package; Gymnasium names the command that installs it
        raise ValueError(f"task {id} cannot be made: {brief_error(error)}") from None


def _source(id: str) -> str:
    if _target(id) is not None:
        return entry_points.source(id)
    entry_point = gymnasium.registry[id.rpartition(":")[2]].entry_point
    return entry_point if isinstance(entry_point, str) else "gymnasium.registry"


class AdaptedVectorEnv(AnyWrapper):
    """N environments with NEXT_STEP autoreset and the same timesteps as `envs.vector.NativeVectorEnv`.

    Rewards are doubles, a FIRST timestep has reward 0, and an episode ends either terminated or truncated.
    `infos["is_success"]`, bool [N], is there where the task defines success, and nothing else is.

    Each environment has a seed of its own, drawn from the generator that `seed` makes. Their content cannot
    be saved as arrays, so `get_state` returns None.

    Args:
        spec: what the task is, its time limit included, which each keeps.
        make_env: makes one of them.
        num_envs: number of environments N.
        seed: of the generator; None takes entropy from the system.
    """

    def __init__(
        self, spec: TaskSpec, make_env: Callable[[], PlainEnv], num_envs: int, seed: Seed = None
    ) -> None:
        positive_int("num_envs", num_envs)
        self._own_generator = generator(seed)
        try:
            env = SyncVectorEnv([make_env] * num_envs, autoreset_mode=AutoresetMode.NEXT_STEP)
        except NoPictureError:
            raise
        except ANY_FAULT as error:  # one can be made, as has been seen, but not so many
            problem = f"{num_envs} environments of it cannot be made: {brief_error(error)}"
            raise TaskError(spec.id, problem) from error
        super().__init__(env)
        self.time_limit = spec.time_limit
        self._name = spec.id
        self._check = ObservationCheck(spec.id, self.single_observation_space)

    @property  # type: ignore[misc]
    def np_random(self) -> np.random.Generator:
        """The source of the environments' seeds."""
        return self._own_generator

    @property
    def np_random_seed(self) -> int:
        """-1, Gymnasium's mark for a seed that is not known: there are many."""
        return -1

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> FirstStep:
        """Starts a new episode in each, with a new seed; `seed` makes the generator anew."""
        if seed is not None:
            self._own_generator = generator(seed)
        seeds = self._own_generator.integers(2**31, size=self.num_envs).tolist()
        return self._values(lambda: self.env.reset(seed=seeds, options=options))[0], {}

    def step(self, actions: Any) -> Timestep:
        """One timestep of each environment; the action of one whose last timestep was LAST is ignored.

        Raises:
            TaskError: where one breaks the interface, fails or is lost, observes a number that is not finite
                or a category that its space does not have, or gives a reward that is not finite.
        """
        observation, reward, terminated, truncated, infos = self._values(lambda: self.env.step(actions))
        success = {"is_success": infos["is_success"]} if "is_success" in infos else {}
        return observation, np.asarray(reward, np.float64), terminated, truncated, success

    def _values(self, call: Callable[[], Any]) -> Any:
        """The values that `reset` or `step` returns, if the observation can be read."""
        try:
            values = call()
        except TaskError:
            raise
        except ANY_FAULT as error:  # an observation of another shape, say, that cannot join the others
            raise TaskError(self._name, f"a timestep of it cannot be read: {located(error)}") from error
        self._check(values[0])
        return values

    def get_state(self) -> None:
        """None: it cannot be saved."""
        return None

    def set_state(self, state: Mapping[str, Any]) -> None:
        raise ValueError("environment state: a task of another package has none that can be restored")
