"""Losses of single steps, and priorities: pure functions, one equation each. `returns` computes the targets.

Legend: B sequences, T steps, Z atoms of a categorical distribution.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from dtqn.shapes import follow_data
from dtqn.types import length_mask

ETA = 0.9
"""The weight of the largest TD error in a sequence's priority (R2D2, section 2.3)."""


def squared_loss(td_error: Tensor) -> Tensor:
    """l(d) = d^2 / 2"""
    return 0.5 * td_error.square()


def project(values: Tensor, probabilities: Tensor, atoms: Tensor) -> Tensor:
    """A distribution on other numbers, on the atoms (Bellemare et al. 2017, arXiv 1707.06887, equation 7).

        m_i = sum_j p_j max(0, 1 - |clip(y_j) - z_i| / dz)

    Mass keeps its sum, and its mean where no y_j is outside of the atoms' range.

    Args:
        values: [B, T, M] y_j; probabilities: [B, T, M] p_j; atoms: [Z] z_i, equally far from each other.
    Returns: m [B, T, Z]
    """
    deal_out, of_values = _dealing(values, atoms)
    return deal_out(probabilities, probabilities.new_zeros(*values.shape[:-1], len(atoms)), *of_values)


def _dealing(values: Tensor, atoms: Tensor) -> tuple[Callable[..., Tensor], tuple[Tensor, ...]]:
    """How the mass at values [..., M] is dealt out to atoms, and what that takes of the values [..., *].

    It goes to the atom below and to the one above. On a GPU sums of a scatter come in an order that changes
    from one run to the next, and so do their last digits: there it is a product with the matrix of shares,
    which would take a CPU three times as long.
    """
    last = len(atoms) - 1
    place = ((values - atoms[0]) * (last / (atoms[-1] - atoms[0]))).clamp(0, last)
    if not follow_data(values):
        number = torch.arange(len(atoms), dtype=place.dtype, device=place.device)
        return _multiplied, ((1 - (place[..., None, :] - number[:, None]).abs()).clamp(min=0),)
    lower = place.floor().clamp(max=last - 1)
    below = lower.nan_to_num().long()  # what is no number stays none, in its share
    return _scattered, (below, below + 1, place - lower)


def _scattered(mass: Tensor, out: Tensor, below: Tensor, above: Tensor, share: Tensor) -> Tensor:
    """Masses [..., M] to `out` [..., Z], which is 0: a `share` of each to the atom above."""
    up = mass * share
    return out.scatter_add_(-1, below, mass - up).scatter_add_(-1, above, up)


def _multiplied(mass: Tensor, out: Tensor, shares: Tensor) -> Tensor:
    """Masses [..., M] to `out` [..., Z], by the share [..., Z, M] of each that an atom gets."""
    torch.matmul(shares, mass[..., None], out=out[..., None])
    return out


def project_lambda(
    values: Tensor, probabilities: Tensor, continuation: Tensor, learn_timesteps: Tensor, atoms: Tensor
) -> Tensor:
    """Distributions of Q(lambda), from the sequence's last timestep e backwards, projected step by step.

        m_t = project(y_t; (1 - c_{t+1}) p_{t+1} + c_{t+1} m_{t+1}),  c_e = 0

    If no y is outside the atoms' range, m_t's expected value is the target of Q(lambda). m_t is a mixture
    of the returns' distributions; an average of their atoms would have too little spread.

    Args:
        values: [B, R - 1, Z] y_t, the atoms moved by one step.
        probabilities: [B, R, Z] p_t on the atoms [Z], of step t as a bootstrap.
        continuation: [B, R] c_t; not read at step e and in padding.
        learn_timesteps: [B] real timesteps.
    Returns: m [B, R - 1, Z]; steps at and after e hold arbitrary numbers: mask them.
    """
    steps, size = values.shape[1], probabilities.shape[1]
    real, inside = (length_mask(count, size)[..., None] for count in (learn_timesteps, learn_timesteps - 1))
    # Junk in padding would reach the steps before it, if only by a factor of 0.
    deal_out, of_values = _dealing(torch.where(inside[:, :steps], values, 0.0), atoms)
    now = torch.where(real, probabilities, 0.0)
    kept = torch.where(inside, continuation[..., None], 0.0)
    projected = torch.zeros_like(values)
    # p and c of the next step; the result.
    columns = (now[:, 1:], kept[:, 1:], projected, *of_values)
    later = torch.zeros_like(now[:, 0])
    for p, c, out, *of_step in reversed(list(zip(*(x.unbind(1) for x in columns), strict=True))):
        later = deal_out(torch.lerp(p, later, c), out, *of_step)
    return projected


def cross_entropy(log_probabilities: Tensor, target: Tensor) -> Tensor:
    """-sum_i m_i log p_i, [B, T] of distributions [B, T, Z] (Bellemare et al. 2017, algorithm 1)."""
    return -(target * log_probabilities).sum(dim=-1)


def sequence_priority(td_error: Tensor, mask: Tensor) -> Tensor:
    """p = eta max_t |delta_t| + (1 - eta) mean_t |delta_t| over learned steps, at least 1e-6 (R2D2, 2.3).

    Args:
        td_error: [B, T]; mask: [B, T] bool with at least one True in each sequence.
    Returns: [B]
    """
    size = torch.where(mask, td_error.abs(), 0.0)
    mean = size.sum(dim=1) / mask.sum(dim=1)
    return (ETA * size.amax(dim=1) + (1 - ETA) * mean).clamp(min=1e-6)


def weighted_loss(loss: Tensor, weights: Tensor) -> Tensor:
    """sum over sequences and steps of w_b l: divided by the number of learned steps it is the batch's loss.

    A mean of each sequence's mean would give the one step of a short tail forty times the weight.

    Args:
        loss: [B, T], 0 where a step is not learned; weights: [B] importance weights.
    """
    return (weights[:, None] * loss).sum()
