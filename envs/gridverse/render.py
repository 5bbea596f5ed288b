"""Pictures of gridverse states, drawn with NumPy alone."""

from __future__ import annotations

import functools
from typing import Final

import numpy as np
from numpy.typing import NDArray

from envs.drawing import AGENT, ARROW, COLOURS, FAR, FLOOR, LINE, TILE, VIEW, WALL, X, Y, joined
from envs.gridverse import codes
from envs.gridverse.state import State, to_arrays
from envs.gridverse.world import Engine

_OBSTACLE: Final = (120, 74, 150)
_BOX: Final = (150, 110, 60)

_FRAME: Final = FAR > 0.82
_RADIUS: Final = np.hypot(Y, X)
_KEY: Final = (np.hypot(Y, X + 0.36) < 0.30) & (np.hypot(Y, X + 0.36) > 0.12)
_SHAFT: Final = (np.abs(Y) < 0.08) & (X > -0.10) & (X < 0.66)
_BITS: Final = (Y > 0) & (Y < 0.30) & ((np.abs(X - 0.58) < 0.08) | (np.abs(X - 0.34) < 0.08))
# Which pixels of a tile an object fills with its colour.
_SHAPES: Final = {
    codes.EXIT: (FAR < 0.78) & (FAR > 0.34),  # an open square
    codes.BEACON: _RADIUS < 0.60,  # a disc
    codes.KEY: _KEY | _SHAFT | _BITS,
    codes.MOVING_OBSTACLE: np.abs(Y) + np.abs(X) < 0.80,  # a diamond
    codes.BOX: FAR < 0.66,
    codes.TELEPOD: ((_RADIUS < 0.78) & (_RADIUS > 0.60)) | ((_RADIUS < 0.40) & (_RADIUS > 0.22)),  # two rings
}
_OWN_COLOURS: Final = {codes.MOVING_OBSTACLE: _OBSTACLE, codes.BOX: _BOX}
_DOORS: Final = {
    codes.OPEN: (FAR < 0.90) & (FAR > 0.70),  # a frame
    codes.CLOSED: (FAR < 0.90) & ~((np.abs(X - 0.5) < 0.14) & (np.abs(Y) < 0.14)),  # a leaf with a knob
    codes.LOCKED: (FAR < 0.90) & (_RADIUS > 0.22) & ~((np.abs(X) < 0.10) & (Y > 0) & (Y < 0.5)),  # a keyhole
}


def render_state(engine: Engine, state: State) -> NDArray[np.uint8]:
    """One state (N = 1) as an RGB picture, uint8 [H * TILE, W * TILE, 3].

    Walls are dark, exits coloured open squares, beacons discs, obstacles diamonds, telepods rings; a locked
    door has a keyhole, an open one is a frame. The agent is an arrowhead that points where it faces, and the
    cells that it sees are framed and tinted. A key in its hand is shown at the top left.
    """
    grids, agents, items = to_arrays(state)
    grid, (y, x, heading), item = grids[0], agents[0], items[0]
    height, width = grid.shape[:2]
    # A picture draws nothing from the environment's own generator.
    visible = engine.visible(engine.view(state))[:, 0]
    seen = np.zeros(height * width + 1, np.bool_)
    seen[state.geometry.window(engine.spec.area)[visible, state.pose[0]]] = True
    picture = np.zeros((height, width, TILE, TILE, 3), np.uint8)
    for row in range(height):
        for col in range(width):
            picture[row, col] = _tile(*grid[row, col].tolist(), bool(seen[row * width + col]))
    turned = np.rot90(ARROW, k=(0, 2, 1, 3)[heading])  # quarter turns to the left
    picture[y, x][turned] = AGENT
    if item[0] != codes.NOTHING:
        picture[0, 0] = _tile(*item.tolist(), False)
    return joined(picture)


@functools.cache
def _tile(kind: int, status: int, colour: int, seen: bool) -> NDArray[np.uint8]:
    """One cell, uint8 [TILE, TILE, 3], for reading only."""
    tile = np.full((TILE, TILE, 3), WALL if kind == codes.WALL else FLOOR, np.uint8)
    tile[0, :] = tile[:, 0] = LINE if kind != codes.WALL else WALL
    shape = _DOORS[status] if kind == codes.DOOR else _SHAPES.get(kind)
    if shape is not None:
        tile[shape] = _OWN_COLOURS.get(kind, COLOURS[colour])
    if seen:
        tile[:] = (0.82 * tile + 0.18 * np.array(VIEW)).astype(np.uint8)
        tile[_FRAME] = (0.35 * tile[_FRAME] + 0.65 * np.array(VIEW)).astype(np.uint8)
    return tile
