"""The importance of a sweep's parameters, told only where it predicts runs that it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dtqn.experiments.sweep_space import Parameter
from dtqn.experiments.sweep_study import importances

LEAST_RUNS = 20
"""Runs that importance needs."""
_FOLDS = 5
_SPLITS = 2
"""Times that the runs are divided into folds: the result depends on which ones are held out together."""
_WIDTH = 0.3
"""Of the kernel: the part of a parameter's range over which results are alike."""
_NOISE = 0.3
"""Variance of a run's chance, in parts of the variance that the parameters bring."""


class Axis(NamedTuple):
    """A parameter of runs as numbers."""

    name: str
    positions: list[float]
    """One a run, on the scale that it is searched on (a logarithm, or a place in a list)."""
    kinds: int | None = None
    """The number of its values where these have no order."""

    @property
    def column(self) -> np.ndarray:
        """The positions: in [0, 1] where they are ordered, else the numbers of kinds."""
        positions = np.array(self.positions)
        return (positions - positions.min()) / np.ptp(positions) if self.kinds is None else positions


class Importance(NamedTuple):
    """How much the result depends on a parameter."""

    name: str
    importance: float
    """Its part of PED-ANOVA's whole, which is 1; the mean over parts of the runs."""
    deviation: float
    """Its standard deviation over these."""
    correlation: float | None
    """Spearman's, with the metric; None for a parameter whose values have no order."""


def axis_of(name: str, parameter: Parameter, values: Sequence[Any]) -> Axis:
    """A parameter of a sweep file, with its value in each run."""
    listed = parameter.spec.get("values")
    if listed is None:
        is_log = "log" in parameter.distribution
        return Axis(name, [float(np.log10(value) if is_log else value) for value in values])
    numbers = all(isinstance(value, int | float) for value in listed)
    ranked = sorted(listed) if numbers else listed
    return Axis(name, [float(ranked.index(value)) for value in values], None if numbers else len(listed))


class Dependence(NamedTuple):
    """The success of the importances on runs that they have not seen."""

    runs: int
    r2: float
    """The share of their variance that is explained; zero or less: the mean result would have done as well.
    The lowest of several divisions into folds."""
    shares: list[Importance]
    """The most important first; empty where no dependence was found."""

    @property
    def found(self) -> bool:
        return self.r2 > 0


def dependence(axes: Sequence[Axis], values: Sequence[float], sign: int = 1) -> Dependence | None:
    """PED-ANOVA's importances, checked on held-out runs.

    Runs are divided into folds. The importances in the other folds are the weights of a regression that
    predicts each one: runs count as alike by the parameters that are said to matter. PED-ANOVA alone finds a
    dependence in pure noise.

    Args:
        sign: 1 where larger values are better, else -1.

    Returns:
        None where there are too few runs, or no two with different results.
    """
    varied = [axis for axis in axes if len(set(axis.positions)) > 1]
    if len(values) < LEAST_RUNS or len(set(values)) < 2 or not varied:
        return None
    result, lowest, weights = np.array(values), np.inf, []
    for split in range(_SPLITS):
        predicted, found = _held_out(varied, result, sign, split)
        weights += found
        lowest = min(lowest, 1 - ((predicted - result) ** 2).sum() / ((result - result.mean()) ** 2).sum())
    if lowest <= 0:
        return Dependence(len(values), float(lowest), [])
    parts = zip(varied, np.mean(weights, axis=0), np.std(weights, axis=0, ddof=1), strict=True)
    shares = [
        Importance(axis.name, float(mean), float(deviation), _correlation(axis, values))
        for axis, mean, deviation in parts
    ]
    return Dependence(len(values), float(lowest), sorted(shares, key=lambda share: -share.importance))


def _held_out(
    axes: Sequence[Axis], result: np.ndarray, sign: int, split: int
) -> tuple[np.ndarray, list[list[float]]]:
    """Each run's result as predicted without it, [runs], and the weights of the parameters in each fold."""
    order = np.random.default_rng(split).permutation(len(result))
    predicted, weights = np.empty(len(result)), []
    for fold in range(_FOLDS):
        held = order[fold::_FOLDS]
        fitted = np.setdiff1d(order, held)
        table = {axis.name: axis.column[fitted].tolist() for axis in axes}
        kinds = {axis.name: axis.kinds for axis in axes if axis.kinds is not None}
        weights.append(importances(table, kinds, (sign * result[fitted]).tolist()))
        kernel = _kernel(axes, weights[-1])
        mean = result[fitted].mean()
        noisy = kernel[np.ix_(fitted, fitted)] + _NOISE * np.eye(len(fitted))
        predicted[held] = mean + kernel[np.ix_(held, fitted)] @ np.linalg.solve(noisy, result[fitted] - mean)
    return predicted, weights


def _kernel(axes: Sequence[Axis], weights: Sequence[float]) -> np.ndarray:
    """How alike runs are, [runs, runs]: the sum over parameters, each with its weight."""
    kernel = np.zeros((len(axes[0].positions),) * 2)
    for axis, weight in zip(axes, weights, strict=True):
        apart = np.subtract.outer(axis.column, axis.column)
        kernel += weight * (np.exp(-((apart / _WIDTH) ** 2) / 2) if axis.kinds is None else apart == 0)
    return kernel


def _correlation(axis: Axis, values: Sequence[float]) -> float | None:
    from scipy.stats import spearmanr

    return float(spearmanr(axis.positions, values).statistic) if axis.kinds is None else None
