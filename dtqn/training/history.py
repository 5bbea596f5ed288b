"""The part of an episode before a drawn sequence, which its memory should hold.

Legend: B sequences, V values.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from dtqn.networks.recall import Shown
from dtqn.training.schema import Schema
from dtqn.types import first_rows, named_parts
from replay import SequenceReplay

CHUNK_ROWS = 256
"""Rows of an episode that are read at a time, for each sequence."""


class History:
    """Reads in replay what the episodes of drawn sequences have shown."""

    def __init__(self, replay: SequenceReplay, schema: Schema, shown: Shown) -> None:
        self._replay, self._schema, self._shown = replay, schema, shown
        self._names = list(named_parts(schema.rows.observation))

    def shown_before(self, ids: np.ndarray, episode_step: np.ndarray) -> Tensor:
        """[B, V] int8, as `Sequences.shown_before`; -1 where the episode's first row is overwritten.

        Args:
            ids: [B] of sequences that have just been drawn.
            episode_step: [B] number in its episode of each sequence's first row.
        """
        found = torch.full((len(ids), self._shown.count), -1, dtype=torch.int8, device=self._schema.device)
        found[torch.from_numpy(episode_step == 0)] = 0
        for start in range(0, int(episode_step.max(initial=0)), CHUNK_ROWS):
            stop = min(start + CHUNK_ROWS, int(episode_step.max()))
            prefix = self._replay.prefix(ids, self._names, start, stop)
            before = torch.from_numpy(episode_step[prefix.available] - start).to(found.device)
            observation = self._schema.observation(prefix.rows)
            real = first_rows(before, prefix.rows[self._names[0]].shape[1])
            shown = self._shown(observation, real).any(dim=1).to(torch.int8)
            members = torch.from_numpy(prefix.available.nonzero()[0]).to(found.device)
            found[members] = torch.maximum(found[members], shown)
        return found
