"""The agent's own view as the page shows it: cells, numbers or a picture for each part of an observation.

Legend: T steps of an episode.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict

from dtqn.inspection.album import Album
from dtqn.types import Observation
from envs import TaskSpec

_PICTURE_SIDE = 16
"""Pixels of either side from which on a Box of numbers is a picture."""
_MOST_NUMBERS = 400
"""Numbers of a part that are shown; the page says how many there are."""
_IN_A_ROW = 8


class Part(NamedTuple):
    """A part of every observation of a task."""

    name: str
    kind: str
    """`cells` of codes, `numbers`, or a `picture`."""
    columns: int
    depth: int
    """Numbers of a cell."""
    numbers: int
    """How many there are, shown or not."""


def parts_of(task: TaskSpec) -> list[Part]:
    space = task.observation_space
    if isinstance(space, Dict):
        return [_part(name, part, None) for name, part in space.spaces.items()]
    return [_part("", space, task.view)]


def _part(name: str, space: gymnasium.Space[Any], view: tuple[int, int] | None) -> Part:
    shape = space.shape or ()
    count = int(np.prod(shape, dtype=int))
    is_coded = not isinstance(space, Box)
    if not is_coded and len(shape) >= 2 and min(shape[:2]) >= _PICTURE_SIDE:
        return Part(name, "picture", 0, 0, count)
    if len(shape) == 3:
        return Part(name, "cells", shape[1], shape[2], count)
    kind = "cells" if is_coded else "numbers"
    if len(shape) == 2:
        return Part(name, kind, shape[1], 1, count)
    if view is not None and count >= view[0] * view[1]:
        return Part(name, "cells", view[1], 1, count)
    return Part(name, kind, min(count, _IN_A_ROW) or 1, 1, count)


class Views:
    """Observations by number, each once however often it is seen."""

    def __init__(self, parts: list[Part], album: Album) -> None:
        self.parts, self.album = parts, album
        self.seen: list[list[Any]] = []
        """For each a value a part: a picture's number, or numbers in a row."""
        self._numbers: dict[str, int] = {}

    def of(self, observation: Observation) -> list[int]:
        """The numbers of what is seen in rows [1, T, ...]."""
        named = observation if isinstance(observation, dict) else {"": observation}
        arrays = [named[part.name][0].numpy() for part in self.parts]
        return [
            self._number([self._value(part, rows[t]) for part, rows in zip(self.parts, arrays, strict=True)])
            for t in range(len(arrays[0]))
        ]

    def _number(self, view: list[Any]) -> int:
        key = json.dumps(view)
        if key not in self._numbers:
            self._numbers[key] = len(self.seen)
            self.seen.append(view)
        return self._numbers[key]

    def _value(self, part: Part, shown: np.ndarray) -> Any:
        if part.kind == "picture":
            return self.album.show(self.album.add(_as_picture(shown)))
        flat = shown.ravel()[:_MOST_NUMBERS]
        return [float(f"{x:.4g}") for x in flat] if flat.dtype.kind == "f" else flat.astype(int).tolist()


def _as_picture(shown: np.ndarray) -> np.ndarray:
    """uint8, grey or RGB; of several frames side by side the newest, of other numbers their range as grey."""
    if shown.ndim == 3:
        shown = shown[..., -3:] if shown.shape[2] % 3 == 0 else shown[..., -1]
    if shown.dtype != np.uint8:
        low, high = float(shown.min()), float(shown.max())
        shown = (255 * (shown - low) / max(high - low, 1e-9)).round().astype(np.uint8)
    return np.ascontiguousarray(shown)
