"""Integer codes of gym-gridverse's worlds and the tables of facts that go with them.

A cell is three bytes `(type, status, colour)`; a pose is `(y, x, heading)` with y growing downward and x
rightward from the top left. All codes are those of gym-gridverse (github.com/abaisero/gym-gridverse).
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

HEADINGS: Final = ("FORWARD", "BACKWARD", "LEFT", "RIGHT")  # towards -y, +y, -x, +x
ACTIONS: Final = (
    "MOVE_FORWARD", "MOVE_BACKWARD", "MOVE_LEFT", "MOVE_RIGHT",
    "TURN_LEFT", "TURN_RIGHT", "ACTUATE", "PICK_N_DROP",
)  # fmt: skip
NUM_MOVES: Final = 4  # the first four actions are moves


def _only(codes: tuple[int, ...]) -> NDArray[np.bool_]:
    """A boolean per object type, True for `codes`."""
    return np.isin(np.arange(len(OBJECTS)), codes)


NUM_STATUSES: Final = np.where(_only((DOOR,)), len(DOOR_STATUSES), 1)
CAN_BE_COLOURED: Final = _only((EXIT, DOOR, KEY, TELEPOD, BEACON))
CAN_BE_HELD: Final = _only((KEY,))

# [type, status]; only a door's status matters: an open one lets movement and sight through.
BLOCKS_MOVEMENT: Final = np.repeat(_only((WALL, BOX, DOOR))[:, None], len(DOOR_STATUSES), axis=1)
BLOCKS_VISION: Final = np.repeat(_only((NOTHING, HIDDEN, WALL, DOOR))[:, None], len(DOOR_STATUSES), axis=1)
BLOCKS_MOVEMENT[DOOR, DOOR_STATUSES.index("OPEN")] = False
BLOCKS_VISION[DOOR, DOOR_STATUSES.index("OPEN")] = False

TURN_LEFT: Final = np.array([2, 3, 1, 0], dtype=np.uint8)  # heading after a turn, by heading before it
TURN_RIGHT: Final = np.array([3, 2, 0, 1], dtype=np.uint8)

# ROTATION[heading] @ (dy, dx) takes an offset as the agent sees it (dy = -1 ahead, dx = +1 to its right) to
# the grid.
ROTATION: Final = np.array(
    [[[1, 0], [0, 1]], [[-1, 0], [0, -1]], [[0, -1], [1, 0]], [[0, 1], [-1, 0]]], dtype=np.int64
)
# MOVE[heading, action] is the grid offset of the four moves.
MOVE: Final = np.einsum("hij,aj->hai", ROTATION, np.array([[-1, 0], [1, 0], [0, -1], [0, 1]]))

for _table in (NUM_STATUSES, CAN_BE_COLOURED, CAN_BE_HELD, BLOCKS_MOVEMENT, BLOCKS_VISION):
    _table.flags.writeable = False
for _array in (TURN_LEFT, TURN_RIGHT, ROTATION, MOVE):
    _array.flags.writeable = False
