"""Greedy episodes of a run for the page's player, with the debugger's maps of their decisions.

Legend: T decisions of an episode, S of them that are shown, A actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from dtqn.inspection import dependence, gradients
from dtqn.inspection.album import Album
from dtqn.inspection.attention import attention
from dtqn.inspection.episodes import Episode, Outcome, Watch, outcomes, play
from dtqn.inspection.measures import score
from dtqn.inspection.views import Views, parts_of
from dtqn.networks.q_network import QNetwork
from dtqn.settings.config import Config
from dtqn.text import one_line
from dtqn.training import trained
from dtqn.training.directory import RunDir
from dtqn.training.setup import make_env, num_actions, task_spec
from dtqn.types import map_tree
from envs import TaskSpec

REPLACEMENTS = 16
"""Other episodes that give what is shown in place of a step."""
MOST_STEPS = 200
"""Steps shown of an episode; of a longer one so many at equal distances, and those that show the cue."""
_ROWS = 400_000
"""Rows that a network runs for the maps of an episode, at most: fewer steps are shown where that needs it."""
_WINDOW_ROWS = 4
"""Rows of windows that cost as much as one of a network with a state: there are many to a call."""
_FEWEST_STEPS = 8
MILLE = 1000
"""The unit of the maps."""


class Asked(NamedTuple):
    played: int
    """Episodes to choose from, above 1."""
    shown: int
    seed: int
    weights: str
    """`last` or `best`."""


class Played(NamedTuple):
    """A run's greedy episodes; the chosen ones have pictures where the task has any."""

    config: Config
    task: TaskSpec
    network: QNetwork
    episodes: list[Episode]
    chosen: list[int]
    """Failures first."""
    pictures: dict[int, list[int]]
    """By chosen episode, the album's number of each of T + 1 pictures; empty where there are none."""
    no_pictures: str
    """Why there are none; empty where there are."""


def greedy(directory: RunDir, asked: Asked, album: Album) -> Played:
    """Plays all episodes, chooses, and plays the same ones again for their pictures."""
    config = directory.read_config()
    network = trained.load_network(directory, config, asked.weights).requires_grad_(False)
    task = task_spec(config)

    def copies(render_mode: str | None = None) -> gymnasium.vector.VectorEnv:
        """The same episodes each time."""
        return make_env(config, asked.played, np.random.SeedSequence(asked.seed), render_mode)

    chosen = choose(outcomes(network, copies()), asked.shown, task.has_success)
    numbers: dict[int, list[int]] = {copy: [] for copy in chosen}

    def see(copy: int, step: int, picture: np.ndarray) -> None:
        numbers[copy].append(album.add(picture))

    why = ""
    try:
        episodes = play(network, copies("rgb_array"), others_of=chosen, watch=Watch(chosen, see))
    except Exception as error:  # whatever a task's own renderer raises
        why, numbers = one_line(error), {}
        episodes = play(network, copies(), others_of=chosen)
    return Played(config, task, network, episodes, chosen, numbers, why)


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


def steps_of(episode: Episode, replaced: int, context: int | None = None) -> np.ndarray:
    """[S] the steps of an episode that are shown, in order: all, if they are few enough.

    Args:
        replaced: how often a network runs from a step to the end.
        context: steps of the window that it re-reads for each decision; None: it carries a state.
    """
    length = rows = episode.length
    if context is not None and length > context:
        rows = context + (length - context) * context // _WINDOW_ROWS
    most = min(MOST_STEPS, max(_FEWEST_STEPS, 2 * _ROWS // (replaced * rows)))
    if length <= most:
        return np.arange(length)
    spread = np.linspace(0, length - 1, most).round().astype(int)
    if episode.cue is None:
        return np.unique(spread)
    return np.union1d(spread, np.flatnonzero(episode.cue)[:most])


def as_data(played: Played, seed: int, album: Album) -> dict[str, Any]:
    """The data of a run that the page's player reads."""
    task, episodes = played.task, played.episodes
    views = Views(parts_of(task), album)
    generator = np.random.default_rng(seed)
    mean_features = gradients.baseline(played.network, episodes)
    told = [
        _episode(played, number, views, mean_features, generator, num_actions(task))
        for number in played.chosen
    ]
    q = np.concatenate([episodes[number].q.numpy().ravel() for number in played.chosen])
    return {
        "actions": list(task.action_names) or [f"action {a}" for a in range(num_actions(task))],
        "q_range": [_digits(q.min()), _digits(q.max())],
        "score": score(episodes, task.has_success)._asdict(),
        "has_success": task.has_success,
        "no_pictures": played.no_pictures,
        "parts": [part._asdict() for part in views.parts],
        "views": views.seen,
        "episodes": told,
    }


def _episode(
    played: Played,
    number: int,
    views: Views,
    mean_features: Any,
    generator: np.random.Generator,
    actions: int,
) -> dict[str, Any]:
    episode = played.episodes[number]
    count = min(REPLACEMENTS, len(played.episodes) - 1)
    steps = steps_of(episode, count + actions - 1, getattr(played.network, "context_length", None))
    seen = views.of(map_tree(lambda x: x[:, steps], episode.inputs.observation))
    pictures = played.pictures.get(number)
    shown = [*steps, episode.length]
    return {
        "number": number,
        "success": episode.success if played.task.has_success else None,
        "return": _digits(episode.episode_return),
        "length": episode.length,
        "steps": steps.tolist(),
        "action": episode.action[steps].tolist(),
        "reward": [_digits(episode.reward[t]) for t in steps],
        "q": [[_digits(x) for x in row] for row in episode.q[steps].tolist()],
        "view": seen,
        "picture": None if pictures is None else [views.album.show(pictures[t]) for t in shown],
        "cue": None if episode.cue is None else np.flatnonzero(episode.cue[steps]).tolist(),
        "maps": _maps(played, episode, number, steps, count, mean_features, generator, actions),
    }


def _maps(
    played: Played,
    episode: Episode,
    number: int,
    steps: np.ndarray,
    count: int,
    mean_features: Any,
    generator: np.random.Generator,
    actions: int,
) -> dict[str, list[list[int] | None]]:
    """By name, for each decision that is shown its dependence on the steps up to it, in thousandths."""
    network = played.network
    others = dependence.replacements(played.episodes, number, count, generator)
    kept = set(steps.tolist())
    on_shown = dependence.one_step(network, episode, others, kept)
    found = {
        "shown": on_shown.advantage,
        "flips": on_shown.flips,
        "actions": dependence.actions_before(network, episode, actions, kept),
    }
    looked = attention(network, episode)
    if looked is not None:
        found["attention"] = looked.rollout
    maps: dict[str, list[list[int] | None]] = {
        name: [_mille(of[t, steps[: row + 1]]) for row, t in enumerate(steps)] for name, of in found.items()
    }
    attribution = gradients.integrated(network, episode, episode.length - 1, mean_features)
    if attribution is not None and np.abs(attribution.steps).sum() > 0:
        share = np.abs(attribution.steps) / np.abs(attribution.steps).sum()
        maps["gradient"] = [*[None] * (len(steps) - 1), _mille(share[steps])]
    return maps


def _mille(values: np.ndarray) -> list[int]:
    whole: list[int] = np.rint(values * MILLE).astype(int).tolist()
    return whole


def _digits(value: float) -> float:
    return float(f"{value:.6g}")
