"""minGRU: a GRU whose gates do not read the state, so that all steps are computed at once.

Feng et al. 2024, arXiv 2410.01201, sections 3.1 and appendix B:

    z_t = sigmoid(W_z x_t + b_z)     c_t = g(W_h x_t + b_h)     h_t = (1 - z_t) * h_{t-1} + z_t * c_t

with g(x) = x + 1/2 for x >= 0 and sigmoid(x) below, so that c_t and h_t are positive. The paper runs the
recurrence in log space; `linear_scan` needs no logarithm to be safe. h_0 is zero.

Legend: B batch, T steps, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dtqn.networks.gates import feed_forward
from dtqn.networks.rnn import chrono_bias
from dtqn.networks.scan import linear_scan


def positive(x: Tensor) -> Tensor:
    """g: x + 1/2 where x >= 0, sigmoid(x) below; written without a choice, which is slow on a CPU."""
    return F.relu(x) + torch.sigmoid(x.clamp(max=0.0))


class MinGRULayer(nn.Module):
    """A residual block as in the paper's decision transformer: minGRU in the place of attention, then an MLP.

    x' = x + minGRU(LayerNorm(x)), output = x' + MLP(LayerNorm(x')). Initial values are torch's, but for
    z_t's bias where `longest` is given: see `dtqn.networks.rnn`.
    """

    def __init__(self, *, width: int, mlp_width: int, longest: int | None) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.gate_and_candidate = nn.Linear(width, 2 * width)
        if longest is not None:
            with torch.no_grad():
                self.gate_and_candidate.bias[:width] = -chrono_bias(width, longest)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = feed_forward(width, mlp_width)

    def forward(self, x: Tensor, want_trace: bool, hidden: Tensor) -> tuple[Tensor, tuple[Tensor] | None]:
        """x [B, T, D], hidden [B, D] -> output [B, T, D]; hidden [B, T, D]."""
        gate, candidate = self.gate_and_candidate(self.norm(x)).chunk(2, dim=-1)
        # 1 - sigmoid(x) is sigmoid(-x), which does not cancel.
        h = linear_scan(torch.sigmoid(-gate), torch.sigmoid(gate) * positive(candidate), hidden)
        x = x + h
        return x + self.mlp(self.mlp_norm(x)), (h,) if want_trace else None
