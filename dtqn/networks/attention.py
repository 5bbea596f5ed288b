"""Multi-head attention with relative positions over a memory (Dai et al. 2019, arXiv 1901.02860; GTrXL).

Legend: B batch, T steps of the call, m memory rows handed in, M memory length, E distances, H heads,
d features of a head, D = H d, J keys.

    score(t, j) = (q_t.k_j + q_t.r_D + u.k_j + v.r_D) / sqrt(d),   D steps from key j to query t,
    r_D = W_R sinusoid(D)

A query sees the keys at distances 0..M and no others, whatever the split of a sequence into calls. So one
call of T = 40 and forty calls of T = 1 are the same function.

Scores are kept by distance, E = min(M, m + T - 1) + 1 of them a query from the farthest to 0, as the keys
beyond would be masked. Arrays of a call have time before batch: the heads of [T, B, D] are then [B H, T, d] as
they lie, and the last T of m + T rows are one block.

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


class _ByDistance(torch.autograd.Function):
    """`by_distance`. Autograd's own backward of the same view fills and copies whole arrays of zeros."""

    @staticmethod
    def forward(ctx: Any, by_key: Tensor) -> Tensor:
        return _distances(by_key)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return _keys(grad)


class _ByKey(torch.autograd.Function):
    """`by_key`, whose adjoint is `by_distance`."""

    @staticmethod
    def forward(ctx: Any, by_distance: Tensor) -> Tensor:
        return _keys(by_distance)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return _distances(grad)


def by_distance(by_key: Tensor) -> Tensor:
    """[N, T, E - 1 + T] -> [N, T, E]: what is at the keys t..t + E - 1 of each query t. It is a view."""
    found: Tensor = _ByDistance.apply(by_key)
    return found


def by_key(by_distance: Tensor) -> Tensor:
    """[N, T, E] -> [N, T, E - 1 + T]: the inverse of `by_distance`, 0 at the other keys."""
    found: Tensor = _ByKey.apply(by_distance)
    return found


def _distances(by_key: Tensor) -> Tensor:
    """Rows read one farther apart than they lie."""
    by_key = by_key.contiguous()
    count, steps, keys = by_key.shape
    return by_key.as_strided((count, steps, keys + 1 - steps), (steps * keys, keys + 1, 1))


def _keys(by_distance: Tensor) -> Tensor:
    """Rows padded to E + T and read E + T - 1 apart slide by one each."""
    padded = F.pad(by_distance, (0, by_distance.shape[1]))
    count, steps, size = padded.shape
    return padded.as_strided((count, steps, size - 1), (steps * size, size - 1, 1))


class _Projections(torch.autograd.Function):
    """Of rows [J, B, D]: queries s (x W_Q + b) [T, B, D] of the last T, keys and values [J, B, D] of all.

    The gradients of the rows add up in place. Autograd pads that of the last T with zeros and adds arrays.
    """

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, steps: int, weight: Tensor, bias: Tensor, scale: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        num_rows, batch, width = rows.shape
        w_q, w_k, w_v = weight.view(3, width, width)
        flat, new = rows.view(-1, width), rows[num_rows - steps :].view(-1, width)
        ctx.save_for_backward(flat, new, weight)
        ctx.scale, ctx.shape = scale, rows.shape
        query = torch.addmm(bias, new, w_q.T, beta=scale, alpha=scale)
        return (
            query.view(steps, batch, width),
            (flat @ w_k.T).view(rows.shape),
            (flat @ w_v.T).view(rows.shape),
        )

    @staticmethod
    def backward(
        ctx: Any, d_query: Tensor, d_key: Tensor, d_value: Tensor
    ) -> tuple[Tensor, None, Tensor, Tensor, None]:
        flat, new, weight = ctx.saved_tensors
        width = flat.shape[1]
        dq, dk, dv = (grad.reshape(-1, width) for grad in (d_query, d_key, d_value))
        w_q, w_k, w_v = weight.view(3, width, width)
        d_rows = (dk @ w_k).addmm_(dv, w_v)
        d_rows[len(flat) - len(new) :].addmm_(dq, w_q, alpha=ctx.scale)
        d_weight = torch.cat([ctx.scale * (dq.T @ new), dk.T @ flat, dv.T @ flat])
        return d_rows.view(ctx.shape), None, d_weight, ctx.scale * dq.sum(dim=0), None


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
        """Keys and values [..., D] of normalised rows [..., D]; `qkv` in place of the weights."""
        weight = self.qkv.weight if qkv is None else qkv
        key, value = F.linear(memory, weight[self.width :]).chunk(2, dim=-1)
        return key, value

    def project_query(self, inputs: Tensor) -> Tensor:
        """Queries [..., D] of normalised inputs [..., D]."""
        return F.linear(inputs, self.qkv.weight[: self.width])

    def forward(
        self,
        rows: Tensor,
        steps: int,
        cached: tuple[Tensor, Tensor] | None,
        positions: Tensor,
        mask: Tensor | None,
        slots: Slots | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """
        Args:
            rows: [m + T, B, D] memory, oldest first, and inputs, normalised; without the memory if `cached`.
            steps: T.
            cached: keys and values [m, B, D] of the memory.
            positions: [E, D] the sinusoids of the distances E - 1..0.
            mask: [B, 1, T, E] added to the scores: 0, or minus infinity where nothing is so far back.
            slots: compressed memory.
        Returns: the output [T, B, D], keys and values [m + T, B, D].
        """
        scale = self.head_width**-0.5
        q, k, v = _Projections.apply(rows, steps, self.qkv.weight, self.u.flatten(), scale)
        if cached is not None:
            k, v = torch.cat([cached[0], k]), torch.cat([cached[1], v])
        # Distances that no row of this call has are masked, but have a place.
        missing = len(positions) - 1 + steps - len(k)
        keys, values = (F.pad(x, (0, 0, 0, 0, missing, 0)) for x in (k, v)) if missing else (k, v)
        scores = self._scores(q, keys, positions, mask)
        if slots is None:
            mixed = self._mixed(scores.softmax(dim=-1), values)
        else:
            with_slots = torch.cat([self._slot_scores(q, slots), scores], dim=-1).softmax(dim=-1)
            of_slots, of_keys = with_slots.split([slots.key.shape[2], len(positions)], dim=-1)
            mixed = self._mixed(of_keys, values) + self._joined(of_slots @ slots.value)
        return self.output(mixed), k, v

    def both_ways(self, inputs: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        """Attention of T rows over all T of them, later ones included: [T, B, D] -> [T, B, D].

        Args:
            inputs: normalised.
            positions: [2T - 1, D] the sinusoids of distances T-1..-(T-1).
            mask: [B, 1, 1, T] added to the scores.
        """
        steps = len(inputs)
        scale = self.head_width**-0.5
        q, k, v = _Projections.apply(inputs, steps, self.qkv.weight, self.u.flatten(), scale)
        relative = by_key(self._relative_scores(q, positions).flatten(0, 1))[..., steps - 1 : 2 * steps - 1]
        q, k, v = (self.heads(x.transpose(0, 1)) for x in (q, k, v))
        scores = q @ k.mT + relative.unflatten(0, (-1, self.num_heads)) + mask
        return self.output(self._joined(scores.softmax(dim=-1) @ v))

    def _scores(self, q: Tensor, k: Tensor, positions: Tensor, mask: Tensor | None) -> Tensor:
        """[B, H, T, E] of queries [T, B, D] with u, and keys [E - 1 + T, B, D]."""
        of_keys = by_distance(self._each_head(q) @ self._each_head(k).mT)
        scores = of_keys.unflatten(0, (-1, self.num_heads)) + self._relative_scores(q, positions)
        if self.span is not None:
            scores = scores + self.span.log_mask(len(positions))
        return scores if mask is None else scores + mask

    def _relative_scores(self, q: Tensor, positions: Tensor) -> Tensor:
        """[B, H, T, E] of queries [T, B, D] with u and positions [E, D]: one product for each head."""
        steps, batch, _ = q.shape
        relative = self.relative(positions).unflatten(-1, (self.num_heads, -1)).permute(1, 2, 0)
        with_v = q + (self.v - self.u).flatten() * self.head_width**-0.5
        rows = with_v.view(steps * batch, self.num_heads, -1).transpose(0, 1)
        return (rows @ relative).unflatten(1, (steps, batch)).permute(2, 0, 1, 3)

    def _slot_scores(self, q: Tensor, slots: Slots) -> Tensor:
        """[B, H, T, K]; minus infinity for a slot that its query does not see."""
        by_distance = self._relative_scores(q, slots.positions)
        place = (slots.distance - self.memory_length - 1).clamp(0, len(slots.positions) - 1)
        of_place = by_distance.gather(-1, place[:, None].expand(-1, self.num_heads, -1, -1))
        scores = self.heads(q.transpose(0, 1)) @ slots.key.mT + of_place
        return scores.masked_fill(~slots.visible[:, None], -math.inf)

    def _mixed(self, weights: Tensor, v: Tensor) -> Tensor:
        """The means [T, B, D] of values [E - 1 + T, B, D] by weights [B, H, T, E]."""
        mixed = by_key(weights.flatten(0, 1)) @ self._each_head(v)
        return self._joined(mixed.unflatten(0, (-1, self.num_heads)))

    def heads(self, x: Tensor) -> Tensor:
        """[B, T, D] -> [B, H, T, d]"""
        return x.unflatten(-1, (self.num_heads, self.head_width)).transpose(1, 2)

    def _each_head(self, x: Tensor) -> Tensor:
        """[T, B, D] -> [B H, T, d], a view"""
        return x.view(len(x), -1, self.head_width).transpose(0, 1)

    def _joined(self, x: Tensor) -> Tensor:
        """[B, H, T, d] -> [T, B, D]"""
        return x.permute(2, 0, 1, 3).flatten(2)
