"""Parts that pictures of native tasks share: colours, the pixels of a square tile, cards, maps, strips."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

FLOOR: Final = (236, 232, 222)
WALL: Final = (84, 88, 96)
LINE: Final = (208, 203, 190)
AGENT: Final = (40, 40, 48)
VIEW: Final = (255, 190, 60)
# They keep apart in hue and in lightness, for readers with other colour vision.
RED: Final = (206, 52, 52)
GREEN: Final = (46, 148, 84)
BLUE: Final = (48, 98, 204)
YELLOW: Final = (232, 200, 40)
COLOURS: Final = ((150, 150, 150), RED, GREEN, BLUE, YELLOW)
"""By gridverse's codes of colours."""

TILE: Final = 32  # pixels per side of a cell of a map
Y, X = np.meshgrid(*[(np.arange(TILE) + 0.5) * 2 / TILE - 1] * 2, indexing="ij")
"""Pixel centres of a tile from -1 to 1, downward and rightward."""
FAR: Final = np.maximum(np.abs(Y), np.abs(X))  # from the middle, by the farther coordinate
ARROW: Final = (np.abs(X) < 0.40 * (Y + 0.60)) & (Y < 0.55)  # an agent, facing up
ARROWS: Final = tuple(np.rot90(ARROW, k=-quarter) for quarter in range(4))
"""The agent, facing up, right, down and left."""
RING: Final = (FAR < 0.84) & (FAR > 0.5)
DISC: Final = Y**2 + X**2 < 0.5
SPOT: Final = Y**2 + X**2 < 0.16
Mark = tuple[int, NDArray[np.bool_], tuple[int, int, int]]
"""Something drawn on a cell of a map: the cell, the pixels [TILE, TILE] that have the colour, the colour."""

SQUARE: Final = 12  # pixels per side of a square of a strip
STRIP_LENGTH: Final = 32  # squares per line of a strip

CARD_HEIGHT, CARD_WIDTH = 40, 36  # pixels
_BACK: Final = (196, 192, 184)
_BACK_TEXT: Final = (150, 146, 138)
_FACE: Final = (255, 252, 240)
# Digits of 3 x 5 pixels, rows from top to bottom as octal bits.
_DIGITS: Final = ("75557", "26227", "71747", "71717", "55711", "74717", "74757", "71244", "75757", "75717")


def joined(tiles: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Tiles [rows, columns, height, width, 3] side by side, uint8 [rows * height, columns * width, 3]."""
    rows, columns, height, width, _ = tiles.shape
    return np.ascontiguousarray(tiles.swapaxes(1, 2).reshape(rows * height, columns * width, 3))


def card(number: int, up: bool) -> NDArray[np.uint8]:
    """A card with a number of up to four digits, pale unless it is `up`, uint8 [height, width, 3]."""
    card = np.full((CARD_HEIGHT, CARD_WIDTH, 3), WALL, np.uint8)
    card[3:-3, 2:-2] = _FACE if up else _BACK
    rows = [[int(_DIGITS[int(digit)][row]) for digit in str(number)] for row in range(5)]
    # Each row of a digit is three bits; the fourth is the gap to the next digit.
    ink = (np.array(rows)[:, :, None] >> np.array([2, 1, 0, 3]) & 1).reshape(5, -1)[:, :-1] == 1
    scale = 3 if len(str(number)) < 3 else 2
    ink = ink.repeat(scale, axis=0).repeat(scale, axis=1)
    top, left = (CARD_HEIGHT - ink.shape[0]) // 2, (CARD_WIDTH - ink.shape[1]) // 2
    card[top : top + ink.shape[0], left : left + ink.shape[1]][ink] = AGENT if up else _BACK_TEXT
    return card


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


def _strip(num: int, marked: int, colour: tuple[int, int, int]) -> NDArray[np.uint8]:
    """`num` squares in lines of `STRIP_LENGTH`, one of them in `colour`."""
    columns = min(num, STRIP_LENGTH)
    lines = -(-num // columns)
    squares = np.full((lines * columns, SQUARE, SQUARE, 3), WALL, np.uint8)
    squares[:num] = FLOOR
    squares[marked] = colour
    squares[:num, 0] = squares[:num, :, 0] = LINE
    return joined(squares.reshape(lines, columns, SQUARE, SQUARE, 3))
