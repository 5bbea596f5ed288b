"""Figures over the episodes of a debugged run, each with its 95 % interval, and what they are made of.

Legend: T decisions of an episode, t a decision, k a step up to it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from dtqn.acting.episode_intervals import Figure, mean
from dtqn.inspection import dependence
from dtqn.inspection.attention import attention
from dtqn.inspection.dependence import Effect
from dtqn.inspection.recorder import Episode
from dtqn.networks.q_network import QNetwork

HELD = 0.05
"""The change of a decision above which the cue is still held, as a share of the range of Q-values."""


class Map(NamedTuple):
    """All that is known of one episode's decisions."""

    dependence: Effect
    actions: np.ndarray
    """[T, T] of the decision at t on the action that step k names."""
    attention: np.ndarray | None
    """[T, T] its rollout."""


def mapped(
    network: QNetwork,
    episodes: Sequence[Episode],
    of: int,
    replacements: int,
    generator: np.random.Generator,
    steps: Collection[int] | None = None,
) -> Map:
    """Every measure of one of the episodes; the others give what is shown in place of its steps.

    Args:
        steps: those that are replaced, the columns of the others are nan; None: all.
    """
    episode = episodes[of]
    others = dependence.replacements(episodes, of, replacements, generator)
    looked = attention(network, episode)
    return Map(
        dependence=dependence.one_step(network, episode, others, steps),
        actions=dependence.actions_before(network, episode, steps),
        attention=None if looked is None else looked.rollout,
    )


class Cue(NamedTuple):
    """The effect of the secret that the task names on one episode's decisions."""

    steps: np.ndarray
    """[T] bool: those that show it."""
    changes: np.ndarray
    """[T] of the advantages, with the other secret shown at all its steps."""
    flips: np.ndarray
    """[T] bool: then another action is the greedy one."""
    last_flips: bool
    """Whether it is for the last decision with the other secret at the steps before that decision's own."""
    other_flips: float | None
    """The share of replacements of as many other steps before the last decision that change its action."""


def cue(
    network: QNetwork, episodes: Sequence[Episode], of: int, replacements: int, generator: np.random.Generator
) -> Cue | None:
    """None where the task names no secret, or this episode never shows it before its last decision."""
    episode, last = episodes[of], episodes[of].length - 1
    steps = episode.cue
    if steps is None or episode.other is None or not steps[:last].any():
        return None
    swapped = dependence.block(network, episode, steps, episode.other)
    before = steps & (np.arange(len(steps)) < last)
    last_flips = bool(dependence.block(network, episode, before, episode.other).flips[0, last])
    rest, other_flips = np.flatnonzero(~steps[:last]), None
    if len(rest):
        chosen = np.zeros(episode.length, bool)
        chosen[generator.choice(rest, min(len(rest), int(steps[:last].sum())), replace=False)] = True
        others = dependence.replacements(episodes, of, replacements, generator)
        other_flips = float(dependence.block(network, episode, chosen, others).flips[:, last].mean())
    return Cue(steps, swapped.advantage[0], swapped.flips[0], last_flips, other_flips)


def recall_density(maps: Sequence[Map]) -> list[Figure | None]:
    """By distance t - k from 0 on: the mean dependence of decisions on what was shown so long ago."""
    longest = max(len(x.dependence.advantage) for x in maps)
    return [
        mean([
            float(np.diagonal(x.dependence.advantage, -distance).mean())
            for x in maps
            if len(x.dependence.advantage) > distance
        ])
        for distance in range(longest)
    ]  # fmt: skip


def times_its_share(found: Cue, of: Map) -> float:
    """The last decision's dependence on the cue's steps, as a multiple of their share of those before."""
    steps = found.steps[:-1]
    return _share_of(steps, of) / float(steps.mean())


def contamination(found: Cue, of: Map) -> float:
    """The share of the last decision's dependence on earlier steps that show no cue."""
    return _share_of(~found.steps[:-1], of)


def _share_of(steps: np.ndarray, of: Map) -> float:
    """The share of some earlier steps in the last decision's dependence; nan where it depends on none."""
    before = of.dependence.advantage[-1, :-1]
    total = float(before.sum())
    return float(before[steps].sum()) / total if total > 0 else math.nan


def held(found: Cue) -> int:
    """The longest time for which a decision has depended on a cue that was no longer shown, in steps.

    It is counted from the last step that showed the cue, the decision's own included: what is in sight is
    seen and not remembered.
    """
    steps = np.arange(len(found.steps))
    since = steps - np.maximum.accumulate(np.where(found.steps, steps, -1))
    seen = np.logical_or.accumulate(found.steps)
    return int(since[seen & (found.changes > HELD)].max(initial=0))


class Agreement(NamedTuple):
    """Agreement of a map of steps with the dependence that counterfactuals give."""

    rank_correlation: float
    """Spearman's."""
    top_three: float
    """The share of the three largest that are the same."""


def agreement(found: np.ndarray, counterfactual: np.ndarray) -> Agreement | None:
    """None where one of them is the same for all steps."""
    if len(found) < 3 or np.ptp(found) == 0 or np.ptp(counterfactual) == 0:
        return None
    top = [set(np.argsort(-x, kind="stable")[:3].tolist()) for x in (found, counterfactual)]
    rank = float(stats.spearmanr(found, counterfactual).statistic)
    return Agreement(rank, len(top[0] & top[1]) / 3)
