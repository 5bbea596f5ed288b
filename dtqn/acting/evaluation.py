"""Greedy evaluation: many episodes in parallel, a number fixed in advance for every copy, all counted.

Taking the first episodes to finish instead would favour short ones.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import gymnasium
import numpy as np
import torch

from dtqn.acting.rows import Episodes, VectorRows
from dtqn.networks.q_network import QNetwork
from dtqn.types import reset_rows
from envs import pictures

_NORMAL_QUANTILE = 1.959963984540054
"""Of the standard normal distribution at 0.975: 95 % lie within."""


class EvaluationResult(NamedTuple):
    success: float | None
    """Share of successful episodes, none where the task defines no success."""
    success_low: float | None
    """Lower end of Wilson's 95 % interval."""
    success_high: float | None
    episode_return: float
    """Mean undiscounted return, summed in float64."""
    length: float
    """Mean environment steps of an episode."""
    episodes: int


def wilson_interval(successes: int, episodes: int) -> tuple[float, float]:
    """Wilson's 95 % score interval of a share (Wilson 1927).

        (2 n p + z^2 -+ z sqrt(z^2 + 4 n p (1 - p))) / (2 (n + z^2)),  z = 1.96

    with n episodes and p the share of successes; an end is exactly 0 or 1 where p is.
    """
    share, square = successes / episodes, _NORMAL_QUANTILE**2
    scale = 2 * (episodes + square)
    centre = (2 * episodes * share + square) / scale
    half = _NORMAL_QUANTILE / scale * math.sqrt(4 * episodes * share * (1 - share) + square)
    low, high = centre - half, centre + half
    return 0.0 if successes == 0 else low, 1.0 if successes == episodes else high


@torch.no_grad()
def evaluate(
    network: QNetwork, env: gymnasium.vector.VectorEnv, episodes: int, has_success: bool
) -> EvaluationResult:
    """Play `episodes` greedy episodes; copy i of N plays every N-th, so the number of each is known before.

    Args:
        env: freshly made, with at most `episodes` copies; it is closed afterwards.
    """
    with contextlib.closing(env):
        return _evaluate(lambda rows: _greedy(network, rows), env, episodes, has_success)


def evaluate_random(
    env: gymnasium.vector.VectorEnv, episodes: int, has_success: bool, generator: np.random.Generator
) -> EvaluationResult:
    """The same of uniformly random actions, drawn from `generator`: what an agent has to be better than."""
    with contextlib.closing(env):
        return _evaluate(lambda rows: _uniform(generator, rows), env, episodes, has_success)


def _evaluate(
    policy: Callable[[VectorRows], Iterator[Episodes]],
    env: gymnasium.vector.VectorEnv,
    episodes: int,
    has_success: bool,
) -> EvaluationResult:
    copies = env.num_envs
    quota = np.full(copies, episodes // copies)
    quota[: episodes % copies] += 1
    played = np.zeros(copies, np.int64)
    returns, lengths, successes = [], [], []
    rows = VectorRows(env)
    play = policy(rows)
    while (played < quota).any():
        ended = next(play)
        counted = (played < quota)[rows.last]
        played[rows.last] += 1
        returns.append(ended.episode_return[counted])
        lengths.append(ended.length[counted])
        successes.append(ended.success[counted])
    success = np.concatenate(successes)
    low, high = wilson_interval(int(success.sum()), episodes) if has_success else (None, None)
    return EvaluationResult(
        success=float(success.mean()) if has_success else None,
        success_low=low,
        success_high=high,
        episode_return=float(np.concatenate(returns).mean()),
        length=float(np.concatenate(lengths).mean()),
        episodes=len(success),
    )


@torch.no_grad()
def film(network: QNetwork, env: gymnasium.vector.VectorEnv, file: Path) -> None:
    """Write a greedy episode as a GIF, `pictures.MAX_FRAMES` steps of it at most.

    Args:
        env: one fresh copy with render mode "rgb_array"; it is closed afterwards.
    """
    with contextlib.closing(env):
        rows = VectorRows(env)
        frames = [pictures.frame(env)]
        for _ in _greedy(network, rows):
            frames.append(pictures.frame(env))
            if rows.last[0] or len(frames) >= pictures.MAX_FRAMES:
                break
    pictures.write(frames, file)


def _greedy(network: QNetwork, rows: VectorRows) -> Iterator[Episodes]:
    """Step every copy by the action of largest Q, for ever; the episodes that end at each step."""
    parameter = next(network.parameters())
    initial = network.cache(network.initial_state(rows.env.num_envs))
    state = initial
    while True:
        state = reset_rows(state, initial, torch.from_numpy(rows.first).to(parameter.device))
        output, state, _ = network(rows.inputs(parameter.device, parameter.dtype), state)
        yield rows.step(output.q[:, 0].argmax(dim=-1).cpu().numpy())


def _uniform(generator: np.random.Generator, rows: VectorRows) -> Iterator[Episodes]:
    """Step every copy by an action at random, for ever; the episodes that end at each step."""
    actions = int(rows.env.single_action_space.n)  # type: ignore[attr-defined]
    while True:
        yield rows.step(generator.integers(actions, size=rows.env.num_envs))
