"""Multi-head attention with relative positions over a memory (Dai et al. 2019, arXiv 1901.02860; GTrXL).

Legend: B batch, T steps of the call, m memory rows handed in, M memory length, H heads, d features of a head,
D = H d, J = m + T keys. Key j and query t stand j and m + t steps after the oldest memory row.

    score(t, j) = (q_t.k_j + q_t.r_D + u.k_j + v.r_D) / sqrt(d),   D = m + t - j,   r_D = W_R sinusoid(D)

A query sees the keys at distances 0..M and no others, whatever the split of a sequence into calls. So one
call of T = 40 and forty calls of T = 1 are the same function.

Two options: an `AdaptiveSpan` weighs each head's keys by their distance, and `Slots` are rows of compressed
memory that are seen beside the keys.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def sinusoid(length: int, width: int, first: int = 0) -> Tensor:
    """[length, D]: row i is [sin, cos]((first + i) * 10000^(-2k/D)), k = 0..D/2-1."""
    frequency = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10_000.0) / width))
    angle = torch.arange(first, first + length, dtype=torch.float64)[:, None] * frequency
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


class AdaptiveSpan(nn.Module):
    """A reach that each head learns for itself (Sukhbaatar et al. 2019, arXiv 1905.07799, section 2.2).

    A key at distance D enters the softmax of head h with its exponential times the soft mask

        m_h(D) = min(max((R + z_h - D) / R, 0), 1)

    z = M * share is learned. A share below 0 counts as 0 and keeps its gradient, so that it can grow again.
    """

    def __init__(self, *, num_heads: int, memory_length: int, ramp: int) -> None:
        """`ramp` is R in steps. Every head begins with z = M."""
        super().__init__()
        self.memory_length, self.ramp = memory_length, ramp
        self.share = nn.Parameter(torch.ones(num_heads))

    def lengths(self) -> Tensor:
        """z of each head in steps, [H]."""
        return self.memory_length * self.share.clamp(min=0)

    def log_mask(self, reach: int) -> Tensor:
        """[H, 1, reach] the logarithms of the masks at distances reach - 1..0."""
        share = self.share + (self.share.clamp(min=0) - self.share).detach()
        distance = torch.arange(reach - 1, -1, -1, device=share.device)
        z = self.memory_length * share[:, None, None]
        mask = ((self.ramp + z - distance) / self.ramp).clamp(0, 1)
        seen = mask > 0
        return torch.where(seen, mask, 1.0).log().masked_fill(~seen, -math.inf)


class Slots(NamedTuple):
    """K rows of compressed memory."""

    key: Tensor
    """[B, H, K, d]"""
    value: Tensor
    """[B, H, K, d]"""
    positions: Tensor
    """[E, D] sinusoids of the distances M + 1..M + E."""
    distance: Tensor
    """[B, T, K] from slot to query."""
    visible: Tensor
    """[B, T, K] bool"""


class RelativeAttention(nn.Module):
    """Attention of T queries over m memory rows and the T rows themselves."""

    def __init__(self, *, width: int, num_heads: int, memory_length: int, span_ramp: int | None) -> None:
        """`span_ramp`: R of an adaptive span, in steps; None: every head sees all M steps."""
        super().__init__()
        self.span = None
        if span_ramp is not None:
            self.span = AdaptiveSpan(num_heads=num_heads, memory_length=memory_length, ramp=span_ramp)
        self.width, self.num_heads, self.head_width = width, num_heads, width // num_heads
        self.memory_length = memory_length
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.relative = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)
        self.u = nn.Parameter(torch.zeros(num_heads, 1, self.head_width))
        self.v = nn.Parameter(torch.zeros(num_heads, 1, self.head_width))

    def project_memory(self, memory: Tensor, qkv: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Keys and values [B, H, m, d] of normalised memory rows [B, m, D]; `qkv` in place of the weights."""
        weight = self.qkv.weight if qkv is None else qkv
        key, value = F.linear(memory, weight[self.width :]).chunk(2, dim=-1)
        return self._heads(key), self._heads(value)

    def project_query(self, inputs: Tensor) -> Tensor:
        """Queries [B, H, T, d] of normalised inputs [B, T, D]."""
        return self._heads(F.linear(inputs, self.qkv.weight[: self.width]))

    def forward(
        self,
        inputs: Tensor,
        memory_key: Tensor,
        memory_value: Tensor,
        positions: Tensor,
        mask: Tensor | None,
        slots: Slots | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """
        Args:
            inputs: [B, T, D], normalised.
            memory_key, memory_value: [B, H, m, d], m <= M, oldest first.
            positions: [M + 1, D] the sinusoids of distances M..0.
            mask: [B, 1, 1, m + T] added to the scores: 0, or minus infinity for empty memory slots.
            slots: compressed memory.
        Returns: the output [B, T, D], keys and values [B, H, m + T, d].
        """
        q, k, v = (self._heads(part) for part in self.qkv(inputs).chunk(3, dim=-1))
        steps, num_memory = inputs.shape[1], memory_key.shape[2]
        if num_memory:
            k, v = torch.cat([memory_key, k], dim=2), torch.cat([memory_value, v], dim=2)
        reach = min(self.memory_length, num_memory + steps - 1) + 1
        bias = None if self.span is None else self.span.log_mask(reach)
        scores = self._scores(q, k, positions[-reach:], num_memory, bias)
        if mask is not None:
            scores = scores + mask
        if slots is None:
            return self._attend(scores, v), k, v
        scores = torch.cat([self._slot_scores(q, slots), scores], dim=-1)
        return self._attend(scores, torch.cat([slots.value, v], dim=2)), k, v

    def both_ways(self, inputs: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        """Attention of T rows over all T of them, later ones included: [B, T, D] -> [B, T, D].

        Args:
            inputs: normalised.
            positions: [2T - 1, D] the sinusoids of distances T-1..-(T-1).
            mask: [B, 1, 1, T] added to the scores.
        """
        q, k, v = (self._heads(part) for part in self.qkv(inputs).chunk(3, dim=-1))
        return self._attend(self._scores(q, k, positions, inputs.shape[1] - 1) + mask, v)

    def _scores(
        self, q: Tensor, k: Tensor, positions: Tensor, offset: int, bias: Tensor | None = None
    ) -> Tensor:
        """[B, H, T, J] of queries and keys; a key whose distance has no position scores minus infinity.

        Args:
            positions: [E, D] the sinusoids of distances that fall by one from row to row.
            offset: from the last of them to that of query 0 and key 0.
            bias: [H, 1, E] added to the scores at these distances.
        """
        batch, heads, steps, _ = q.shape
        keys, scale = k.shape[2], self.head_width**-0.5
        relative = self._heads(self.relative(positions)[None])
        by_distance = ((q + self.v) * scale) @ relative.transpose(-1, -2)
        if bias is not None:
            by_distance = by_distance + bias
        band = Band.apply(by_distance.flatten(0, 1), offset)
        return torch.baddbmm(
            band if band.shape[-1] == keys else band[..., :keys],
            (q + self.u).reshape(batch * heads, steps, -1),
            k.reshape(batch * heads, -1, self.head_width).transpose(1, 2),
            alpha=scale,
        ).view(batch, heads, steps, -1)

    def _slot_scores(self, q: Tensor, slots: Slots) -> Tensor:
        """[B, H, T, K]; minus infinity for a slot that its query does not see."""
        relative = self._heads(self.relative(slots.positions)[None])
        by_distance = (q + self.v) @ relative.mT
        place = (slots.distance - self.memory_length - 1).clamp(0, len(slots.positions) - 1)
        of_place = by_distance.gather(-1, place[:, None].expand(-1, self.num_heads, -1, -1))
        scores = ((q + self.u) @ slots.key.mT + of_place) * self.head_width**-0.5
        return scores.masked_fill(~slots.visible[:, None], -math.inf)

    def _attend(self, scores: Tensor, v: Tensor) -> Tensor:
        """The values' means by the softmax of the scores, all heads joined: [B, T, D]."""
        mixed = torch.softmax(scores, dim=-1) @ v
        return self.output(mixed.transpose(1, 2).flatten(2))

    def _heads(self, x: Tensor) -> Tensor:
        """[B, T, D] -> [B, H, T, d]"""
        return x.unflatten(-1, (self.num_heads, self.head_width)).transpose(1, 2)
