"""Updates: when a run learns, and from which of the sequences that it has stored.

An agent with replay draws by priority from all that it has kept, at a steady rate. With rollouts (PQN:
Gallici et al. 2025, arXiv 2407.04811) it acts for T vector steps, learns their timesteps several times over
and forgets them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from dtqn.choices.learner import Rollouts
from replay import SampleInfo, SequenceBatch, SequenceReplay

Drawn: TypeAlias = tuple[SequenceBatch, SampleInfo]
"""The sequences of one update."""


class Updates(ABC):
    """When a run learns, and what."""

    reads_priorities: bool
    """Whether it matters which priorities sequences have."""

    def __init__(self, replay: SequenceReplay, generator: np.random.Generator, warmup: int) -> None:
        """`warmup`: env steps before which nothing is learned."""
        self._replay, self._generator, self._warmup = replay, generator, warmup

    @property
    def can_draw(self) -> bool:
        """Whether there is a sequence to learn."""
        return self._replay.num_sequences > 0

    @abstractmethod
    def due(self, before: int, env_steps: int) -> Iterator[Drawn]:
        """The updates to make after a vector step, which brought the run from `before` to `env_steps`.

        Each is drawn when it is asked for, so that it sees what the one before has written to replay.
        """

    @abstractmethod
    def draw(self) -> Drawn:
        """One update from what there is; at least one sequence can be sampled."""

    def metrics(self) -> dict[str, float]:
        """The state of replay, for a row of metrics."""
        return {}

    @abstractmethod
    def get_state(self) -> dict[str, Any]:
        """The state that decides which step is the next one with updates; the generator is the caller's."""

    @abstractmethod
    def set_state(self, state: dict[str, Any]) -> None: ...


class FromReplay(Updates):
    """An update for every so many env steps after the warm-up, on sequences drawn by priority."""

    reads_priorities = True

    def __init__(
        self,
        replay: SequenceReplay,
        generator: np.random.Generator,
        warmup: int,
        batch_size: int,
        env_steps_per_update: float,
    ) -> None:
        super().__init__(replay, generator, warmup)
        self._batch_size = batch_size
        self._env_steps_per_update = env_steps_per_update
        self._credit = 0.0

    def due(self, before: int, env_steps: int) -> Iterator[Drawn]:
        if env_steps > self._warmup:
            self._credit += (env_steps - max(before, self._warmup)) / self._env_steps_per_update
        while self._credit >= 1:
            self._credit -= 1
            if self.can_draw:
                yield self.draw()

    def draw(self) -> Drawn:
        return self._replay.sample(self._batch_size, self._generator)

    def metrics(self) -> dict[str, float]:
        statistics = self._replay.sampler.priority_statistics()
        return {f"replay/priority_{name}": value for name, value in statistics.items()}

    def get_state(self) -> dict[str, Any]:
        return {"credit": self._credit}

    def set_state(self, state: dict[str, Any]) -> None:
        if not 0 <= state["credit"] < 1:
            raise ValueError(f"updates/credit is {state['credit']}, must be from 0 to below 1")
        self._credit = state["credit"]


class FromRollouts(Updates):
    """Some epochs of updates after every T vector steps, on the timesteps of these alone.

    All sequences then end at the last timestep. They are bootstrapped from it, and the next rollout goes on
    there, so each transition is learned in one rollout, once in each epoch. An epoch deals the environments
    out to its updates at random. A rollout that ends within the warm-up is not learned.
    """

    reads_priorities = False

    def __init__(
        self, replay: SequenceReplay, generator: np.random.Generator, warmup: int, batches: Rollouts
    ) -> None:
        super().__init__(replay, generator, warmup)
        self._batches = batches
        self._vector_steps = 0

    def due(self, before: int, env_steps: int) -> Iterator[Drawn]:
        self._vector_steps += 1
        if self._vector_steps < self._batches.length:
            return
        self._vector_steps = 0
        self._replay.end_sequences()
        ids = self._replay.ids()
        if env_steps > self._warmup:
            for _ in range(self._batches.epochs):
                yield from self._epoch(ids)
        self._replay.forget(ids)

    def _epoch(self, ids: np.ndarray) -> Iterator[Drawn]:
        env_ids = self._generator.permutation(self._replay.num_streams)
        for dealt in np.split(env_ids, self._batches.minibatches):
            members = ids[np.isin(self._replay.streams_of(ids), dealt)]
            if len(members):  # not of environments that had but the first timestep of an episode
                ones = np.ones(len(members))
                yield self._replay.take(members), SampleInfo(members, ones.astype(np.float32), ones)

    def draw(self) -> Drawn:
        return next(self._epoch(self._replay.ids()))

    def get_state(self) -> dict[str, Any]:
        return {"ticks": self._vector_steps}

    def set_state(self, state: dict[str, Any]) -> None:
        self._vector_steps = state["ticks"]
