"""Arrays that several processes see, in memory without a name.

Nothing has to be removed afterwards: the memory goes with the last process that has it, however that ends.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

Form: TypeAlias = tuple[tuple[int, ...], np.dtype]
"""Shape and dtype of an array."""
_ALIGNMENT = 64
"""Bytes of a cache line: no two arrays share one."""


class SharedArrays:
    """Arrays at the same places of one piece of memory, in each process that makes them of the same forms."""

    def __init__(self, forms: Mapping[str, Form], descriptor: int | None = None) -> None:
        """
        Args:
            descriptor: of the memory that another process has made, as it was handed to this one; None makes
                it anew, filled with zeros.
        """
        places, size = {}, 0
        for name, (shape, dtype) in forms.items():
            places[name] = size
            size += -(-int(np.prod(shape, dtype=np.int64)) * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
        self.descriptor = _memory(max(size, 1)) if descriptor is None else descriptor
        """The memory's file descriptor; for `pass_fds` of another process."""
        memory = mmap.mmap(self.descriptor, max(size, 1))
        self.arrays: dict[str, np.ndarray] = {
            name: np.ndarray(shape, dtype, buffer=memory, offset=places[name])
            for name, (shape, dtype) in forms.items()
        }

    def close(self) -> None:
        """Hand it to no more processes. The arrays stay as long as they are used."""
        os.close(self.descriptor)


def _memory(size: int) -> int:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("dtqn")
    else:  # not Linux: a file without a name
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor
