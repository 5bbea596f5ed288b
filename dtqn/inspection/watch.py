"""The command `watch`: greedy episodes of a trained agent in the terminal, and as a film.

An episode is played to its end first, as the dependence of its decisions is known only then, and shown
afterwards.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np

from dtqn.inspection import dependence, drawing, film
from dtqn.inspection.drawing import Shown
from dtqn.inspection.recorder import Episode, TrainedRun, load, play
from dtqn.settings.config import Config, wrong
from dtqn.training.directory import RunDir
from dtqn.training.display import open_film
from dtqn.training.setup import make_env

REPLACEMENTS = 16
"""Other episodes that give what is shown in place of a past step."""
MOST_ROWS = 2_000_000
"""Rows that the network runs for an episode's dependence, at most: seconds on one core."""
_COLUMNS, _LINES = 48, 24
"""The most that a picture takes of the terminal."""


class Asked(NamedTuple):
    episodes: int
    seed: int
    weights: str
    delay_seconds: float
    films: Mapping[str, Path]
    """Option -> file, of the first episode."""


def watch(directory: RunDir, asked: Asked, out: TextIO) -> None:
    """Show episodes on `out`, and keep the first one as films where that is asked for.

    Raises:
        ConfigError: a film is asked for of a task that cannot be drawn.
    """
    run = load(directory, asked.weights, 1, asked.seed)
    is_terminal = out.isatty()
    draws = (is_terminal or bool(asked.films)) and _draws(run.config, asked.films)
    room = shutil.get_terminal_size()
    with contextlib.closing(open_film(out)) as view:
        for number in range(1, asked.episodes + 1):
            shown = record(run, number, asked.seed, draws)
            if number == 1:
                for option, file in asked.films.items():
                    film.write(shown, option, file)
            for t in range(shown.episode.length + 1):
                at_end = t == shown.episode.length
                line = drawing.outcome(shown) if at_end else drawing.plain(shown, t)
                cells = None
                if is_terminal and shown.episode.pictures is not None:
                    columns, lines = min(_COLUMNS, room.columns // 2), min(_LINES, room.lines - 2)
                    picture = drawing.shrunk(shown.episode.pictures[t], max(columns, 1), max(lines, 1))
                    cells = drawing.cells(picture)
                view.show(cells, drawing.panel(shown, t), line, keep=at_end)
                if is_terminal:
                    time.sleep(asked.delay_seconds)
    for file in asked.films.values():
        print(f"film of episode 1: {file}", file=out)


def record(run: TrainedRun, number: int, seed: int, draws: bool) -> Shown:
    """Greedy episode `number` of this seed; every number begins another one.

    Args:
        draws: keep pictures of it; the task must be one that can be drawn.
    """
    copies = run._replace(episodes=1, seed=(seed, number)).copies("rgb_array" if draws else None)
    (episode,) = play(run.network, copies, pictures_of=[0] if draws else [])
    return Shown(
        number=number,
        actions=run.task.name_actions(),
        episode=episode,
        dependence=_dependence(run, episode, seed),
        success=episode.success if run.task.has_success else None,
    )


def _dependence(run: TrainedRun, episode: Episode, seed: int) -> np.ndarray | None:
    """By replacement of each step with what other episodes showed there (docs/debug.md)."""
    if REPLACEMENTS * episode.length**2 / 2 > MOST_ROWS:
        return None
    others = play(run.network, run._replace(episodes=REPLACEMENTS, seed=(seed, 0)).copies())
    generator = np.random.default_rng(seed)
    shown = dependence.replacements([episode, *others], 0, REPLACEMENTS, generator)
    return dependence.one_step(run.network, episode, shown).advantage


def _draws(config: Config, films: Mapping[str, Path]) -> bool:
    """Whether the task has pictures; a ConfigError where a film needs them."""
    try:
        make_env(config, 1, np.random.SeedSequence(0), "rgb_array").close()
    except ValueError as error:
        for option, file in films.items():
            raise wrong(option, file, f"the task cannot be drawn: {error}") from None
        return False
    return True
