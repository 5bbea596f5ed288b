"""The process and the machine that a run is on: settings of the one, memory of both."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import time
from pathlib import Path

from dtqn.settings.config import Config

_LOOK_SECONDS = 0.3
"""How long the cores are watched. The kernel counts their time in hundredths of a second."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def prepare() -> None:
    """One thread for each of torch's operations, a GPU's digits the same every time, freed memory kept.

    The arrays of these networks are too small to share one operation among threads: what runs side by side
    are the parts of a batch (`dtqn.learning.batches`).

    glibc hands blocks above 128 KiB back to the system when they are freed, so that every update of a small
    network pays hundreds of page faults for the same arrays again: a quarter of its time, measured on Linux.
    """
    import torch  # only here, as many runs at once are looked after without it

    torch.set_num_threads(1)
    torch.backends.cudnn.deterministic = True
    torch.backends.cuda.enable_mem_efficient_sdp(False)  # its backward adds up in an order of its own
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # no glibc: macOS, Windows, musl
        return
    mallopt(_M_MMAP_THRESHOLD, 32 << 20)
    mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)


def settled(config: Config, free: int | None = None) -> Config:
    """The run as this machine has room for it, with so many free cores; None: as many as there are now."""
    if config.is_settled:
        return config
    free = free_cores() if free is None else free
    on_gpu = (free > 1 or config.learner.precision == "auto") and _has_gpu(config.device)
    return config.settled(free, has_bfloat16(), on_gpu)


def _has_gpu(device: str) -> bool:
    if device != "auto":
        return device == "cuda"
    import torch  # only here, as it takes seconds

    return torch.cuda.is_available()


@functools.cache
def has_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16, as Linux tells it."""
    return not {"avx512_bf16", "amx_bf16"}.isdisjoint(_of_processor("flags").split())


def cores() -> int:
    """Cores that this process may run on, by its affinity and the container's share."""
    count = len(_affinity())
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return max(1, min(count, int(quota) // int(period)))
    except (OSError, ValueError):  # absent, or "max"
        return count


def name(device: str = "cpu") -> str:
    """The processor, the number of `cores` and the system: `AMD EPYC 7B13, 2 cores, Linux`.

    With the device `cuda` the GPU comes first.
    """
    gpu = ""
    if device == "cuda":
        import torch

        gpu = f"{torch.cuda.get_device_name()}, "
    processor = _of_processor("model name") or platform.processor() or platform.machine()
    return f"{gpu}{processor}, {cores()} cores, {platform.system()}"


def _of_processor(name: str) -> str:
    """What Linux tells of the first processor by this name; empty where it does not."""
    try:
        lines = (line.partition(":") for line in Path("/proc/cpuinfo").read_text().splitlines())
        return next((value.strip() for key, _, value in lines if key.strip() == name), "")
    except OSError:  # not Linux
        return ""


def free_cores() -> int:
    """How many of `cores` are idle: in a short look on Linux, over the last minute elsewhere."""
    before = _idle_seconds()
    if before is None:
        busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
        return max(0, round(cores() - busy))
    began = time.monotonic()
    time.sleep(_LOOK_SECONDS)
    idle = ((_idle_seconds() or 0.0) - before) / (time.monotonic() - began)
    return min(cores(), round(idle))


def _affinity() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _idle_seconds() -> float | None:
    """Idle time of this process's cores since the machine started; None where it cannot be told."""
    names = {f"cpu{number}" for number in _affinity()}
    try:
        lines = (line.split() for line in Path("/proc/stat").read_text().splitlines())
        idle = [int(line[4]) + int(line[5]) for line in lines if line and line[0] in names]  # and in I/O
        return sum(idle) / os.sysconf("SC_CLK_TCK") if len(idle) == len(names) else None
    except (OSError, ValueError, IndexError):  # not Linux
        return None


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
