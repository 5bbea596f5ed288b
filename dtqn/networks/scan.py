"""Linear recurrences, all steps at once.

    h_t = a_t h_{t-1} + b_t,   t = 1..T

Legend: B batch, T steps, C steps of a block, K blocks, N features (any number of axes).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


def linear_scan(a: Tensor, b: Tensor, start: Tensor) -> Tensor:
    """h [B, T, N] from a [B or 1, T, N], b [B, T, N] and h_0 = start [B, N]; real or complex.

    About 2 sqrt(T) operations one after the other, in place of T. It multiplies and adds and nothing else, so
    for |a| at most 1 no intermediate is larger than |start| + sum |b| and none overflows: a power of a that
    vanishes is a zero, where a scan by logarithms or by quotients of powers would divide by it.
    """
    result: Tensor = _LinearScan.apply(a, b, start)
    return result


class _LinearScan(torch.autograd.Function):
    """The gradient of h runs through the same recurrence, backward: g_t = dh_t + conj(a_{t+1}) g_{t+1}."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, start: Tensor) -> Tensor:
        h = _scan(a, b, start)
        ctx.save_for_backward(a, h, start)
        return h

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor | None]:
        a, h, start = ctx.saved_tensors
        later = torch.cat([a[:, 1:], torch.zeros_like(a[:, :1])], dim=1)
        g = _scan(later.conj().flip(1), grad.flip(1), torch.zeros_like(start)).flip(1)
        grad_a = grad_start = None
        if ctx.needs_input_grad[0]:
            before = torch.cat([start[:, None], h[:, :-1]], dim=1)
            grad_a = (g * before.conj()).sum_to_size(a.shape)
        if ctx.needs_input_grad[2]:
            grad_start = a[:, 0].conj() * g[:, 0]
        return grad_a, g, grad_start


def _scan(a: Tensor, b: Tensor, start: Tensor) -> Tensor:
    """First inside blocks of about sqrt(T) steps, all blocks at once from zero; then from block to block."""
    steps = b.shape[1]
    length = math.isqrt(steps)
    h, power = _blocks(b, length), _blocks(a, length)  # the products of a from a block's first step on
    for i in range(1, length):
        h[:, :, i] += power[:, :, i] * h[:, :, i - 1]
        power[:, :, i] *= power[:, :, i - 1]
    before = start
    for k in range(h.shape[1]):
        h[:, k] += power[:, k] * before[:, None]
        before = h[:, k, -1]
    return h.flatten(1, 2)[:, :steps]


def _blocks(x: Tensor, length: int) -> Tensor:
    """A copy [B, K, C, N] of x [B, T, N], zeros after its end."""
    batch, steps, *features = x.shape
    count = -(-steps // length)
    blocks = x.new_zeros((batch, count * length, *features))
    blocks[:, :steps] = x
    return blocks.unflatten(1, (count, length))
