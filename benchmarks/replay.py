"""Replay: sample + update cycles per second, memory included, beside a plain rival.

    python -m benchmarks replay

One process, one core, no torch. Half a million steps of 32 streams, episodes of geometric length (mean 60),
a float16 state of 2 layers of width 64 with a window of 40 steps; batches of 32 sequences: burn_in 10, learn
40, n_step 3. The rings have gone round before anything is measured. A cycle is `sample(32)` and
`update_priorities` of that batch.

The rival is how replay is often written: a sequence is one item of fixed length with its whole memory inside,
and priorities are in a binary sum tree, vectorised over the batch. It gathers whole items, and keeps no ids.
Both see the same timesteps, and take turns, chunk by chunk; figures are medians over chunks.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.timing import in_turns, median
from replay import Field, ProportionalSampler, SequenceLayout, SequenceReplay, replay_bytes

CAPACITY, NUM_STREAMS, BATCH_SIZE, CHUNKS = 500_000, 32, 32, 9
MEAN_EPISODE = 60
WINDOW = 40
LAYOUT = SequenceLayout(learn_length=40, sequence_period=40, burn_in_length=10, n_step=3)
FIELDS = {
    "observation": Field((6,), np.uint8, "timesteps"),
    "prev_action": Field((), np.uint8, "timesteps"),
    "reward": Field((), np.float32, "timesteps"),
    "discount": Field((), np.uint8, "timesteps"),
    "first": Field((), np.bool_, "timesteps"),
    "last": Field((), np.bool_, "timesteps"),
    "version": Field((), np.int32, "stored"),
    "q_max": Field((), np.float32, "stored"),
    "q_taken": Field((), np.float32, "stored"),
    "state": Field((2, 64), np.float16, "memory", WINDOW),
}
Array = npt.NDArray[Any]


class BinarySumTree:
    """The textbook tree in one array; operations go level by level over the batch."""

    def __init__(self, num_leaves: int) -> None:
        self.depth = max(1, (num_leaves - 1).bit_length())
        self.sums = np.zeros(2 ** (self.depth + 1))

    def set(self, leaves: Array, values: Array) -> None:
        nodes = leaves + 2**self.depth
        self.sums[nodes] = values
        for _ in range(self.depth):
            nodes = nodes // 2
            self.sums[nodes] = self.sums[2 * nodes] + self.sums[2 * nodes + 1]

    def find(self, mass: Array) -> Array:
        nodes = np.ones(len(mass), np.int64)
        for _ in range(self.depth):
            nodes = 2 * nodes
            left = self.sums[nodes]
            right = mass >= left
            mass = mass - np.where(right, left, 0.0)
            nodes = nodes + right
        return nodes - 2**self.depth


class WholeSequenceReplay:
    """The rival: every sequence a copy of its timesteps and of its memory, padded to full length."""

    def __init__(self, num_items: int) -> None:
        self.num_items, self.added, self.max_priority = num_items, 0, 1.0
        learn = LAYOUT.max_learn_timesteps
        lengths = {"timesteps": LAYOUT.burn_in_length + learn, "memory": WINDOW, "stored": learn}
        self.items = {
            name: np.zeros((num_items, lengths[field.block], *field.shape), field.dtype)
            for name, field in FIELDS.items()
        }
        self.counts = np.zeros((num_items, 3), np.int32)  # real steps of memory, burn_in, learn
        self.tree = BinarySumTree(num_items)
        self.episodes: list[list[dict[str, Any]]] = [[] for _ in range(NUM_STREAMS)]

    def append(self, timesteps: Mapping[str, Array]) -> None:
        last = timesteps["last"].tolist()
        for stream, episode in enumerate(self.episodes):
            episode.append({name: values[stream] for name, values in timesteps.items()})
            start = len(episode) - LAYOUT.max_learn_timesteps
            if start >= 0 and start % LAYOUT.sequence_period == 0:
                self.add(episode, start)
            if last[stream]:
                first_pending = max(0, start // LAYOUT.sequence_period + 1) * LAYOUT.sequence_period
                for pending in range(first_pending, len(episode) - 1, LAYOUT.sequence_period):
                    self.add(episode, pending)
                self.episodes[stream] = []

    def add(self, episode: list[dict[str, Any]], start: int) -> None:
        item = self.added % self.num_items
        first = max(0, start - LAYOUT.burn_in_length)
        memory = episode[max(0, first - WINDOW) : first]
        learn = episode[start : start + LAYOUT.max_learn_timesteps]
        blocks = {"timesteps": episode[first:start] + learn, "memory": memory, "stored": learn}
        for name, field in FIELDS.items():
            for i, step in enumerate(blocks[field.block]):
                self.items[name][item, i] = step[name]
        self.counts[item] = len(memory), start - first, len(learn)
        self.tree.set(np.array([item]), np.array([self.max_priority**0.9]))
        self.added += 1

    def sample(self, generator: np.random.Generator) -> tuple[dict[str, Array], Array, Array]:
        total = self.tree.sums[1]
        mass = (np.arange(BATCH_SIZE) + generator.random(BATCH_SIZE)) * (total / BATCH_SIZE)
        items = self.tree.find(mass)
        probabilities = self.tree.sums[items + 2**self.tree.depth] / total
        weights = (min(self.added, self.num_items) * probabilities) ** -0.6
        batch = {name: self.items[name][items] for name, field in FIELDS.items() if field.block != "stored"}
        batch["counts"] = self.counts[items]
        return batch, items, (weights / weights.max()).astype(np.float32)

    def update_priorities(self, items: Array, priorities: Array) -> None:
        self.max_priority = max(self.max_priority, float(priorities.max()))
        self.tree.set(items, np.maximum(priorities, 1e-6) ** 0.9)

    def num_bytes(self) -> int:
        return sum(item.nbytes for item in self.items.values()) + self.counts.nbytes + self.tree.sums.nbytes


class Timesteps:
    """The same timesteps for both; call it for the next one. Only the episodes' ends are drawn anew."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.first = np.ones(NUM_STREAMS, np.bool_)
        self.content = [
            {
                "observation": self.random.integers(0, 12, (NUM_STREAMS, 6)).astype(np.uint8),
                "prev_action": self.random.integers(0, 6, NUM_STREAMS).astype(np.uint8),
                "reward": self.random.standard_normal(NUM_STREAMS, np.float32),
                "discount": np.ones(NUM_STREAMS, np.uint8),
                "version": np.zeros(NUM_STREAMS, np.int32),
                "q_max": self.random.standard_normal(NUM_STREAMS, np.float32),
                "q_taken": self.random.standard_normal(NUM_STREAMS, np.float32),
                "state": self.random.standard_normal((NUM_STREAMS, 2, 64), np.float32),
            }
            for _ in range(64)
        ]

    def __call__(self) -> dict[str, Array]:
        last = (self.random.random(NUM_STREAMS) < 1 / (MEAN_EPISODE - 1)) & ~self.first
        timesteps = self.content[self.random.integers(64)] | {"first": self.first, "last": last}
        self.first = last  # the timestep after a last one is a first one
        return timesteps


def measure(seconds: float = 2.0) -> dict[str, Any]:
    """`{"replay": {...}, "rival": {...}, "ratio": {...}}`; about `seconds` for each of the two rates."""
    sampler = partial(ProportionalSampler, priority_exponent=0.9, importance_sampling_exponent=0.6)
    replay = SequenceReplay(FIELDS, LAYOUT, CAPACITY, NUM_STREAMS, sampler)
    following = Timesteps(seed=1)
    for _ in range(CAPACITY // NUM_STREAMS * 21 // 20):
        replay.append(following())
    rival, following = WholeSequenceReplay(replay.num_sequences), Timesteps(seed=1)
    while rival.added < rival.num_items * 21 // 20:
        rival.append(following())
    generator = np.random.default_rng(2)

    def cycle() -> None:
        _, info = replay.sample(BATCH_SIZE, generator)
        replay.update_priorities(info.ids, generator.exponential(1.0, BATCH_SIZE))

    def rival_cycle() -> None:
        _, items, _ = rival.sample(generator)
        rival.update_priorities(items, generator.exponential(1.0, BATCH_SIZE))

    taken = in_turns({"replay": cycle, "rival": rival_cycle}, seconds, CHUNKS)
    num_bytes = {"replay": replay_bytes(FIELDS, CAPACITY, NUM_STREAMS), "rival": rival.num_bytes()}
    result: dict[str, Any] = {}
    for name, rates in taken.items():
        cycles = median(rates)
        result[name] = {
            "cycles_per_cpu_second": cycles["per_cpu_second"],
            "cycles_per_second": cycles["per_second"],
            "bytes": num_bytes[name],
            "sequences": rival.num_items,
        }
    result["ratio"] = {key: result["replay"][key] / result["rival"][key] for key in result["replay"]}
    return result


def table(result: dict[str, Any]) -> str:
    """The figures of `measure` as text."""
    lines = [f"{'':<34}{'replay':>14}{'rival':>14}{'ratio':>8}"]
    for key, value in result["replay"].items():
        lines.append(f"{key:<34}{value:>14,.0f}{result['rival'][key]:>14,.0f}{result['ratio'][key]:>8.2f}")
    return "\n".join(lines)
