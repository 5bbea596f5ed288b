"""Settings of the process that a task may change by the way, put back after each of its calls.

They are the run's: with another default dtype it would compute other digits, and an environment that lets
NumPy raise at an underflow, as guides to NaN recommend, would end the run's own arithmetic.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """A block after which NumPy's handling of errors and torch's dtype, device and threads are as before."""
    errors = np.geterr()
    torch: Any = sys.modules.get("torch")  # most of what reads tasks does not load it
    before = None if torch is None else _settings(torch)
    try:
        yield
    finally:
        if np.geterr() != errors:
            np.seterr(**errors)
        torch = sys.modules.get("torch")
        if torch is not None and _settings(torch) != before:
            _put_back(torch, before or (torch.float32, torch.device("cpu"), torch.get_num_threads()))


def _settings(torch: Any) -> tuple[Any, Any, int]:
    return torch.get_default_dtype(), torch.get_default_device(), torch.get_num_threads()


def _put_back(torch: Any, settings: tuple[Any, Any, int]) -> None:
    dtype, device, threads = settings
    torch.set_default_dtype(dtype)
    if torch.get_default_device() != device:  # else torch would look at it at every call
        torch.set_default_device(device)
    torch.set_num_threads(threads)
