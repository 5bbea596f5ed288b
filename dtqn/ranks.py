"""The processes of a run, its ranks, and what they tell each other.

A run is one process, or several that `torchrun` starts. These learn in step from one replay that each of them
holds a part of. Exchanges are collective: every rank calls the same one at the same time, or all wait.
Numbers go through gloo, what lies on GPUs through NCCL.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

_PATIENCE = datetime.timedelta(days=1)
"""How long a rank waits for another one, which may be playing an evaluation. A rank that has ended is noticed
at once."""


class RankError(Exception):
    """Ranks that cannot go on together, in one line."""


class Ranks:
    """A run in one process, which has nobody to ask."""

    rank = 0
    count = 1

    def gather(self, numbers: Sequence[float]) -> np.ndarray:
        """Numbers [k] of this rank -> those of all, [count, k] in the order of ranks, as float64."""
        return np.array([numbers], np.float64)

    def gather_objects(self, value: Any) -> list[Any]:
        """A value of this rank -> those of all, in the order of ranks."""
        return [value]

    def stack(self, numbers: Tensor) -> Tensor:
        """Numbers [k] on the device -> those of all, [count, k] in the order of ranks."""
        return numbers[None]

    def add_(self, tensors: Sequence[Tensor]) -> None:
        """Replaces each tensor by its sum over all ranks, which is the same to the last bit on all."""

    def check_same(self, number: float, what: str) -> None:
        """Raises a RankError where `number`, of `what`, is not the same on all ranks."""
        found = self.gather([number])[:, 0]
        if (others := np.flatnonzero(found != found[0])).size:
            raise RankError(
                f"{what} of rank {others[0]} differ from those of rank 0; what has been saved is sound"
            )


ALONE = Ranks()


class Group(Ranks):
    """The ranks that `torchrun` has started; this process is one of them."""

    def __init__(self) -> None:
        """Meets the others. A rank has the GPU of its number on its machine, where there is one."""
        import torch.distributed  # only here: it takes a while

        self._distributed = torch.distributed
        gpu = int(os.environ.get("LOCAL_RANK", "0"))
        if gpu < torch.cuda.device_count():
            torch.cuda.set_device(gpu)
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        with _told():
            store, self.rank, self.count = next(torch.distributed.rendezvous("env://", timeout=_PATIENCE))
            # A restart by torchrun may find the addresses of those that have gone.
            attempt = f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}"
            torch.distributed.init_process_group(
                backend,
                store=torch.distributed.PrefixStore(attempt, store),
                rank=self.rank,
                world_size=self.count,
                timeout=_PATIENCE,
            )

    def gather(self, numbers: Sequence[float]) -> np.ndarray:
        return self.stack(torch.tensor(numbers, dtype=torch.float64)).numpy()

    def gather_objects(self, value: Any) -> list[Any]:
        values: list[Any] = [None] * self.count
        with _told():
            self._distributed.all_gather_object(values, value)
        return values

    def stack(self, numbers: Tensor) -> Tensor:
        rows = [torch.empty_like(numbers) for _ in range(self.count)]
        with _told():
            self._distributed.all_gather(rows, numbers)
        return torch.stack(rows)

    def add_(self, tensors: Sequence[Tensor]) -> None:
        for dtype in dict.fromkeys(x.dtype for x in tensors):
            of_dtype = [x for x in tensors if x.dtype == dtype]
            flat = torch.cat([x.reshape(-1) for x in of_dtype])
            with _told():
                self._distributed.all_reduce(flat)
            for x, part in zip(of_dtype, flat.split([x.numel() for x in of_dtype]), strict=True):
                x.copy_(part.view_as(x))

    def from_first(self, value: Any = None) -> Any:
        """The value of rank 0."""
        values = [value]
        with _told():
            self._distributed.broadcast_object_list(values, src=0, device=torch.device("cpu"))
        return values[0]

    def leave(self) -> None:
        """The end of all exchanges, which need not be that of other ranks."""
        self._distributed.destroy_process_group()


@contextmanager
def _told() -> Iterator[None]:
    """The errors of a lost connection, which are many lines, as one."""
    try:
        yield
    except RuntimeError as error:
        raise RankError("another rank of the run has ended or cannot be reached") from error
