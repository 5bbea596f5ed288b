"""Evaluation: every environment plays a number of episodes fixed in advance, and all count.

Counting the first episodes to finish instead would favour short ones.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from torch import Tensor

from dtqn.acting.episode_intervals import NORMAL_QUANTILE, Figure, wilson_interval
from dtqn.acting.exploration import RandomActions
from dtqn.acting.timesteps import Episodes, VectorTimesteps
from dtqn.networks.q_network import QNetwork
from dtqn.settings.run import EvaluationConfig
from dtqn.types import map_tree, reset_states
from envs import pictures

_BLOCK = 16
"""Rows that kernels of matrix products take together, or a multiple of theirs."""


Steps = Iterator[tuple[Episodes, np.ndarray]]
"""At each vector step: the episodes that end there, and `Played.first_q` of every environment, [N]."""


class EvaluationResult(NamedTuple):
    """The outcome of an evaluation's episodes."""

    success: float | None
    """Share of successful episodes, None where the task defines no success."""
    success_low: float | None
    """Lower end of Wilson's 95 % interval."""
    success_high: float | None
    """Its upper end."""
    episode_return: float
    """Mean undiscounted return, summed in float64."""
    length: float
    """Mean environment steps of an episode."""
    episodes: int
    return_error: float = 0.0
    """Standard error of the mean return; 0 of one episode."""

    @property
    def score(self) -> float:
        """Success, or the return where the task defines none."""
        return self.episode_return if self.success is None else self.success

    @property
    def return_half_width(self) -> float:
        """Half of the mean return's 95 % interval, by the normal distribution."""
        return NORMAL_QUANTILE * self.return_error

    @property
    def score_interval(self) -> Figure:
        """The score with its 95 % interval."""
        if self.success_low is not None and self.success_high is not None:
            return Figure(self.score, self.success_low, self.success_high, self.episodes)
        half = self.return_half_width
        return Figure(self.score, self.score - half, self.score + half, self.episodes)


class Played(NamedTuple):
    """Episodes that were played, an array of n each."""

    returns: np.ndarray
    lengths: np.ndarray
    successes: np.ndarray
    discounted_returns: np.ndarray
    """sum_t gamma^t r_{t+1} to the episode's end, with the gamma that they were played for."""
    first_q: np.ndarray
    """The largest Q-value of the first decision, on the learner's scale; NaN of actions at random."""

    def result(self, has_success: bool) -> EvaluationResult:
        """Their means with intervals; no success where the task defines none."""
        count = len(self.returns)
        low, high = wilson_interval(int(self.successes.sum()), count) if has_success else (None, None)
        return EvaluationResult(
            success=float(self.successes.mean()) if has_success else None,
            success_low=low,
            success_high=high,
            episode_return=float(self.returns.mean()),
            return_error=float(self.returns.std(ddof=1) / math.sqrt(count)) if count > 1 else 0.0,
            length=float(self.lengths.mean()),
            episodes=count,
        )


class Goal(NamedTuple):
    """Where a run ends early; None where it does not."""

    success: float | None = None
    episode_return: float | None = None

    def is_met(self, success: float | None, episode_return: float) -> bool:
        """Whether one of these figures of an evaluation, or ends of intervals, is at or above its goal."""
        pairs = ((self.success, success), (self.episode_return, episode_return))
        return any(goal is not None and value is not None and value >= goal for goal, value in pairs)


class EpisodePlan:
    """How many episodes each evaluation of a run plays: a function of counted steps, never of the clock.

    Earlier evaluations alone decide the number, before the first episode begins. No episode affects how many
    others are played, so their mean is unbiased.

    A *full* evaluation has `episodes` episodes, any other has `first_episodes`. One is full while there is no
    best score, and when the last one's 95 % interval reached the best score or the goal of early stopping.
    Only a full one may become the best or end a run early. A run's last one always counts as full.

    All evaluations together stay within `max_step_share` times the run's env steps. A full evaluation that
    costs too much is put off until the run has paid for it. Any other that does is shortened, to `FEWEST`
    episodes at least. The last one has as many as are paid for, `first_episodes` at least.
    """

    FEWEST = 10

    def __init__(self, settings: EvaluationConfig, goal: Goal) -> None:
        self._episodes, self._first = settings.episodes, min(settings.first_episodes, settings.episodes)
        self._share, self._goal = settings.max_step_share, goal
        self._spent = 0
        self._best: float | None = None
        self._promising = True
        """Whether the last evaluation was as good as the best, or the goal, may be."""
        self._length = 0.0
        """The mean length of its episodes."""

    def episodes(self, env_steps: int, length: float | None, at_end: bool) -> int:
        """How many an evaluation after `env_steps` has; `length` is the mean of recent training episodes."""
        # A greedy policy that walks in circles has the longer episodes.
        length = max(length or 0.0, self._length)
        affordable = int((self._share * env_steps - self._spent) / length) if length else self._first
        if at_end:
            return max(self._first, min(self._episodes, affordable))
        if self._promising and affordable >= self._episodes:
            return self._episodes
        return min(self._first, max(self.FEWEST, affordable))

    def count(self, result: EvaluationResult, at_end: bool) -> bool:
        """Take an evaluation into account; whether it is full."""
        full = at_end or result.episodes == self._episodes
        self._spent += round(result.episodes * result.length)
        self._length = result.length
        if full:
            self._best = result.score if self._best is None else max(self._best, result.score)
        self._promising = (
            self._best is None
            or (result.success is None and result.episodes < self.FEWEST)  # their spread says too little
            or result.score_interval.high >= self._best
            or self._goal.is_met(result.success_high, result.episode_return + result.return_half_width)
        )
        return full

    def forget_scores(self) -> None:
        """The best score so far is of another task; what evaluation has taken is still taken."""
        self._best, self._promising = None, True

    def get_state(self) -> dict[str, float | None]:
        """All that `set_state` needs to go on bit for bit."""
        names = ("spent", "best", "promising", "length")
        return {name: getattr(self, f"_{name}") for name in names}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from what `get_state` returned; earlier checkpoints tell nothing of the last evaluation."""
        self._spent, self._best = state["spent"], state["best"]
        self._promising, self._length = state.get("promising", True), state.get("length", 0.0)


class Stopped(Exception):
    """Episodes were given up before they were over, as their caller wished."""


@torch.no_grad()
def play(
    network: QNetwork,
    env: gymnasium.vector.VectorEnv,
    episodes: int,
    stopped: Callable[[], bool] = lambda: False,
    gamma: float = 1.0,
    random_actions: RandomActions | None = None,
) -> Played:
    """Play `episodes` episodes; environment i of N plays every N-th, so each one's share is fixed in advance.

    Args:
        env: freshly made, with at most `episodes` environments; it is closed afterwards.
        stopped: asked before every vector step.
        gamma: the discount of `Played.discounted_returns`.
        random_actions: takes some actions at random; None: every action is the one of largest Q.

    Raises:
        Stopped: `stopped` returned True before the episodes were over.
    """
    with contextlib.closing(env):
        policy = functools.partial(agent_steps, network, random_actions=random_actions)
        return play_by(policy, env, episodes, stopped, gamma)


def evaluate_random(
    env: gymnasium.vector.VectorEnv, episodes: int, has_success: bool, generator: np.random.Generator
) -> EvaluationResult:
    """The result of uniformly random actions, drawn from `generator`: what an agent has to be better than."""
    with contextlib.closing(env):
        return play_by(lambda timesteps, _: _uniform(generator, timesteps), env, episodes).result(has_success)


def play_by(
    policy: Callable[[VectorTimesteps, np.ndarray], Steps],
    env: gymnasium.vector.VectorEnv,
    episodes: int,
    stopped: Callable[[], bool] = lambda: False,
    gamma: float = 1.0,
) -> Played:
    """Play `episodes` by a policy, which steps all environments for ever.

    An array [N] tells the policy which environments still play some that count; it changes after each step.
    """
    num_envs = env.num_envs
    quota = np.full(num_envs, episodes // num_envs)
    quota[: episodes % num_envs] += 1
    played = np.zeros(num_envs, np.int64)
    found: list[tuple[np.ndarray, ...]] = []
    discounted, weight = np.zeros(num_envs), np.ones(num_envs)
    timesteps, wanted = VectorTimesteps(env), quota > 0
    steps = policy(timesteps, wanted)
    while wanted.any():
        if stopped():
            raise Stopped
        ended, first_q = next(steps)
        discounted = np.where(timesteps.first, 0.0, discounted + weight * timesteps.reward)
        weight = np.where(timesteps.first, 1.0, weight * gamma)
        counted = wanted[timesteps.last]
        found.append(tuple(x[counted] for x in (*ended, discounted[timesteps.last], first_q[timesteps.last])))
        played[timesteps.last] += 1
        wanted[:] = played < quota
    return Played(*(np.concatenate(values) for values in zip(*found, strict=True)))


@torch.no_grad()
def film(network: QNetwork, env: gymnasium.vector.VectorEnv, file: Path) -> None:
    """A greedy episode of a fresh "rgb_array" environment, then closed, as a GIF of `MAX_FRAMES` at most."""
    with contextlib.closing(env):
        timesteps = VectorTimesteps(env)
        frames = [pictures.frame(env)]
        for _ in agent_steps(network, timesteps, np.ones(1, bool)):
            frames.append(pictures.frame(env))
            if timesteps.last[0] or len(frames) >= pictures.MAX_FRAMES:
                break
    pictures.write(frames, file)


def agent_steps(
    network: QNetwork, steps: VectorTimesteps, wanted: np.ndarray, random_actions: RandomActions | None = None
) -> Steps:
    """Step all environments for ever, the `wanted` [N] by the action of largest Q, but for `random_actions`.

    The others are stepped by any action, and most of them without the network, as `_kept` says. In a task
    whose episodes are decided by their start and by the actions, nothing that is wanted changes by that:
    random actions are drawn for all environments at every step, whether they are wanted or not.
    """
    parameter = next(network.parameters())
    initial = network.cache(network.initial_state(1))
    acting = np.arange(steps.env.num_envs)  # the environments that have a place in the network's batch
    state = map_tree(lambda x: x.expand(len(acting), *x.shape[1:]), initial)
    action, first_q = np.zeros(len(acting), np.int64), np.full(len(acting), np.nan)
    index: Tensor | None = None  # `acting`, where it is not all environments
    while True:
        if (kept := _kept(wanted[acting])) is not None:
            acting, places = acting[kept], torch.from_numpy(kept).to(parameter.device)
            state = map_tree(lambda x, i=places: x[i], state)
            index = torch.from_numpy(acting).to(parameter.device)
        inputs = steps.inputs(parameter.device, parameter.dtype)
        if index is not None:
            inputs = map_tree(lambda x, i=index: x[i], inputs)
        output, state, _ = network(inputs, reset_states(state, initial, inputs.first[:, 0]))
        q = output.q[:, 0]
        if (begins := steps.first[acting]).any():
            first_q[acting[begins]] = q.amax(dim=-1).cpu().numpy()[begins]
        action[acting] = q.argmax(dim=-1).cpu().numpy()
        taken = action.copy() if random_actions is None else random_actions.act(action)
        yield steps.step(taken), first_q


def _kept(wanted: np.ndarray) -> np.ndarray | None:
    """The places of a batch [n] that are kept, all `wanted` ones; None where it is not worth a copy.

    They are a multiple of `_BLOCK`, so that each row of a matrix product has the digits that it had before.
    """
    count = -(-int(wanted.sum()) // _BLOCK) * _BLOCK
    if count > 0.75 * len(wanted):
        return None
    return np.sort(np.argsort(~wanted, kind="stable")[:count])


def _uniform(generator: np.random.Generator, timesteps: VectorTimesteps) -> Steps:
    """Step every environment by an action at random, for ever."""
    no_q = np.full(timesteps.env.num_envs, np.nan)
    while True:
        yield timesteps.step(generator.integers(timesteps.num_actions, size=timesteps.env.num_envs)), no_q
