"""Exploration rates and step sizes as functions of environment steps."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

Numbers = TypeVar("Numbers", float, np.ndarray)


def epsilon_ladder(num_envs: int, base: float = 0.4, exponent: float = 7.0) -> np.ndarray:
    """[N] base^(1 + exponent i / (N - 1)) (Ape-X, Horgan et al. 2018, arXiv 1803.00933). N at least 2."""
    return base ** (1 + exponent * np.arange(num_envs) / (num_envs - 1))


def linear(start: float, final: Numbers, fraction: float) -> Numbers:
    """On the straight line from `start` at fraction 0 to `final` at 1 and after."""
    return start + (final - start) * min(1.0, max(0.0, fraction))


def exponential(start: float, final: Numbers, steps: float, duration: float) -> Numbers:
    """From `start` towards `final`: each step takes 1/duration of what is left.

    After `duration` steps a share of 1/e is left. It is what DTQN's public code calls linear.
    """
    return final + (start - final) * (1 - 1 / duration) ** steps
