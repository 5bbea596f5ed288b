"""Figures over episodes with their 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

NORMAL_QUANTILE = 1.959963984540054
"""The standard normal distribution's at 0.975: 95 % lie within."""


class Figure(NamedTuple):
    """A share or a mean over episodes, with its 95 % interval."""

    value: float
    low: float
    high: float
    episodes: int


def share(flags: Sequence[bool]) -> Figure | None:
    """The share that is True, with Wilson's interval; None of nothing."""
    if not len(flags):
        return None
    return Figure(float(np.mean(flags)), *wilson_interval(int(np.sum(flags)), len(flags)), len(flags))


def mean(values: Sequence[float]) -> Figure | None:
    """The mean of the finite values, with the normal interval: infinite of one value, None of nothing."""
    found = np.array([x for x in values if math.isfinite(x)])
    if not len(found):
        return None
    half = NORMAL_QUANTILE * found.std(ddof=1) / math.sqrt(len(found)) if len(found) > 1 else math.inf
    return Figure(float(found.mean()), float(found.mean() - half), float(found.mean() + half), len(found))


def episodes_to_show(share: float) -> int | None:
    """The fewest episodes, all successes, whose interval lies at or above `share`; None where none are."""
    return None if share >= 1 else math.ceil(share * NORMAL_QUANTILE**2 / (1 - share) - 1e-9)


def wilson_interval(successes: int, episodes: int) -> tuple[float, float]:
    """Wilson's 95 % score interval of a share (Wilson 1927).

        (2 n p + z^2 -+ z sqrt(z^2 + 4 n p (1 - p))) / (2 (n + z^2)),  z = 1.96

    with n episodes, at least 1, and p the share of successes; an end is exactly 0 or 1 where p is.
    """
    share, square = successes / episodes, NORMAL_QUANTILE**2
    scale = 2 * (episodes + square)
    centre = (2 * episodes * share + square) / scale
    half = NORMAL_QUANTILE / scale * math.sqrt(4 * episodes * share * (1 - share) + square)
    low, high = centre - half, centre + half
    return 0.0 if successes == 0 else low, 1.0 if successes == episodes else high
