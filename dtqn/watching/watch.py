"""The command `watch`: greedy episodes of a trained agent in the terminal, and as a film.

An episode is played to its end first, as the dependence of its decisions is known only then, and shown
afterwards.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np

from dtqn.settings.config import wrong
from dtqn.training import machine, trained
from dtqn.training.directory import RunDir
from dtqn.training.display import open_film
from dtqn.training.setup import make_env, task_spec
from dtqn.watching import drawing, film
from dtqn.watching.recording import record
from envs import pictures

_COLUMNS, _LINES = 48, 24
"""The most that a picture takes of the terminal."""


class Asked(NamedTuple):
    episodes: int
    seed: int
    weights: str
    delay_seconds: float
    gif: Path | None


def watch(directory: RunDir, asked: Asked, out: TextIO) -> None:
    """Show episodes on `out`, and keep the first one as a film where that is asked for.

    Raises:
        ConfigError: a film is asked for of a task that cannot be drawn.
    """
    machine.prepare()
    config = directory.read_config()
    network = trained.load_network(directory, config, asked.weights).requires_grad_(False)
    has_success = task_spec(config).has_success
    is_terminal = out.isatty()
    draws = False
    if is_terminal or asked.gif is not None:
        try:
            make_env(config, 1, np.random.SeedSequence(0), "rgb_array").close()
            draws = True
        except ValueError as error:
            if asked.gif is not None:
                raise wrong("--gif", asked.gif, f"the task cannot be drawn: {error}") from None
    shown = open_film(out)
    with shown:
        for number in range(1, asked.episodes + 1):
            episode = record(network, config, number, asked.seed, draws, has_success)
            for t in range(episode.length + 1):
                at_end = t == episode.length
                line = drawing.outcome(episode) if at_end else drawing.plain(episode, t)
                cells = None
                if is_terminal and episode.frames is not None:
                    cells = drawing.cells(drawing.shrunk(episode.frames[t], _COLUMNS, _LINES))
                shown.show(cells, drawing.panel(episode, t), line, keep=at_end)
                if is_terminal:
                    time.sleep(asked.delay_seconds)
            if asked.gif is not None and number == 1:
                pictures.write(film.frames(episode), asked.gif)
    if asked.gif is not None:
        print(f"film of episode 1: {asked.gif}", file=out)
