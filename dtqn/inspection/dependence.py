"""How much a decision hangs on what earlier steps showed: the memory is run again on another past.

The observation of step k is replaced; all other rows and the actions stay as they were recorded, and the
network runs on to the decision at step t. That is exact for the network. It need not be a history that the
task can produce; where the task names its secret, showing the other one is.

A change of a decision is that of the *advantages* A(a) = Q(a) - mean over a' of Q(a'), at its largest over
the actions, as a share of the range that all Q-values of the episode have. The change of the mean Q-value, by
which no action is chosen, stands apart.

Legend: T decisions of an episode, M replacements, A actions; t a decision, k a step up to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dtqn.inspection.recorder import Episode
from dtqn.networks.q_network import QNetwork
from dtqn.types import Observation, State, StepInputs, leaves, map_tree

ROWS_PER_CALL = 20_000
"""Rows of a batch that a network runs at a time."""
MOST_IN_A_SET = 6
"""Steps of the smallest set that is looked for."""
MOST_LEFT_IN = 64
"""Steps that are left in one by one: the last half of them, and as many evenly spaced before."""


class Effect(NamedTuple):
    """The effect of replaced rows on decisions, for each of M replacements, [M, T] each."""

    advantage: np.ndarray
    """The change of the advantages, as a share of the episode's range of Q-values."""
    value: np.ndarray
    """That of the mean Q-value, in the same unit."""
    flips: np.ndarray
    """bool: another action is the greedy one."""


class Dependence(NamedTuple):
    """[T, T] each: of the decision at t (row) on what step k showed (column); 0 where k > t."""

    advantage: np.ndarray
    """The mean over replacements."""
    error: np.ndarray
    """Its standard error."""
    value: np.ndarray
    flips: np.ndarray
    """The share of replacements after which another action is the greedy one."""
    same: np.ndarray
    """[T] the share of replacements of step k that showed what it had shown."""


@torch.no_grad()
def q_values(
    network: QNetwork, inputs: StepInputs, state: State | None = None, piece: int | None = None
) -> Tensor:
    """Q-values [B, T, A] of rows [B, T, ...], a piece at a time, from the initial state or another one."""
    batch, steps = inputs.first.shape
    state = network.initial_state(batch) if state is None else state
    piece = piece or max(1, ROWS_PER_CALL // batch)
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
    value = change.mean(dim=-1)
    advantage = (change - value[..., None]).abs().amax(dim=-1)
    flips = after.argmax(dim=-1) != q.argmax(dim=-1)
    return Effect((advantage / scale).numpy(), (value.abs() / scale).numpy(), flips.numpy())


def replacements(
    episodes: Sequence[Episode], of: int, count: int, generator: np.random.Generator
) -> Observation:
    """[M, T, ...] what `count` other episodes showed at the same step, or last where they are shorter."""
    others = [episode for number, episode in enumerate(episodes) if number != of]
    steps = torch.arange(episodes[of].length)

    def rows(episode: Episode) -> Observation:
        place = steps.clamp(max=episode.length - 1)
        picked: Observation = map_tree(lambda x: x[:, place], episode.inputs.observation)
        return picked

    chosen = generator.choice(len(others), count, replace=len(others) < count)
    joined: Observation = map_tree(lambda *x: torch.cat(x), *(rows(others[number]) for number in chosen))
    return joined


def shown(inputs: StepInputs, observation: Observation, steps: Tensor) -> StepInputs:
    """Rows [1, T, ...] that show `observation` [M, T, ...] at the `steps` [M or 1, T] that are True."""

    def choose(new: Tensor, old: Tensor) -> Tensor:
        return torch.where(steps.view(*steps.shape, *[1] * (old.dim() - 2)), new, old)

    count = len(next(iter(leaves(observation).values())))
    expanded = map_tree(lambda x: x.expand(count, *x.shape[1:]), inputs)
    replaced: StepInputs = expanded._replace(observation=map_tree(choose, observation, expanded.observation))
    return replaced


@torch.no_grad()
def _from_each(
    network: QNetwork, episode: Episode, steps: Collection[int] | None
) -> Iterator[tuple[int, State, StepInputs]]:
    """Each of the `steps`, or all: its number, the state [1, ...] before it, and the rows from it on."""
    state = network.initial_state(1)
    for k in range(episode.length):
        rest = map_tree(lambda x, k=k: x[:, k:], episode.inputs)
        if steps is None or k in steps:
            yield k, state, rest
        state = network(map_tree(lambda x: x[:, :1], rest), state)[1]


def _changed(network: QNetwork, episode: Episode, k: int, state: State, rows: StepInputs) -> Effect:
    """The effect of other rows [M, T - k, ...] from step k on, whose state [1, ...] is as it was."""
    count = len(rows.first)
    return effect(
        episode, q_values(network, rows, map_tree(lambda x: x.expand(count, *x.shape[1:]), state)), k
    )


def one_step(
    network: QNetwork, episode: Episode, others: Observation, steps: Collection[int] | None = None
) -> Dependence:
    """Each step by itself, replaced by what `others` [M, T, ...] show there.

    Args:
        steps: those that are replaced, the columns of the others are nan; None: all.
    """
    length = episode.length
    found = np.full((4, length, length), np.nan)
    same = np.full(length, np.nan)
    for k, state, rest in _from_each(network, episode, steps):
        at = torch.zeros(1, length - k, dtype=torch.bool)
        at[0, 0] = True
        rows = shown(rest, map_tree(lambda x, k=k: x[:, k:], others), at)
        count = len(rows.first)
        change = _changed(network, episode, k, state, rows)
        found[:, :, k] = 0.0
        found[0, k:, k] = change.advantage.mean(axis=0)
        found[1, k:, k] = change.advantage.std(axis=0, ddof=1) / np.sqrt(count) if count > 1 else 0.0
        found[2, k:, k] = change.value.mean(axis=0)
        found[3, k:, k] = change.flips.mean(axis=0)
        same[k] = _equal(rest.observation, rows.observation).mean()
    advantage, error, value, flips = found
    return Dependence(advantage, error, value, flips, same)


def _equal(one: Observation, other: Observation) -> np.ndarray:
    """[M] whether the first rows of `one` [1, T, ...] and `other` [M, T, ...] are the same."""
    a, b = leaves(one), leaves(other)
    equal = [(a[key][:, 0] == b[key][:, 0]).reshape(len(b[key]), -1).all(dim=1) for key in a]
    return torch.stack(equal).all(dim=0).numpy()


def block(network: QNetwork, episode: Episode, steps: np.ndarray, others: Observation) -> Effect:
    """All `steps` [T] bool at once, replaced by what `others` [M, T, ...] show there."""
    rows = shown(episode.inputs, others, torch.from_numpy(steps)[None])
    return effect(episode, q_values(network, rows))


def actions_before(
    network: QNetwork, episode: Episode, num_actions: int, steps: Collection[int] | None = None
) -> np.ndarray:
    """[T, T] as `Dependence.advantage`: of the decision at t on the action that row k says was taken before.

    The mean over all other actions, 0 where there are none; the rows show what they showed. `steps` is that
    of `one_step`.
    """
    found = np.full((episode.length, episode.length), np.nan)
    for k, state, rest in _from_each(network, episode, steps):
        found[:, k] = 0.0
        if k == 0 or num_actions == 1:  # the first row names no action
            continue
        rows = map_tree(lambda x: x.repeat(num_actions - 1, *[1] * (x.dim() - 1)), rest)
        taken = int(rest.prev_action[0, 0])
        rows.prev_action[:, 0] = torch.tensor([a for a in range(num_actions) if a != taken])
        found[k:, k] = _changed(network, episode, k, state, rows).advantage.mean(axis=0)
    return found


def leave_one_in(network: QNetwork, episode: Episode, t: int, others: Observation) -> np.ndarray:
    """[t] how much of the decision at t step k alone brings back, all other steps before t being replaced.

    NaN for steps that are not tried (`MOST_LEFT_IN`).

    1 - (change with step k as it was) / (change with all replaced), the mean over replacements; 1 where k is
    all that counts, 0 where it is nothing, below 0 where it misleads. A cue that is shown twice is found so,
    and not by the replacement of one step.
    """
    upto = map_tree(lambda x: x[:, : t + 1], episode.inputs)
    shorter = map_tree(lambda x: x[:, : t + 1], others)
    replaced = torch.ones(1, t + 1, dtype=torch.bool)
    replaced[0, t] = False

    def change(steps: Tensor) -> np.ndarray:
        after = q_values(network, shown(upto, shorter, steps))
        q = episode.q[t]
        difference = after[:, t] - q
        found: np.ndarray = (difference - difference.mean(dim=-1, keepdim=True)).abs().amax(dim=-1).numpy()
        return found

    whole = change(replaced).mean()
    found = np.full(t, np.nan)
    recent = max(0, t - MOST_LEFT_IN // 2)
    earlier = np.linspace(0, recent, MOST_LEFT_IN // 2, endpoint=False).astype(int)
    for k in sorted({*earlier.tolist(), *range(recent, t)} & set(range(t))):
        kept = replaced.clone()
        kept[0, k] = False
        found[k] = 1.0 - change(kept).mean() / whole if whole > 0 else 0.0
    return found


def smallest_set(
    network: QNetwork, episode: Episode, t: int, others: Observation, dependence: np.ndarray
) -> list[int] | None:
    """Steps before t, replaced together, after which most replacements change the greedy action at t.

    They are added one by one, the largest of `dependence` [T] first; None where `MOST_IN_A_SET` do not do.
    """
    chosen = np.zeros(episode.length, bool)
    order = np.argsort(-dependence[:t], kind="stable")[:MOST_IN_A_SET]
    for k in order:
        chosen[k] = True
        if block(network, episode, chosen, others).flips[:, t].mean() > 0.5:
            return sorted(np.flatnonzero(chosen).tolist())
    return None
