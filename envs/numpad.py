"""Numpad: find a hidden sequence of pads by trying, remember it, and repeat it (Humplik et al. 2019).

The original program was never published. The rules are from Humplik et al., arXiv 1905.06424, and from
Parisotto et al., arXiv 1910.06764, appendix A; the plane, its physics and the forces are this module's own.

Lengths are in distances between neighbouring pads, times in steps; x grows rightward, y downward, and (0, 0)
is the middle of the plane. Pad p of n x n stands in column p % n of row p // n.

Legend: N environments, P = n * n pads, W sequences.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from envs.drawing import AGENT, BLUE, FLOOR, GREEN
from envs.fields import Field, FieldDynamics, require
from envs.task import Native
from envs.vector import Arrays, EnvIds, Flags, Rewards, Rng

SIZES: Final = (2, 3, 4)

# All are sums of powers of two, so that speeds and positions never round past their bounds.
PAD_RADIUS: Final = 0.375
VELOCITY_KEPT: Final = 0.5
PUSH: Final = 0.25
MAX_SPEED: Final = PUSH / (1 - VELOCITY_KEPT)  # what a steady push comes to

_DIAGONAL: Final = PUSH / np.sqrt(2.0)
# Clockwise; every push is equally strong.
ACTION_NAMES: Final = (
    *("no push", "up", "up right", "right", "down right", "down", "down left", "left", "up left"),
)
_X: Final = (0.0, 0.0, _DIAGONAL, PUSH, _DIAGONAL, 0.0, -_DIAGONAL, -PUSH, -_DIAGONAL)
_Y: Final = (0.0, -PUSH, -_DIAGONAL, 0.0, _DIAGONAL, PUSH, _DIAGONAL, 0.0, -_DIAGONAL)
FORCE: Final = np.stack([_X, _Y], axis=1)

PIXELS: Final = 64  # of a picture, per unit of length
_WALL: Final = 84
_PAD: Final = (196, 192, 184)
_NEXT: Final = (232, 140, 40)


def neighbours(size: int) -> NDArray[np.bool_]:
    """Which pads are in each other's Moore neighbourhood, bool [P, P]."""
    row, column = np.divmod(np.arange(size * size), size)
    distance = np.maximum(abs(row[:, None] - row), abs(column[:, None] - column))
    return distance == 1


@functools.lru_cache(maxsize=len(SIZES))
def sequences(size: int) -> NDArray[np.uint8]:
    """Every order of all pads in which each is a neighbour of the one before it, uint8 [W, P], read-only."""
    num_pads, adjacent = size * size, neighbours(size)
    # One first pad after the other, which keeps the unfinished walks of the largest size few.
    found = np.concatenate([_walks_from(first, adjacent) for first in range(num_pads)])
    found.flags.writeable = False
    return found


def _walks_from(first: int, adjacent: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """The sequences that begin at the pad `first`, uint8 [W, P]."""
    num_pads = len(adjacent)
    walks = np.array([[first]], np.uint8)
    unused = np.arange(num_pads)[None] != first
    for _ in range(num_pads - 1):
        walk, pad = (adjacent[walks[:, -1]] & unused).nonzero()
        walks = np.column_stack([walks[walk], pad.astype(np.uint8)])
        unused = unused[walk]
        unused[np.arange(len(walks)), pad] = False
    return walks


class NumpadDynamics(FieldDynamics):
    """`size` x `size` pads. The fields of a state:

    sequence: the pads in the order in which they have to be entered, integers [P].
    position, velocity, acceleration: floats [2] as (x, y); the start at rest unless given.
    lit: how many pads of the sequence are lit, 0 to P - 1; 0 unless given.
    paid: the most that were lit since the sequence was last completed, `lit` to P - 1; `lit` unless given.
    completed: how often the sequence was completed, at least 0; 0 unless given.
    """

    sequence: NDArray[np.uint8]
    position: NDArray[np.float64]
    velocity: NDArray[np.float64]
    acceleration: NDArray[np.float64]
    lit: NDArray[np.int64]
    paid: NDArray[np.int64]
    completed: NDArray[np.int64]
    # These follow: each pad's place in the sequence [N, P], and the pad that is stood on [N].
    _rank: NDArray[np.intp]
    _pad: NDArray[np.intp]

    def __init__(self, size: int) -> None:
        self._size, self._num_pads = size, size * size
        self._edge = size / 2.0
        self._start = np.array([0.0, self._edge])
        # Position, velocity, acceleration, and 1 for each lit pad.
        bound, pads = np.array([size / 2] * 2 + [MAX_SPEED] * 4), np.ones(size * size)
        low, high = np.concatenate([-bound, 0 * pads]), np.concatenate([bound, pads])
        self.observation_space = Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)
        self.action_space = Discrete(len(FORCE))
        self.action_names = ACTION_NAMES
        last = self._num_pads - 1
        self.fields = (
            Field("sequence", (self._num_pads,), np.uint8, 0, last),
            Field("position", (2,), np.float64, -self._edge, self._edge, self._start),
            Field("velocity", (2,), np.float64, -MAX_SPEED, MAX_SPEED, np.zeros(2)),
            Field("acceleration", (2,), np.float64, -MAX_SPEED, MAX_SPEED, np.zeros(2)),
            Field("lit", (), np.int64, 0, last, 0),
            Field("paid", (), np.int64, 0, last, 0),
            Field("completed", (), np.int64, 0, np.iinfo(np.int32).max, 0),
        )

    def restart(self, env_ids: EnvIds, rng: Rng) -> None:
        every = sequences(self._size)
        self.sequence[env_ids] = every[rng.integers(len(every), size=len(env_ids))]
        self._rank[env_ids] = self.sequence[env_ids].argsort(axis=1)
        self.position[env_ids] = self._start
        self.velocity[env_ids] = 0.0
        self.acceleration[env_ids] = 0.0
        self._pad[env_ids] = self._pad_at(self.position[env_ids])
        for count in (self.lit, self.paid, self.completed):
            count[env_ids] = 0

    def _pad_at(self, position: NDArray[np.float64]) -> NDArray[np.intp]:
        """The pad that a position [N, 2] is on, [N]; -1 for none. Pads do not touch each other."""
        cell = np.floor(position + self._edge).clip(0, self._size - 1)
        offset = position - (cell + (0.5 - self._edge))
        offset *= offset
        pad = (cell[:, 1] * self._size + cell[:, 0]).astype(np.intp)
        pad[offset[:, 0] + offset[:, 1] > PAD_RADIUS * PAD_RADIUS] = -1
        return pad

    def step(self, action: NDArray[Any], rng: Rng) -> tuple[Rewards, Flags]:
        velocity = self.velocity * VELOCITY_KEPT
        velocity += FORCE.take(action, axis=0)
        position = self.position + velocity
        beyond = abs(position) > self._edge
        position.clip(-self._edge, self._edge, out=position)
        velocity[beyond] = 0.0
        self.acceleration = velocity - self.velocity
        self.position, self.velocity = position, velocity

        pad = self._pad_at(position)
        entered = (pad != self._pad) & (pad >= 0)
        self._pad = pad
        correct = entered & (self._rank[self.env_ids, pad] == self.lit)
        self.lit += correct
        self.lit[entered & ~correct] = 0
        paid = self.lit > self.paid
        self.paid += paid
        complete = self.lit == self._num_pads
        self.completed += complete
        self.lit[complete] = 0
        self.paid[complete] = 0
        return paid.astype(np.float64), np.zeros(len(pad), np.bool_)

    def observe(self, rng: Rng) -> NDArray[np.float32]:
        observation = np.empty((len(self.lit), 6 + self._num_pads), np.float32)
        observation[:, 0:2] = self.position
        observation[:, 2:4] = self.velocity
        observation[:, 4:6] = self.acceleration
        observation[:, 6:] = self._rank < self.lit[:, None]
        return observation

    def put(self, state: Arrays) -> None:
        super().put(state)
        self._rank = self.sequence.argsort(axis=1)
        self._pad = self._pad_at(self.position)

    def read(self, state: Mapping[str, Any], num: int) -> Arrays:
        return super().read({"paid": state.get("lit", 0), **state}, num)

    def check(self, state: Arrays) -> None:
        sequence = state["sequence"]
        follows = neighbours(self._size)[sequence[:, :-1], sequence[:, 1:]].all(axis=1)
        wrong = (np.sort(sequence, axis=1) != np.arange(self._num_pads)).any(axis=1) | ~follows
        if wrong.any():
            raise ValueError(
                f"state 'sequence' holds {sequence[wrong][0].tolist()}; it must hold each pad from 0 to"
                f" {self._num_pads - 1} once, each a neighbour of the one before it"
            )
        require("paid", state["paid"], state["paid"] >= state["lit"], "at least 'lit'")

    def success(self, reward: Rewards, episode_return: Rewards, terminated: Flags) -> Flags:
        """The sequence was completed at least once."""
        return self.completed > 0

    def picture(self, env_id: int) -> NDArray[np.uint8]:
        """Lit pads are green and the next one has an orange ring. The line, which fades towards the end of
        the sequence, is what the agent cannot see. The agent is the dark disc, its velocity the stroke."""
        side = np.arange(-self._edge + 0.5 / PIXELS, self._edge, 1 / PIXELS)
        x, y = np.meshgrid(side, side)
        picture = np.full((*x.shape, 3), FLOOR, np.uint8)
        order = self.sequence[env_id].astype(np.intp)
        centre = np.stack([order % self._size, order // self._size], axis=1) + (0.5 - self._edge)
        lit = int(self.lit[env_id])
        for place, (pad_x, pad_y) in enumerate(centre):
            distance = np.hypot(x - pad_x, y - pad_y)
            picture[distance <= PAD_RADIUS] = GREEN if place < lit else _PAD
            if place == lit:
                picture[(distance <= PAD_RADIUS) & (distance > PAD_RADIUS - 0.06)] = _NEXT
        for place in range(self._num_pads - 2, -1, -1):
            fade = place / self._num_pads
            colour = (1 - fade) * np.array(BLUE) + fade * np.array(FLOOR)
            picture[_to_segment(x, y, centre[place], centre[place + 1]) < 0.03] = colour.astype(np.uint8)
        agent = self.position[env_id]
        picture[_to_segment(x, y, agent, agent + self.velocity[env_id]) < 0.03] = AGENT
        picture[np.hypot(x - agent[0], y - agent[1]) < 0.11] = AGENT
        return np.pad(picture, ((6, 6), (6, 6), (0, 0)), constant_values=_WALL)


def _to_segment(
    x: NDArray[np.float64], y: NDArray[np.float64], begin: NDArray[np.float64], end: NDArray[np.float64]
) -> NDArray[np.float64]:
    """How far the points (x, y) are from the segment between two points [2]."""
    (along_x, along_y), (from_x, from_y) = end - begin, (x - begin[0], y - begin[1])
    length = along_x**2 + along_y**2
    part = ((from_x * along_x + from_y * along_y) / length).clip(0, 1) if length else 0.0
    distance: NDArray[np.float64] = np.hypot(from_x - part * along_x, from_y - part * along_y)
    return distance


_SIZE_BY_ID: Final = {f"numpad-{size}x{size}": size for size in SIZES}


def find(id: str) -> Native | None:
    if id not in _SIZE_BY_ID:
        return None
    return functools.partial(NumpadDynamics, _SIZE_BY_ID[id]), {
        "description": "Find the hidden sequence of all pads by trying, and repeat it while there is time.",
        "time_limit": 500,
        "success": "the sequence was completed at least once",
        "source": "Humplik et al. (arXiv 1905.06424), GTrXL (arXiv 1910.06764)",
    }
