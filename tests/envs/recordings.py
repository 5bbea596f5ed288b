"""Reads the recorded data of the gridverse worlds (`tests/data/README.md`)."""

from __future__ import annotations

import functools
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from envs.gridverse.worlds import DTQN, PACKAGE

DATA = Path(__file__).parent.parent / "data"
SIZES = (5, 7, 9)  # of the memory worlds with recorded episodes and exhaustive transitions


def original_name(id: str) -> str:
    """The original's name for the world of a task; DTQN's are the names of its files."""
    if id in PACKAGE:
        return id
    family, _, size = id.removeprefix("gridverse-").rpartition("-")
    return f"gv_{family.replace('-', '_')}.{size}"


def _arrays(file: str) -> dict[str, dict[str, NDArray[Any]]]:
    """By the name of a world, the arrays in a file that are named `world/array`."""
    found: dict[str, dict[str, NDArray[Any]]] = {}
    for key, array in np.load(DATA / "gridverse" / file).items():
        world, name = key.split("/")
        found.setdefault(world, {})[name] = array
    return found


_episodes = functools.cache(lambda: _arrays("episodes.npz"))
_exhaustive = functools.cache(lambda: _arrays("exhaustive.npz"))


def _recorded_name(id: str) -> str:
    return f"{original_name(id)}{'_dtqn' if id in DTQN else ''}"


RECORDED = tuple(id for id in (*DTQN, *PACKAGE) if _recorded_name(id) in _episodes())


def episodes(id: str) -> dict[str, NDArray[Any]]:
    """The recorded episodes of a task's world."""
    return dict(_episodes()[_recorded_name(id)])


def exhaustive(name: str) -> dict[str, NDArray[Any]]:
    """Every transition of a world of DTQN's, `memory_7x7` say."""
    return dict(_exhaustive()[name])


@functools.cache
def functions() -> dict[str, NDArray[Any]]:
    """The results of single functions on random grids."""
    return dict(np.load(DATA / "gridverse" / "function_level_random_grids.npz"))


def world_params() -> dict[str, dict[str, Any]]:
    """The facts that define each world, by the original's name."""
    params: dict[str, dict[str, Any]] = json.loads((DATA / "gridverse" / "env_params.json").read_text())
    return params


def representations() -> dict[str, dict[str, Any]]:
    """Bounds and index maps of the original's representations, by the original's name of the world."""
    with gzip.open(DATA / "gridverse" / "representations.json.gz", "rt") as file:
        found: dict[str, dict[str, Any]] = json.load(file)
    return found


def reset_statistics() -> dict[str, dict[str, Any]]:
    """Frequency tables of the original reset functions, by the original's name."""
    with gzip.open(DATA / "reset_statistics.json.gz", "rt") as file:
        statistics: dict[str, dict[str, Any]] = json.load(file)
    return statistics
