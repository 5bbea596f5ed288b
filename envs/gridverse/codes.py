"""Integer codes of gym-gridverse's worlds and the tables of facts that go with them.

A cell is three bytes `(type, status, colour)`; a pose is `(y, x, heading)` with y growing downward and x
rightward from the top left. All codes are gym-gridverse's (github.com/abaisero/gym-gridverse).

Inside, a cell is one byte: a number below 64 for each of the 41 cells there are, with bit 6 set where it
blocks movement and bit 7 where it blocks vision. Two more bytes stand for a cell that is not seen and for one
that lies outside the grid; both look like Hidden.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

OBJECTS: Final = (
    "NoneGridObject", "Hidden", "Floor", "Wall", "Exit", "Door",
    "Key", "MovingObstacle", "Box", "Telepod", "Beacon",
)  # fmt: skip
NOTHING, HIDDEN, FLOOR, WALL, EXIT, DOOR, KEY, MOVING_OBSTACLE, BOX, TELEPOD, BEACON = range(len(OBJECTS))

COLOURS: Final = ("NONE", "RED", "GREEN", "BLUE", "YELLOW")
NO_COLOUR: Final = 0

DOOR_STATUSES: Final = ("OPEN", "CLOSED", "LOCKED")
OPEN, CLOSED, LOCKED = range(len(DOOR_STATUSES))

HEADINGS: Final = ("FORWARD", "BACKWARD", "LEFT", "RIGHT")  # towards -y, +y, -x, +x
ACTIONS: Final = (
    "MOVE_FORWARD", "MOVE_BACKWARD", "MOVE_LEFT", "MOVE_RIGHT",
    "TURN_LEFT", "TURN_RIGHT", "ACTUATE", "PICK_N_DROP",
)  # fmt: skip
ACTUATE, PICK_N_DROP = ACTIONS.index("ACTUATE"), ACTIONS.index("PICK_N_DROP")


def _only(codes: tuple[int, ...]) -> NDArray[np.bool_]:
    """A boolean per object type, True for `codes`."""
    return np.isin(np.arange(len(OBJECTS)), codes)


NUM_STATUSES: Final = np.where(_only((DOOR,)), len(DOOR_STATUSES), 1)
CAN_BE_COLOURED: Final = _only((EXIT, DOOR, KEY, TELEPOD, BEACON))
CAN_BE_HELD: Final = _only((KEY,))

# [type, status]; only a door's status matters: an open one lets movement and sight through.
BLOCKS_MOVEMENT: Final = np.repeat(_only((WALL, BOX, DOOR))[:, None], len(DOOR_STATUSES), axis=1)
BLOCKS_VISION: Final = np.repeat(_only((NOTHING, HIDDEN, WALL, DOOR))[:, None], len(DOOR_STATUSES), axis=1)
BLOCKS_MOVEMENT[DOOR, OPEN] = False
BLOCKS_VISION[DOOR, OPEN] = False

TURN_LEFT: Final = np.array([2, 3, 1, 0], dtype=np.uint8)  # heading after a turn, by heading before it
TURN_RIGHT: Final = np.array([3, 2, 0, 1], dtype=np.uint8)

# ROTATION[heading] @ (dy, dx) takes an offset as the agent sees it (dy = -1 ahead, dx = +1 to its right) to
# the grid.
ROTATION: Final = np.array(
    [[[1, 0], [0, 1]], [[-1, 0], [0, -1]], [[0, -1], [1, 0]], [[0, 1], [-1, 0]]], dtype=np.int64
)
# MOVE[heading, action] is the grid offset of the four moves.
MOVE: Final = np.einsum("hij,aj->hai", ROTATION, np.array([[-1, 0], [1, 0], [0, -1], [0, 1]]))


# -- Cells as one byte ---------------------------------------------------------------------------------------

STOPS_MOVEMENT: Final = 64
STOPS_VISION: Final = 128
UNSEEN: Final = 0

# PACK[type, status, colour] is the byte of a cell, 0 where there is no such cell; UNPACK is its inverse.
PACK: Final = np.zeros((len(OBJECTS), len(DOOR_STATUSES), len(COLOURS)), np.uint8)
UNPACK: Final = np.zeros((256, 3), np.uint8)
UNPACK[:] = (HIDDEN, 0, NO_COLOUR)


def _number_cells() -> int:
    """Fills in `PACK` and `UNPACK`; the first number that is left over."""
    number = UNSEEN + 1
    for kind in range(len(OBJECTS)):
        for status in range(NUM_STATUSES[kind]):
            flags = (
                STOPS_MOVEMENT * BLOCKS_MOVEMENT[kind, status] + STOPS_VISION * BLOCKS_VISION[kind, status]
            )
            for colour in range(len(COLOURS) if CAN_BE_COLOURED[kind] else 1):
                PACK[kind, status, colour] = flags + number
                UNPACK[flags + number] = (kind, status, colour)
                number += 1
    return number


OUTSIDE: Final = _number_cells() | STOPS_MOVEMENT | STOPS_VISION

TYPE: Final = np.ascontiguousarray(UNPACK[:, 0])  # of a byte
STATUS: Final = np.ascontiguousarray(UNPACK[:, 1])
COLOUR: Final = np.ascontiguousarray(UNPACK[:, 2])


def cell(kind: int, status: int = 0, colour: int = NO_COLOUR) -> int:
    """The byte of a cell."""
    return int(PACK[kind, status, colour])


def pack(cells: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Cells [..., 3] as bytes [...]."""
    packed: NDArray[np.uint8] = PACK[cells[..., 0], cells[..., 1], cells[..., 2]]
    return packed


def unpack(cells: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Bytes [...] as cells [..., 3]; the inverse of `pack`."""
    return UNPACK.take(cells, axis=0)


# The bytes of a type's colours follow each other, but for doors, whose flags differ.
_FIRST: Final = PACK[:, 0, 0]
_COUNT: Final = np.where(CAN_BE_COLOURED, len(COLOURS), 1).astype(np.uint8)


def is_type(cells: NDArray[np.uint8], kind: int) -> NDArray[np.bool_]:
    """Which of the bytes `cells` are of a type."""
    if kind in (DOOR, HIDDEN):
        which: NDArray[np.bool_] = TYPE.take(cells) == kind
        return which
    return cells - _FIRST[kind] < _COUNT[kind]  # uint8 wraps round


for _table in [value for value in globals().values() if isinstance(value, np.ndarray)]:
    _table.flags.writeable = False
