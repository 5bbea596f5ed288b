"""From features [B, T, D] to Q-values at every step, [B, T, A]."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from dtqn.types import QOutput


def _linear(inputs: int, outputs: int) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_normal_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


class QHead(nn.Module):
    """Q-values through a hidden layer, or straight from the features where `hidden_width` is 0."""

    def __init__(self, width: int, num_actions: int, hidden_width: int) -> None:
        super().__init__()
        self.hidden = _linear(width, hidden_width) if hidden_width else None
        self.q = _linear(hidden_width or width, num_actions)

    def forward(self, features: Tensor) -> QOutput:
        return QOutput(self.q(features if self.hidden is None else F.relu(self.hidden(features))))


class DuelingHead(nn.Module):
    """Q(s, a) = V(s) + A(s, a) - mean_a A(s, a) (Wang et al. 2016, arXiv 1511.06581, equation 9)."""

    def __init__(self, width: int, num_actions: int, hidden_width: int) -> None:
        super().__init__()
        self.hidden = _linear(width, 2 * hidden_width) if hidden_width else None
        self.value = _linear(hidden_width or width, 1)
        self.advantage = _linear(hidden_width or width, num_actions)

    def forward(self, features: Tensor) -> QOutput:
        if self.hidden is None:
            of_value = of_advantage = features
        else:
            of_value, of_advantage = F.relu(self.hidden(features)).chunk(2, dim=-1)
        advantage = self.advantage(of_advantage)
        return QOutput(self.value(of_value) + advantage - advantage.mean(dim=-1, keepdim=True))
