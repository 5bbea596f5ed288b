"""What the results of a sweep depend on: permutation importance and rank correlation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.inspection import permutation_importance

LEAST_RUNS = 5
"""Runs that importance needs."""


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
        logarithmic = "log" in str(spec.get("distribution"))
        positions = [float(np.log10(value) if logarithmic else value) for value in values]
        low, high = min(positions), max(positions)
        ticks = [low + (high - low) * share / 4 for share in range(5)]
        return Axis(name, positions, [(t, f"{10**t if logarithmic else t:.3g}") for t in ticks], True)
    numbers = all(isinstance(value, int | float) for value in listed)
    ranked = sorted(listed) if numbers else list(listed)
    positions = [float(ranked.index(value)) for value in values]
    return Axis(name, positions, [(float(i), str(value)) for i, value in enumerate(ranked)], numbers)


class Importance(NamedTuple):
    """How much the result depends on a parameter."""

    name: str
    importance: float
    """Drop in a random forest's R^2 when the parameter's values are shuffled among the runs; the mean."""
    deviation: float
    """Its standard deviation over shufflings."""
    correlation: float | None
    """Spearman's, with the metric; none for a parameter whose values have no order."""


def importance(axes: Sequence[Axis], values: Sequence[float]) -> list[Importance]:
    """Permutation importance (Breiman 2001) and rank correlation, the most important first.

    Empty where there are too few runs, or no two with different results.
    """
    varied = [axis for axis in axes if len(set(axis.positions)) > 1]
    if len(values) < LEAST_RUNS or len(set(values)) < 2 or not varied:
        return []
    table = np.array([axis.positions for axis in varied]).T
    forest = RandomForestRegressor(n_estimators=100, random_state=0).fit(table, values)
    found = permutation_importance(forest, table, values, n_repeats=20, random_state=0)
    result = [
        Importance(
            axis.name,
            float(found.importances_mean[i]),
            float(found.importances_std[i]),
            _spearman(axis.positions, values) if axis.ordered else None,
        )
        for i, axis in enumerate(varied)
    ]
    return sorted(result, key=lambda line: -line.importance)


def _spearman(x: Sequence[float], y: Sequence[float]) -> float:
    from scipy.stats import spearmanr

    return float(spearmanr(x, y).statistic)
