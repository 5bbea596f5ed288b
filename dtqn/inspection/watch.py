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

from dtqn.inspection import drawing, film
from dtqn.inspection.recording import record
from dtqn.settings.config import Config, wrong
from dtqn.training import machine, trained
from dtqn.training.directory import RunDir
from dtqn.training.display import open_film
from dtqn.training.setup import make_env, task_spec

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
    machine.prepare()
    config = directory.read_config()
    network = trained.load_network(directory, config, asked.weights).requires_grad_(False)
    task = task_spec(config)
    is_terminal = out.isatty()
    draws = (is_terminal or bool(asked.films)) and _draws(config, asked.films)
    room = shutil.get_terminal_size()
    with contextlib.closing(open_film(out)) as shown:
        for number in range(1, asked.episodes + 1):
            episode = record(network, config, number, asked.seed, draws, task)
            if number == 1:
                for option, file in asked.films.items():
                    film.write(episode, option, file)
            for t in range(episode.length + 1):
                at_end = t == episode.length
                line = drawing.outcome(episode) if at_end else drawing.plain(episode, t)
                cells = None
                if is_terminal and episode.frames is not None:
                    columns, lines = min(_COLUMNS, room.columns // 2), min(_LINES, room.lines - 2)
                    cells = drawing.cells(drawing.shrunk(episode.frames[t], max(columns, 1), max(lines, 1)))
                shown.show(cells, drawing.panel(episode, t), line, keep=at_end)
                if is_terminal:
                    time.sleep(asked.delay_seconds)
    for file in asked.films.values():
        print(f"film of episode 1: {file}", file=out)


def _draws(config: Config, films: Mapping[str, Path]) -> bool:
    """Whether the task has pictures; a ConfigError where a film needs them."""
    try:
        make_env(config, 1, np.random.SeedSequence(0), "rgb_array").close()
    except ValueError as error:
        for option, file in films.items():
            raise wrong(option, file, f"the task cannot be drawn: {error}") from None
        return False
    return True
