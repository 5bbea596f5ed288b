"""Ranks in the threads of one process, which send what they exchange through queues."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dtqn.ranks import RankError, Ranks

_GONE = object()


class Table:
    """A queue from each rank to each."""

    def __init__(self, count: int) -> None:
        self.queues: list[list[queue.Queue[Any]]] = [
            [queue.Queue() for _ in range(count)] for _ in range(count)
        ]


class InThread(Ranks):
    """One of some ranks, each in a thread of its own."""

    def __init__(self, rank: int, table: Table) -> None:
        self.rank, self.count, self._table = rank, len(table.queues), table

    def gather_objects(self, value: Any) -> list[Any]:
        for to in self._table.queues[self.rank]:
            to.put(value)
        values = [of[self.rank].get(timeout=60) for of in self._table.queues]
        if any(value is _GONE for value in values):
            raise RankError("another rank of the run has ended")
        return values

    def gather(self, numbers: Sequence[float]) -> np.ndarray:
        return np.array(self.gather_objects(list(numbers)), np.float64)

    def stack(self, numbers: Tensor) -> Tensor:
        return torch.stack(self.gather_objects(numbers))

    def add_(self, tensors: Sequence[Tensor]) -> None:
        everyone = self.gather_objects([x.clone() for x in tensors])
        for x, *others in zip(tensors, *everyone, strict=True):
            x.copy_(sum(others[1:], start=others[0]))

    def from_first(self, value: Any = None) -> Any:
        return self.gather_objects(value)[0]

    def leave(self) -> None:
        """A rank that has left ends what others begin afterwards."""
        for to in self._table.queues[self.rank]:
            to.put(_GONE)


def side_by_side(count: int, work: Callable[[InThread], Any]) -> list[Any]:
    """The results of `work` on each rank; where one raises, the others end and that is raised here.

    Rank 0 is this very thread, which gets signals.
    """
    table = Table(count)

    def one(rank: int) -> Any:
        ranks = InThread(rank, table)
        try:
            return work(ranks)
        except BaseException:
            ranks.leave()
            raise

    first: Future[Any] = Future()
    with ThreadPoolExecutor(count) as pool:
        futures = [first, *(pool.submit(one, rank) for rank in range(1, count))]
        try:
            first.set_result(one(0))
        except BaseException as error:
            first.set_exception(error)
    errors = [error for future in futures if (error := future.exception()) is not None]
    if errors:
        raise min(errors, key=lambda error: isinstance(error, RankError))
    return [future.result() for future in futures]
