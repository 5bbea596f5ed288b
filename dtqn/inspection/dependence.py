"""How much a decision depends on what earlier steps showed: the memory is run again on another past.

The observation of step k is replaced; all other timesteps and the actions stay as they were recorded, and the
network runs on to the decision at step t. That is exact for the network. The task may be unable to produce
such a history; if it names its secret, it can produce the one that shows the other secret.

A decision changes by as much as its *advantages* A(a) = Q(a) - mean over a' of Q(a'): by the largest change
over the actions, as a share of the range of all Q-values in the episode. A change of the mean Q-value does
not count: it chooses no action.

Legend: T decisions of an episode, M replacements, A actions; t a decision, k a step up to it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dtqn.inspection.recorder import Episode, copied
from dtqn.networks.q_network import QNetwork
from dtqn.types import Observation, State, StepInputs, leaves, map_tree

REPLACEMENTS = 16
"""Other episodes that give what is shown in place of a past step."""
TIMESTEPS_PER_CALL = 20_000
"""Timesteps of a batch that a network runs at a time."""


class Effect(NamedTuple):
    """The effect of replaced timesteps on decisions.

    [M, T] each of M replacements. Of steps that are replaced one at a time their means over replacements,
    [T, T] each: of the decision at t (row) on step k (column), 0 where k > t.
    """

    advantage: np.ndarray
    """The change of the advantages, as a share of the episode's range of Q-values."""
    flips: np.ndarray
    """Another action is the greedy one: bool, or the share of replacements after which it is."""


@torch.no_grad()
def q_values(network: QNetwork, inputs: StepInputs, state: State | None = None) -> Tensor:
    """Q-values [B, T, A] of timesteps [B, T, ...], a piece at a time, from the initial or another state."""
    batch, steps = inputs.first.shape
    state = network.initial_state(batch) if state is None else state
    piece = max(1, TIMESTEPS_PER_CALL // batch)
    parts = []
    for start in range(0, steps, piece):
        output, state, _ = network(map_tree(lambda x, s=start: x[:, s : s + piece], inputs), state)
        parts.append(output.q)
    return torch.cat(parts, dim=1)


def effect(episode: Episode, after: Tensor, start: int = 0) -> Effect:
    """The change from the episode's own Q-values to `after` [M, T - start, A], from step `start` on."""
    q = episode.q[start:]
    scale = float(episode.q.max() - episode.q.min()) or 1.0
    change = after - q
    advantage = (change - change.mean(dim=-1, keepdim=True)).abs().amax(dim=-1)
    flips = after.argmax(dim=-1) != q.argmax(dim=-1)
    return Effect((advantage / scale).numpy(), flips.numpy())


def replacements(
    episodes: Sequence[Episode], of: int, count: int, generator: np.random.Generator
) -> Observation:
    """[M, T, ...] what `count` other episodes showed at the same step, or last where they are shorter."""
    others = [episode for number, episode in enumerate(episodes) if number != of]
    steps = torch.arange(episodes[of].length)

    def observed(episode: Episode) -> Observation:
        place = steps.clamp(max=episode.length - 1)
        picked: Observation = map_tree(lambda x: x[:, place], episode.inputs.observation)
        return picked

    chosen = generator.choice(len(others), count, replace=len(others) < count)
    joined: Observation = map_tree(lambda *x: torch.cat(x), *(observed(others[number]) for number in chosen))
    return joined


def shown(inputs: StepInputs, observation: Observation, steps: Tensor) -> StepInputs:
    """Timesteps [1, T, ...] that show `observation` [M, T, ...] at the `steps` [M or 1, T] that are True."""

    def choose(new: Tensor, old: Tensor) -> Tensor:
        return torch.where(steps.view(*steps.shape, *[1] * (old.dim() - 2)), new, old)

    changed: StepInputs = copied(inputs, len(next(iter(leaves(observation).values()))))
    return changed._replace(observation=map_tree(choose, observation, changed.observation))


@torch.no_grad()
def _by_step(
    network: QNetwork,
    episode: Episode,
    steps: Collection[int] | None,
    other: Callable[[int, StepInputs], StepInputs | None],
) -> Effect:
    """The effect of each step alone: others run from it on, after the state that earlier steps have left.

    Args:
        steps: the steps to change, other columns are nan; None: all.
        other: changes the timesteps [1, T - k, ...] from step k on to [M, T - k, ...]; None: no change.
    """
    found = np.full((2, episode.length, episode.length), np.nan)
    state = network.initial_state(1)
    for k in range(episode.length):
        rest = map_tree(lambda x, k=k: x[:, k:], episode.inputs)
        if steps is None or k in steps:
            found[:, :, k] = 0.0
            if (changed := other(k, rest)) is not None:
                after = q_values(network, changed, copied(state, len(changed.first)))
                found[:, k:, k] = [x.mean(axis=0) for x in effect(episode, after, k)]
        state = network(map_tree(lambda x: x[:, :1], rest), state)[1]
    return Effect(*found)


def one_step(
    network: QNetwork, episode: Episode, others: Observation, steps: Collection[int] | None = None
) -> Effect:
    """The effect of each step alone, replaced by what `others` [M, T, ...] show there.

    Args:
        steps: the steps to replace, other columns are nan; None: all.
    """

    def other(k: int, rest: StepInputs) -> StepInputs:
        at = torch.arange(episode.length - k)[None] == 0
        return shown(rest, map_tree(lambda x: x[:, k:], others), at)

    return _by_step(network, episode, steps, other)


def block(network: QNetwork, episode: Episode, steps: np.ndarray, others: Observation) -> Effect:
    """All `steps` [T] bool at once, replaced by what `others` [M, T, ...] show there."""
    changed = shown(episode.inputs, others, torch.from_numpy(steps)[None])
    return effect(episode, q_values(network, changed))


def actions_before(network: QNetwork, episode: Episode, steps: Collection[int] | None = None) -> np.ndarray:
    """[T, T] as `Effect.advantage`: of the decision at t on the action that step k says was taken before.

    The mean over all other actions, 0 where there are none; observations stay as they were. `steps` is as in
    `one_step`.
    """

    num_actions = episode.q.shape[1]

    def other(k: int, rest: StepInputs) -> StepInputs | None:
        if k == 0 or num_actions == 1:  # the first timestep names no action
            return None
        changed: StepInputs = map_tree(torch.clone, copied(rest, num_actions - 1))
        taken = int(rest.prev_action[0, 0])
        changed.prev_action[:, 0] = torch.tensor([a for a in range(num_actions) if a != taken])
        return changed

    return _by_step(network, episode, steps, other).advantage
