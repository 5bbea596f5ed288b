"""Targets, losses and priorities: pure functions, one equation each.

Legend: B sequences, R rows of the learn block, A actions. Row t holds what arrived at t, so a_t is
prev_action[t + 1] and the reward for it is r_{t+1}. `learn_rows` [B] counts real rows; row e = learn_rows - 1
is the last. Rows 0..R-2 may have a target; row e is bootstrapped from and never learned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class ValueTransform(NamedTuple):
    """A pair h, h^-1 that the targets pass through."""

    apply: Callable[[Tensor], Tensor]
    inverse: Callable[[Tensor], Tensor]


def signed_hyperbolic(x: Tensor, epsilon: float = 1e-3) -> Tensor:
    """h(x) = sign(x)(sqrt(|x| + 1) - 1) + epsilon x (Pohlen et al. 2018, arXiv 1805.11593, proposition A.2).

    The root's difference is written |x| / (sqrt(|x| + 1) + 1), which does not cancel.
    """
    return x / (torch.sqrt(x.abs() + 1) + 1) + epsilon * x


def signed_parabolic(y: Tensor, epsilon: float = 1e-3) -> Tensor:
    """The inverse of `signed_hyperbolic`, in the form that does not cancel in float32.

    With c = |y| + 1 + epsilon and u = 2c / (1 + sqrt(1 + 4 epsilon c)), which is sqrt(|x| + 1):
    x = sign(y) (u + 1) |y| / (1 + epsilon (u + 1)).
    """
    c = y.abs() + 1 + epsilon
    u = 2 * c / (1 + torch.sqrt(1 + 4 * epsilon * c))
    return y * (u + 1) / (1 + epsilon * (u + 1))


IDENTITY = ValueTransform(lambda x: x, lambda x: x)
SIGNED_HYPERBOLIC = ValueTransform(signed_hyperbolic, signed_parabolic)


def bootstrap_rows(learn_rows: Tensor, num_steps: int, n_step: int) -> Tensor:
    """[B, num_steps] the row t + n_t that step t bootstraps from, n_t = min(n, e - t).

    On padding it is at least t.
    """
    step = torch.arange(num_steps, device=learn_rows.device)
    return torch.maximum(torch.minimum(step + n_step, learn_rows[:, None] - 1), step)


def n_step_targets(
    reward: Tensor,
    discount: Tensor,
    bootstrap_value: Tensor,
    learn_rows: Tensor,
    n_step: int,
    gamma: float,
    transform: ValueTransform = IDENTITY,
) -> Tensor:
    """n-step targets in the transformed space (R2D2, Kapturowski et al. 2019, section 2.3).

        y_t = h( sum_{k=1..n_t} gamma^(k-1) r_{t+k} + gamma^n_t discount_{t+n_t} h^-1(v_{t+n_t}) )

    Args:
        reward: [B, R] r_t, already scaled.
        discount: [B, R] 0 on the row that terminates, else 1.
        bootstrap_value: [B, R] v_t, in the transformed space.
        learn_rows: [B] real rows.
    Returns: y [B, R - 1]; rows at and after e hold arbitrary finite or non-finite numbers: mask them.
    """
    num_steps = reward.shape[1] - 1
    rows = bootstrap_rows(learn_rows, num_steps, n_step)
    real = torch.arange(reward.shape[1], device=reward.device) < learn_rows[:, None]
    reward = torch.where(real, reward, 0.0)
    value = torch.where(discount > 0, transform.inverse(bootstrap_value), 0.0).gather(1, rows)
    steps = rows - torch.arange(num_steps, device=rows.device)
    returns = gamma ** steps.to(value.dtype) * value
    for k in range(min(n_step, num_steps), 0, -1):
        returns[:, : num_steps + 1 - k] += gamma ** (k - 1) * reward[:, k:]
    return transform.apply(returns)


def select_action(q: Tensor, action: Tensor) -> Tensor:
    """q [B, T, A] at action [B, T] -> [B, T]"""
    return q.gather(-1, action[..., None]).squeeze(-1)


def double_q_value(q_target: Tensor, q_selector: Tensor) -> Tensor:
    """q_target at argmax_a q_selector, [B, R] (van Hasselt et al. 2016, arXiv 1509.06461, equation 4)."""
    return select_action(q_target, q_selector.argmax(dim=-1))


def weighted_loss(td_error: Tensor, mask: Tensor, weights: Tensor, huber: bool = False) -> Tensor:
    """sum over learned steps of w_b l(delta): divided by their number in the batch it is the loss.

    A mean of each sequence's mean would give the one step of a short tail forty times the weight.

    Args:
        td_error: [B, T]; mask: [B, T] bool, True on learned steps; weights: [B] importance weights.
        huber: l(d) = d^2/2 within 1 and |d| - 1/2 outside; else d^2/2.
    """
    error = torch.where(mask, td_error, 0.0)
    if huber:
        size = error.abs()
        loss = torch.where(size <= 1, 0.5 * size * size, size - 0.5)
    else:
        loss = 0.5 * error.square()
    return (weights[:, None] * loss).sum()


def sequence_priority(td_error: Tensor, mask: Tensor, max_weight: float) -> Tensor:
    """p = eta max_t |delta_t| + (1 - eta) mean_t |delta_t| over learned steps, at least 1e-6 (R2D2, 2.3).

    Args:
        td_error: [B, T]; mask: [B, T] bool with at least one True in each row; max_weight: eta.
    Returns: [B]
    """
    size = torch.where(mask, td_error.abs(), 0.0)
    mean = size.sum(dim=1) / mask.sum(dim=1)
    return (max_weight * size.amax(dim=1) + (1 - max_weight) * mean).clamp(min=1e-6)
