"""Battleship: sink ships that nobody sees, by remembering which shots hit.

The rules are POBAX's (Tao et al., RLC 2025): an observation tells whether the last shot hit and which
cells are still to be shot at. There, agents choose among these alone; here a second shot at a cell is a step
that does nothing.

Legend: N environments, S cells a side.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from envs.drawing import AGENT, FLOOR, LINE, RED, TILE, joined
from envs.fields import Field, FieldDynamics, require
from envs.task import Native, match_name
from envs.vector import Arrays, EnvIds, Flags, Rewards, Rng

SHIPS: Final = (5, 4, 3, 2)
SUNK: Final = 100.0
"""The reward of the last hit; each step before it costs 1."""
TIME_LIMIT: Final = 1000


def placed(fleets: int, size: int, rng: Rng) -> NDArray[np.bool_]:
    """The cells [fleets, S, S] of the ships, placed one after the other, the longest first.

    A ship lies across or down by a fair coin, and then at any of the places where it crosses no other.
    """
    board = np.zeros((fleets, size, size), bool)
    for length in SHIPS:
        down = rng.random(fleets) < 0.5
        turned = np.where(down[:, None, None], board.swapaxes(1, 2), board)
        taken = np.lib.stride_tricks.sliding_window_view(turned, length, axis=2).any(axis=3)
        # The free place with the largest number is any of them.
        draw = np.where(taken, -1.0, rng.random(taken.shape)).reshape(fleets, -1).argmax(axis=1)
        row, column = np.divmod(draw, taken.shape[2])
        turned[np.arange(fleets)[:, None], row[:, None], column[:, None] + np.arange(length)] = True
        board = np.where(down[:, None, None], turned.swapaxes(1, 2), turned)
    return board


class BattleshipDynamics(FieldDynamics):
    """A board of `size` x `size` cells. The fields of a state:

    ships: [S S] bool, the cells with a ship, row by row.
    shot: [S S] bool, the cells that were shot at; none unless given.
    hit: whether the last shot hit a ship, for the first time; False unless given.
    """

    ships: NDArray[np.bool_]
    shot: NDArray[np.bool_]
    hit: NDArray[np.bool_]

    def __init__(self, size: int) -> None:
        self._size, cells = size, size * size
        self.observation_space = Box(0, 1, (1 + cells,), np.float32)
        self.action_space = Discrete(cells)
        self.action_names = tuple(f"row {cell // size}, column {cell % size}" for cell in range(cells))
        self.fields = (
            Field("ships", (cells,), np.bool_, 0, 1),
            Field("shot", (cells,), np.bool_, 0, 1, np.zeros(cells, np.bool_)),
            Field("hit", (), np.bool_, 0, 1, np.zeros((), np.bool_)),
        )

    def restart(self, env_ids: EnvIds, rng: Rng) -> None:
        self.ships[env_ids] = placed(len(env_ids), self._size, rng).reshape(len(env_ids), -1)
        self.shot[env_ids], self.hit[env_ids] = False, False

    def step(self, action: NDArray[Any], rng: Rng) -> tuple[Rewards, Flags]:
        cell = np.arange(len(action)), action
        self.hit = self.ships[cell] & ~self.shot[cell]
        self.shot[cell] = True
        sunk = self.hit & ~(self.ships & ~self.shot).any(axis=1)
        return np.where(sunk, SUNK, -1.0), sunk

    def observe(self, rng: Rng) -> NDArray[np.float32]:
        return np.concatenate([self.hit[:, None], ~self.shot], axis=1, dtype=np.float32)

    def check(self, state: Arrays) -> None:
        afloat = np.count_nonzero(state["ships"] & ~state["shot"], axis=1)
        require("ships", afloat, afloat > 0, "not all sunk")

    def picture(self, env_id: int) -> NDArray[np.uint8]:
        """Ships are grey, and red where they were hit; a dark mark is a shot into the water."""
        size = self._size
        tiles = np.full((size, size, TILE, TILE, 3), FLOOR, np.uint8)
        tiles[:, :, 0], tiles[:, :, :, 0] = LINE, LINE
        ships, shot = (x[env_id].reshape(size, size) for x in (self.ships, self.shot))
        for row, column in np.argwhere(ships | shot).tolist():
            colour = LINE if not shot[row, column] else RED if ships[row, column] else AGENT
            margin = 10 if colour is AGENT else 4
            tiles[row, column, margin:-margin, margin:-margin] = colour
        return joined(tiles)


def find(id: str) -> Native:
    """The published size, or another."""
    right = "battleship-<size>, with 6 to 39 cells a side"
    name = match_name(id, r"battleship-([6-9]|[1-3]\d)", right)
    size = int(name[1])
    return functools.partial(BattleshipDynamics, size), {
        "description": f"Sink four unseen ships on {size} x {size} cells, remembering which shots hit.",
        "time_limit": TIME_LIMIT,
        "source": "POBAX (Tao et al., RLC 2025)",
    }
