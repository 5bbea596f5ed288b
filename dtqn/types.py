"""The values that pass between modules. Batch first everywhere.

Legend: B batch, T time, W trace window, N environments, A actions.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

State: TypeAlias = Any
"""What a network carries from step to step: a NamedTuple whose leaves are tensors [B, ...] or None."""

Trace: TypeAlias = Any
"""What a network leaves behind at each step: a NamedTuple of tensors [B, T, ...]."""


class StepInputs(NamedTuple):
    """What a network reads at each step; row t as it arrives."""

    observation: Tensor
    """[B, T, *observation shape]"""
    prev_action: Tensor
    """[B, T] integer: a_{t-1}; ignored where `first`."""
    reward: Tensor
    """[B, T] float: r_t, as it arrives with the observation; 0 where `first`."""
    first: Tensor
    """[B, T] bool: the row begins an episode."""


class QOutput(NamedTuple):
    q: Tensor
    """[B, T, A] Q-values at every step."""


class TraceSpec(NamedTuple):
    """One field of a trace row."""

    shape: tuple[int, ...]
    window: int
    """W: how many of the last rows the state is a function of."""


class Sequences(NamedTuple):
    """A batch of sequences as the learner reads it: three blocks, each cropped to its longest real member.

    Padding rows hold arbitrary values that a network can take (in range, finite); no result depends on them.
    """

    trace: dict[str, Tensor]
    """Field -> [B, W, ...]: trace rows before the first burn-in (or learned) row, newest last."""
    trace_valid: Tensor
    """[B, W] bool"""
    episode_step: Tensor
    """[B] steps since the episode's start of the sequence's first row."""
    burn_in: StepInputs
    """[B, P, ...] right-padded."""
    burn_in_rows: Tensor
    """[B] real rows of `burn_in`."""
    learn: StepInputs
    """[B, R, ...] the learned steps and the n-step tail, right-padded."""
    discount: Tensor
    """[B, R] float, 0 on the row that terminates."""
    learn_rows: Tensor
    """[B] real rows of `learn`."""
    learned_steps: Tensor
    """[B] rows that get a TD error; the first ones of `learn`."""
    importance_weights: Tensor
    """[B] float"""


def map_state(function: Any, *states: State) -> State:
    """`function` on the corresponding tensors of states of one type; None stays None."""
    if isinstance(states[0], Tensor):
        return function(*states)
    if states[0] is None:
        return None
    return type(states[0])(*(map_state(function, *leaves) for leaves in zip(*states, strict=True)))


def reset_rows(state: State, initial: State, first: Tensor) -> State:
    """`state` with the batch rows where `first` [B] holds replaced by those of `initial`."""
    if not bool(first.any()):
        return state

    def select(old: Tensor, new: Tensor) -> Tensor:
        return torch.where(first.view(-1, *[1] * (old.dim() - 1)), new, old)

    return map_state(select, state, initial)
