"""One replay in several processes: each holds a shard, and a batch is drawn from all of them as from one.

Each process stores the streams of its own actors. The leaves of all shards, one after the other in the order
of their ranks, are the leaves of the one replay, and a batch is the stratified draw from these. All processes
draw the same random numbers, so each knows where in the joint mass every member of the batch lies, and takes
those that lie in its own shard. So the law of a batch is exactly that of one replay, member by member, and
so are P(i), the number N of sequences and the batch's largest weight, which are exchanged.

The price is that the processes' parts of a batch have different sizes, by their shards' shares of the mass.
An equal part from each, in proportion within its shard, would be another law: a sequence of a shard with half
the mass would be drawn twice as often as its priority says, and importance weights, which correct that in the
mean where their exponent is 1 only, would spread more.
"""

from __future__ import annotations

import numpy as np

from replay.buffer import SampleInfo, SequenceBatch, SequenceReplay
from replay.samplers import Exchange


class Shard:
    """The joint replay as one of its processes sees it; every member is collective."""

    def __init__(self, replay: SequenceReplay, exchange: Exchange) -> None:
        self._replay, self._exchange = replay, exchange

    @property
    def num_sequences(self) -> int:
        """Sequences that can be sampled, over all shards."""
        return int(self._exchange.gather([self._replay.num_sequences]).sum())

    def sample(self, batch_size: int, generator: np.random.Generator) -> tuple[SequenceBatch, SampleInfo]:
        """This shard's members of a joint batch of `batch_size`, none of them perhaps.

        The state of `generator` must be the same in all processes.
        """
        return self._replay.sample_shard(batch_size, generator, self._exchange)

    def priority_statistics(self) -> dict[str, float]:
        """`minimum`, `mean` and `maximum` raw priority of the sampleable sequences of all shards."""
        own, count = self._replay.priority_statistics(), self._replay.num_sequences
        rows = self._exchange.gather([count, own["minimum"], own["mean"], own["maximum"]])
        rows = rows[rows[:, 0] > 0]
        if not len(rows):
            return own
        counts, minimum, mean, maximum = rows.T
        return {
            "minimum": float(minimum.min()),
            "mean": float(np.average(mean, weights=counts)),
            "maximum": float(maximum.max()),
        }
