"""The sequences in a trainer's replay, oldest first, as its learner reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dtqn.training.trainer import Trainer
from dtqn.types import Sequences

CHUNK = 64
"""Sequences that are read at once."""


class Stored(NamedTuple):
    """B stored sequences."""

    ids: NDArray[np.int64]
    """[B] later ones are larger."""
    batch: Sequences
    last: Tensor
    """[B] the last row of the learn block."""
    whole: Tensor
    """[B] bool: the sequence is an episode, from its first row to the one that terminates it."""


def stored(trainer: Trainer) -> Iterator[Stored]:
    """All sequences of the trainer's replay, `CHUNK` by `CHUNK`."""
    ids = np.sort(trainer.replay.ids())
    for chunk in np.split(ids, range(CHUNK, len(ids), CHUNK)):
        batch = trainer.schema.sequences(trainer.replay.take(chunk), np.ones(len(chunk)))
        last = (batch.learn_rows - 1).long()
        ends = batch.discount[torch.arange(len(chunk)), last] == 0
        yield Stored(chunk, batch, last, (batch.episode_step == 0) & ends)
