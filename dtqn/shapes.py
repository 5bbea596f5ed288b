"""Whether the shapes of a computation may follow its data.

On a CPU it pays to look at a batch and to leave its padding out: networks run on real timesteps alone. On an
accelerator each such look waits until all that has been launched is done, and a CUDA graph has the shapes
that it was recorded with. There every block has all the timesteps that it may have, and padding is masked.
Both compute the same values but for rounding; `tests/learning/test_fixed_shapes.py` holds every network to
that, on a CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

_fixed_on_cpu = False


def follow_data(x: Tensor) -> bool:
    """Whether the host may read numbers of `x`, to choose shapes or to leave work out."""
    return x.device.type == "cpu" and not _fixed_on_cpu


@contextmanager
def fixed() -> Iterator[None]:
    """Shapes are fixed on a CPU too, as long as this lasts: what an accelerator computes, for tests."""
    global _fixed_on_cpu
    before, _fixed_on_cpu = _fixed_on_cpu, True
    try:
        yield
    finally:
        _fixed_on_cpu = before


def largest(counts: Tensor, most: int) -> int:
    """The largest of `counts`, or the `most` that they may be where shapes are fixed."""
    return int(counts.max()) if follow_data(counts) else most


def send(array: np.ndarray, device: torch.device) -> Tensor:
    """An array as a tensor on `device`; the host does not wait until it is there."""
    tensor = torch.from_numpy(array)
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)
