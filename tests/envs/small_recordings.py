"""Reads the recorded data of Car Flag, Memory Cards and T-Maze (`tests/data/README.md`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

DATA = Path(__file__).parent.parent / "data" / "other"


def recorded(name: str) -> dict[str, NDArray[Any]]:
    """The arrays of one file."""
    return dict(np.load(DATA / f"{name}.npz"))


def step_major(values: NDArray[Any], lengths: NDArray[Any]) -> NDArray[Any]:
    """Concatenated episodes [sum(lengths), ...] as [T, E, ...]; zeros follow the end of an episode."""
    table = np.zeros((lengths.max(), len(lengths), *values.shape[1:]), values.dtype)
    for episode, stop in enumerate(np.cumsum(lengths)):
        table[: lengths[episode], episode] = values[stop - lengths[episode] : stop]
    return table
