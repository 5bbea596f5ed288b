"""Exploration: each environment's share of random actions, and bursts of random actions within episodes."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import numpy as np


class Exploration(NamedTuple):
    """Epsilon-greedy rates: all actions are random in the warm-up, then each environment's is annealed."""

    final: np.ndarray
    """[N] the rate of each environment at the end: `epsilon_ladder`, or the same for all."""
    warmup_env_steps: int
    anneal_env_steps: int = 0
    """From 1 to the final rates; with 0 these come right after the warm-up."""
    annealing: str = "linear"
    """One of `ANNEALINGS`."""

    def epsilon(self, env_steps: int) -> np.ndarray:
        """[N] the share of random actions of each environment after so many env steps of the run."""
        since = env_steps - self.warmup_env_steps
        if since < 0:
            return np.ones(len(self.final))
        duration = self.anneal_env_steps
        return ANNEALINGS[self.annealing](self.final, since, duration) if duration else self.final


class RandomActions(NamedTuple):
    """Random actions among the greedy ones."""

    share: float
    num_actions: int
    generator: np.random.Generator

    def act(self, greedy: np.ndarray) -> np.ndarray:
        """[N] actions."""
        drawn = self.generator.integers(self.num_actions, size=len(greedy))
        return np.where(self.generator.random(len(greedy)) < self.share, drawn, greedy)


RECENT_EPISODES = 100
"""Episodes over which the length of an episode is averaged, the unit of bursts."""


class Bursts:
    """Some episodes begin with a burst of random actions, after which the policy goes on.

    These are two modes of behaviour within an episode, switched blindly (Pislar et al. 2022,
    arXiv 2108.11811). Epsilon-greedy actions leave the greedy path for a step; a burst goes far from it, and
    the greedy policy then shows what being there is worth.

    A burst's number of steps is drawn from 0 .. L, uniformly, where L is the mean length of the last
    `RECENT_EPISODES` episodes without one. While there is none, no burst is drawn.
    """

    def __init__(self, num_envs: int, share: float) -> None:
        """`share` of the episodes have a burst."""
        self.share = share
        self._to = np.zeros(num_envs, np.int64)
        self._lengths: deque[int] = deque(maxlen=RECENT_EPISODES)

    def begin(self, first: np.ndarray, generator: np.random.Generator) -> None:
        """Draw the bursts of environments that begin an episode: `first` [N] bool."""
        if not self.share or not first.any():
            return
        # The second was of a burst's start. It is still drawn, so that recorded runs come out again.
        has_one, _, length = generator.random((3, len(first)))
        mean = float(np.mean(self._lengths)) if self._lengths else 0.0
        steps = np.floor(length * (mean + 1)).astype(np.int64)
        self._to = np.where(first, np.where(has_one < self.share, steps, 0), self._to)

    def active(self, step: np.ndarray) -> np.ndarray:
        """[N] bool: the environment is in its burst at this step [N] of its episode."""
        return step < self._to

    def end(self, last: np.ndarray, length: np.ndarray) -> None:
        """Note the lengths [N] of the episodes that ended, `last` [N] bool."""
        if self.share:
            self._lengths.extend(length[last & (self._to == 0)].tolist())

    def get_state(self) -> dict[str, Any]:
        return {"to": self._to, "lengths": list(self._lengths)}

    def set_state(self, state: dict[str, Any]) -> None:
        self._to = np.array(state["to"])
        self._lengths = deque(state["lengths"], maxlen=RECENT_EPISODES)


def epsilon_ladder(num_envs: int, base: float, exponent: float) -> np.ndarray:
    """[N] base^(1 + exponent i / (N - 1)) (Ape-X, Horgan et al. 2018, arXiv 1803.00933). N at least 2."""
    return base ** (1 + exponent * np.arange(num_envs) / (num_envs - 1))


def linearly(final: np.ndarray, env_steps: int, duration: int) -> np.ndarray:
    """[N] from 1 to the `final` rates [N] on a straight line, in `duration` environment steps."""
    return linear(1.0, final, env_steps / duration)


def exponentially(final: np.ndarray, env_steps: int, duration: int) -> np.ndarray:
    """[N] from 1 towards the `final` rates [N]: 1/duration of what is left at each environment step.

    After `duration` steps a share of 1/e is left. DTQN's public code calls this schedule linear.
    """
    return final + (1 - final) * (1 - 1 / duration) ** env_steps


ANNEALINGS = {"linear": linearly, "exponential": exponentially}
"""`actor.annealing` -> the rates after so many of `duration` environment steps, at least 1."""


def linear(start: float, final: Any, fraction: float) -> Any:
    """On the straight line from `start` at fraction 0 to `final` at 1 and after."""
    return start + (final - start) * min(1.0, max(0.0, fraction))
