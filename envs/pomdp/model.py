"""A finite POMDP as tables, and how to draw from their rows.

Legend: S states, A actions, O observations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Model:
    """A finite POMDP. Action a in state s leads to state s' and shows observation o of it."""

    states: tuple[str, ...]
    actions: tuple[str, ...]
    observations: tuple[str, ...]
    discount: float
    """That of the problem as published; learning has its own."""
    start: NDArray[np.float64]
    """[S], probability of each initial state."""
    transition: NDArray[np.float64]
    """[A, S, S'], probability of s' after a in s."""
    observation: NDArray[np.float64]
    """[A, S', O], probability of o where a led to s'."""
    reward: NDArray[np.float64]
    """Broadcasts to [A, S, S', O]: an axis that no reward depends on has length 1."""
    reset: NDArray[np.bool_]
    """[A, S], whether the episode ends with a in s; s' is then drawn from `start`."""
    other_state: NDArray[np.intp] | None = None
    """[S], each state with another secret, the one thing to be seen and remembered; None: there is none."""
    other_observation: NDArray[np.intp] | None = None
    """[O], what is then shown in the place of each observation; None where there is no secret."""


class Rows:
    """Rows of probabilities, laid end to end: row r has the interval [r, r + 1), cut at its cumulative sums.

    So one binary search finds the outcome of any row, whatever the number of its outcomes.

    Args:
        probabilities: [R, K], each row with a positive sum; rows are scaled to a sum of 1.
    """

    def __init__(self, probabilities: NDArray[np.float64]) -> None:
        cumulative = probabilities.cumsum(axis=1)
        cumulative /= cumulative[:, -1:]
        row, self._outcome = probabilities.nonzero()
        self._upper = row + cumulative[row, self._outcome]
        self._last = np.bincount(row).cumsum() - 1

    def draw(self, row: NDArray[np.intp], uniform: NDArray[np.float64]) -> NDArray[np.intp]:
        """The outcome of each of `row` [N]: the first whose cumulative probability exceeds `uniform` [N]."""
        index = self._upper.searchsorted(row + uniform, side="right")
        # A uniform number just below 1 may be rounded up to the next row when its row is added.
        np.minimum(index, self._last.take(row), out=index)
        return self._outcome.take(index)
