"""Pictures of one episode for print, as vector PDF.

Legend: T decisions of an episode, L layers, H heads, K positions of a window, D width.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from dtqn import plots
from dtqn.acting.statistics import mean
from dtqn.inspection import dependence
from dtqn.inspection.attention import Attention, attention
from dtqn.inspection.episodes import Episode
from dtqn.inspection.played import REPLACEMENTS, Played, steps_of
from dtqn.networks.q_network import QNetwork
from dtqn.plots import DependenceMap
from dtqn.types import map_tree


def draw(played: Played, seed: int, folder: Path) -> list[Path]:
    """The pictures of the last chosen episode, a success where there is one; the files that are made."""
    number = played.chosen[-1]
    episode = played.episodes[number]
    config = played.config
    title = f"{config.env}, {config.agent}, episode {number}"
    maps = _maps(played, seed)
    steps = _steps(played, number)
    cue = None if episode.cue is None else np.flatnonzero(episode.cue[steps]).tolist()
    files = [folder / "dependence.pdf", folder / "recall-density.pdf"]
    shown = DependenceMap(title, maps[number][np.ix_(steps, steps)], cue)
    plots.dependence_map(shown, steps.tolist(), files[0])
    _density(maps, number, files[1], title)
    found = window_attention(played.network, episode)
    if found is not None:
        start, looked = found
        files += [folder / "attention.pdf", folder / "rollout.pdf"]
        plots.attention_maps(looked.weights, files[-2], title, start)
        plots.attention_rollout(looked.rollout, files[-1], title, start)
    similarity = position_similarity(played.network)
    if similarity is not None:
        files.append(folder / "positions.pdf")
        plots.position_similarity(similarity, files[-1], f"{config.env}, {config.agent}")
    return files


def _steps(played: Played, number: int) -> np.ndarray:
    """[S] the steps of an episode that are replaced: all of one that is not too long."""
    context, episode = getattr(played.network, "context_length", None), played.episodes[number]
    # As on the page, whose map of actions takes as many passes as there are other actions.
    return steps_of(episode, _replaced(played) + episode.q.shape[1] - 1, context)


def _replaced(played: Played) -> int:
    return min(REPLACEMENTS, len(played.episodes) - 1)


def _maps(played: Played, seed: int) -> dict[int, np.ndarray]:
    """[T, T] of each chosen episode; nan in the columns of steps that are not replaced."""
    generator = np.random.default_rng(seed)
    found = {}
    for number in played.chosen:
        others = dependence.replacements(played.episodes, number, _replaced(played), generator)
        kept = set(_steps(played, number).tolist())
        found[number] = dependence.one_step(played.network, played.episodes[number], others, kept).advantage
    return found


def _density(maps: dict[int, np.ndarray], number: int, path: Path, title: str) -> None:
    """Draw the recall density of the episode, and that over all episodes that are mapped."""
    by_distance = {
        n: [_mean(np.diagonal(of, -distance)) for distance in range(len(of))] for n, of in maps.items()
    }
    longest = max(map(len, by_distance.values()))
    figures = [
        mean([density[distance] for density in by_distance.values() if distance < len(density)])
        for distance in range(longest)
    ]
    value, low, high = zip(*((math.nan,) * 3 if one is None else one[:3] for one in figures), strict=True)
    plots.recall_density(by_distance[number], value, low, high, path, title)


def _mean(values: np.ndarray) -> float:
    """That of the values which are known."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else math.nan


def window_attention(network: QNetwork, episode: Episode) -> tuple[int, Attention] | None:
    """Attention over the episode, or over the last window of a network that reads no more; its first step.

    A window is a function of its rows, so that one of the episode's last K rows is the last decision's.
    """
    context: int | None = getattr(network, "context_length", None)
    start = 0 if context is None else max(0, episode.length - context)
    part = episode
    if start:
        rows = map_tree(lambda x: x[:, start:], episode.inputs)
        part = episode._replace(inputs=rows, action=episode.action[start:], q=episode.q[start:])
    found = attention(network, part)
    return None if found is None else (start, found)


def position_similarity(network: QNetwork) -> np.ndarray | None:
    """[K, K] cosines of the embeddings of a window's positions [K, D]; None where it has none."""
    table = getattr(getattr(network, "decoder", None), "positions", None)
    if table is None:
        return None
    positions = table.detach().double().numpy()
    lengths = np.linalg.norm(positions, axis=1, keepdims=True)
    unit = positions / np.maximum(lengths, 1e-30)
    similarity: np.ndarray = unit @ unit.T
    return similarity
