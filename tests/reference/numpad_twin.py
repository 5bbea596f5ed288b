"""Numpad once more: one environment, plain Python, one rule after the other."""

from __future__ import annotations

import math


class NumpadTwin:
    """One episode of `size` x `size` pads with a given sequence."""

    def __init__(self, size: int, sequence: list[int]) -> None:
        self.size = size
        self.sequence = sequence
        self.x, self.y = 0.0, size / 2
        self.velocity_x = self.velocity_y = 0.0
        self.acceleration_x = self.acceleration_y = 0.0
        self.lit: list[int] = []
        self.paid: set[int] = set()
        self.completed = 0

    def pad_under(self) -> int | None:
        for pad in range(self.size * self.size):
            centre_x = pad % self.size - (self.size - 1) / 2
            centre_y = pad // self.size - (self.size - 1) / 2
            if (self.x - centre_x) ** 2 + (self.y - centre_y) ** 2 <= 0.375**2:
                return pad
        return None

    def step(self, action: int) -> float:
        """The reward of one step."""
        push = 0.25
        slant = 0.25 / math.sqrt(2)
        force_x, force_y = {
            0: (0.0, 0.0),
            1: (0.0, -push),
            2: (slant, -slant),
            3: (push, 0.0),
            4: (slant, slant),
            5: (0.0, push),
            6: (-slant, slant),
            7: (-push, 0.0),
            8: (-slant, -slant),
        }[action]
        before = self.pad_under()
        self.x, velocity_x = self._moved(self.x, 0.5 * self.velocity_x + force_x)
        self.y, velocity_y = self._moved(self.y, 0.5 * self.velocity_y + force_y)
        self.acceleration_x = velocity_x - self.velocity_x
        self.acceleration_y = velocity_y - self.velocity_y
        self.velocity_x, self.velocity_y = velocity_x, velocity_y
        pad = self.pad_under()
        if pad is None or pad == before:
            return 0.0
        return self._enter(pad)

    def _moved(self, place: float, velocity: float) -> tuple[float, float]:
        """A coordinate and its speed after a step; a wall stops it."""
        place += velocity
        if place > self.size / 2:
            return self.size / 2, 0.0
        if place < -self.size / 2:
            return -self.size / 2, 0.0
        return place, velocity

    def _enter(self, pad: int) -> float:
        if pad != self.sequence[len(self.lit)]:
            self.lit = []
            return 0.0
        self.lit.append(pad)
        reward = 0.0 if pad in self.paid else 1.0
        self.paid.add(pad)
        if self.lit == self.sequence:
            self.lit, self.paid = [], set()
            self.completed += 1
        return reward

    def observation(self) -> list[float]:
        pads = [1.0 if pad in self.lit else 0.0 for pad in range(self.size * self.size)]
        motion = [self.velocity_x, self.velocity_y, self.acceleration_x, self.acceleration_y]
        return [self.x, self.y, *motion, *pads]


def count_sequences(size: int, first: int) -> int:
    """How many orders of all pads from `first` on go from neighbour to neighbour, by depth-first search."""
    beside = {
        pad: [
            other
            for other in range(size * size)
            if other != pad and abs(pad % size - other % size) <= 1 and abs(pad // size - other // size) <= 1
        ]
        for pad in range(size * size)
    }

    def count(pad: int, left: frozenset[int]) -> int:
        if not left:
            return 1
        return sum(count(other, left - {other}) for other in beside[pad] if other in left)

    return count(first, frozenset(range(size * size)) - {first})
