"""RockSample: noisy checks from far tell which rocks are good (Smith and Simmons 2004, arXiv 1207.4166).

The rules are POBAX's (Tao et al., RLC 2025): the map is fixed, an episode starts at any cell left of
the exit's column, and nothing but the reward tells that a rock was sampled.

Legend: N environments, S cells a side, K rocks; a cell is (row, column), and the last column is the exit.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Final

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from envs.drawing import AGENT, FLOOR, GREEN, LINE, RED, TILE, VIEW, joined
from envs.fields import Field, FieldDynamics, require
from envs.task import Native
from envs.vector import Arrays, EnvIds, Flags, Rewards, Rng

SAMPLE: Final = 4
REWARD: Final = 10.0
"""Of a good rock and of the exit; a bad rock costs as much."""
HALF_EFFICIENCY_DISTANCE: Final = 20.0
TIME_LIMIT: Final = 1000
MAX_SIZE, MAX_MAP = 99, 999_999
_MOVES: Final = np.array([(-1, 0), (0, 1), (1, 0), (0, -1), (0, 0)])
"""Rows and columns of the actions north, east, south, west, and of all others."""


def rocks_of(size: int, rocks: int, map: int) -> NDArray[np.int64]:
    """The cells [K, 2] of a map's rocks, all different, none of them in the exit's column."""
    places = np.random.default_rng([size, rocks, map]).choice(size * (size - 1), rocks, replace=False)
    return np.stack(np.divmod(places, size - 1), axis=1)


def accuracy(distance: NDArray[np.float64]) -> NDArray[np.float64]:
    """The probability that a check from this Euclidean distance is right: 1 at the rock, 1/2 far away."""
    result: NDArray[np.float64] = (1 + 2.0 ** (-distance / HALF_EFFICIENCY_DISTANCE)) / 2
    return result


class RockSampleDynamics(FieldDynamics):
    """A map of `size` x `size` cells with `rocks` [K, 2]. The fields of a state:

    position: [2], the agent's cell; the exit's column only where an episode has ended.
    good: [K] bool, the rocks that are good; a good rock that was sampled is bad.
    reading: [K], +1 or -1 for a rock that was just checked and sounded good or bad; 0 unless given.
    """

    position: NDArray[np.int64]
    good: NDArray[np.bool_]
    reading: NDArray[np.int8]

    def __init__(self, size: int, rocks: NDArray[np.int64]) -> None:
        self._size, self._rocks, count = size, rocks, len(rocks)
        self.observation_space = Box(-1, 1, (2 * size + count,), np.float32)
        self.action_space = Discrete(5 + count)
        checks = (f"check {rock}" for rock in range(count))
        self.action_names = ("north", "east", "south", "west", "sample", *checks)
        self._rock_at = np.full((size, size), -1)
        self._rock_at[tuple(rocks.T)] = np.arange(count)
        cells = np.stack(np.meshgrid(np.arange(size), np.arange(size), indexing="ij"), axis=-1)
        self._accuracy = accuracy(np.linalg.norm(cells[:, :, None] - rocks, axis=-1))
        self._one_hot = np.eye(size, dtype=np.float32)
        self.fields = (
            Field("position", (2,), np.int64, 0, size - 1),
            Field("good", (count,), np.bool_, 0, 1),
            Field("reading", (count,), np.int8, -1, 1, np.zeros(count, np.int8)),
        )

    def restart(self, env_ids: EnvIds, rng: Rng) -> None:
        self.position[env_ids] = rng.integers((self._size, self._size - 1), size=(len(env_ids), 2))
        self.good[env_ids] = rng.integers(2, size=(len(env_ids), len(self._rocks)))
        self.reading[env_ids] = 0

    def step(self, action: NDArray[Any], rng: Rng) -> tuple[Rewards, Flags]:
        reward = self._sample(action == SAMPLE)
        moves = _MOVES.take(np.minimum(action, SAMPLE), axis=0)
        self.position = (self.position + moves).clip(0, self._size - 1)
        left = self.position[:, 1] == self._size - 1
        self._check(action, rng)
        return reward + REWARD * left, left

    def _sample(self, samples: Flags) -> Rewards:
        """Take the rock that the agent stands on, if there is one, where it samples."""
        reward = np.zeros(len(samples))
        rock = self._rock_at[tuple(self.position.T)]
        env_ids = (samples & (rock >= 0)).nonzero()[0]
        taken = env_ids, rock[env_ids]
        reward[env_ids] = np.where(self.good[taken], REWARD, -REWARD)
        self.good[taken] = False
        return reward

    def _check(self, action: NDArray[Any], rng: Rng) -> None:
        """A reading of the rock that is checked; all environments draw a number, whatever they do."""
        self.reading = np.zeros_like(self.reading)
        draw = rng.random(len(action))
        env_ids = (action > SAMPLE).nonzero()[0]
        checked = env_ids, action[env_ids] - SAMPLE - 1
        right = draw[env_ids] < self._accuracy[(*self.position[env_ids].T, checked[1])]
        self.reading[checked] = np.where(right == self.good[checked], 1, -1)

    def observe(self, rng: Rng) -> NDArray[np.float32]:
        row, column = self.position.T
        parts = [self._one_hot[row], self._one_hot[column], self.reading]
        return np.concatenate(parts, axis=1, dtype=np.float32)

    def check(self, state: Arrays) -> None:
        readings = np.count_nonzero(state["reading"], axis=1)
        require("reading", readings, readings <= 1, "of one rock at most")

    def picture(self, env_id: int) -> NDArray[np.uint8]:
        """The map; good rocks are green, bad ones red, a rock that was just checked has a yellow frame."""
        size = self._size
        tiles = np.full((size, size, TILE, TILE, 3), FLOOR, np.uint8)
        tiles[:, -1] = VIEW
        tiles[:, :, 0], tiles[:, :, :, 0] = LINE, LINE
        for rock, (row, column) in enumerate(self._rocks.tolist()):
            frame = VIEW if self.reading[env_id, rock] else LINE
            tiles[row, column, 6:-6, 6:-6] = frame
            tiles[row, column, 9:-9, 9:-9] = GREEN if self.good[env_id, rock] else RED
        row, column = self.position[env_id].tolist()
        tiles[row, column, 12:-12, 12:-12] = AGENT
        return joined(tiles)


def find(id: str) -> Native:
    """A published map size, or any other, on its map number 0 or another."""
    name = re.fullmatch(r"rocksample-([1-9]\d?)-([1-9]\d{0,3})(?:-map-(0|[1-9]\d{0,5}))?", id, re.ASCII)
    size, count, map = (int(number or 0) for number in name.groups()) if name else (0, 0, 0)
    if size < 2 or count > size * (size - 1):
        raise ValueError(
            f"unknown task {id!r}; it must be rocksample-<size>-<rocks> or rocksample-<size>-<rocks>-map-<n>,"
            f" with 2 to {MAX_SIZE} cells a side, rocks that fit left of the exit, a map from 0 to {MAX_MAP}"
        )
    return functools.partial(RockSampleDynamics, size, rocks_of(size, count, map)), {
        "description": (
            f"Take good rocks and leave bad ones among {count} on {size} x {size} cells, by checks that are "
            f"the noisier the farther, then leave to the east (map {map})."
        ),
        "time_limit": TIME_LIMIT,
        "source": "POBAX (Tao et al., RLC 2025)",
    }
