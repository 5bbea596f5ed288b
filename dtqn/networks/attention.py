"""Multi-head attention with relative positions over a memory (Dai et al. 2019, arXiv 1901.02860; GTrXL).

Legend: B batch, T steps of the call, m steps of memory handed in, M memory length, E distances, H heads,
d features of a head, D = H d, J keys.

    score(t, j) = (q_t.k_j + q_t.r_D + u.k_j + v.r_D) / sqrt(d),   D steps from key j to query t,
    r_D = W_R sinusoid(D)

A query sees the keys at distances 0..M and no others, whatever the split of a sequence into calls. So one
call of T = 40 and forty calls of T = 1 are the same function.

Scores are kept by distance: a query has E = min(M, m + T - 1) + 1 of them, from the farthest to 0, as keys
beyond would be masked. Inside, heads come before the batch, so projections make their blocks without a copy.

Two options: an `AdaptiveSpan` weighs each head's keys by their distance, and queries also see `Slots` of
compressed memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dtqn.networks.packing import Layout


def sinusoid(length: int, width: int, first: int = 0) -> Tensor:
    """[length, D]: row i is [sin, cos]((first + i) * 10000^(-2k/D)), k = 0..D/2-1."""
    # In float64: angles of hundreds of radians have lost digits in float32 before their sine is taken.
    frequency = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10_000.0) / width))
    angle = torch.arange(first, first + length, dtype=torch.float64)[:, None] * frequency
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


class _Slide(torch.autograd.Function):
    """`_distances` or `_keys`; each is the adjoint of the other.

    Autograd's own backward of such views fills and copies whole arrays of zeros.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, slide: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.back = _keys if slide is _distances else _distances
        return slide(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.back(grad), None


def by_distance(by_key: Tensor) -> Tensor:
    """[N, T, E - 1 + T] -> [N, T, E]: what is at the keys t..t + E - 1 of each query t. It is a view."""
    return by_key if by_key.shape[1] == 1 else _Slide.apply(by_key, _distances)


def by_key(by_distance: Tensor) -> Tensor:
    """[N, T, E] -> [N, T, E - 1 + T]: the inverse of `by_distance`, 0 at the other keys."""
    return by_distance if by_distance.shape[1] == 1 else _Slide.apply(by_distance, _keys)


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
    """Inputs [B, J, D] to queries s (x W_Q + b) [H, B, T, d] of the last T, keys and values [2, H, B, J, d].

    The gradients of the inputs add up in place. Autograd pads the last T's with zeros and adds whole arrays.
    """

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, steps: int, weight: Tensor, bias: Tensor, scale: float
    ) -> tuple[Tensor, Tensor]:
        batch, count, width = inputs.shape
        heads, _, size = bias.shape
        w = weight.view(3 * heads, size, width).mT
        new = inputs[:, count - steps :].reshape(-1, width)
        flat = inputs.reshape(-1, width)
        ctx.save_for_backward(flat, new, weight)
        ctx.scale, ctx.shape = scale, inputs.shape
        query = torch.baddbmm(bias, new.expand(heads, -1, -1), w[:heads], beta=scale, alpha=scale)
        pairs = torch.bmm(flat.expand(2 * heads, -1, -1), w[heads:])
        return query.view(heads, batch, steps, size), pairs.view(2, heads, batch, count, size)

    @staticmethod
    def backward(ctx: Any, d_query: Tensor, d_pairs: Tensor) -> tuple[Tensor, None, Tensor, Tensor, None]:
        flat, new, weight = ctx.saved_tensors
        heads, batch, steps, size = d_query.shape
        dq, dk, dv = (
            grad.reshape(heads, -1, size).transpose(0, 1).reshape(-1, heads * size)
            for grad in (d_query, d_pairs[0], d_pairs[1])
        )
        w_q, w_k, w_v = weight.chunk(3)
        d_inputs = (dk @ w_k).addmm_(dv, w_v).view(ctx.shape)
        d_inputs[:, ctx.shape[1] - steps :] += ctx.scale * (dq @ w_q).view(batch, steps, -1)
        d_weight = torch.cat([ctx.scale * (dq.T @ new), dk.T @ flat, dv.T @ flat])
        return d_inputs, None, d_weight, ctx.scale * dq.sum(dim=0).view(heads, 1, size), None


class _Packed(torch.autograd.Function):
    """`RelativeAttention.packed` before its last product, one head after the other.

    Blocks lie head by head, where products read and write them as they are. Scores exist by key where keys
    are multiplied, else by distance.
    """

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        relative: Tensor,
        mask: Tensor | None,
        weight: Tensor,
        u: Tensor,
        v: Tensor,
        layout: Layout,
    ) -> Tensor:
        queries, keys, (heads, _, size) = layout.queries, layout.keys, u.shape
        width, scale = heads * size, size**-0.5
        new = inputs[len(inputs) - len(queries.place) // heads :]
        projected = F.linear(new, weight[:width], u.view(width)).mul_(scale)
        with_u = queries.fill(projected)
        with_v = with_u[:, :-1] + (v - u) * scale
        pairs = keys.fill(F.linear(inputs, weight[width:]))
        # Without a backward, which reads them all, every head's weights go through the same block.
        kept = heads if any(ctx.needs_input_grad) else 1
        weights = pairs.new_zeros((kept, *queries.shape[1:], keys.shape[2]))
        mixed = torch.empty_like(with_u)
        mixed[:, -1] = 0.0
        query, pair, output = queries.blocks(with_u), keys.blocks(pairs), queries.blocks(mixed)
        for head in range(heads):
            key, value, by_key = pair[head], pair[heads + head], weights[head % kept]
            of_keys = _distances(torch.bmm(query[head], key.mT))
            r, rv = relative[:, head * size : (head + 1) * size].T, with_v[head]
            scores = rv @ r if mask is None else torch.addmm(mask.flatten(0, 1), rv, r)
            _distances(by_key).copy_(scores.view_as(of_keys).add_(of_keys).softmax(dim=-1))
            torch.bmm(by_key, value, out=output[head])
        ctx.save_for_backward(inputs, relative, weight, with_u, with_v, pairs, weights)
        ctx.layout = layout
        return queries.packed(mixed)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs, relative, weight, with_u, with_v, pairs, weights = ctx.saved_tensors
        queries, keys = ctx.layout
        heads, batch, steps, _ = weights.shape
        size, width = with_u.shape[2], heads * with_u.shape[2]
        new, scale = inputs[len(inputs) - len(grad) :], size**-0.5
        d_mixed = queries.fill_or_zero(grad)
        d_u, d_v, d_relative, d_pairs = (torch.empty_like(x) for x in (with_u, with_v, relative, pairs))
        d_u[:, -1] = 0.0
        d_pairs[:, -1] = 0.0
        query, d_output, d_query = (queries.blocks(x) for x in (with_u, d_mixed, d_u))
        pair, d_pair = keys.blocks(pairs), keys.blocks(d_pairs)
        d_by_key = torch.zeros_like(weights[0])  # at keys that a query does not see it stays so
        for head, by_key in enumerate(weights):
            part = slice(head * size, (head + 1) * size)
            key, value = pair[head], pair[heads + head]
            d_weights = _distances(torch.bmm(d_output[head], value.mT))
            torch.bmm(by_key.mT, d_output[head], out=d_pair[heads + head])
            d_scores = torch.ops.aten._softmax_backward_data(d_weights, _distances(by_key), -1, grad.dtype)
            _distances(d_by_key).copy_(d_scores)
            torch.bmm(d_by_key, key, out=d_query[head])
            torch.bmm(d_by_key.mT, query[head], out=d_pair[head])
            d_scores = d_scores.view(batch * steps, -1)
            torch.mm(d_scores, relative[:, part], out=d_v[head])
            d_relative[:, part] = d_scores.T @ with_v[head]
        of_u, of_v = (x.sum(dim=1, keepdim=True) * scale for x in (d_u, d_v))
        d_u[:, :-1] += d_v
        d_q = queries.packed(d_u).mul_(scale)
        d_kv = keys.packed(d_pairs)
        d_inputs = d_kv @ weight[width:]
        d_inputs[len(inputs) - len(new) :].addmm_(d_q, weight[:width])
        d_weight = torch.cat([d_q.T @ new, d_kv.T @ inputs])
        return d_inputs, d_relative, None, d_weight, of_u, of_v, None


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
        """[H, 1, reach] the logarithms of the masks at distances reach - 1..0.

        In float32 at least, even if the core is in bfloat16, which has no odd numbers above 256.
        """
        share = self.share.to(torch.promote_types(self.share.dtype, torch.float32))
        # Clamped on the way forwards, straight through on the way back.
        share = share + (share.clamp(min=0) - share).detach()
        distance = torch.arange(reach - 1, -1, -1, device=share.device)
        z = self.memory_length * share[:, None, None]
        mask = ((self.ramp + z - distance) / self.ramp).clamp(0, 1)
        seen = mask > 0
        # 1 in place of 0, where the logarithm has an infinite gradient, which no mask behind it takes away.
        return torch.where(seen, mask, 1.0).log().masked_fill(~seen, -math.inf).to(self.share.dtype)


class Slots(NamedTuple):
    """K slots of compressed memory."""

    key: Tensor
    """[H, B, K, d]"""
    value: Tensor
    """[H, B, K, d]"""
    positions: Tensor
    """[E, D] sinusoids of the distances M + 1..M + E."""
    distance: Tensor
    """[B, T, K] from slot to query."""
    visible: Tensor
    """[B, T, K] bool"""


class RelativeAttention(nn.Module):
    """Attention of T queries over m steps of memory and the T steps themselves."""

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
        """Keys and values [H, B, m, d] of normalised memory [B, m, D]; `qkv` in place of the weights."""
        weight = self.qkv.weight if qkv is None else qkv
        key, value = F.linear(memory, weight[self.width :]).chunk(2, dim=-1)
        return self._heads(key), self._heads(value)

    def project_query(self, inputs: Tensor) -> Tensor:
        """Queries [H, B, T, d] of normalised inputs [B, T, D]."""
        return self._heads(F.linear(inputs, self.qkv.weight[: self.width]))

    def forward(
        self,
        inputs: Tensor,
        steps: int,
        cached: tuple[Tensor, Tensor] | None,
        positions: Tensor,
        mask: Tensor | None,
        slots: Slots | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """
        Args:
            inputs: [B, m + T, D] memory, oldest first, and steps, normalised; without the memory if `cached`.
            steps: T.
            cached: keys and values [H, B, m, d] of the memory.
            positions: [E, D] the sinusoids of the distances E - 1..0.
            mask: [B, T, E] added to the scores: 0, or minus infinity where nothing is so far back.
            slots: compressed memory.
        Returns: the output [B, T, D], keys and values [H, B, m + T, d].
        """
        q, (k, v) = self._project(inputs, steps)
        if cached is not None:
            k, v = (torch.cat([old, new], dim=2) for old, new in zip(cached, (k, v), strict=True))
        # Distances that no query of this call has are masked, but have a place.
        missing = len(positions) - 1 + steps - k.shape[2]
        keys, values = (F.pad(x, (0, 0, missing, 0)) if missing else x for x in (k, v))
        scores = self._scores(q, keys, positions, mask)
        if slots is None:
            mixed = self._mixed(scores.softmax(dim=-1), values)
        else:
            with_slots = torch.cat([self._slot_scores(q, slots), scores], dim=-1).softmax(dim=-1)
            of_slots, of_keys = with_slots.split([slots.key.shape[2], len(positions)], dim=-1)
            mixed = self._mixed(of_keys, values) + of_slots @ slots.value
        return self._output(mixed), k, v

    def packed(self, inputs: Tensor, positions: Tensor, mask: Tensor | None, layout: Layout) -> Tensor:
        """Attention of the last n of N packed timesteps, normalised: [N, D] -> [n, D]. No adaptive span.

        `positions` and `mask` are as in `forward`.
        """
        relative = self.relative(positions)
        mixed = _Packed.apply(inputs, relative, mask, self.qkv.weight, self.u, self.v, layout)
        output: Tensor = self.output(mixed)
        return output

    def both_ways(self, inputs: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        """Attention of T steps over all T of them, later ones included: [B, T, D] -> [B, T, D].

        Args:
            inputs: normalised.
            positions: [2T - 1, D] the sinusoids of distances T-1..-(T-1).
            mask: [B, 1, T] added to the scores.
        """
        steps = inputs.shape[1]
        q, (k, v) = self._project(inputs, steps)
        relative = by_key(self._relative_scores(q, positions).flatten(0, 1))[..., steps - 1 : 2 * steps - 1]
        scores = q @ k.mT + relative.unflatten(0, q.shape[:2]) + mask
        return self._output(scores.softmax(dim=-1) @ v)

    def _project(self, inputs: Tensor, steps: int) -> tuple[Tensor, Tensor]:
        """Queries with u [H, B, T, d], scaled, and keys and values [2, H, B, J, d] of inputs [B, J, D]."""
        projected: tuple[Tensor, Tensor] = _Projections.apply(
            inputs, steps, self.qkv.weight, self.u, self.head_width**-0.5
        )
        return projected

    def _scores(self, q: Tensor, k: Tensor, positions: Tensor, mask: Tensor | None) -> Tensor:
        """[H, B, T, E] of queries with u [H, B, T, d] and keys [H, B, E - 1 + T, d]."""
        of_keys = by_distance(q.flatten(0, 1) @ k.flatten(0, 1).mT)
        scores = of_keys.unflatten(0, q.shape[:2]) + self._relative_scores(q, positions, mask)
        if self.span is not None:
            scores = scores + self.span.log_mask(len(positions))[:, None]
        return scores

    def _relative_scores(self, q: Tensor, positions: Tensor, mask: Tensor | None = None) -> Tensor:
        """[H, B, T, E] of queries with u [H, B, T, d] and positions [E, D]: one product for each head.

        `mask` [B, T, E] is added.
        """
        relative = self.relative(positions).unflatten(-1, (self.num_heads, -1)).permute(1, 2, 0)
        # The queries have u in them already; this puts v in its place.
        with_v = q + ((self.v - self.u) * self.head_width**-0.5)[:, None]
        flat = with_v.flatten(1, 2)
        scores = flat @ relative if mask is None else torch.baddbmm(mask.flatten(0, 1), flat, relative)
        return scores.unflatten(1, q.shape[1:3])

    def _slot_scores(self, q: Tensor, slots: Slots) -> Tensor:
        """[H, B, T, K]; minus infinity for a slot that its query does not see."""
        place = (slots.distance - self.memory_length - 1).clamp(0, len(slots.positions) - 1)
        of_place = self._relative_scores(q, slots.positions).gather(
            -1, place.expand(self.num_heads, -1, -1, -1)
        )
        return (q @ slots.key.mT + of_place).masked_fill(~slots.visible, -math.inf)

    def _mixed(self, weights: Tensor, v: Tensor) -> Tensor:
        """The means [H, B, T, d] of values [H, B, E - 1 + T, d] by weights [H, B, T, E]."""
        mixed = by_key(weights.flatten(0, 1)) @ v.flatten(0, 1)
        return mixed.unflatten(0, weights.shape[:2])

    def _output(self, mixed: Tensor) -> Tensor:
        """[H, B, T, d] -> [B, T, D]"""
        return self.output(mixed.permute(1, 2, 0, 3).flatten(2))

    def _heads(self, x: Tensor) -> Tensor:
        """[B, T, D] -> [H, B, T, d]"""
        return x.unflatten(-1, (self.num_heads, self.head_width)).permute(2, 0, 1, 3)
