"""Episodes with their pictures and rewards, and the dependence of each decision on past steps.

Legend: T decisions of an episode, A actions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dtqn.inspection import dependence
from dtqn.inspection.episodes import Episode, Watch, play
from dtqn.networks.q_network import QNetwork
from dtqn.settings.config import Config
from dtqn.training.setup import make_env
from envs import TaskSpec

REPLACEMENTS = 16
"""Other episodes that give what is shown in place of a past step."""
MOST_ROWS = 2_000_000
"""Rows that the network runs for an episode's dependence, at most: seconds on one core."""


class Recording(NamedTuple):
    """An episode, played to its end."""

    number: int
    """From 1."""
    actions: tuple[str, ...]
    """[A] words for the actions."""
    frames: list[np.ndarray] | None
    """T + 1 pictures, uint8 [height, width, 3], the last one after the last action; None: none are kept."""
    q: np.ndarray
    """[T, A]"""
    action: np.ndarray
    """[T]"""
    reward: np.ndarray
    """[T], what each action brought."""
    dependence: np.ndarray | None
    """[T, T] of the decision at t (row) on what step k showed (column); None where it is too long."""
    cue: np.ndarray | None
    """[T] bool: steps that show the secret; None where the task names none."""
    success: bool | None
    """None where the task defines none."""

    @property
    def length(self) -> int:
        return len(self.action)


def record(
    network: QNetwork, config: Config, number: int, seed: int, draws: bool, task: TaskSpec
) -> Recording:
    """Greedy episode `number` of this seed; every number begins another one.

    Args:
        draws: keep pictures of it; the task must be one that can be drawn.
    """
    env = make_env(config, 1, np.random.SeedSequence((seed, number)), "rgb_array" if draws else None)
    frames: list[np.ndarray] = []
    watch = Watch([0], lambda _, __, picture: frames.append(picture)) if draws else None
    (episode,) = play(network, env, watch=watch)
    return Recording(
        number=number,
        actions=task.name_actions(),
        frames=frames if draws else None,
        q=episode.q.numpy(),
        action=episode.action,
        reward=episode.reward,
        dependence=_dependence(network, config, episode, seed),
        cue=episode.cue,
        success=episode.success if task.has_success else None,
    )


def _dependence(network: QNetwork, config: Config, episode: Episode, seed: int) -> np.ndarray | None:
    """By replacement of each step with what other episodes showed there (docs/debug.md)."""
    if REPLACEMENTS * episode.length**2 / 2 > MOST_ROWS:
        return None
    others = play(network, make_env(config, REPLACEMENTS, np.random.SeedSequence((seed, 0))), others_of=())
    generator = np.random.default_rng(seed)
    shown = dependence.replacements([episode, *others], 0, REPLACEMENTS, generator)
    return dependence.one_step(network, episode, shown).advantage
