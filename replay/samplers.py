"""Draw sequences by priority, and weight them in the loss accordingly.

Prioritised experience replay, Schaul et al., arXiv 1511.05952, with the exponents of R2D2 (Kapturowski et
al., ICLR 2019) as settings. Shape legend: B batch, n sequences, S slots.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from replay.storage import Array, Bools, Floats, Ints
from replay.sum_tree import SumTree, sum_tree_bytes

MIN_PRIORITY = 1e-6


class Draw(NamedTuple):
    """One batch, as slots."""

    slots: Ints
    """[B]"""
    probabilities: Floats
    """[B] P(i) at the time of the draw."""
    importance_weights: npt.NDArray[np.float32]
    """[B] (N P(i))^-beta over its batch maximum."""


def sampler_bytes(num_slots: int) -> int:
    """Bytes of the tree and of the raw priorities."""
    return sum_tree_bytes(num_slots) + 4 * num_slots


class Sampler(Protocol):
    """Which of the sequences that can be sampled are drawn; the buffer knows no more of it than this.

    A slot holds one sequence. `slots` [n] are distinct, free where sequences come and occupied elsewhere.
    """

    num_sequences: int
    max_priority: float
    """Largest priority ever given, 1 at first: what a new sequence starts with."""

    def contains(self, slots: Ints) -> Bools:
        """True where a slot, of any, holds a sampleable sequence."""

    def insert(self, slots: Ints, born: int) -> None:
        """Make new sequences sampleable; `born` timesteps have come by now, which tells their age."""

    def remove(self, slots: Ints) -> None:
        """Take sequences out of the draw."""

    def update(self, slots: Ints, priorities: npt.NDArray[np.float32]) -> None:
        """Give sequences priorities that `checked_priorities` has passed; of equal slots the last counts."""

    def sample(self, batch_size: int, generator: np.random.Generator) -> Draw:
        """Draw sequences, with replacement; a ValueError where there are none."""

    def slots(self) -> Ints:
        """[n] the slots of all sampleable sequences, ascending."""

    def priority_statistics(self) -> dict[str, float]:
        """Least, mean and largest raw priority of the sampleable sequences; zeros where there are none."""

    def get_state(self) -> dict[str, Any]:
        """The sampleable sequences only."""

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Inverse of `get_state`."""


class UniformSampler(Sampler):
    """Every sequence alike; and what samplers with other masses in the tree have in common with this."""

    def __init__(self, num_slots: int) -> None:
        self.num_sequences, self.max_priority = 0, 1.0
        self._tree = SumTree(num_slots)
        self._priorities = np.zeros(num_slots, np.float32)

    def contains(self, slots: Ints) -> Bools:
        return self._tree.leaves[slots] > 0.0

    def insert(self, slots: Ints, born: int) -> None:
        if len(slots):
            self._priorities[slots] = self.max_priority
            self._tree.set(slots, self._first_mass(born))
            self.num_sequences += len(slots)

    def _first_mass(self, born: int) -> float:
        return 1.0

    def remove(self, slots: Ints) -> None:
        if len(slots):
            self._tree.set(slots, 0.0)
            self.num_sequences -= len(slots)

    def update(self, slots: Ints, priorities: npt.NDArray[np.float32]) -> None:
        if len(slots):
            self._priorities[slots] = priorities
            self.max_priority = max(self.max_priority, float(priorities.max()))

    def sample(self, batch_size: int, generator: np.random.Generator) -> Draw:
        """Draw one from each of `batch_size` equal parts of the total mass (PER, appendix B.2.1)."""
        total = self._tree.total
        slots = self._tree.find(_mass(batch_size, generator, total))
        probabilities = self._tree.leaves[slots] / total
        return Draw(slots, probabilities, self._weights(probabilities))

    def _weights(self, probabilities: Floats) -> npt.NDArray[np.float32]:
        return np.ones(len(probabilities), np.float32)

    def priority_statistics(self) -> dict[str, float]:
        known = self._priorities[self.slots()].astype(np.float64) if self.num_sequences else np.zeros(1)
        return {"minimum": float(known.min()), "mean": float(known.mean()), "maximum": float(known.max())}

    def slots(self) -> Ints:
        return np.flatnonzero(self._tree.leaves)

    def get_state(self) -> dict[str, Any]:
        # Leaves as they are: a power need not be the same bit for bit on the machine that resumes.
        slots = self.slots()
        return {
            "slots": slots,
            "leaves": self._tree.leaves[slots],
            "priorities": self._priorities[slots],
            "max_priority": self.max_priority,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        slots: Array = np.asarray(state["slots"])
        self._tree.leaves[:] = 0.0
        self._tree.leaves[slots] = state["leaves"]
        self._tree.rebuild()
        self._priorities[:] = 0.0
        self._priorities[slots] = state["priorities"]
        self.num_sequences = len(slots)
        self.max_priority = float(state["max_priority"])


class ProportionalSampler(UniformSampler):
    """P(i) = p_i^alpha / sum_k p_k^alpha over the slots that hold a sampleable sequence.

    alpha is `priority_exponent`, beta is `importance_sampling_exponent` (0 makes every weight 1).
    """

    def __init__(self, num_slots: int, priority_exponent: float, importance_sampling_exponent: float) -> None:
        super().__init__(num_slots)
        for name, value in (
            ("priority_exponent", priority_exponent),
            ("importance_sampling_exponent", importance_sampling_exponent),
        ):
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"{name} is {value}; it must be in [0, 1]")
        self._alpha, self._beta = float(priority_exponent), float(importance_sampling_exponent)

    def _first_mass(self, born: int) -> float:
        return self.max_priority**self._alpha

    def update(self, slots: Ints, priorities: npt.NDArray[np.float32]) -> None:
        super().update(slots, priorities)
        if len(slots):
            self._tree.set(slots, priorities.astype(np.float64) ** self._alpha)

    def _weights(self, probabilities: Floats) -> npt.NDArray[np.float32]:
        # N cancels in the quotient by the batch's largest; the papers state it like this.
        weights = (self.num_sequences * probabilities) ** -self._beta
        return (weights / weights.max()).astype(np.float32)


def _mass(batch_size: int, generator: np.random.Generator, total: float) -> Floats:
    """[B] one place in each of as many equal parts of the total mass."""
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}; it must be at least 1")
    if not total:
        raise ValueError("sample: no sequence can be sampled yet; append the timesteps of an episode first")
    mass: Floats = (np.arange(batch_size) + generator.random(batch_size)) * (total / batch_size)
    return mass


def checked_priorities(priorities: npt.ArrayLike, num_sequences: int) -> npt.NDArray[np.float32]:
    """Priorities [n] as float32, at least 1e-6; a ValueError where one is not a finite number >= 0."""
    given = np.asarray(priorities)
    if given.shape != (num_sequences,):
        raise ValueError(f"priorities: shape is {given.shape}; it must be {(num_sequences,)}, one an id")
    with np.errstate(over="ignore"):
        checked = given.astype(np.float32)
    wrong = ~((checked >= 0.0) & np.isfinite(checked))
    if wrong.any():
        raise ValueError(f"priorities: {given[wrong][0]} is no priority; it must be finite and at least 0")
    return np.maximum(checked, np.float32(MIN_PRIORITY))
