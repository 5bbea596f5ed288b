"""The cells in view that are seen: visibility functions of gym-gridverse, each over N views.

    visibility  (view, area) -> bool [h * w, N]
    observation (view, *, area, parameters) -> bool [h * w, N]

`view` uint8 [h * w, N] holds the bytes of the cells in `area` as the agent sees them, row by row, the agent
facing up. Cells come first and views last, so that what is done to a cell is done in all views at a stroke.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from envs.gridverse import codes
from envs.gridverse.state import Area, Bytes
from envs.gridverse.values import named

Visible = NDArray[np.bool_]
Visibility = Callable[..., Visible]


def size(area: Area) -> tuple[int, int]:
    """Height and width of a view, in cells."""
    (y0, y1), (x0, x1) = area
    return y1 - y0 + 1, x1 - x0 + 1


def fully_transparent(view: Bytes, area: Area) -> Visible:
    """All cells."""
    return np.ones(view.shape, np.bool_)


MAX_COLUMNS: Final = 64
"""Of an area that `partially_occluded` sees: a row is an integer of so many bits."""


def partially_occluded(view: Bytes, area: Area) -> Visible:
    """Cells that light reaches, spreading ahead and sideways from an agent on the bottom row.

    Two floods, one to the left and one to the right, are united. A cell is lit where the cell below it, the
    one next to it towards the agent's column, or the one diagonally between is lit and does not block vision.

    A flood's row is an integer, bit j for the cell j columns away from the agent's.
    """
    (height, width), column = size(area), -area[1][0]
    # The columns of the two floods, both outwards from the agent's own.
    sides = (slice(column, None, -1), slice(column, None))
    row_type = next(t for t in (np.uint8, np.uint16, np.uint32, np.uint64) if np.iinfo(t).bits >= width)
    bits = np.array([1 << j for j in range(width)], row_type)[:, None]
    clear = (view < codes.STOPS_VISION).reshape(height, width, -1)
    open_cells = np.empty((height, 2, view.shape[1]), row_type)
    for side, columns in enumerate(sides):
        near = clear[:, columns]
        np.bitwise_or.reduce(near * bits[: near.shape[1]], axis=1, out=open_cells[:, side])
    lit = np.empty_like(open_cells)
    seeds = np.ones_like(lit[0])  # the agent's own cell
    for row in range(height - 1, -1, -1):
        ways = open_cells[row]
        # Light runs outwards through clear cells up to the first that blocks, as a carry runs in a sum.
        lit[row] = ((ways + (seeds & ways)) ^ ways) | seeds
        shines = lit[row] & ways
        seeds = shines | (shines << row_type(1))
    visible = np.zeros(clear.shape, np.bool_)
    for side, columns in enumerate(sides):
        near = visible[:, columns]
        near |= (lit[:, side, None] & bits[: near.shape[1]]) != 0
    return visible.reshape(view.shape)


VISIBILITIES: Final = named(fully_transparent, partially_occluded)


def from_visibility(view: Bytes, *, area: Area, visibility_function: Visibility) -> Visible:
    """The cells that a visibility function shows."""
    return visibility_function(view, area)


def _by_itself(visibility: Visibility) -> Callable[..., Visible]:
    """The observation function of a visibility function: no parameters but the area, as in the original."""

    def observation(view: Bytes, *, area: Area) -> Visible:
        return visibility(view, area)

    return observation


OBSERVATIONS: Final[dict[str, Callable[..., Visible]]] = {
    **{name: _by_itself(visibility) for name, visibility in VISIBILITIES.items()},
    "from_visibility": from_visibility,
}
