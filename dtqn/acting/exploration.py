"""Exploration: each copy's share of random actions, as a function of environment steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from dtqn.schedules import exponential, linear

Annealing: TypeAlias = Callable[[np.ndarray, int], np.ndarray]
"""Final rates [N] and the environment steps since the warm-up -> the rates [N] then."""


class Exploration(NamedTuple):
    """Epsilon-greedy rates: all actions are random in the warm-up, then each copy's rate is annealed."""

    final: np.ndarray
    """[N] the rate of each copy at the end: `epsilon_ladder`, or the same for all."""
    annealing: Annealing
    """`constant`, `linearly` or `exponentially`."""
    warmup_env_steps: int

    def epsilon(self, env_steps: int) -> np.ndarray:
        """[N] the share of random actions of each copy after so many environment steps of the run."""
        since = env_steps - self.warmup_env_steps
        return np.ones(len(self.final)) if since < 0 else self.annealing(self.final, since)


def epsilon_ladder(num_envs: int, base: float, exponent: float) -> np.ndarray:
    """[N] base^(1 + exponent i / (N - 1)) (Ape-X, Horgan et al. 2018, arXiv 1803.00933). N at least 2."""
    return base ** (1 + exponent * np.arange(num_envs) / (num_envs - 1))


def constant() -> Annealing:
    """The final rates from the start."""
    return lambda final, env_steps: final


def linearly(start: float, duration: int) -> Annealing:
    """From `start` to the final rates on a straight line, in `duration` environment steps."""
    return lambda final, env_steps: linear(start, final, env_steps / duration)


def exponentially(start: float, duration: int) -> Annealing:
    """From `start` towards the final rates: 1/duration of what is left at each environment step."""
    return lambda final, env_steps: exponential(start, final, env_steps, duration)
