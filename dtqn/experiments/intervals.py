"""Figures over runs and tasks, with their intervals (Agarwal et al. 2021, arXiv 2108.13264).

Scores are given as `samples`: one array for each task, a score for each run. Intervals are SciPy's
percentile bootstrap, stratified by task: the runs of each task are drawn from among themselves.

With few runs such an interval is narrower than it says. Below `LEAST_RUNS` there is no interval, and minimum
and maximum take its place; `docs/compare.md` has the true coverage of nominal 95 % from there on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

LEAST_RUNS = 5
"""Runs of an agent on a task from which on there are intervals and comparisons."""

Samples = Sequence[np.ndarray]
_BATCH = 1000
_ROUNDING = 1e-9
"""Scores that differ by less are equal: the mean of equal returns depends on how many were summed."""


class Estimate(NamedTuple):
    """A figure over at least `LEAST_RUNS` runs a task, and its 95 % interval."""

    value: float
    low: float
    high: float


def interquartile_mean(*samples: np.ndarray, axis: int = -1) -> np.ndarray:
    """IQM: the mean without the lowest and the highest quarter of all scores together (section 4.3).

    `floor(n / 4)` of n scores are left out at each end: none of three, one of five.
    """
    return np.asarray(stats.trim_mean(np.concatenate(samples, axis=axis), 0.25, axis=axis))


def improvement(*samples: np.ndarray, axis: int = -1) -> np.ndarray:
    """P(X > Y) + P(X = Y) / 2 for scores X, Y of two agents on one task; the mean over tasks (section 4.3).

    Args:
        samples: X of every task, then Y of every task.
        axis: that of runs.
    """
    tasks = len(samples) // 2
    shares = []
    for x, y in zip(samples[:tasks], samples[tasks:], strict=True):
        x, y = np.moveaxis(x, axis, -1)[..., :, None], np.moveaxis(y, axis, -1)[..., None, :]
        ahead = x - y
        shares.append(((ahead > _ROUNDING) + 0.5 * (abs(ahead) <= _ROUNDING)).mean(axis=(-2, -1)))
    return np.mean(shares, axis=0)


def estimate(
    statistic: Callable[..., np.ndarray], samples: Samples, rng: np.random.Generator, resamples: int = 10_000
) -> Estimate | None:
    """A statistic of the samples and its 95 % interval; None where a sample has too few runs.

    Args:
        statistic: `interquartile_mean` or `improvement`.
        samples: one array of scores for each stratum.
    """
    if min(len(sample) for sample in samples) < LEAST_RUNS:
        return None
    low, high = _interval(statistic, samples, rng, resamples)
    return Estimate(float(statistic(*samples)), float(low), float(high))


class Band(NamedTuple):
    """A curve over runs at P points, each [P], and what lies around it."""

    middle: np.ndarray
    """The interquartile mean of at least `LEAST_RUNS` runs, else the mean."""
    low: np.ndarray
    """The ends of the 95 % interval of at least `LEAST_RUNS` runs, else minimum and maximum."""
    high: np.ndarray


def band(values: np.ndarray, rng: np.random.Generator, resamples: int = 2000) -> Band:
    """The middle of several runs and their spread.

    Args:
        values: scores [P, runs].
    """
    if values.shape[1] < LEAST_RUNS:
        return Band(values.mean(axis=1), values.min(axis=1), values.max(axis=1))
    return Band(interquartile_mean(values), *_interval(interquartile_mean, [values], rng, resamples))


def profile(samples: Samples, levels: np.ndarray, rng: np.random.Generator, resamples: int = 2000) -> Band:
    """The performance profile: at each level the share of runs with a higher score (section 4.2).

    A score that exceeds a level by rounding alone is not higher: the returns of perfect play are sums that
    miss 1 by some 1e-15 on either side. It is the mean over tasks of each one's share. Below `LEAST_RUNS` of
    a task the ends of the band are the shares themselves.

    Args:
        samples: the scores of each task's runs.
        levels: [P].
    """
    above = [(sample > levels[:, None] + _ROUNDING).astype(np.float64) for sample in samples]
    shares = _mean_of_tasks(*above)
    if min(len(sample) for sample in samples) < LEAST_RUNS:
        return Band(shares, shares, shares)
    return Band(shares, *_interval(_mean_of_tasks, above, rng, resamples))


def _mean_of_tasks(*samples: np.ndarray, axis: int = -1) -> np.ndarray:
    return np.asarray(np.mean([sample.mean(axis=axis) for sample in samples], axis=0))


def _interval(
    statistic: Callable[..., np.ndarray], samples: Samples, rng: np.random.Generator, resamples: int
) -> tuple[Any, Any]:
    interval = stats.bootstrap(
        tuple(samples),
        statistic,
        n_resamples=resamples,
        batch=_BATCH,
        vectorized=True,
        axis=-1,
        confidence_level=0.95,
        method="percentile",
        rng=rng,
    ).confidence_interval
    return interval.low, interval.high
