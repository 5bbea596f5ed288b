"""Multi-head attention with relative positions over a memory (Dai et al. 2019, arXiv 1901.02860; GTrXL).

Legend: B batch, T steps of the call, m memory rows handed in, M memory length, H heads, d features of a head,
D = H d, J = m + T keys. Key j and query t stand j and m + t steps after the oldest memory row.

    score(t, j) = (q_t.k_j + q_t.r_D + u.k_j + v.r_D) / sqrt(d),   D = m + t - j,   r_D = W_R sinusoid(D)

A query sees the keys at distances 0..M and no others, whatever the split of a sequence into calls. That is
what makes one call of T = 40 and forty calls of T = 1 the same function.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def sinusoid(length: int, width: int) -> Tensor:
    """[length, D]: row i is [sin, cos](i * 10000^(-2k/D)), k = 0..D/2-1."""
    frequency = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10_000.0) / width))
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


class Band(torch.autograd.Function):
    """Scores indexed by distance, laid out by key; keys outside the band get minus infinity.

    The input [N, T, E] has in column e the score at distance E - 1 - e; the output [N, T, m + T] has at
    (t, j) the score at distance m + t - j, minus infinity where that is below 0 or above E - 1. m is at most
    E - 1.
    A view does the work: rows padded to E + T and read E + T - 1 apart slide by one each. (Autograd's own
    backward of the same slices fills and copies whole arrays of zeros, a sixth of an update.)
    """

    @staticmethod
    def forward(ctx: Any, by_distance: Tensor, num_memory: int) -> Tensor:
        count, steps, reach = by_distance.shape
        ctx.shape, ctx.num_memory = by_distance.shape, num_memory
        padded = F.pad(by_distance, (0, steps), value=-math.inf)
        width = reach - 1 + steps
        stride = (steps * (width + 1), width, 1)
        return padded.as_strided((count, steps, num_memory + steps), stride, reach - 1 - num_memory)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        count, steps, reach = ctx.shape
        width = reach - 1 + steps
        grad = F.pad(grad, (reach - 1 - ctx.num_memory, 0)).contiguous()
        return grad.as_strided((count, steps, reach), (steps * width, width + 1, 1)), None


class RelativeAttention(nn.Module):
    """Attention of T queries over m memory rows and the T rows themselves."""

    def __init__(self, width: int, num_heads: int, memory_length: int) -> None:
        super().__init__()
        self.width, self.num_heads, self.head_width = width, num_heads, width // num_heads
        self.memory_length = memory_length
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.relative = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)
        self.u = nn.Parameter(torch.zeros(num_heads, 1, self.head_width))
        self.v = nn.Parameter(torch.zeros(num_heads, 1, self.head_width))

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values [B, H, m, d] of normalised memory rows [B, m, D]."""
        key, value = F.linear(memory, self.qkv.weight[self.width :]).chunk(2, dim=-1)
        return self._heads(key), self._heads(value)

    def forward(
        self,
        inputs: Tensor,
        memory_key: Tensor,
        memory_value: Tensor,
        positions: Tensor,
        mask: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """
        Args:
            inputs: [B, T, D], normalised.
            memory_key, memory_value: [B, H, m, d], m <= M, oldest first.
            positions: [M + 1, D] the sinusoids of distances M..0.
            mask: [B, 1, 1, m + T] added to the scores: 0, or minus infinity for empty memory slots.
        Returns: the output [B, T, D], keys and values [B, H, m + T, d].
        """
        q, k, v = (self._heads(part) for part in self.qkv(inputs).chunk(3, dim=-1))
        batch, heads, steps, _ = q.shape
        num_memory = memory_key.shape[2]
        if num_memory:
            k, v = torch.cat([memory_key, k], dim=2), torch.cat([memory_value, v], dim=2)
        reach = min(self.memory_length, num_memory + steps - 1) + 1
        relative = self._heads(self.relative(positions[-reach:])[None])
        scale = self.head_width**-0.5
        by_distance = ((q + self.v) * scale) @ relative.transpose(-1, -2)
        scores = torch.baddbmm(
            Band.apply(by_distance.flatten(0, 1), num_memory),
            (q + self.u).reshape(batch * heads, steps, -1),
            k.reshape(batch * heads, -1, self.head_width).transpose(1, 2),
            alpha=scale,
        ).view(batch, heads, steps, -1)
        if mask is not None:
            scores = scores + mask
        attended = torch.softmax(scores, dim=-1) @ v
        return self.output(attended.transpose(1, 2).reshape(batch, steps, self.width)), k, v

    def _heads(self, x: Tensor) -> Tensor:
        """[B, T, D] -> [B, H, T, d]"""
        return x.unflatten(-1, (self.num_heads, self.head_width)).transpose(1, 2)
