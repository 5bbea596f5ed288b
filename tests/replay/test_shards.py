"""Shards of one replay against the one replay: draws, weights, statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from replay import Shard
from replay.samplers import Draw, ProportionalSampler
from tests.ranks import InThread, side_by_side

SLOTS = 2000
"""Slots of each shard."""


def shards_and_whole(sizes: list[int], seed: int) -> tuple[list[ProportionalSampler], ProportionalSampler]:
    """Shards with so many sequences each, and one sampler with the leaves of all."""
    generator = np.random.default_rng(seed)
    whole = ProportionalSampler(SLOTS * len(sizes), 0.9, 0.6)
    shards = []
    for rank, size in enumerate(sizes):
        slots = generator.choice(SLOTS, size, replace=False)
        priorities = generator.exponential(size=size).astype(np.float32) + np.float32(0.01)
        shards.append(ProportionalSampler(SLOTS, 0.9, 0.6))
        for sampler, places in ((shards[-1], slots), (whole, slots + rank * SLOTS)):
            sampler.insert(places)
            sampler.update(places, priorities)
    return shards, whole


def joint(shards: list[Any], batch_size: int, seeds: range) -> list[tuple[Draw, ...]]:
    """For each seed the draws of all shards."""

    def work(exchange: InThread) -> list[Draw]:
        shard = shards[exchange.rank]
        return [shard.sample_shard(batch_size, np.random.default_rng(seed), exchange) for seed in seeds]

    return list(zip(*side_by_side(len(shards), work), strict=True))


@pytest.mark.parametrize("sizes", [[40, 40], [1, 90, 7], [30, 0, 5], [0, 3]], ids=str)
@pytest.mark.parametrize("batch_size", [1, 8])
def test_a_joint_draw_is_that_of_one_replay(sizes: list[int], batch_size: int) -> None:
    """Member by member, with their probabilities and weights."""
    shards, whole = shards_and_whole(sizes, seed=batch_size)
    for seed, draws in enumerate(joint(shards, batch_size, range(40))):
        expected = whole.sample(batch_size, np.random.default_rng(seed))
        slots = np.concatenate([draw.slots + rank * SLOTS for rank, draw in enumerate(draws)])
        np.testing.assert_array_equal(slots, expected.slots)
        for name in ("probabilities", "importance_weights"):
            found = np.concatenate([getattr(draw, name) for draw in draws])
            np.testing.assert_allclose(found, getattr(expected, name), rtol=1e-6)


def test_weights_by_hand() -> None:
    """p = 1 here and 3 there, alpha 1, beta 0.5: N = 2, P = 1/4, 3/4; (N P)^-0.5 = sqrt(2), sqrt(2/3)."""
    shards = [ProportionalSampler(10, 1.0, 0.5) for _ in range(2)]
    for shard, priority in zip(shards, (1.0, 3.0), strict=True):
        shard.insert(np.array([4]))
        shard.update(np.array([4]), np.array([priority], np.float32))
    (draws,) = joint(shards, 4, range(1))
    assert [draw.slots.tolist() for draw in draws] == [[4], [4, 4, 4]]
    assert [draw.probabilities.tolist() for draw in draws] == [[0.25], [0.75] * 3]
    np.testing.assert_allclose(draws[0].importance_weights, [1.0])
    np.testing.assert_allclose(draws[1].importance_weights, [0.57735] * 3, rtol=1e-5)


class Replay:
    """As much of a replay as statistics need."""

    def __init__(self, *priorities: float) -> None:
        self.num_sequences = len(priorities)
        self._priorities = priorities or (0.0,)

    def priority_statistics(self) -> dict[str, float]:
        given = self._priorities
        return {"minimum": min(given), "mean": sum(given) / len(given), "maximum": max(given)}


def test_statistics_are_of_all_shards() -> None:
    replays: list[Any] = [Replay(1.0, 2.0, 6.0), Replay(), Replay(11.0)]
    found = side_by_side(3, lambda ranks: statistics(Shard(replays[ranks.rank], ranks)))
    assert found == [(4, {"minimum": 1.0, "mean": 5.0, "maximum": 11.0})] * 3
    assert side_by_side(2, lambda ranks: statistics(Shard(replays[1], ranks)))[0] == (
        0,
        {"minimum": 0.0, "mean": 0.0, "maximum": 0.0},
    )


def statistics(shard: Shard) -> tuple[int, dict[str, float]]:
    return shard.num_sequences, shard.priority_statistics()
