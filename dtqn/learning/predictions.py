"""What a head's last layer says of a return: how its numbers are read, moved to a target, and their loss.

It gives Z numbers for each action: the expected return itself (Z = 1), or the logits of a distribution on
atoms. `network.distribution` names one of the classes here.

Legend: B sequences, T steps, R timesteps of the learned segment, A actions, Z numbers of a distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dtqn.learning import losses, returns
from dtqn.types import QOutput


class StepErrors(NamedTuple):
    """The errors of a batch's steps, [B, R - 1] each; only those in the mask are learned."""

    td_error: Tensor
    """The target's expected value minus `q_taken`."""
    mask: Tensor
    """bool"""
    q_taken: Tensor
    """Q(s_t, a_t); the expected value of a distribution."""
    target: Tensor
    """The target's expected value, on the atoms where there are some."""
    loss: Tensor
    """0 outside of the mask."""
    traces: returns.Traces | None = None
    """How far Q(lambda) looks ahead; None for other returns."""
    recall: Tensor | None = None
    """The loss of recall, where the head has one; 0 outside of the mask."""


Values = Callable[[Tensor], Tensor]
"""Values of all actions [B, R, A] or [B, R, A, Z] -> the policy's, [B, R] or [B, R, Z]."""


class Expectation(nn.Module):
    """The expected return; the loss of the TD error is half its square."""

    size = 1

    def forward(self, numbers: Tensor) -> QOutput:
        return QOutput(numbers.squeeze(-1))

    def target(self, output: QOutput, value: Values, following: returns.Return) -> Tensor:
        return following.targets(value(output.q))

    def moved(self, target: Tensor, by: Tensor) -> Tensor:
        return target + by

    def errors(self, output: QOutput, action: Tensor, target: Tensor, mask: Tensor) -> StepErrors:
        q_taken = returns.select_action(output.q, action)
        td_error = target - q_taken
        loss = losses.squared_loss(torch.where(mask, td_error, 0.0))
        return StepErrors(td_error, mask, q_taken, target, loss)


class Categorical(nn.Module):
    """Probabilities of returns z_i = v_min + i (v_max - v_min) / (Z - 1).

    C51 (Bellemare et al. 2017, arXiv 1707.06887): the bootstrap's atoms are moved and projected back.
    """

    atoms: Tensor
    """[Z], kept in float64, so that they are exact at any precision."""

    def __init__(self, num_atoms: int, v_min: float, v_max: float) -> None:
        super().__init__()
        self.size = num_atoms
        atoms = torch.linspace(v_min, v_max, num_atoms, dtype=torch.float64)
        self.register_buffer("atoms", atoms, persistent=False)

    def forward(self, numbers: Tensor) -> QOutput:
        """Logits -> output with log-probabilities"""
        log_probabilities = numbers.log_softmax(dim=-1)
        atoms = self.atoms.to(numbers.dtype)
        return QOutput((log_probabilities.exp() * atoms).sum(dim=-1), log_probabilities)

    def target(self, output: QOutput, value: Values, following: returns.Return) -> Tensor:
        probabilities = value(_distribution(output)).exp()
        return following.distributions(probabilities, self.atoms.to(probabilities.dtype))

    def moved(self, target: Tensor, by: Tensor) -> Tensor:
        atoms = self.atoms.to(target.dtype)
        return losses.project(atoms + by[..., None], target, atoms)

    def errors(self, output: QOutput, action: Tensor, target: Tensor, mask: Tensor) -> StepErrors:
        taken = returns.select_action(_distribution(output), action)
        log_p, of_target = (torch.where(mask[..., None], x, 0.0) for x in (taken, target))
        expected = (target * self.atoms.to(target.dtype)).sum(dim=-1)
        q_taken = returns.select_action(output.q, action)
        loss = losses.cross_entropy(log_p, of_target)
        return StepErrors(expected - q_taken, mask, q_taken, expected, loss)


def _distribution(output: QOutput) -> Tensor:
    assert output.distribution is not None
    return output.distribution
