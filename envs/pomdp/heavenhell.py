"""HeavenHell (Thrun; Geffner, Bonet 1998): one end of a T is heaven, the other hell; a priest knows which.

For n = 3, with the priest at 13 and the ends at 6 and 9:

    6 5 4 3 7 8 9
          2
          1
          0
          10 11 12 13

There are two such worlds, of C = 4n + 2 cells each. State C * world + cell; in world 0 heaven is on the left.
The numbers are from the files `heavenhell_<n>.pomdp` of gym-pomdps.
"""

from __future__ import annotations

import functools
from typing import Final

import numpy as np
from numpy.typing import NDArray

from envs import drawing
from envs.pomdp.dynamics import Model

ACTIONS: Final = ("N", "S", "E", "W")
MAX_N: Final = 100
"""Keeps the tables below 25 MB."""
_OFFSETS: Final = ((-1, 0), (1, 0), (0, 1), (0, -1))


def num_cells(n: int) -> int:
    """Cells of one world."""
    return 4 * n + 2


def cells(n: int) -> tuple[tuple[int, int], ...]:
    """(y, x) of each cell: stem 0 to n, left arm, right arm, and the branch to the priest."""
    stem = [(n - i, n) for i in range(n + 1)]
    left = [(0, n - i) for i in range(1, n + 1)]
    right = [(0, n + i) for i in range(1, n + 1)]
    branch = [(n + 1, n + i) for i in range(n + 1)]
    return (*stem, *left, *right, *branch)


def shortest_success(n: int) -> int:
    """Steps of the best policy: to the priest and back, up the stem, along an arm, and one more."""
    return 2 * (n + 1) + n + n + 1


@functools.cache
def heavenhell(n: int) -> Model:
    """The model of size `n`, 1 to `MAX_N`; every action at an end ends the episode."""
    place, num = cells(n), num_cells(n)
    ends = (2 * n, 3 * n)  # left and right
    start = np.zeros(2 * num)
    start[[0, num]] = 0.5
    transition = np.zeros((len(ACTIONS), 2 * num, 2 * num))
    reward = np.zeros((1, 2 * num, 1, 1))
    reset = np.zeros(2 * num, np.bool_)
    observation = np.zeros((2 * num, num + 1))
    for world in (0, 1):
        first = num * world
        for cell, (y, x) in enumerate(place):
            state = first + cell
            priest = cell == num - 1
            observation[state, num - 1 + world if priest else cell] = 1.0
            if cell in ends:
                transition[:, state] = start
                reset[state] = True
                reward[0, state] = 1.0 if cell == ends[world] else -1.0
                continue
            for action, (dy, dx) in enumerate(_OFFSETS):
                target = (y + dy, x + dx)
                after = place.index(target) if target in place else cell
                transition[action, state, first + after] = 1.0
    return Model(
        states=tuple(map(str, range(2 * num))),
        actions=ACTIONS,
        observations=(*(f"o{cell}" for cell in range(num - 1)), "left", "right"),
        start=start,
        transition=transition,
        observation=np.broadcast_to(observation, (len(ACTIONS), *observation.shape)),
        reward=reward,
        reset=np.broadcast_to(reset, (len(ACTIONS), 2 * num)),
        other_state=(np.arange(2 * num) + num) % (2 * num),
        other_observation=np.array([*range(num - 1), num, num - 1]),
    )


def draw(n: int, state: int, observation: int) -> NDArray[np.uint8]:
    """The world from above, north up: heaven a green open square, hell a red one, the priest a blue disc."""
    world, cell = divmod(state, num_cells(n))
    heaven, hell = (2 * n, 3 * n) if world == 0 else (3 * n, 2 * n)
    marks = [
        (heaven, drawing.RING, drawing.GREEN),
        (hell, drawing.RING, drawing.RED),
        (num_cells(n) - 1, drawing.DISC, drawing.BLUE),
        (cell, drawing.SPOT, drawing.AGENT),
    ]
    return drawing.draw_map(cells(n), marks)
