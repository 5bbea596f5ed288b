"""Greedy episodes of a run for the page's player, with the debugger's maps of their decisions.

Legend: T decisions of an episode, S of them that are shown, A actions.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict
from PIL import Image

from dtqn.inspection import dependence
from dtqn.inspection.measures import Map, mapped
from dtqn.inspection.recorder import Episode, Outcome, TrainedRun, load, outcomes, play
from dtqn.text import one_line
from dtqn.training.directory import RunDir
from dtqn.types import Observation, map_tree
from envs import TaskSpec

LARGEST_SIDE = 320
"""Pixels; larger pictures are made smaller."""
SMALLEST_SIDE = 40
MOST_BYTES = 2_500_000
"""Bytes of all pictures together; where there are more, all are made smaller."""
_PICTURE_SIDE = 16
"""Pixels of either side from which on a Box of numbers is a picture."""
_MOST_NUMBERS = 400
"""Numbers of a part that are shown; the page says how many there are."""
_IN_A_ROW = 8


class Pictures:
    """The page's pictures by number, in the order in which they came, each once."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}

    def add(self, file: bytes) -> int:
        """The number of a picture, as `png` has made it."""
        return self._numbers.setdefault(file, len(self._numbers))

    def links(self, most_bytes: int = MOST_BYTES) -> list[str]:
        """The pictures as `data:` links, which take `most_bytes` together if their sides allow it."""
        files, side = list(self._numbers), LARGEST_SIDE
        while sum(map(len, files)) * 4 / 3 > most_bytes and side > SMALLEST_SIDE:
            side //= 2
            files = [png(Image.open(io.BytesIO(x)).convert("RGB"), side) for x in self._numbers]
        return [f"data:image/png;base64,{base64.b64encode(x).decode()}" for x in files]


def png(picture: np.ndarray | Image.Image, side: int = LARGEST_SIDE) -> bytes:
    """The file of a picture, uint8 [height, width, 3] or [height, width]; larger ones made smaller.

    Without loss where the picture is small enough and has 256 colours at most.
    """
    image = picture if isinstance(picture, Image.Image) else Image.fromarray(picture)
    if max(image.size) > side:
        scale = side / max(image.size)
        size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
        image = image.resize(size, Image.Resampling.BOX)
    if image.mode == "RGB" and image.getcolors(256) is not None:
        palette = image.convert("P", palette=Image.Palette.ADAPTIVE, colors=256)
        if palette.convert("RGB").tobytes() == image.tobytes():
            image = palette
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    return out.getvalue()


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


class Observations:
    """Observations by number, each once however often it is seen."""

    def __init__(self, parts: list[Part], pictures: Pictures) -> None:
        self.parts, self.pictures = parts, pictures
        self._numbers: dict[str, int] = {}

    @property
    def seen(self) -> list[list[Any]]:
        """For each a value a part: a picture's number, or numbers in a row."""
        return [json.loads(text) for text in self._numbers]

    def of(self, observation: Observation) -> list[int]:
        """The numbers of what is seen at the timesteps [1, T, ...]."""
        named = observation if isinstance(observation, dict) else {"": observation}
        arrays = [named[part.name][0].numpy() for part in self.parts]
        return [
            self._number([self._value(part, seen[t]) for part, seen in zip(self.parts, arrays, strict=True)])
            for t in range(len(arrays[0]))
        ]

    def _number(self, shown: list[Any]) -> int:
        return self._numbers.setdefault(json.dumps(shown), len(self._numbers))

    def _value(self, part: Part, shown: np.ndarray) -> Any:
        if part.kind == "picture":
            return self.pictures.add(png(_as_picture(shown)))
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


MOST_STEPS = 100
"""Steps shown of an episode; of a longer one so many at equal distances, and those that show the cue."""
MOST_WINDOWS = 16
"""As many of one longer than the window that the network reads again for each decision, which takes long."""
MILLE = 1000
"""The unit of the maps."""


class Asked(NamedTuple):
    played: int
    """Episodes to choose from, above 1."""
    shown: int
    seed: int
    weights: str
    """`last` or `best`."""


def as_data(directory: RunDir, asked: Asked, pictures: Pictures) -> dict[str, Any]:
    """The data of a run that the page's player reads.

    All episodes are played, and the same ones again for pictures of those that are shown.
    """
    run = load(directory, asked.weights, asked.played, asked.seed)
    chosen, why = choose(outcomes(run.network, run.make_envs()), asked.shown, run.task.has_success), ""
    try:
        episodes = play(run.network, run.make_envs("rgb_array"), pictures_of=chosen, keep_picture=png)
    except Exception as error:  # whatever a task's own renderer raises
        why = one_line(error)
        episodes = play(run.network, run.make_envs())
    observations = Observations(parts_of(run.task), pictures)
    generator = np.random.default_rng(run.seed)
    told = [_episode(run, episodes, number, observations, generator) for number in chosen]
    q = np.concatenate([episodes[number].q.numpy() for number in chosen])
    return {
        "actions": list(run.task.action_names) or [f"action {a}" for a in range(q.shape[1])],
        "q_range": [_digits(q.min()), _digits(q.max())],
        "no_pictures": why,
        "parts": [part._asdict() for part in observations.parts],
        "views": observations.seen,
        "episodes": told,
    }


def choose(episodes: Sequence[Outcome], count: int, has_success: bool) -> list[int]:
    """The first failures and the first successes, failures first, half of each if there are as many.

    Where the task defines no success: the lowest and the highest returns.
    """
    if has_success:
        bad = [n for n, episode in enumerate(episodes) if not episode.success]
        good = [n for n, episode in enumerate(episodes) if episode.success]
    else:
        order = sorted(range(len(episodes)), key=lambda n: episodes[n].episode_return)
        half = len(order) // 2
        bad, good = order[:half], order[half:][::-1]
    some_good = min(len(good), count // 2)
    some_bad = min(len(bad), count - some_good)
    return [*bad[:some_bad], *good[: count - some_bad]]


def steps_of(episode: Episode, context: int | None = None) -> np.ndarray:
    """[S] the steps of an episode that are shown, in order: all, if they are few enough.

    Args:
        context: steps of the window that the network reads; None: it carries a state.
    """
    most = MOST_STEPS if context is None or episode.length <= context else MOST_WINDOWS
    if episode.length <= most:
        return np.arange(episode.length)
    spread = np.linspace(0, episode.length - 1, most).round().astype(int)
    if episode.cue is None:
        return spread
    return np.union1d(spread, np.flatnonzero(episode.cue)[:most])


def _episode(
    run: TrainedRun,
    episodes: Sequence[Episode],
    number: int,
    observations: Observations,
    generator: np.random.Generator,
) -> dict[str, Any]:
    episode, count = episodes[number], min(dependence.REPLACEMENTS, len(episodes) - 1)
    steps = steps_of(episode, getattr(run.network, "context_length", None))
    seen = observations.of(map_tree(lambda x: x[:, steps], episode.inputs.observation))
    pictures, shown = episode.pictures, [*steps, episode.length]
    maps = mapped(run.network, episodes, number, count, generator, set(steps.tolist()))
    return {
        "number": number,
        "success": episode.success if run.task.has_success else None,
        "return": _digits(episode.episode_return),
        "length": episode.length,
        "steps": steps.tolist(),
        "action": episode.action[steps].tolist(),
        "reward": [_digits(episode.reward[t]) for t in steps],
        "q": [[_digits(x) for x in row] for row in episode.q[steps].tolist()],
        "view": seen,
        "picture": None if pictures is None else [observations.pictures.add(pictures[t]) for t in shown],
        "cue": None if episode.cue is None else np.flatnonzero(episode.cue[steps]).tolist(),
        "maps": _of_shown(maps, steps),
    }


def _of_shown(found: Map, steps: np.ndarray) -> dict[str, list[list[int]]]:
    """By name, for each decision that is shown its dependence on the steps up to it, in thousandths."""
    maps = {
        "shown": found.dependence.advantage,
        "flips": found.dependence.flips,
        "actions": found.actions,
        "attention": found.attention,
    }
    return {
        name: [np.rint(of[t, steps[: at + 1]] * MILLE).astype(int).tolist() for at, t in enumerate(steps)]
        for name, of in maps.items()
        if of is not None
    }


def _digits(value: float) -> float:
    return float(f"{value:.6g}")
