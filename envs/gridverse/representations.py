"""Cells as numbers: gym-gridverse's default representation, and DTQN's vector.

A representation is a table with a row for each byte of `codes`. An observation shows the cells in view, row
by row. In a world with something to hold it also shows the item held: `grid` has one more row for it, below
the agent's feet, and `vector` one more entry. That row's other cells are NoneGridObject, as an empty hand is.
"""

from __future__ import annotations

from typing import Final

import gymnasium
import numpy as np
from numpy.typing import NDArray

from envs.gridverse import codes, views
from envs.gridverse.state import Bytes
from envs.gridverse.world import WorldSpec

OBSERVATIONS: Final = ("grid", "vector")
_NOTHING: Final = codes.cell(codes.NOTHING)


def chosen(asked: str | None, own: str) -> str:
    """The observation that is asked for, or else a world's own; a ValueError for one that is unknown."""
    observation = asked or own
    if observation not in OBSERVATIONS:
        raise ValueError(f"task.observation is {observation!r}; it must be one of {', '.join(OBSERVATIONS)}")
    return observation


Table = NDArray[np.int64]


def default_table(kinds: list[int], colours: list[int]) -> tuple[Table, Table]:
    """Type, status and colour as they are.

    Args:
        kinds, colours: the codes that occur.

    Returns:
        The three numbers of a byte, [256, 3], and the highest that each may be, [3], as the original states
        them: the number of statuses is taken for the highest of them, which is one less.
    """
    highest = np.array([max(kinds), codes.NUM_STATUSES[kinds].max(), max(colours)])
    return codes.UNPACK.astype(np.int64), highest


def observed_codes(spec: WorldSpec) -> tuple[list[int], list[int]]:
    """Types and colours that an observation may hold; Hidden, the empty hand and no colour always may."""
    kinds = {codes.OBJECTS.index(name) for name in spec.observation_objects} | {codes.NOTHING, codes.HIDDEN}
    colours = {codes.COLOURS.index(name) for name in spec.observation_colors} | {codes.NO_COLOUR}
    return sorted(kinds), sorted(colours)


class Representation:
    """The form in which an agent is given what it sees.

    `grid` is the original's default representation, uint8 [h, w, 3]. `vector` is the form of DTQN's
    `GridVerseWrapper`: type + colour of each cell, row by row, uint8 [h * w]; an entry takes
    2 * (highest number) + 1 values.

    Args:
        name: of `OBSERVATIONS`.
    """

    def __init__(self, spec: WorldSpec, name: str) -> None:
        height, width = views.size(spec.area)
        table, highest = default_table(*observed_codes(spec))
        self._item_cells = 0  # bytes after the view's
        if spec.holdable:
            self._item_cells = width if name == "grid" else 1
        if name == "grid":
            self._table = table.astype(np.uint8)
            self._shape: tuple[int, ...] = (height + bool(self._item_cells), width, 3)
            nvec = np.broadcast_to(highest + 1, self._shape)
        else:
            self._table = (table[:, 0] + table[:, 2]).astype(np.uint8)
            self._shape = (height * width + self._item_cells,)
            nvec = np.full(self._shape, 2 * highest.max() + 1)
        # Below the agent's feet, or the last entry.
        self._item_at = height * width + (-spec.area[1][0] if name == "grid" else 0)
        self.space: gymnasium.spaces.MultiDiscrete[np.uint8] = gymnasium.spaces.MultiDiscrete(
            nvec, dtype=np.uint8
        )

    def __call__(self, view: Bytes, item: Bytes) -> NDArray[np.uint8]:
        """Observations [N, ...] of `view` [h * w, N] and `item` [N], bytes of `codes`."""
        if self._item_cells:
            cells = np.full((len(view) + self._item_cells, len(item)), _NOTHING, np.uint8)
            cells[: len(view)] = view
            cells[self._item_at] = item
        else:
            cells = view
        return self._table.take(cells.T, axis=0).reshape(len(item), *self._shape)
