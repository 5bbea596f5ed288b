"""Hallway (Littman, Cassandra, Kaelbling 1995): a robot with noisy motion and noisy sensors in a corridor.

Locations 0 to 10 lie in a row from west to east, 11 to 14 south of 2, 4, 6 and 8; 14 is the goal. State
4 * location + heading, headings 0 north, 1 east, 2 south, 3 west. The numbers are from the file
`hallway.pomdp` of gym-pomdps.
"""

from __future__ import annotations

import functools
import itertools
from typing import Final

import numpy as np
from numpy.typing import NDArray

from envs import drawing
from envs.pomdp.dynamics import Model

ACTIONS: Final = ("stay", "forward", "turn right", "turn around", "turn left")
CELLS: Final = (*((0, x) for x in range(11)), (1, 2), (1, 4), (1, 6), (1, 8))
"""(y, x) of each location; y grows southward, x eastward."""
GOAL: Final = 14
LANDMARKS: Final = (2, 4, 6, 8)
"""Facing south from these shows observations 16 to 19 for certain; the goal shows 20."""
NUM_SENSOR_READINGS: Final = 16
GOAL_SYMBOL: Final = 20
_NUM_HEADINGS: Final = 4
_OFFSETS: Final = ((-1, 0), (0, 1), (1, 0), (0, -1))

# Probabilities of a change of heading by 0, 1, 2 and 3 quarter turns to the right.
_TURNS: Final = {
    "turn right": (0.1, 0.7, 0.1, 0.1),
    "turn around": (0.1, 0.15, 0.6, 0.15),
    "turn left": (0.1, 0.1, 0.1, 0.7),
}
# "forward": probability, direction of the move, and heading after it, both in quarter turns to the right
# of the present heading. The remaining probability, and every move into a wall, changes nothing.
_MOVES: Final = ((0.8, 0, 0), (0.05, 1, 1), (0.05, 3, 3), (0.025, 2, 0), (0.025, 2, 2))

# A sensor reports a wall with 0.9 where there is one and with 0.05 where there is none. The file has the
# products of four sensors cut to six decimals. These, by the numbers of walls reported, walls missed, false
# alarms and silent sensors, are exact in six decimals and one unit less in the file.
_ONE_LESS: Final = ("0202", "0211", "0220", "0301", "0310", "1201", "1210", "2002", "2101", "2110")


def _neighbour(location: int, direction: int) -> int | None:
    """The location next to `location`, or None where there is a wall."""
    (y, x), (dy, dx) = CELLS[location], _OFFSETS[direction % _NUM_HEADINGS]
    cell = (y + dy, x + dx)
    return CELLS.index(cell) if cell in CELLS else None


def _sensor_probability(walls: tuple[bool, ...], reports: tuple[bool, ...]) -> float:
    """Probability of four independent `reports` of `walls`, as the file has it."""
    reported = sum(w and r for w, r in zip(walls, reports, strict=True))
    alarms = sum(reports) - reported
    missed = sum(walls) - reported
    silent = len(walls) - reported - alarms - missed
    # In whole numbers, so that cutting is exact: the factors are 18/20, 2/20, 1/20 and 19/20.
    millionths = 10**6 * 18**reported * 2**missed * 19**silent // 20 ** len(walls)
    return (millionths - (f"{reported}{missed}{alarms}{silent}" in _ONE_LESS)) / 1e6


def _observation_row(location: int, heading: int) -> NDArray[np.float64]:
    """Probabilities of the 21 observations in one pose."""
    row = np.zeros(GOAL_SYMBOL + 1)
    if location == GOAL:
        row[GOAL_SYMBOL] = 1.0
    elif location in LANDMARKS and heading == 2:
        row[NUM_SENSOR_READINGS + LANDMARKS.index(location)] = 1.0
    else:
        walls = tuple(_neighbour(location, heading + side) is None for side in range(_NUM_HEADINGS))
        # Sensors front, right, back, left are the bits 8, 4, 2, 1.
        for number, reports in enumerate(itertools.product((False, True), repeat=_NUM_HEADINGS)):
            row[number] = _sensor_probability(walls, reports)
        row[NUM_SENSOR_READINGS - 1] = 1.0 - row[: NUM_SENSOR_READINGS - 1].sum()
    return row


@functools.cache
def hallway() -> Model:
    """The model; every action in a goal state ends the episode."""
    poses = [divmod(state, _NUM_HEADINGS) for state in range(len(CELLS) * _NUM_HEADINGS)]
    at_goal = np.array([location == GOAL for location, _ in poses])
    start = np.where(at_goal, 0.0, 0.017857)
    start[0] = 0.017865  # what rounding to six decimals leaves
    transition = np.zeros((len(ACTIONS), len(poses), len(poses)))
    for state, (location, heading) in enumerate(poses):
        if at_goal[state]:
            transition[:, state] = start
            continue
        base = state - heading
        transition[ACTIONS.index("stay"), state, state] = 1.0
        for name, probabilities in _TURNS.items():
            for turn, probability in enumerate(probabilities):
                transition[ACTIONS.index(name), state, base + (heading + turn) % _NUM_HEADINGS] = probability
        forward = transition[ACTIONS.index("forward"), state]
        for probability, direction, turn in _MOVES:
            neighbour = _neighbour(location, heading + direction)
            if neighbour is not None:
                forward[neighbour * _NUM_HEADINGS + (heading + turn) % _NUM_HEADINGS] = probability
        forward[state] = 1.0 - forward.sum()
    observation = np.array([_observation_row(*pose) for pose in poses])
    return Model(
        states=tuple(map(str, range(len(poses)))),
        actions=ACTIONS,
        observations=tuple(map(str, range(GOAL_SYMBOL + 1))),
        start=start,
        transition=transition,
        observation=np.broadcast_to(observation, (len(ACTIONS), *observation.shape)),
        reward=at_goal.astype(np.float64)[None, None, :, None],
        reset=np.broadcast_to(at_goal, (len(ACTIONS), len(poses))),
    )


def draw(state: int, observation: int) -> NDArray[np.uint8]:
    """The corridor from above, north up: landmarks are discs, the goal an open square."""
    location, heading = divmod(state, _NUM_HEADINGS)
    marks = [
        (11, drawing.DISC, drawing.BLUE),
        (12, drawing.DISC, drawing.YELLOW),
        (13, drawing.DISC, drawing.RED),
        (GOAL, drawing.RING, drawing.GREEN),
        (location, drawing.ARROWS[heading], drawing.AGENT),
    ]
    return drawing.draw_map(CELLS, marks)
