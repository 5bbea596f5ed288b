"""The command `maps`: on which past steps decisions depend, a map of one greedy episode for each run.

The point in row t and column k is the change of the decision at t when the observation of step k is replaced
by what other episodes showed, as a share of its range of Q-values (docs/debug.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dtqn import plots
from dtqn.inspection import dependence, measures, recorder
from dtqn.plots import Map
from dtqn.settings.names import name_of
from dtqn.training.directory import RunDir

_MOST_SETTINGS = 3
"""That a name shows."""


class Look(NamedTuple):
    """One episode of a run."""

    task: str
    agent: str
    score: str
    """Of all the episodes."""
    saw: np.ndarray
    """[T, T] the decision at t on the observation of step k; nan where k > t."""
    did: np.ndarray
    """[T, T] on the action before step k."""
    cue: np.ndarray
    """The steps that show it."""


def look(path: Path, episodes: int, seed: int, weights: str) -> Look:
    """The longest success of greedy episodes, or the longest of all where none succeeds."""
    run = recorder.load(RunDir(path), weights, episodes, seed)
    found = recorder.play(run.network, run.make_envs())
    number = max(range(len(found)), key=lambda n: (found[n].success, found[n].length))
    episode, succeeded = found[number], sum(x.success for x in found)
    count, generator = min(dependence.REPLACEMENTS, episodes - 1), np.random.default_rng(0)
    made = measures.mapped(run.network, found, number, count, generator)
    earlier = np.tri(episode.length, dtype=bool)
    mean = np.mean([x.episode_return for x in found])
    score = f"{succeeded} of {len(found)} succeed" if succeeded else f"return {mean:.2f}"
    saw, did = (np.where(earlier, x, np.nan) for x in (made.dependence.advantage, made.actions))
    cue = np.zeros(0) if episode.cue is None else np.flatnonzero(episode.cue)
    task, agent = name_of(run.config)
    return Look(task, _short(agent), score, saw, did, cue)


def draw(looks: Sequence[Look], with_actions: bool, path: Path) -> None:
    """A row for each task and a column for each of its agents; with actions, a column for each run.

    Then a second row replaces what the agent did, in the colours of the first.
    """
    if with_actions:
        saw = [_map(x, x.saw, f"{x.task}\n{x.agent}\n{x.score}, ") for x in looks]
        rows = {
            "observation of step k replaced": saw,
            "action before step k replaced": [_map(x, x.did, "") for x in looks],
        }
    else:
        rows = dict[str, list[Map]]()
        for x in looks:
            rows.setdefault(x.task, []).append(_map(x, x.saw, f"{x.agent}\n{x.score}, "))
    plots.maps(rows, path)


def _map(look: Look, values: np.ndarray, title: str) -> Map:
    largest, brightest = np.nanmax(values), float(np.nanmax(look.saw))
    told = f"{title}largest {largest:.2g}"
    return Map(told, values, look.cue.tolist(), max(brightest, 1e-3))


def _short(agent: str) -> str:
    """The name, with a line for each setting of its own; of many settings how many."""
    name, *own = agent.split("+")
    return "\n+".join([name, *(own if len(own) <= _MOST_SETTINGS else [f"{len(own)} settings"])])
