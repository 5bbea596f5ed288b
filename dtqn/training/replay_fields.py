"""The schema of a timestep: what replay stores of it, and how sampled ones become the learner's tensors.

`Timesteps` (`dtqn.acting.timesteps`) is its one list of names. Filled with arrays it is what an actor hands
out at a vector step, with `Field`s it is what replay is made with, with names it is `NAMES`.
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
"""The name of each single array of a timestep in replay; observation and memory are several (`named`)."""
_MEMORY = "trace/"
"""The beginning of the names of stored memory's fields."""


class Memory(NamedTuple):
    """The source of the state that a sequence starts in."""

    is_read: bool
    """From stored memory; otherwise every sequence starts in the initial state."""
    is_refreshed: bool
    """Each update writes the memory that it has made anew back into replay."""
    version: str
    """The field that holds the learner step whose parameters made a timestep's memory."""


MEMORIES = {
    "stored": Memory(is_read=True, is_refreshed=False, version=NAMES.version),
    "zero": Memory(is_read=False, is_refreshed=False, version=NAMES.version),
    "refreshed": Memory(is_read=True, is_refreshed=True, version="trace_version"),
}
"""`replay.memory` -> what it stands for."""


def named(timesteps: Timesteps[Leaf]) -> dict[str, Leaf]:
    """The parts of `timesteps` under the names that they are stored by.

    A Dict observation's parts are `observation/<key>`, the stored memory's `trace/<field>`.
    """
    several = ("observation", "memory")
    single = {name: part for name, part in timesteps._asdict().items() if name not in several}
    memory = {f"{_MEMORY}{name}": part for name, part in timesteps.memory.items()}
    return {**named_parts(timesteps.observation), **single, **memory}


def timesteps_of(parts: Mapping[str, Leaf]) -> Timesteps[Leaf]:
    """The timesteps whose parts have these names: the inverse of `named`."""
    single = {name: parts[name] for name in Timesteps._fields if name not in ("observation", "memory")}
    memory = {name.removeprefix(_MEMORY): part for name, part in parts.items() if name.startswith(_MEMORY)}
    return Timesteps(observation=observation_of(parts), memory=memory, **single)


def timestep_fields(
    observation_space: gymnasium.Space,
    action_space: gymnasium.Space,
    memory_spec: Mapping[str, MemorySpec],
    memory_dtype: str,
) -> Timesteps[Field]:
    """How each part is stored; floats of stored memory in `memory_dtype` where the network names no dtype."""

    def of_space(space: gymnasium.Space) -> Field:
        return Field(space.shape or (), smallest_dtype(space), "timesteps")

    flag = Field((), np.dtype(np.bool_), "timesteps")
    return Timesteps(
        observation=(
            {key: of_space(space) for key, space in observation_space.spaces.items()}
            if isinstance(observation_space, gymnasium.spaces.Dict)
            else of_space(observation_space)
        ),
        prev_action=of_space(action_space),
        reward=Field((), np.dtype(np.float32), "timesteps"),
        discount=flag,
        first=flag,
        last=flag,
        **{name: Field((), dtype, "timesteps") for name, dtype in FACTS.items()},
        version=Field((), np.dtype(np.int32), "stored"),
        memory={
            name: Field(spec.shape, spec.dtype or np.dtype(memory_dtype), "memory", spec.window)
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
    """Timesteps as one run stores them, and back."""

    def __init__(self, timesteps: Timesteps[Field], memory: Memory, device: torch.device) -> None:
        """`device`: where the learner's tensors are."""
        self.timesteps, self.memory, self.device = timesteps, memory, device
        window = max((field.window for field in timesteps.memory.values()), default=0)
        version = timesteps.version
        if memory.is_refreshed and window:
            version = replace(version, block="memory", window=window)
        self.fields: dict[str, Field] = {**named(timesteps), memory.version: version}
        """Name -> field, as replay takes them."""
        self.input_names = [*named_parts(timesteps.observation), NAMES.prev_action, NAMES.reward, NAMES.first]
        """The fields that a network reads at each step."""

    def stored(self, timesteps: Timesteps[np.ndarray]) -> dict[str, np.ndarray]:
        """The part of an actor's vector step that replay appends."""
        return {**named(timesteps), self.memory.version: timesteps.version}

    def refreshed(self, fresh: FreshMemory, sampled: SequenceBatch, version: int) -> dict[str, np.ndarray]:
        """The fields that replay overwrites with the memory made by the parameters of learner step `version`.

        A timestep's is as fresh as the oldest memory that its sequence started from.
        """
        memory = {f"{_MEMORY}{name}": part.cpu().numpy() for name, part in fresh.memory.items()}
        made = sampled.memory[self.memory.version]
        oldest = np.where(sampled.memory_valid, made, version).min(axis=1, initial=version)
        return {**memory, self.memory.version: oldest[fresh.sequence.cpu().numpy()]}

    def inputs(self, timesteps: Mapping[str, np.ndarray]) -> StepInputs:
        """The inputs of a network in sampled timesteps [B, T, ...]."""
        named = {name: self._tensor(timesteps[name]) for name in self.input_names}
        return StepInputs(observation_of(named), named["prev_action"], named["reward"], named["first"])

    def sequences(self, batch: SequenceBatch, importance_weights: np.ndarray) -> Sequences:
        """A sampled batch as the learner reads it."""
        valid = batch.memory_valid if self.memory.is_read else batch.memory_valid[:, :0]
        kept = valid.shape[1]
        memory = {name: batch.memory[f"{_MEMORY}{name}"] for name in self.timesteps.memory}
        burn_in_facts, learn_facts = (
            {name: self._tensor(part[name]) for name in FACTS} for part in (batch.burn_in, batch.learn)
        )
        return Sequences(
            memory={name: self._tensor(x[:, max(0, x.shape[1] - kept) :]) for name, x in memory.items()},
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
        )

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        return send(array, self.device)
