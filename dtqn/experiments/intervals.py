"""Figures over runs and tasks, with their intervals (Agarwal et al. 2021, arXiv 2108.13264).

Scores are given as `samples`: one array for each task, a score for each run. No interval supposes a form of
the scores' distribution: a bootstrap of five runs among which none failed knows nothing of failures. Each
holds the true value in 95 % of comparisons or more; `docs/compare.md` has what a simulation says. Runs of
several tasks are taken as if drawn from all tasks together, which makes an interval wider and never narrower.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

LEAST_RUNS = 5
"""Runs of an agent on a task from which on there are intervals and comparisons."""

Samples = Sequence[np.ndarray]
_ROUNDING = 1e-9
"""Scores that differ by less are equal: the mean of equal returns depends on how many were summed."""
_DRAWS = 4000
_TAILS = (0.025, 0.975)


class Estimate(NamedTuple):
    """A figure over at least `LEAST_RUNS` runs a task, and its 95 % interval; None where it has no such."""

    value: float
    low: float | None
    high: float | None


def is_enough(samples: Samples) -> bool:
    """Whether each sample has at least `LEAST_RUNS` runs."""
    return min(len(sample) for sample in samples) >= LEAST_RUNS


def binomial_interval(share: float, runs: int) -> tuple[float, float]:
    """The exact 95 % interval of a share of so many runs (Clopper and Pearson 1934), at least 1.

    The share may lie between two numbers of runs, as a mean of values from 0 to 1 does; these vary most where
    each is 0 or 1, so the interval holds for them too.
    """
    hits = share * runs
    low = 0.0 if hits <= 0 else float(stats.beta.ppf(_TAILS[0], hits, runs - hits + 1))
    high = 1.0 if hits >= runs else float(stats.beta.ppf(_TAILS[1], hits + 1, runs - hits))
    return low, high


def interquartile_mean(*samples: np.ndarray, axis: int = -1) -> np.ndarray:
    """IQM: the mean without the lowest and the highest quarter of all scores together (section 4.3).

    `floor(n / 4)` of n scores are left out at each end: none of three, one of five.
    """
    return np.asarray(stats.trim_mean(np.concatenate(samples, axis=axis), 0.25, axis=axis))


def interquartile_interval(
    samples: Samples, least: float = -np.inf, most: float = np.inf
) -> tuple[float, float] | None:
    """The 95 % interval of the IQM of scores from `least` to `most`; None where an end is infinite.

    The i-th lowest of n scores stands at the i-th lowest of n uniform shares of the population. For each draw
    of these shares the quantiles between two scores are at least the lower and at most the upper one, beyond
    the ends at least `least` and at most `most` (Learned-Miller and Thomas 2020, arXiv 1905.06208, with the
    IQM in place of the mean). Scores without bounds need 14 runs for an interval.
    """
    scores = np.sort(np.concatenate(samples))
    shares = np.sort(np.random.default_rng(0).random((_DRAWS, len(scores))), axis=1)
    edges = np.clip(np.pad(shares, ((0, 0), (1, 1)), constant_values=((0, 0), (0, 1))), 0.25, 0.75)
    weights = 2 * np.diff(edges)
    low = np.quantile(_weighted(weights, [least, *scores]), _TAILS[0], method="lower")
    high = np.quantile(_weighted(weights, [*scores, most]), _TAILS[1], method="higher")
    return (float(low), float(high)) if np.isfinite([low, high]).all() else None


def _weighted(weights: np.ndarray, values: Sequence[float]) -> np.ndarray:
    """The sums of values, infinite ones among them, that have a weight."""
    with np.errstate(invalid="ignore"):  # 0 times infinity
        return np.where(weights > 0, weights * np.array(values), 0.0).sum(axis=1)


def iqm(samples: Samples, least: float = -np.inf, most: float = np.inf) -> Estimate | None:
    """The IQM of scores from `least` to `most`; None where a sample has too few runs."""
    if not is_enough(samples):
        return None
    ends = interquartile_interval(samples, least, most)
    return Estimate(float(interquartile_mean(*samples)), *(ends or (None, None)))


def improvement(mine: Samples, theirs: Samples) -> float:
    """P(X > Y) + P(X = Y) / 2 for scores X, Y of two agents on a task; the mean over tasks (section 4.3)."""
    shares = []
    for x, y in zip(mine, theirs, strict=True):
        ahead = x[:, None] - y
        shares.append(((ahead > _ROUNDING) + 0.5 * (abs(ahead) <= _ROUNDING)).mean())
    return float(np.mean(shares))


def improved(mine: Samples, theirs: Samples) -> Estimate | None:
    """The probability of improvement; None where a sample has too few runs.

    If the agent with fewer runs has n, the variance is at most p (1 - p) / n, as for a share of n runs
    (Birnbaum and Klose 1957).
    """
    samples = [*mine, *theirs]
    if not is_enough(samples):
        return None
    value = improvement(mine, theirs)
    return Estimate(value, *binomial_interval(value, len(mine) * min(map(len, samples))))


class Band(NamedTuple):
    """A curve over runs at P points, each [P], and what lies around it."""

    middle: np.ndarray
    low: np.ndarray
    high: np.ndarray


def band(values: np.ndarray) -> Band:
    """The interquartile mean of several runs, their minimum and their maximum.

    Args:
        values: scores [P, runs].
    """
    return Band(interquartile_mean(values), values.min(axis=1), values.max(axis=1))


def profile(samples: Samples, levels: np.ndarray) -> Band:
    """The performance profile: at each level the share of runs with a higher score (section 4.2).

    A score that exceeds a level by rounding alone is not higher: the returns of perfect play are sums that
    miss 1 by some 1e-15 on either side. It is the mean over tasks of each one's share, with its 95 %
    interval; below `LEAST_RUNS` of a task the ends of the band are the shares themselves.

    Args:
        samples: the scores of each task's runs.
        levels: [P].
    """
    above = [(sample > levels[:, None] + _ROUNDING).mean(axis=1) for sample in samples]
    shares = np.mean(above, axis=0)
    if not is_enough(samples):
        return Band(shares, shares, shares)
    runs = len(samples) * min(map(len, samples))
    low, high = np.transpose([binomial_interval(share, runs) for share in shares])
    return Band(shares, low, high)
