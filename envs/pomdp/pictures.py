"""Pictures of states, drawn with NumPy alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from envs.drawing import ARROW, BLUE, FAR, FLOOR, LINE, RED, TILE, WALL, X, Y, joined

SQUARE: Final = 12  # pixels per side of a square of a strip
STRIP_LENGTH: Final = 32  # squares per line of a strip

Colour = tuple[int, int, int]

RING: Final = (FAR < 0.84) & (FAR > 0.5)
DISC: Final = Y**2 + X**2 < 0.5
SPOT: Final = Y**2 + X**2 < 0.16
ARROWS: Final = tuple(np.rot90(ARROW, k=-quarter) for quarter in range(4))
"""The agent, facing up, right, down and left."""


Mark = tuple[int, NDArray[np.bool_], Colour]
"""Something drawn on a cell of a map: the cell, the pixels [TILE, TILE] that have the colour, the colour."""


def draw_map(cells: Sequence[tuple[int, int]], marks: Iterable[Mark]) -> NDArray[np.uint8]:
    """Floor at `cells` (y, x), walls around and between, and the marks in their order.

    A picture of [H, W, 3] pixels, a border of one wall cell included.
    """
    height, width = (1 + max(axis) for axis in zip(*cells, strict=True))
    tiles = np.full((height + 2, width + 2, TILE, TILE, 3), WALL, np.uint8)
    for y, x in cells:
        tile = tiles[y + 1, x + 1]
        tile[:] = FLOOR
        tile[0] = tile[:, 0] = LINE
    for cell, shape, colour in marks:
        y, x = cells[cell]
        tiles[y + 1, x + 1][shape] = colour
    return joined(tiles)


def draw_strips(num_states: int, num_symbols: int, state: int, observation: int) -> NDArray[np.uint8]:
    """Two strips of squares in reading order: above, the state in blue; below, the observation in red.

    The last square of the lower is the symbol of a start.
    """
    strips = [_strip(num_states, state, BLUE), _strip(num_symbols, observation, RED)]
    width = max(strip.shape[1] for strip in strips) + 2 * SQUARE
    height = sum(strip.shape[0] for strip in strips) + 3 * SQUARE
    picture = np.full((height, width, 3), WALL, np.uint8)
    top = SQUARE
    for strip in strips:
        picture[top : top + strip.shape[0], SQUARE : SQUARE + strip.shape[1]] = strip
        top += strip.shape[0] + SQUARE
    return picture


def _strip(num: int, marked: int, colour: Colour) -> NDArray[np.uint8]:
    """`num` squares in lines of `STRIP_LENGTH`, one of them in `colour`."""
    columns = min(num, STRIP_LENGTH)
    lines = -(-num // columns)
    squares = np.empty((lines * columns, SQUARE, SQUARE, 3), np.uint8)
    squares[:num] = FLOOR
    squares[num:] = WALL
    squares[marked] = colour
    squares[:num, 0] = LINE
    squares[:num, :, 0] = LINE
    return joined(squares.reshape(lines, columns, SQUARE, SQUARE, 3))
