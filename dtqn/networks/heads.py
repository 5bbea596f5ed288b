"""From features [B, T, D] to Q-values at every step, [B, T, A].

A head's last layer gives Z numbers for each action, and its *prediction* says what they are: the expected
return itself (Z = 1), or the logits of a distribution on atoms. In both cases the output holds the expected
return `q`, which actors, evaluation and metrics read.
"""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dtqn.types import QOutput


class Expectation(nn.Module):
    """The expected return."""

    size = 1

    def forward(self, numbers: Tensor) -> QOutput:
        """[B, T, A, 1] -> output"""
        return QOutput(numbers.squeeze(-1))


class Categorical(nn.Module):
    """Probabilities of returns z_i = v_min + i (v_max - v_min) / (Z - 1).

    C51: Bellemare et al. 2017, arXiv 1707.06887.
    """

    atoms: Tensor
    """[Z], kept in float64, so that they are exact at any precision."""

    def __init__(self, num_atoms: int, v_min: float, v_max: float) -> None:
        super().__init__()
        self.size = num_atoms
        atoms = torch.linspace(v_min, v_max, num_atoms, dtype=torch.float64)
        self.register_buffer("atoms", atoms, persistent=False)

    def forward(self, numbers: Tensor) -> QOutput:
        """[B, T, A, Z] logits -> output with log-probabilities"""
        log_probabilities = numbers.log_softmax(dim=-1)
        atoms = self.atoms.to(numbers.dtype)
        return QOutput((log_probabilities.exp() * atoms).sum(dim=-1), log_probabilities)


Prediction: TypeAlias = Expectation | Categorical


def _linear(inputs: int, outputs: int) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_normal_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


class QHead(nn.Module):
    """Q-values through a hidden layer, or straight from the features if `hidden_width` is 0."""

    def __init__(self, *, width: int, num_actions: int, hidden_width: int, prediction: Prediction) -> None:
        super().__init__()
        self.prediction = prediction
        self.hidden = _linear(width, hidden_width) if hidden_width else None
        self.q = _linear(hidden_width or width, num_actions * self.prediction.size)

    def forward(self, features: Tensor) -> QOutput:
        """[B, T, D] -> output"""
        numbers = self.q(features if self.hidden is None else F.relu(self.hidden(features)))
        output: QOutput = self.prediction(numbers.unflatten(-1, (-1, self.prediction.size)))
        return output


class DuelingHead(nn.Module):
    """Q(s, a) = V(s) + A(s, a) - mean_a A(s, a) (Wang et al. 2016, arXiv 1511.06581, equation 9).

    With a distribution this holds for each of its numbers (Hessel et al. 2018, arXiv 1710.02298, section 3).
    """

    def __init__(self, *, width: int, num_actions: int, hidden_width: int, prediction: Prediction) -> None:
        super().__init__()
        self.prediction = prediction
        self.hidden = _linear(width, 2 * hidden_width) if hidden_width else None
        self.value = _linear(hidden_width or width, self.prediction.size)
        self.advantage = _linear(hidden_width or width, num_actions * self.prediction.size)

    def forward(self, features: Tensor) -> QOutput:
        """[B, T, D] -> output"""
        if self.hidden is None:
            of_value = of_advantage = features
        else:
            of_value, of_advantage = F.relu(self.hidden(features)).chunk(2, dim=-1)
        advantage = self.advantage(of_advantage).unflatten(-1, (-1, self.prediction.size))
        value = self.value(of_value).unsqueeze(-2)
        output: QOutput = self.prediction(value + advantage - advantage.mean(dim=-2, keepdim=True))
        return output
