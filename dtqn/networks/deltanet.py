"""Gated DeltaNet: a linear recurrence whose state is a matrix that is corrected and forgets.

Yang, Kautz and Hatamizadeh, ICLR 2025, arXiv 2412.06464, section 3.4; the recurrence is in
`dtqn.networks.delta_rule`. With x the block's input after LayerNorm, for each of H heads of d features:

    q, k = SiLU(W_q x), SiLU(W_k x), each divided by its length        v = SiLU(W_v x)
    beta = sigmoid(w_b x)        log alpha = -exp(a) softplus(w_a x + b)
    y = W_o (RMSNorm(o) * SiLU(W_g x))

The paper's short convolutions over the last steps of q, k and v are left out, and keys and values have one
width. docs/agents-notes.md says why.

Legend: B batch, T steps, D width, H heads, d width of a head.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dtqn.networks.delta_rule import delta_rule, delta_step
from dtqn.networks.gates import feed_forward
from dtqn.networks.rnn import chrono_bias

RATE = (0.0, 16.0)
"""exp(a) at initialisation, uniform; as in the paper's code, like the next."""
STEP = (1e-3, 0.1)
"""softplus(b) at initialisation, uniform in its logarithm."""


def unit(x: Tensor, epsilon: float) -> Tensor:
    """x / sqrt(|x|^2 + epsilon) over the last axis."""
    result: Tensor = _Unit.apply(x, epsilon)
    return result


class _Unit(torch.autograd.Function):
    """With y the result: dx = (dy - y (y.dy)) / sqrt(|x|^2 + epsilon); half of autograd's operations."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, epsilon: float) -> Tensor:
        scale = x.square().sum(-1, keepdim=True).add_(epsilon).rsqrt_()
        y = x * scale
        ctx.save_for_backward(y, scale)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        y, scale = ctx.saved_tensors
        along = (y * grad).sum(-1, keepdim=True)
        return torch.addcmul(grad, y, along, value=-1).mul_(scale), None


class GatedDeltaNetLayer(nn.Module):
    """x' = x + GatedDeltaNet(LayerNorm(x)), output = x' + MLP(LayerNorm(x')), as in minGRU's block.

    Initial values are torch's, but for those of alpha: the paper's or, where `longest` is given, chrono
    initialisation's (`dtqn.networks.rnn`), with a = 0 and so alpha = sigmoid(-b) before x is read.
    """

    def __init__(self, *, width: int, num_heads: int, mlp_width: int, longest: int | None) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.norm = nn.LayerNorm(width)
        self.join = nn.Linear(width, 4 * width + 2 * num_heads, bias=False)
        """Rows: q, k, v and the output's gate, D each; beta and alpha, H each."""
        if longest is None:
            rate = torch.empty(num_heads).uniform_(*RATE).clamp(min=1e-4)
            step = torch.empty(num_heads).uniform_(*(math.log(x) for x in STEP)).exp()
            log_rate, decay_bias = rate.log(), step + torch.log(-torch.expm1(-step))
        else:
            log_rate, decay_bias = torch.zeros(num_heads), -chrono_bias(num_heads, longest)
        self.log_rate, self.decay_bias = nn.Parameter(log_rate), nn.Parameter(decay_bias)
        self.output_norm = nn.Parameter(torch.ones(width // num_heads))
        self.out = nn.Linear(width, width, bias=False)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = feed_forward(width, mlp_width)

    def forward(self, x: Tensor, want_trace: bool, hidden: Tensor) -> tuple[Tensor, tuple[Tensor] | None]:
        """x [B, T, D], hidden [B, H, d, d] -> output [B, T, D]; hidden [B, T, H, d, d]."""
        heads, width = self.num_heads, x.shape[2] // self.num_heads
        joined = self.join(self.norm(x))
        qkv, gate, beta, decay = joined.split([3 * heads * width, heads * width, heads, heads], dim=2)
        qk, v = F.silu(qkv).unflatten(2, (3, heads, width)).split([2, 1], dim=2)
        qk, v = unit(qk, 1e-6), v[:, :, 0]
        log_alpha = -torch.exp(self.log_rate) * F.softplus(decay + self.decay_bias)
        beta = torch.sigmoid(beta)
        one_step = x.shape[1] == 1
        given = (qk, v, log_alpha, beta, hidden)
        o, states = delta_step(*given) if one_step else delta_rule(*given, want_states=want_trace)
        # RMSNorm: what has length 1 has a root mean square of 1 / sqrt(d).
        o = unit(o, 1e-5 * width) * (width**0.5 * self.output_norm)
        x = x + self.out(o.flatten(2) * F.silu(gate))
        return x + self.mlp(self.mlp_norm(x)), None if states is None else (states,)
