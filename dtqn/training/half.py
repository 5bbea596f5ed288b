"""A second process, with networks of its own, learns a part of every batch.

An update is thousands of small operators, and two threads of one Python wait for each other at each of them.
Two processes do not. Parameters and gradients lie in shared memory, and a batch goes through a pipe. The part
comes out digit for digit as the run itself would compute it, so a run that loses the process goes on alone,
only slower.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch

from dtqn.learning.learner import Learner, Part
from dtqn.settings.config import Config
from dtqn.training import machine, objects, setup
from dtqn.training.exchange import Form, forms_of, shared_arrays, tensors_of
from dtqn.training.worker import Worker, WorkerError
from dtqn.types import Sequences, map_tree

_TASK = "learns a part of each batch"
_SILENT_SECONDS = 300.0
"""After so long without an answer the process counts as hung."""


class PartLearner:
    """The process's side."""

    def __init__(self, config: Config, descriptor: int) -> None:
        """`descriptor`: of the memory that the run has made."""
        machine.prepare()
        self._learner = setup.make_learner(config, setup.make_network(config))
        self._gradients, _ = share(self._learner, descriptor)

    def part(self, batch: Any, num_learned: np.ndarray) -> dict[str, Any]:
        """The part's results as arrays, but for its gradients, which are left in the memory."""
        sequences: Sequences = map_tree(torch.from_numpy, batch)
        results = self._learner.part(sequences, torch.from_numpy(num_learned))._asdict()
        torch._foreach_copy_(self._gradients, results.pop("gradients"))
        return map_tree(lambda x: x.numpy(), results)


class Half:
    """The run's side."""

    def __init__(self, config: Config, learner: Learner) -> None:
        self._news: list[str] = []
        self._gradients, descriptor = share(learner)
        self._worker: Worker | None = None
        try:
            self._worker = Worker(_TASK, PartLearner, config, descriptor, descriptors=[descriptor])
        except WorkerError as error:
            self._lose(error)
        finally:
            os.close(descriptor)

    def begin(self, batch: Sequences, num_learned: torch.Tensor) -> None:
        """Hand over a part of a batch that so many learned steps have in all; `result` follows."""
        try:
            if self._worker is not None:
                self._worker.ask("part", map_tree(lambda x: x.numpy(), batch), num_learned.numpy())
        except WorkerError as error:
            self._lose(error)

    def result(self) -> Part | None:
        """The part's results, valid until the next `begin`; None where the process is lost."""
        try:
            if self._worker is None:
                return None
            if not self._worker.answered(_SILENT_SECONDS):
                raise WorkerError(f"the process that {_TASK} does not answer")
            results = map_tree(torch.from_numpy, self._worker.answer())
        except WorkerError as error:
            self._lose(error)
            return None
        return Part(self._gradients, **results)

    def news(self) -> list[str]:
        """As `Pool.news`."""
        news, self._news = self._news, []
        return news

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()

    def _lose(self, error: WorkerError) -> None:
        if self._worker is not None:
            self._worker.kill()
        self._worker = None
        self._news.append(f"{error}; this run goes on without it, more slowly")


def learns_beside(config: Config) -> bool:
    """Whether a second process learns a part of each batch; it has to find what the run is made of."""
    on_cpu = setup.device_of(config).type == "cpu"
    return config.num_threads > 1 and on_cpu and not objects.kept(config)


def share(learner: Learner, descriptor: int | None = None) -> tuple[list[torch.Tensor], int]:
    """Puts a learner's parameters into memory that two processes have: the gradients' place, the descriptor.

    The process that makes the memory (`descriptor` None) brings its parameters along, the other takes these.
    """
    flats = {"online": learner.flat_online, "target": learner.flat_target}
    forms: dict[str, Form] = {}
    for name, flat in [*flats.items(), ("gradients", learner.flat_online)]:
        forms |= forms_of(name, flat.tensors)
    arrays, found = shared_arrays(forms, descriptor)
    for name, flat in flats.items():
        flat.move(tensors_of(arrays, name), keep=descriptor is None)
    return tensors_of(arrays, "gradients"), found
