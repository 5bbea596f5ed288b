"""Episodes with their pictures and rewards, and the dependence of each decision on past steps.

Legend: T decisions of an episode, A actions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dtqn.debugging import dependence
from dtqn.debugging.episodes import Episode, play
from dtqn.networks.q_network import QNetwork
from dtqn.settings.config import Config
from dtqn.training.setup import make_env
from envs import pictures

REPLACEMENTS = 16
"""Other episodes that give what is shown in place of a past step."""
MOST_ROWS = 2_000_000
"""Rows that the network runs for an episode's dependence, at most: seconds on one core."""


class Recording(NamedTuple):
    """An episode, played to its end."""

    number: int
    """From 1."""
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


class _Filmed:
    """One copy of a task, whose pictures and rewards are kept."""

    def __init__(self, env: Any, draws: bool) -> None:
        self._env, self._draws = env, draws
        self.frames: list[np.ndarray] = []
        self.rewards: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def reset(self, **given: Any) -> Any:
        found = self._env.reset(**given)
        self._look()
        return found

    def step(self, action: np.ndarray) -> Any:
        found = self._env.step(action)
        self.rewards.append(float(found[1][0]))
        self._look()
        return found

    def _look(self) -> None:
        if self._draws:
            self.frames.append(pictures.frame(self._env))


def record(
    network: QNetwork, config: Config, number: int, seed: int, draws: bool, has_success: bool
) -> Recording:
    """Greedy episode `number` of this seed; every number begins another one.

    Args:
        draws: keep pictures of it; the task must be one that can be drawn.
    """
    env = make_env(config, 1, np.random.SeedSequence((seed, number)), "rgb_array" if draws else None)
    filmed = _Filmed(env, draws)
    (episode,) = play(network, filmed)  # type: ignore[arg-type]  # it has all that is asked of an environment
    return Recording(
        number=number,
        frames=filmed.frames if draws else None,
        q=episode.q.numpy(),
        action=episode.action,
        reward=np.array(filmed.rewards),
        dependence=_dependence(network, config, episode, seed),
        cue=episode.cue,
        success=episode.success if has_success else None,
    )


def _dependence(network: QNetwork, config: Config, episode: Episode, seed: int) -> np.ndarray | None:
    """By replacement of each step with what other episodes showed there (docs/debug.md)."""
    if REPLACEMENTS * episode.length**2 / 2 > MOST_ROWS:
        return None
    others = play(network, make_env(config, REPLACEMENTS, np.random.SeedSequence((seed, 0))))
    generator = np.random.default_rng(seed)
    shown = dependence.replacements([episode, *others], 0, REPLACEMENTS, generator)
    return dependence.one_step(network, episode, shown).advantage
