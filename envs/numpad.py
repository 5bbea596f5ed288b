"""Numpad: find a hidden sequence of pads by trying, remember it, and repeat it (Humplik et al. 2019).

The original's program was never published. The rules are those of Humplik et al., arXiv 1905.06424, and of
Parisotto et al., arXiv 1910.06764, appendix A; the plane, its physics and the forces are this module's own.

Lengths are in distances between neighbouring pads, times in steps; x grows rightward, y downward, and (0, 0)
is the middle of the plane. Pad p of n x n stands in column p % n of row p // n.

Legend: N copies, P = n * n pads, W sequences.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from envs.drawing import AGENT, BLUE, FLOOR, GREEN
from envs.options import TaskOptions
from envs.task import Task, TaskSpec, native_task
from envs.vector import Arrays, Dynamics, check_fields, read_field

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
FORCE: Final = np.array(
    [
        (0.0, 0.0),
        (0.0, -PUSH),
        (_DIAGONAL, -_DIAGONAL),
        (PUSH, 0.0),
        (_DIAGONAL, _DIAGONAL),
        (0.0, PUSH),
        (-_DIAGONAL, _DIAGONAL),
        (-PUSH, 0.0),
        (-_DIAGONAL, -_DIAGONAL),
    ]
)


PIXELS: Final = 64  # of a picture, per unit of length
_WALL: Final = 84
_PAD: Final = (196, 192, 184)
_LIT: Final = GREEN
_NEXT: Final = (232, 140, 40)
_LINE: Final = BLUE


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


class NumpadDynamics(Dynamics):
    """`size` x `size` pads. The fields of a state:

    sequence: the pads in the order in which they have to be entered, integers [P].
    position, velocity, acceleration: floats [2] as (x, y); the start at rest unless given.
    lit: how many pads of the sequence are lit, 0 to P - 1; 0 unless given.
    paid: the most that were lit since the sequence was last completed, `lit` to P - 1; `lit` unless given.
    completed: how often the sequence was completed, at least 0; 0 unless given.
    """

    _sequence: NDArray[np.uint8]
    _position: NDArray[np.float64]
    _velocity: NDArray[np.float64]
    _acceleration: NDArray[np.float64]
    _lit: NDArray[np.int64]
    _paid: NDArray[np.int64]
    _completed: NDArray[np.int64]
    # These follow: each pad's place in the sequence [N, P], and the pad that is stood on [N].
    _rank: NDArray[np.intp]
    _pad: NDArray[np.intp]
    _copies: NDArray[np.intp]

    def __init__(self, size: int) -> None:
        self._size, self._num_pads = size, size * size
        self._edge = size / 2.0
        self._start = np.array([0.0, self._edge])
        self.observation_space = observation_space(size)
        self.action_space = Discrete(len(FORCE))

    def start(self, num: int, rng: np.random.Generator) -> None:
        self.put(
            {
                "sequence": self._draw(num, rng),
                "position": np.tile(self._start, (num, 1)),
                "velocity": np.zeros((num, 2)),
                "acceleration": np.zeros((num, 2)),
                **{name: np.zeros(num, np.int64) for name in ("lit", "paid", "completed")},
            }
        )

    def restart(self, rows: NDArray[np.intp], rng: np.random.Generator) -> None:
        self._sequence[rows] = self._draw(len(rows), rng)
        self._rank[rows] = self._sequence[rows].argsort(axis=1)
        self._position[rows] = self._start
        self._velocity[rows] = 0.0
        self._acceleration[rows] = 0.0
        self._pad[rows] = self._pad_at(self._position[rows])
        for count in (self._lit, self._paid, self._completed):
            count[rows] = 0

    def _draw(self, num: int, rng: np.random.Generator) -> NDArray[np.uint8]:
        every = sequences(self._size)
        return every[rng.integers(len(every), size=num)]

    def _pad_at(self, position: NDArray[np.float64]) -> NDArray[np.intp]:
        """The pad that a position [N, 2] is on, [N]; -1 for none. Pads do not touch each other."""
        cell = np.floor(position + self._edge).clip(0, self._size - 1)
        offset = position - (cell + (0.5 - self._edge))
        offset *= offset
        pad = (cell[:, 1] * self._size + cell[:, 0]).astype(np.intp)
        pad[offset[:, 0] + offset[:, 1] > PAD_RADIUS * PAD_RADIUS] = -1
        return pad

    def step(
        self, action: NDArray[Any], rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        velocity = self._velocity * VELOCITY_KEPT
        velocity += FORCE.take(action, axis=0)
        position = self._position + velocity
        beyond = abs(position) > self._edge
        position.clip(-self._edge, self._edge, out=position)
        velocity[beyond] = 0.0
        self._acceleration = velocity - self._velocity
        self._position, self._velocity = position, velocity

        pad = self._pad_at(position)
        entered = (pad != self._pad) & (pad >= 0)
        self._pad = pad
        correct = entered & (self._rank[self._copies, pad] == self._lit)
        self._lit += correct
        self._lit[entered & ~correct] = 0
        paid = self._lit > self._paid
        self._paid += paid
        complete = self._lit == self._num_pads
        self._completed += complete
        self._lit[complete] = 0
        self._paid[complete] = 0
        return paid.astype(np.float64), np.zeros(len(pad), np.bool_)

    def observe(self, rng: np.random.Generator) -> NDArray[np.float32]:
        observation = np.empty((len(self._lit), 6 + self._num_pads), np.float32)
        observation[:, 0:2] = self._position
        observation[:, 2:4] = self._velocity
        observation[:, 4:6] = self._acceleration
        observation[:, 6:] = self._rank < self._lit[:, None]
        return observation

    def get(self) -> Arrays:
        return {
            "sequence": self._sequence.copy(),
            "position": self._position.copy(),
            "velocity": self._velocity.copy(),
            "acceleration": self._acceleration.copy(),
            "lit": self._lit.copy(),
            "paid": self._paid.copy(),
            "completed": self._completed.copy(),
        }

    def put(self, state: Arrays) -> None:
        state = {name: value.copy() for name, value in state.items()}
        self._sequence = state["sequence"]
        self._position, self._velocity = state["position"], state["velocity"]
        self._acceleration = state["acceleration"]
        self._lit, self._paid, self._completed = state["lit"], state["paid"], state["completed"]
        self._rank = self._sequence.argsort(axis=1)
        self._pad = self._pad_at(self._position)
        self._copies = np.arange(len(self._lit))

    def read(self, state: Mapping[str, Any], num: int) -> Arrays:
        check_fields(
            state, ("sequence",), ("position", "velocity", "acceleration", "lit", "paid", "completed")
        )
        last = self._num_pads - 1

        def floats(name: str, default: Any, bound: float) -> NDArray[Any]:
            return read_field(name, state.get(name, default), (2,), num, np.float64, -bound, bound)

        def count(name: str, default: Any, high: int) -> NDArray[Any]:
            return read_field(name, state.get(name, default), (), num, np.int64, 0, high)

        sequence = read_field("sequence", state["sequence"], (self._num_pads,), num, np.uint8, 0, last)
        follows = neighbours(self._size)[sequence[:, :-1], sequence[:, 1:]].all(axis=1)
        wrong = (np.sort(sequence, axis=1) != np.arange(self._num_pads)).any(axis=1) | ~follows
        if wrong.any():
            raise ValueError(
                f"state 'sequence' holds {sequence[wrong][0].tolist()}; it must hold each pad from 0 to"
                f" {last} once, each a neighbour of the one before it"
            )
        lit = count("lit", 0, last)
        paid = count("paid", lit, last)
        if (paid < lit).any():
            raise ValueError(f"state 'paid' holds {paid[paid < lit][0]}; it must be at least 'lit'")
        return {
            "sequence": sequence,
            "position": floats("position", self._start, self._edge),
            "velocity": floats("velocity", 0.0 * self._start, MAX_SPEED),
            "acceleration": floats("acceleration", 0.0 * self._start, MAX_SPEED),
            "lit": lit,
            "paid": paid,
            "completed": count("completed", 0, np.iinfo(np.int32).max),
        }

    def success(
        self, reward: NDArray[np.float64], episode_return: NDArray[np.float64], terminated: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """The sequence was completed at least once."""
        return self._completed > 0

    def picture(self, copy: int) -> NDArray[np.uint8]:
        """Lit pads are green and the next one has an orange ring. The line, which fades towards the end of
        the sequence, is what the agent cannot see. The agent is the dark disc, its velocity the stroke."""
        side = np.arange(-self._edge + 0.5 / PIXELS, self._edge, 1 / PIXELS)
        x, y = np.meshgrid(side, side)
        picture = np.empty((*x.shape, 3), np.uint8)
        picture[:] = FLOOR
        order = self._sequence[copy].astype(np.intp)
        centre = np.stack([order % self._size, order // self._size], axis=1) + (0.5 - self._edge)
        lit = int(self._lit[copy])
        for place, (pad_x, pad_y) in enumerate(centre):
            distance = np.hypot(x - pad_x, y - pad_y)
            picture[distance <= PAD_RADIUS] = _LIT if place < lit else _PAD
            if place == lit:
                picture[(distance <= PAD_RADIUS) & (distance > PAD_RADIUS - 0.06)] = _NEXT
        for place in range(self._num_pads - 2, -1, -1):
            fade = place / self._num_pads
            colour = (1 - fade) * np.array(_LINE) + fade * np.array(FLOOR)
            picture[_to_segment(x, y, centre[place], centre[place + 1]) < 0.03] = colour.astype(np.uint8)
        agent = self._position[copy]
        picture[_to_segment(x, y, agent, agent + self._velocity[copy]) < 0.03] = AGENT
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


def observation_space(size: int) -> Box:
    """The space of one copy's observation: position, velocity, acceleration, and 1 for each lit pad."""
    bound = np.array([size / 2] * 2 + [MAX_SPEED] * 4, np.float32)
    pads = np.ones(size * size, np.float32)
    return Box(np.concatenate([-bound, 0 * pads]), np.concatenate([bound, pads]), dtype=np.float32)


def _task(size: int, options: TaskOptions) -> Task:
    spec = TaskSpec(
        id=f"numpad-{size}x{size}",
        description="Find the hidden sequence of all pads by trying, and repeat it while there is time.",
        observation_space=observation_space(size),
        action_space=Discrete(len(FORCE)),
        time_limit=500,
        success="the sequence was completed at least once",
        best_return=None,
        source="Humplik et al. (arXiv 1905.06424), GTrXL (arXiv 1910.06764)",
        action_names=ACTION_NAMES,
    )
    return native_task(spec, functools.partial(NumpadDynamics, size), options)


_SIZE_BY_ID: Final = {f"numpad-{size}x{size}": size for size in SIZES}


def find(id: str, options: TaskOptions) -> Task | None:
    return _task(_SIZE_BY_ID[id], options) if id in _SIZE_BY_ID else None
