"""The memory that a pool shares with its workers: timesteps on their way in, parameters out.

Both lie in preallocated arrays, and a step is never pickled. Who may touch which part of them, and when, is
decided by the requests that the pool sends and by their answers (`dtqn.training.pool`). So nothing is locked,
and no parameters are ever read while they are written.

The memory has no name, so nothing has to be removed afterwards: it goes with the last process that has it,
however that ends.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import numpy as np
import torch

from dtqn.acting.timesteps import Episodes, Timesteps
from dtqn.networks.q_network import QNetwork
from dtqn.settings.config import Config
from dtqn.training.replay_fields import Schema, named, timesteps_of
from replay.storage import fit

Form: TypeAlias = tuple[tuple[int, ...], np.dtype]
"""Shape and dtype of an array."""
_ALIGNMENT = 64
"""Bytes of a cache line: no two arrays share one."""
_ENDED = "ended"
EPISODES: dict[str, np.dtype] = {
    _ENDED: np.dtype(np.bool_),
    "episode_return": np.dtype(np.float64),
    "length": np.dtype(np.int64),
    "success": np.dtype(np.bool_),
}
"""Fields of each environment: whether its episode ended at the step, and of that the parts of `Episodes`."""


class Exchange:
    """The timesteps of `max_lead` + 1 vector steps, and one set of parameters more than these are."""

    def __init__(
        self, config: Config, network: QNetwork, schema: Schema, descriptor: int | None = None
    ) -> None:
        """
        Args:
            network: any of the run's, for the forms of its parameters.
            descriptor: of the pool's memory, in a worker; the pool makes it.
        """
        self.vector_steps = config.max_lead + 1
        self.versions = self.vector_steps + 1
        self._fields = named(schema.timesteps)
        at_step = (self.vector_steps, config.actor.num_envs)
        forms: dict[str, Form] = {
            name: ((*at_step, *field.shape), np.dtype(field.dtype)) for name, field in self._fields.items()
        }
        forms |= {f"episode/{name}": (at_step, dtype) for name, dtype in EPISODES.items()}
        forms |= forms_of("parameters", network.parameters(), self.versions)
        arrays, self.descriptor = shared_arrays(forms, descriptor)
        self._timesteps = {name: arrays[name] for name in self._fields}
        self._episodes = {name: arrays[f"episode/{name}"] for name in EPISODES}
        sets = tensors_of(arrays, "parameters")
        self.parameters = [[one[version] for one in sets] for version in range(self.versions)]
        """Sets of parameters, in the order of the network's."""

    def write(
        self, step: int, env_ids: slice, given: Timesteps[np.ndarray], ended: np.ndarray, episodes: Episodes
    ) -> None:
        """Put the timesteps `given` by some environments in their place of a vector step.

        Args:
            ended: [n] bool, the environments whose episodes are `episodes`.
        """
        for name, values in named(given).items():
            self._timesteps[name][step, env_ids] = fit(name, values, self._fields[name], len(ended))
        self._episodes[_ENDED][step, env_ids] = ended
        for name, of_ended in episodes._asdict().items():
            place = self._episodes[name][step, env_ids]
            place[:] = 0  # what an earlier step left would be saved, though nobody reads it
            place[ended] = of_ended

    def read(self, step: int) -> tuple[Timesteps[np.ndarray], Episodes]:
        """The timesteps [N, ...] of a vector step, as they lie there, and the episodes that it ended."""
        ended = self.ended(step)
        timesteps = timesteps_of({name: array[step] for name, array in self._timesteps.items()})
        return timesteps, Episodes(*(self._episodes[name][step][ended] for name in Episodes._fields))

    def ended(self, step: int) -> np.ndarray:
        """[N] bool: the environments whose episodes the vector step ended."""
        return self._episodes[_ENDED][step]

    def close(self) -> None:
        """Hand the memory to no more processes. The arrays stay as long as they are used."""
        os.close(self.descriptor)

    def get_step(self, step: int, env_ids: slice = slice(None)) -> dict[str, np.ndarray]:
        """All that some environments have at a vector step, for a checkpoint or for another machine."""
        return {name: x[step, env_ids].copy() for name, x in (self._timesteps | self._episodes).items()}

    def set_step(self, step: int, saved: dict[str, np.ndarray], env_ids: slice = slice(None)) -> None:
        """Put there what `get_step` returned."""
        for name, array in (self._timesteps | self._episodes).items():
            array[step, env_ids] = saved[name]


def shared_arrays(
    forms: Mapping[str, Form], descriptor: int | None = None
) -> tuple[dict[str, np.ndarray], int]:
    """Arrays at the same places of one piece of memory, in each process that asks for the same forms.

    Args:
        descriptor: of the memory that another process has made, as it was handed to this one; None makes it
            anew, filled with zeros.

    Returns:
        The arrays, and the memory's file descriptor, for `pass_fds` of another process.
    """
    places, size = {}, 0
    for name, (shape, dtype) in forms.items():
        places[name] = size
        size += -(-int(np.prod(shape, dtype=np.int64)) * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
    descriptor = _memory(max(size, 1)) if descriptor is None else descriptor
    memory = mmap.mmap(descriptor, max(size, 1))
    arrays = {
        name: np.ndarray(shape, dtype, buffer=memory, offset=places[name])
        for name, (shape, dtype) in forms.items()
    }
    return arrays, descriptor


def _memory(size: int) -> int:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("dtqn")
    else:  # not Linux: a file without a name
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor


def forms_of(name: str, tensors: Iterable[torch.Tensor], *copies: int) -> dict[str, Form]:
    """The forms of arrays that hold tensors, each by `name` and its place; `copies`: so many of each."""
    return {
        f"{name}/{place}": ((*copies, *one.shape), torch.empty(0, dtype=one.dtype).numpy().dtype)
        for place, one in enumerate(tensors)
    }


def tensors_of(arrays: Mapping[str, np.ndarray], name: str) -> list[torch.Tensor]:
    """The memory of arrays by `forms_of` as tensors, in their order."""
    return [torch.from_numpy(array) for key, array in arrays.items() if key.startswith(f"{name}/")]
