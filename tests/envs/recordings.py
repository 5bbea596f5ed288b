"""Reads the recorded data of the gridverse memory family (`tests/data/README.md`)."""

from __future__ import annotations

import functools
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

DATA = Path(__file__).parent.parent / "data"
SIZES = (5, 7, 9)  # those with recorded episodes and exhaustive transitions


@functools.cache
def episodes(size: int) -> dict[str, NDArray[Any]]:
    """The recorded episodes of one size."""
    return dict(np.load(DATA / "gridverse" / f"gv_memory.{size}x{size}_dtqn.npz"))


@functools.cache
def exhaustive(size: int) -> dict[str, NDArray[Any]]:
    """Every transition of one size."""
    return dict(np.load(DATA / "gridverse" / f"exhaustive_memory_{size}x{size}_dtqn.npz"))


def world_params() -> dict[str, dict[str, Any]]:
    """The facts that define each world, by the original's name."""
    params: dict[str, dict[str, Any]] = json.loads((DATA / "gridverse" / "env_params.json").read_text())
    return params


def reset_statistics() -> dict[str, dict[str, Any]]:
    """Frequency tables of the original reset functions, by the original's name."""
    with gzip.open(DATA / "reset_statistics.json.gz", "rt") as file:
        statistics: dict[str, dict[str, Any]] = json.load(file)
    return statistics
