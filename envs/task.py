"""A task: the facts of `TaskSpec`, and the ways to make it.

A family of tasks is a module with a function, listed with its names in `envs.families`:

    find(id) -> the `Native` of that name, or None where the name is none of the family's

One that `reads_options` has `find(id, options)`, which returns the `Task`, or None. Names may be more than
are listed (`t-maze-passive-1234`). `find` raises a ValueError of one line for a name or an option that is
nearly right.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from envs.adapters.spaces import each, parts
from envs.language import Language
from envs.options import TaskOptions
from envs.vector import AnyVectorEnv, Dynamics, FirstStep, NativeVectorEnv, Seed, positive_int


def match_name(id: str, pattern: str, right: str) -> re.Match[str]:
    """A task's name by the pattern of its family's names; a ValueError that says what would be right."""
    if name := re.fullmatch(pattern, id, re.ASCII):
        return name
    raise ValueError(f"unknown task {id!r}; it must be {right}")


LONGEST_EPISODE = 27_000
"""The time limit of tasks whose episodes nothing else ends: Atari's half an hour, at 15 steps a second."""


@dataclass(frozen=True)
class TaskSpec:
    """The facts of a task, known without making it."""

    id: str
    """Name, in this registry and in Gymnasium's."""
    description: str
    """One line."""
    observation_space: gymnasium.Space[Any]
    """One environment's."""
    action_space: gymnasium.Space[Any]
    """One environment's."""
    source: str
    """The task's origin: a paper, a package or a file."""
    time_limit: int | None = None
    """Steps after which an episode is truncated, unless another limit is asked for; None: never."""
    success: str | None = None
    """The definition of success; None where the task defines none."""
    best_return: float | None = None
    """The best achievable expected undiscounted return, where it is known."""
    success_ceiling: float = 1.0
    """The highest success rate that any agent can reach, where that is known to be below 1."""
    horizon: int | None = None
    """Timesteps of an episode over which there may be something to remember, where the name fixes them."""
    action_names: tuple[str, ...] = ()
    """Names of the actions in their order; empty where they have none."""
    view: tuple[int, int] | None = None
    """(rows, columns) of the cells that a vector shows row by row, before what else it shows; None: none."""

    def name_actions(self) -> tuple[str, ...]:
        """A word for each of Discrete actions: its name, or its number where it has none."""
        assert isinstance(self.action_space, gymnasium.spaces.Discrete)
        return self.action_names or tuple(map(str, range(int(self.action_space.n))))

    @property
    def has_success(self) -> bool:
        """Whether `infos["is_success"]` is there."""
        return self.success is not None

    @property
    def observations_repeat(self) -> bool:
        """Whether an observation can come twice: any but one with real numbers."""
        spaces = [part for _, part in parts(self.observation_space)]
        return not any(np.issubdtype(space.dtype or np.float64, np.floating) for space in spaces)

    @property
    def ceiling_note(self) -> str:
        """The words after a success rate: none, or the rate that no agent can exceed."""
        return "" if self.success_ceiling == 1 else f" (no agent can exceed {self.success_ceiling:.1%})"


class NativeEnv(gymnasium.Env[Any, Any]):
    """One environment of a task. `info["is_success"]`, if any, is True on the last step of a success.

    Args:
        vector: a vector of one; this environment is its only user.
    """

    # Gymnasium declares it as an instance variable, which a ClassVar may not override.
    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 8}  # noqa: RUF012

    def __init__(self, vector: AnyVectorEnv) -> None:
        self._vector = vector
        self.render_mode = vector.render_mode
        self.observation_space = vector.single_observation_space
        self.action_space = vector.single_action_space
        self._needs_reset = True
        self._share_generator()

    def _share_generator(self) -> None:
        """Makes `np_random` the generator that episodes are drawn from."""
        self._np_random, self._np_random_seed = self._vector.np_random, self._vector.np_random_seed

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> FirstStep:
        """Starts an episode; `options={"state": ...}` in a given state (see `NativeVectorEnv.reset`)."""
        observation, _ = self._vector.reset(seed=seed, options=options)
        self._share_generator()
        self._needs_reset = False
        return each(operator.itemgetter(0), observation), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One step.

        Raises:
            ValueError: for an action out of range.
            gymnasium.error.ResetNeeded: before the first reset and after the end of an episode.
        """
        if self._needs_reset:
            raise gymnasium.error.ResetNeeded("call reset() before step(): no episode is open")
        observation, reward, terminated, truncated, infos = self._vector.step(np.asarray(action)[None])
        self._needs_reset = bool(terminated[0] or truncated[0])
        return (
            each(operator.itemgetter(0), observation),
            float(reward[0]),
            bool(terminated[0]),
            bool(truncated[0]),
            {key: bool(value[0]) for key, value in infos.items()},
        )

    def render(self) -> Any:
        """An RGB picture, uint8 [height, width, 3] in pixels; None without a render mode."""
        pictures = self._vector.render()
        return None if pictures is None else pictures[0]


Native = tuple[Callable[[], Dynamics], dict[str, Any]]
"""What makes a task's `Dynamics`, and the other facts of its `TaskSpec`."""


class Task(NamedTuple):
    """A task and how to make it; its spec and its environments have the options applied."""

    spec: TaskSpec
    make_vector: Callable[..., AnyVectorEnv]
    """(num_envs, seed=None, *, render_mode=None) -> a vector of so many environments."""
    try_out: Callable[[], dict[str, float] | None] | None = None
    """Plays a little on an environment of its own; a `TaskError` for what is wrong. Returns, by part of an
    observation, the largest number that it saw; a `Dynamics` tells nothing. None for this project's tasks."""
    language: Language | None = None
    """Of one environment as its package makes it; None for this project's tasks."""

    def make_single(self, render_mode: str | None = None) -> NativeEnv:
        """One environment."""
        return NativeEnv(self.make_vector(1, render_mode=render_mode))


def _limited(spec: TaskSpec, limit: int) -> TaskSpec:
    """The task with another time limit: its horizon follows; with fewer steps no best return is known."""
    own, horizon = spec.time_limit, spec.horizon
    if horizon is not None:
        ends_at_limit = own is not None and horizon == own + 1
        horizon = limit + 1 if ends_at_limit else min(horizon, limit + 1)
    steps = own if spec.horizon is None else spec.horizon - 1
    best = spec.best_return if steps is not None and limit >= steps else None
    return replace(spec, time_limit=limit, horizon=horizon, best_return=best)


def native_task(
    made: Dynamics,
    make_dynamics: Callable[[], Dynamics],
    options: TaskOptions,
    takes: tuple[str, ...] = (),
    vector: Callable[..., NativeVectorEnv] = NativeVectorEnv,
    **facts: Any,
) -> Task:
    """The task of a native `Dynamics`.

    Args:
        made: has the spaces and the names of actions.
        takes: options that it has in addition to every task's.
        vector: makes a vector of it, from the arguments of `NativeVectorEnv`.
        facts: the other facts of its `TaskSpec`, by name.
    """
    names = ("observation_space", "action_space", "action_names")
    spec = TaskSpec(**{**{name: getattr(made, name) for name in names}, **facts})
    options.refuse(spec.id, but=takes)
    if options.time_limit is not None:
        spec = _limited(spec, positive_int("time_limit", options.time_limit))

    def make_vector(num_envs: int, seed: Seed = None, *, render_mode: str | None = None) -> NativeVectorEnv:
        return vector(make_dynamics(), num_envs, seed, time_limit=spec.time_limit, render_mode=render_mode)

    return Task(spec, make_vector)
