"""The importance of a sweep's parameters: permutation importance on held-out runs, and rank correlation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import KFold

LEAST_RUNS = 20
"""Runs that importance needs."""
_FOLDS = 5
_SPLITS = 2
"""Times that the runs are divided into folds: the result depends on which ones are held out together."""
_SHUFFLES = 20
_TREES = 50


class Axis(NamedTuple):
    """A parameter as numbers."""

    name: str
    positions: list[float]
    """One a trial, on the scale that it is searched on (a logarithm, or a place in a list)."""
    ticks: list[tuple[float, str]]
    ordered: bool
    """Whether larger positions mean more of something."""


def axis_of(name: str, spec: Mapping[str, Any], values: Sequence[Any]) -> Axis:
    """A parameter of a sweep file, with its value in each run."""
    listed = spec.get("values")
    if listed is None:
        # A quantised logarithmic distribution gives 0 where its smallest values are rounded down.
        logarithmic = "log" in str(spec.get("distribution")) and min(values) > 0
        positions = [float(np.log10(value) if logarithmic else value) for value in values]
        low, high = min(positions), max(positions)
        ticks = [low + (high - low) * share / 2 for share in range(3)]
        return Axis(name, positions, [(t, f"{10**t if logarithmic else t:.2g}") for t in ticks], True)
    numbers = all(isinstance(value, int | float) for value in listed)
    ranked = sorted(listed) if numbers else list(listed)
    positions = [float(ranked.index(value)) for value in values]
    return Axis(name, positions, [(float(i), str(value)) for i, value in enumerate(ranked)], numbers)


class Importance(NamedTuple):
    """How much the result depends on a parameter."""

    name: str
    importance: float
    """Drop in the held-out R^2 when the parameter's values are shuffled among the runs; the mean."""
    deviation: float
    """Its standard deviation over shufflings."""
    correlation: float | None
    """Spearman's, with the metric; None for a parameter whose values have no order."""


class Dependence(NamedTuple):
    """The model's success on runs that it has not seen."""

    runs: int
    r2: float
    """The share of their variance that is explained; zero or less: the mean result would have done as well.
    The lowest of several divisions into folds."""
    shares: list[Importance]
    """The most important first; empty where no dependence was found."""

    @property
    def found(self) -> bool:
        return self.r2 > 0


def dependence(axes: Sequence[Axis], values: Sequence[float]) -> Dependence | None:
    """Permutation importance (Breiman 2001) of a random forest, on runs that it was not fitted to.

    Runs are divided into folds; a forest that was fitted to the other folds predicts each one. A forest's
    predictions of the runs that it was fitted to find a dependence in pure noise.

    Returns:
        None where there are too few runs, or no two with different results.
    """
    varied = [axis for axis in axes if len(set(axis.positions)) > 1]
    if len(values) < LEAST_RUNS or len(set(values)) < 2 or not varied:
        return None
    table, result = np.array([axis.positions for axis in varied]).T, np.array(values)
    whole, shuffled = [], []
    for split in range(_SPLITS):
        one, many = _held_out(table, result, split)
        whole.append(_r2(one, result))
        shuffled.append(_r2(many, result))
    r2 = float(min(whole))
    if r2 <= 0:
        return Dependence(len(values), r2, [])
    drops = np.array(whole)[:, None, None] - np.array(shuffled)  # [splits, parameters, shuffles]
    shares = [
        Importance(
            axis.name,
            float(drops[:, i].mean()),
            float(drops[:, i].mean(axis=0).std(ddof=1)),
            _spearman(axis.positions, values) if axis.ordered else None,
        )
        for i, axis in enumerate(varied)
    ]
    return Dependence(len(values), r2, sorted(shares, key=lambda share: -share.importance))


def _held_out(table: np.ndarray, result: np.ndarray, split: int) -> tuple[np.ndarray, np.ndarray]:
    """Each run's result as predicted without it.

    Returns:
        [runs], and [parameters, shuffles, runs] with the values of one parameter shuffled.
    """
    rng = np.random.default_rng(split)
    runs, count = table.shape
    tables = np.broadcast_to(table, (count, _SHUFFLES, runs, count)).copy()
    for parameter in range(count):
        for shuffle in range(_SHUFFLES):
            tables[parameter, shuffle, :, parameter] = rng.permutation(table[:, parameter])
    one, many = np.empty(runs), np.empty((count, _SHUFFLES, runs))
    for fitted, held in KFold(_FOLDS, shuffle=True, random_state=split).split(table):
        forest = RandomForestRegressor(n_estimators=_TREES, random_state=0).fit(table[fitted], result[fitted])
        one[held] = forest.predict(table[held])
        many[:, :, held] = forest.predict(tables[:, :, held].reshape(-1, count)).reshape(count, _SHUFFLES, -1)
    return one, many


def _r2(predicted: np.ndarray, result: np.ndarray) -> np.ndarray:
    """1 - squared error / variance, over the last axis."""
    return np.asarray(1 - ((predicted - result) ** 2).sum(-1) / ((result - result.mean()) ** 2).sum())


def _spearman(x: Sequence[float], y: Sequence[float]) -> float:
    from scipy.stats import spearmanr

    return float(spearmanr(x, y).statistic)
