"""The schema of a row: what replay stores of a step, and how sampled rows become the learner's tensors.

`Rows` (`dtqn.acting.timesteps`) is its one list of names. Filled with arrays it is what an actor hands out at a
tick, filled with `Field`s it is what replay is made with, filled with names it is `NAMES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import gymnasium
import numpy as np
import torch

from dtqn.acting.timesteps import FACTS, Leaf, Timesteps
from dtqn.shapes import send
from dtqn.types import (
    FreshMemory,
    MemorySpec,
    Sequences,
    StepInputs,
    named_parts,
    observation_of,
)
from envs.checks import categories
from replay import Field, SequenceBatch

NAMES: Timesteps[str] = Timesteps._make(Timesteps._fields)
"""The name of each single array of a row in replay; observation and trace are several (`named`)."""
_TRACE = "trace/"
"""The beginning of the names of a trace's fields."""


class Memory(NamedTuple):
    """The source of the state that a sequence starts in."""

    is_read: bool
    """From stored memory; otherwise every sequence starts in the initial state."""
    is_refreshed: bool
    """Each update writes the memory that it has made anew back into replay."""
    version: str
    """The field that holds the learner step whose parameters made a row's memory."""


MEMORIES = {
    "stored": Memory(is_read=True, is_refreshed=False, version=NAMES.version),
    "zero": Memory(is_read=False, is_refreshed=False, version=NAMES.version),
    "refreshed": Memory(is_read=True, is_refreshed=True, version="trace_version"),
}
"""`replay.memory` -> what it stands for."""


def named(rows: Timesteps[Leaf]) -> dict[str, Leaf]:
    """The parts of `rows` under the names that they are stored by.

    Those of a Dict observation are `observation/<key>`, those of the trace `trace/<field>`.
    """
    single = {name: part for name, part in rows._asdict().items() if name not in ("observation", "memory")}
    trace = {f"{_TRACE}{name}": part for name, part in rows.memory.items()}
    return {**named_parts(rows.observation), **single, **trace}


def rows_of(parts: Mapping[str, Leaf]) -> Timesteps[Leaf]:
    """The rows whose parts have these names: the inverse of `named`."""
    single = {name: parts[name] for name in Timesteps._fields if name not in ("observation", "memory")}
    trace = {name.removeprefix(_TRACE): part for name, part in parts.items() if name.startswith(_TRACE)}
    return Timesteps(observation=observation_of(parts), memory=trace, **single)


def row_fields(
    observation_space: gymnasium.Space,
    action_space: gymnasium.Space,
    memory_spec: Mapping[str, MemorySpec],
    memory_dtype: str,
) -> Timesteps[Field]:
    """How each part of a row is stored; floats of the trace in `memory_dtype` where the network names none."""

    def of_space(space: gymnasium.Space) -> Field:
        return Field(space.shape or (), smallest_dtype(space), "rows")

    flag = Field((), np.dtype(np.bool_), "rows")
    return Timesteps(
        observation=(
            {key: of_space(space) for key, space in observation_space.spaces.items()}
            if isinstance(observation_space, gymnasium.spaces.Dict)
            else of_space(observation_space)
        ),
        prev_action=of_space(action_space),
        reward=Field((), np.dtype(np.float32), "rows"),
        discount=flag,
        first=flag,
        last=flag,
        **{name: Field((), dtype, "rows") for name, dtype in FACTS.items()},
        version=Field((), np.dtype(np.int32), "stored"),
        memory={
            name: Field(spec.shape, spec.dtype or np.dtype(memory_dtype), "trace", spec.window)
            for name, spec in memory_spec.items()
        },
    )


def smallest_dtype(space: gymnasium.Space) -> np.dtype:
    """The smallest dtype that holds all values of an array's space and that torch can index."""
    found = None if isinstance(space, gymnasium.spaces.MultiBinary) else categories(space)
    if found is None:
        return np.dtype(space.dtype or np.float32)
    low, high = np.min(found[0]), np.max(found[1])
    ranges = [np.iinfo(name) for name in ("uint8", "int8", "int16", "int32", "int64")]
    return np.dtype(next(kind.dtype for kind in ranges if kind.min <= low and high <= kind.max))


class Schema:
    """Rows as one run stores them at every step, and back."""

    def __init__(self, rows: Timesteps[Field], memory: Memory, device: torch.device) -> None:
        """`device`: where the learner's tensors are."""
        self.rows, self.memory, self.device = rows, memory, device
        window = max((field.window for field in rows.memory.values()), default=0)
        version = rows.version
        if memory.is_refreshed and window:
            version = replace(version, block="trace", window=window)
        self.fields: dict[str, Field] = {**named(rows), memory.version: version}
        """Name -> field, as replay takes them."""
        self.input_names = [*named_parts(rows.observation), *(NAMES.prev_action, NAMES.reward, NAMES.first)]
        """The fields that a network reads at each step."""

    def stored(self, rows: Timesteps[np.ndarray]) -> dict[str, np.ndarray]:
        """The part of an actor's tick that replay appends."""
        return {**named(rows), self.memory.version: rows.version}

    def refreshed(self, trace: FreshMemory, sampled: SequenceBatch, version: int) -> dict[str, np.ndarray]:
        """The fields that replay overwrites with the memory made by the parameters of learner step `version`.

        A row is as fresh as the oldest memory that its sequence started from.
        """
        rows = {f"{_TRACE}{name}": rows.cpu().numpy() for name, rows in trace.rows.items()}
        made = sampled.memory[self.memory.version]
        oldest = np.where(sampled.memory_valid, made, version).min(axis=1, initial=version)
        return {**rows, self.memory.version: oldest[trace.sequence.cpu().numpy()]}

    def inputs(self, rows: Mapping[str, np.ndarray]) -> StepInputs:
        """The inputs of a network in sampled rows [B, T, ...]."""
        named = {name: self._tensor(rows[name]) for name in self.input_names}
        return StepInputs(observation_of(named), named["prev_action"], named["reward"], named["first"])

    def sequences(
        self, batch: SequenceBatch, importance_weights: np.ndarray, novel_share: float | None = None
    ) -> Sequences:
        """A sampled batch as the learner reads it; `novel_share` is asked for by a reward that is centred."""
        valid = batch.memory_valid if self.memory.is_read else batch.memory_valid[:, :0]
        kept = valid.shape[1]
        memory = {name: batch.memory[f"{_TRACE}{name}"] for name in self.rows.memory}
        burn_in_facts, learn_facts = (
            {name: self._tensor(rows[name]) for name in FACTS} for rows in (batch.burn_in, batch.learn)
        )
        return Sequences(
            memory={
                name: self._tensor(rows[:, max(0, rows.shape[1] - kept) :]) for name, rows in memory.items()
            },
            memory_valid=self._tensor(valid),
            episode_step=self._tensor(batch.episode_step),
            burn_in=self.inputs(batch.burn_in),
            burn_in_timesteps=self._tensor(batch.burn_in_timesteps),
            learn=self.inputs(batch.learn),
            discount=self._tensor(batch.learn[NAMES.discount]).float(),
            learn_timesteps=self._tensor(batch.learn_timesteps),
            learned_steps=self._tensor(batch.learned_steps),
            importance_weights=self._tensor(importance_weights),
            burn_in_facts=burn_in_facts,
            learn_facts=learn_facts,
            novel_share=(
                None
                if novel_share is None
                else self._tensor(np.full(len(batch.learn_timesteps), novel_share))
            ),
        )

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        return send(array, self.device)
