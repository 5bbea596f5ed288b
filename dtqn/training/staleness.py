"""Staleness: how old the parameters and the memory are that a few sequences of replay were made with.

It draws from a random stream of its own and changes nothing, so a run trains the same however often it is
measured.
"""

from __future__ import annotations

import numpy as np
import torch

from dtqn.learning.batches import take
from dtqn.learning.discrepancy import discrepancy
from dtqn.learning.learner import Learner
from dtqn.training.replay_fields import NAMES, Schema
from dtqn.types import Sequences, StepInputs, length_mask
from replay import SequenceReplay

SEQUENCES = 8
"""Sequences that are drawn for each measure."""
CHUNK_TIMESTEPS = 128
"""Timesteps of an episode that are read and run at a time, for each of these sequences."""


class Staleness:
    """Measures the sequences of a replay for a learner."""

    def __init__(
        self,
        replay: SequenceReplay,
        schema: Schema,
        learner: Learner,
        generator: np.random.Generator,
        max_timesteps: int,
    ) -> None:
        """`max_rows`: those that the network may run, in all, for one measure of delta-Q."""
        self._replay, self._schema, self._learner = replay, schema, learner
        self.generator, self._max_timesteps = generator, max_timesteps

    def measure(self) -> dict[str, float | int | None]:
        """Ages in learner steps and R2D2's delta-Q, over drawn sequences whose episode's start is stored.

        `replay/parameter_age` is of the learned timesteps and `replay/memory_age` of the stored memory before
        them; raw timesteps that are read anew have no age. Delta-Q is the mean over those sequences that
        begin in the middle of their episode, and so in a state that may be stale; `replay/delta_q_share` is
        their share. `replay/stale_action_share` is the share of their learned steps that have another greedy
        action than they should, and `replay/stale_action_loss` is the greedy policy's loss by it in Q. They
        are run from their episode's start in chunks: as many as `max_rows` allows, in the order of their
        draw.
        """
        sampled, info = self._replay.sample(SEQUENCES, self.generator)
        version, memory_version = NAMES.version, self._schema.memory.version
        prefix = self._replay.prefix(info.ids, {version, memory_version})
        if not len(prefix.starts):
            return {}
        available = torch.from_numpy(prefix.available.nonzero()[0])
        read = self._learner.learned(self._schema.sequences(sampled, info.importance_weights))
        batch = take(read, available.to(self._schema.device))
        start = batch.episode_step.cpu().numpy()
        sequence_start = start + batch.burn_in_timesteps.cpu().numpy()
        timestep = np.arange(prefix.timesteps[version].shape[1])
        end = sequence_start + batch.learned_steps.cpu().numpy()
        learned = (timestep >= sequence_start[:, None]) & (timestep < end[:, None])
        oldest = start - batch.memory_valid.sum(dim=1).cpu().numpy()
        remembered = (timestep < start[:, None]) & (timestep >= oldest[:, None])
        age = self._learner.learner_steps - prefix.timesteps[version]
        memory_age = self._learner.learner_steps - prefix.timesteps[memory_version]
        measured: dict[str, float | int | None] = {
            "replay/parameter_age": float(age[learned].mean()),
            "replay/memory_age": float(memory_age[remembered].mean()) if remembered.any() else None,
        }
        if self._schema.timesteps.memory:  # a state is carried to the middle of an episode
            measured["replay/delta_q_share"] = float((start > 0).mean())
            chosen = self._affordable(np.flatnonzero(start > 0), end)
            if len(chosen):
                measured |= self._delta_q(batch, info.ids[prefix.available], chosen)
        return measured

    def _affordable(self, places: np.ndarray, timesteps: np.ndarray) -> np.ndarray:
        """The first of `places` [n] whose episodes, padded to the longest, have `max_rows` timesteps at most.

        `timesteps` [B] are those from an episode's start to the sequence's last learned step. A place whose
        episode would be too long is passed over.
        """
        chosen: list[int] = []
        longest = 0
        for place in places:
            if (len(chosen) + 1) * max(longest, int(timesteps[place])) <= self._max_timesteps:
                chosen.append(int(place))
                longest = max(longest, int(timesteps[place]))
        return np.array(chosen, np.int64)

    def _delta_q(self, batch: Sequences, ids: np.ndarray, chosen: np.ndarray) -> dict[str, float | None]:
        """Staleness of the sequences at the places `chosen` of a batch whose ids are `ids` [B]."""
        members = torch.from_numpy(chosen).to(self._schema.device)

        def timesteps(start: int, stop: int) -> StepInputs:
            """Those timesteps of the sequences' episodes, counted from their first ones."""
            names = self._schema.input_names
            return self._schema.inputs(self._replay.prefix(ids[chosen], names, start, stop).timesteps)

        taken = take(batch, members)
        found = discrepancy(self._learner.online, taken, timesteps, CHUNK_TIMESTEPS)
        first, last = found.delta_q(taken.learned_steps)
        differs, lost = found.greedy_actions(length_mask(taken.learned_steps, found.stored.shape[1]))
        return {
            "replay/delta_q_first": float(first.mean()),
            "replay/delta_q_last": float(last.mean()),
            "replay/stale_action_share": float(differs.float().mean()) if len(differs) else None,
            "replay/stale_action_loss": float(lost.mean()),
        }
