"""Pictures of gridverse states, drawn with NumPy alone."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from envs.gridverse import codes, functions
from envs.gridverse.functions import State
from envs.gridverse.world import Engine

TILE: Final = 32  # pixels per side of a cell

_FLOOR: Final = (236, 232, 222)
_WALL: Final = (84, 88, 96)
_LINE: Final = (208, 203, 190)
_AGENT: Final = (40, 40, 48)
_VIEW: Final = (255, 190, 60)
# By colour code. The four colours keep apart in hue and in lightness, for readers with other colour vision.
_COLOURS: Final = ((150, 150, 150), (206, 52, 52), (46, 148, 84), (48, 98, 204), (232, 200, 40))

# Pixel centres of a tile from -1 to 1, downward and rightward.
_Y, _X = np.meshgrid(*[(np.arange(TILE) + 0.5) * 2 / TILE - 1] * 2, indexing="ij")
_FRAME: Final = np.maximum(np.abs(_Y), np.abs(_X)) > 0.82
# Which pixels of a tile an object fills with its colour: exits are open squares, beacons discs.
_SHAPES: Final = {
    codes.EXIT: (np.maximum(np.abs(_Y), np.abs(_X)) < 0.78) & (np.maximum(np.abs(_Y), np.abs(_X)) > 0.34),
    codes.BEACON: _Y**2 + _X**2 < 0.36,
}
_ARROW: Final = (np.abs(_X) < 0.40 * (_Y + 0.60)) & (_Y < 0.55)  # the agent, facing up


def render_state(engine: Engine, state: State) -> NDArray[np.uint8]:
    """One state (N = 1) as an RGB picture, uint8 [H * TILE, W * TILE, 3].

    Walls are dark, exits coloured open squares, beacons coloured discs; the agent is an arrowhead that points
    where it faces, and the cells that it sees are framed and tinted.
    """
    grid, (y, x, heading) = state.grid[0], state.agent[0]
    height, width = grid.shape[:2]
    seen = np.zeros((height, width), np.bool_)
    window = functions.window(state, engine.spec.area)
    positions = functions.window_positions(state.agent, engine.spec.area)[0]
    # A picture draws nothing from the environment's own generator.
    visible = engine.visible(window, np.random.default_rng(0))[0]
    visible &= window[0, ..., 0] != codes.HIDDEN
    seen[positions[visible, 0], positions[visible, 1]] = True
    picture = np.zeros((height, width, TILE, TILE, 3), np.uint8)
    for row in range(height):
        for col in range(width):
            picture[row, col] = _tile(grid[row, col], bool(seen[row, col]))
    turned = np.rot90(_ARROW, k=(0, 2, 1, 3)[heading])  # quarter turns to the left
    picture[y, x][turned] = _AGENT
    return np.ascontiguousarray(picture.swapaxes(1, 2).reshape(height * TILE, width * TILE, 3))


def _tile(cell: NDArray[np.uint8], seen: bool) -> NDArray[np.uint8]:
    """One cell, uint8 [TILE, TILE, 3]."""
    kind, _, colour = cell
    tile = np.empty((TILE, TILE, 3), np.uint8)
    tile[:] = _WALL if kind == codes.WALL else _FLOOR
    tile[0, :] = tile[:, 0] = _LINE if kind != codes.WALL else _WALL
    if kind not in (codes.FLOOR, codes.WALL):
        tile[_SHAPES.get(int(kind), _SHAPES[codes.BEACON])] = _COLOURS[colour]
    if seen:
        tile[:] = (0.82 * tile + 0.18 * np.array(_VIEW)).astype(np.uint8)
        tile[_FRAME] = (0.35 * tile[_FRAME] + 0.65 * np.array(_VIEW)).astype(np.uint8)
    return tile
