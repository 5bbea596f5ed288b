"""Greedy episodes of a run for the page's player, with the debugger's maps of their decisions.

Legend: T decisions of an episode, S of them that are shown, A actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dtqn.inspection.measures import Map, mapped
from dtqn.inspection.page_observations import Observations, Pictures, parts_of, png
from dtqn.inspection.recorder import Episode, Outcome, TrainedRun, load, outcomes, play
from dtqn.text import one_line
from dtqn.training.directory import RunDir
from dtqn.training.setup import num_actions
from dtqn.types import map_tree

REPLACEMENTS = 16
"""Other episodes that give what is shown in place of a step."""
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
    chosen, why = choose(outcomes(run.network, run.copies()), asked.shown, run.task.has_success), ""
    try:
        episodes = play(run.network, run.copies("rgb_array"), pictures_of=chosen, keep_picture=png)
    except Exception as error:  # whatever a task's own renderer raises
        why = one_line(error)
        episodes = play(run.network, run.copies())
    observations = Observations(parts_of(run.task), pictures)
    generator = np.random.default_rng(run.seed)
    told = [_episode(run, episodes, number, observations, generator) for number in chosen]
    q = np.concatenate([episodes[number].q.numpy().ravel() for number in chosen])
    return {
        "actions": list(run.task.action_names) or [f"action {a}" for a in range(num_actions(run.task))],
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
    episode, count = episodes[number], min(REPLACEMENTS, len(episodes) - 1)
    steps = steps_of(episode, getattr(run.network, "context_length", None))
    seen = observations.of(map_tree(lambda x: x[:, steps], episode.inputs.observation))
    pictures, shown = episode.pictures, [*steps, episode.length]
    actions, kept = num_actions(run.task), set(steps.tolist())
    maps = mapped(run.network, episodes, number, count, actions, generator, kept)
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
        name: [np.rint(of[t, steps[: row + 1]] * MILLE).astype(int).tolist() for row, t in enumerate(steps)]
        for name, of in maps.items()
        if of is not None
    }


def _digits(value: float) -> float:
    return float(f"{value:.6g}")
