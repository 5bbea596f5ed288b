"""The process and the machine that a run is on: settings of the one, memory of both."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import torch

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def prepare() -> None:
    """One thread for each of torch's operations, and freed memory kept in the process.

    The arrays of these networks are too small to share one operation among threads: what runs side by side
    are the parts of a batch (`dtqn.learning.batches`).

    glibc hands blocks above 128 KiB back to the system when they are freed, so that every update of a small
    network pays hundreds of page faults for the same arrays again: a quarter of its time, measured on Linux.
    """
    torch.set_num_threads(1)
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # no glibc: macOS, Windows, musl
        return
    mallopt(_M_MMAP_THRESHOLD, 32 << 20)
    mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)


def resident_bytes() -> int | None:
    """The memory that this process has now; None where it cannot be told."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):  # not Linux
        return None


def available_bytes() -> int | None:
    """The machine's memory, or the container's share where that is less; None where it cannot be told."""
    try:
        limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, ValueError, OSError):
        return None
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            limits.append(int(Path(path).read_text()))
        except (OSError, ValueError):  # absent, or "max"
            continue
    return min(limits)
