"""Figures over seeds and tasks, and what they are worth (Agarwal et al. 2021, arXiv 2108.13264).

Scores are given as `samples`: one array for each task, a score for each seed. Intervals are SciPy's
percentile bootstrap, in which every task's seeds are drawn from among themselves (stratified by task).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

Samples = Sequence[np.ndarray]
_BATCH = 1000


class Estimate(NamedTuple):
    value: float
    low: float | None
    """Lower end of the 95 % interval; none where a task has a single seed."""
    high: float | None


def interquartile_mean(*samples: np.ndarray, axis: int = -1) -> np.ndarray:
    """IQM: the mean without the lowest and the highest quarter of all scores together (section 4.3).

    `floor(n / 4)` of n scores are left out at each end: none of three, one of five.
    """
    return np.asarray(stats.trim_mean(np.concatenate(samples, axis=axis), 0.25, axis=axis))


def improvement(*samples: np.ndarray, axis: int = -1) -> np.ndarray:
    """P(X > Y) + P(X = Y) / 2 for scores X, Y of two agents on one task; the mean over tasks (section 4.3).

    Args:
        samples: X of every task, then Y of every task.
        axis: that of seeds.
    """
    tasks = len(samples) // 2
    shares = []
    for x, y in zip(samples[:tasks], samples[tasks:], strict=True):
        x, y = np.moveaxis(x, axis, -1)[..., :, None], np.moveaxis(y, axis, -1)[..., None, :]
        shares.append(((x > y) + 0.5 * (x == y)).mean(axis=(-2, -1)))
    return np.mean(shares, axis=0)


def estimate(
    statistic: Callable[..., np.ndarray], samples: Samples, rng: np.random.Generator, resamples: int = 10_000
) -> Estimate:
    """A statistic of the samples and its 95 % interval.

    Args:
        statistic: `interquartile_mean` or `improvement`.
        samples: one array of scores for each stratum.
    """
    value = float(statistic(*samples))
    if min(len(sample) for sample in samples) < 2:
        return Estimate(value, None, None)
    low, high = _interval(statistic, samples, rng, resamples)
    return Estimate(value, float(low), float(high))


def band(
    values: np.ndarray, rng: np.random.Generator, resamples: int = 2000
) -> tuple[np.ndarray, np.ndarray] | None:
    """The interquartile mean's 95 % interval at each of P points, low [P] and high [P]; none of one seed.

    Args:
        values: scores [P, seeds].
    """
    if values.shape[1] < 2:
        return None
    return _interval(interquartile_mean, [values], rng, resamples)


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
