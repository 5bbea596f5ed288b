"""From features [B, T, D] to Q-values at every step, [B, T, A].

A head's last layer gives Z numbers for each action, and its *prediction* says what they are: the expected
return itself (Z = 1), or the logits of a distribution on atoms. In both cases the output holds the expected
return `q`, which actors, evaluation and metrics read. What predictions there are, with their targets
and losses, is in `dtqn.learning.predictions`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from torch import Tensor, nn
from torch.nn import functional as F

from dtqn.types import QOutput


class Prediction(Protocol):
    """A module that says what a head's numbers mean."""

    size: int
    """Z, numbers for each action."""
    target: Callable[..., Tensor]
    """(the target network's output, values of actions -> the policy's, the return) -> targets."""
    moved: Callable[[Tensor, Tensor], Tensor]
    """(targets, numbers [B, R - 1]) -> the targets of returns that are larger by these numbers."""
    errors: Callable[..., Any]
    """(the online network's output at steps 0..R-2, actions [B, R - 1], targets, mask) -> their errors."""

    def __call__(self, numbers: Tensor, /) -> QOutput:
        """[B, T, A, Z] -> output, whose `q` is the expected return"""


def _linear(inputs: int, outputs: int) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_normal_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


class QHead(nn.Module):
    """Q-values through a hidden layer, or straight from the features if `hidden_width` is 0."""

    STREAMS = 1
    """Hidden layers side by side."""

    def __init__(self, *, width: int, num_actions: int, hidden_width: int, prediction: Prediction) -> None:
        super().__init__()
        self.prediction = prediction
        self.hidden = _linear(width, self.STREAMS * hidden_width) if hidden_width else None
        self._add_last(hidden_width or width, num_actions, prediction.size)

    def _add_last(self, width: int, num_actions: int, size: int) -> None:
        self.q = _linear(width, num_actions * size)

    def forward(self, features: Tensor) -> QOutput:
        """[B, T, D] -> output"""
        return self.prediction(
            self._numbers(features if self.hidden is None else F.relu(self.hidden(features)))
        )

    def _numbers(self, hidden: Tensor) -> Tensor:
        """[B, T, A, Z]"""
        return self.q(hidden).unflatten(-1, (-1, self.prediction.size))


class DuelingHead(QHead):
    """Q(s, a) = V(s) + A(s, a) - mean_a A(s, a) (Wang et al. 2016, arXiv 1511.06581, equation 9).

    With a distribution this holds for each of its numbers (Hessel et al. 2018, arXiv 1710.02298, section 3).
    """

    STREAMS = 2

    def _add_last(self, width: int, num_actions: int, size: int) -> None:
        self.value, self.advantage = _linear(width, size), _linear(width, num_actions * size)

    def _numbers(self, hidden: Tensor) -> Tensor:
        of_value, of_advantage = (hidden, hidden) if self.hidden is None else hidden.chunk(2, dim=-1)
        advantage = self.advantage(of_advantage).unflatten(-1, (-1, self.prediction.size))
        return self.value(of_value).unsqueeze(-2) + advantage - advantage.mean(dim=-2, keepdim=True)
