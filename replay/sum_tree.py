"""A wide sum tree: proportional draws and updates in a handful of array operations.

A binary tree over half a million leaves takes 19 levels of small array operations. With 32 children a node it
takes two, below one cumulative sum over the top (489 sums for half a million leaves):

    top     [T]                sums of 32 nodes, 1024 leaves
    nodes   [T * 32]           sums of 32 leaves
    leaves  [T * 32 * 32]

Parents are recomputed from their children and never updated by differences, which would drift.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from replay.storage import Floats, Ints

FAN_OUT = 32
# x * BELOW_ONE < x for every normal x > 0, so that a draw is kept strictly below its node's own total.
BELOW_ONE = 1.0 - 2.0**-52


def _padded_top(num_leaves: int) -> int:
    """Length of the top array for so many leaves."""
    return -(-num_leaves // FAN_OUT**2)


def sum_tree_bytes(num_leaves: int) -> int:
    """Bytes of all three levels."""
    return 8 * _padded_top(num_leaves) * (1 + FAN_OUT + FAN_OUT**2)


class SumTree:
    """Non-negative float64 leaves; a leaf of zero is never found."""

    def __init__(self, num_leaves: int) -> None:
        top = _padded_top(num_leaves)
        self.leaves: Floats = np.zeros(top * FAN_OUT**2)
        self._nodes: Floats = np.zeros(top * FAN_OUT)
        self._top: Floats = np.zeros(top)

    @property
    def total(self) -> float:
        """Sum of all leaves."""
        # In the order in which `find` adds. np.sum adds by pairs, and ends at another last digit.
        return float(np.cumsum(self._top)[-1])

    def set(self, indices: Ints, values: npt.ArrayLike) -> None:
        """Set leaves; `indices` [n], `values` [n] or one for all. The last of equal indices counts."""
        self.leaves[indices] = values
        # A parent of several leaves is added up several times, which costs less than to find out.
        node = indices // FAN_OUT
        self._nodes[node] = _children(self.leaves, node).sum(axis=1)
        block = node // FAN_OUT
        self._top[block] = _children(self._nodes, block).sum(axis=1)

    def find(self, mass: Floats) -> Ints:
        """For each `mass` [n] in [0, total) the leaf i with sum(leaves[:i]) <= mass < sum(leaves[:i+1]).

        Rounding can put a mass at or past the end of the node it descends into. It is then pulled back below
        the total of that node's children, so that the leaf found is positive in any case. The total must be
        positive.
        """
        before = np.concatenate([[0.0], np.cumsum(self._top)])
        mass = np.minimum(mass, before[-1] * BELOW_ONE)
        # The last of equal sums is taken, so that the child that follows is one that has mass.
        found: Ints = np.searchsorted(before, mass, side="right") - 1
        mass -= before[found]
        timesteps = np.arange(len(mass)) * (FAN_OUT + 1)
        before = np.empty((len(mass), FAN_OUT + 1))
        before[:, 0] = 0.0
        for level in (self._nodes, self.leaves):
            np.cumsum(_children(level, found), axis=1, out=before[:, 1:])
            np.minimum(mass, before[:, -1] * BELOW_ONE, out=mass)
            child = (before[:, 1:] > mass[:, None]).argmax(axis=1)
            mass -= before.ravel()[timesteps + child]
            found = found * FAN_OUT + child
        return found

    def rebuild(self) -> None:
        """Recompute every parent, after `leaves` has been written directly."""
        self._nodes[:] = self.leaves.reshape(-1, FAN_OUT).sum(axis=1)
        self._top[:] = self._nodes.reshape(-1, FAN_OUT).sum(axis=1)


def _children(level: Floats, parents: Ints) -> Floats:
    return np.take(level.reshape(-1, FAN_OUT), parents, axis=0, mode="clip")
