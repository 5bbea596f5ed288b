"""The gated delta rule: a matrix that stores values under keys, all steps at once.

Yang, Kautz and Hatamizadeh, ICLR 2025, arXiv 2412.06464, equation 10, transposed, with keys no longer than 1:

    S_t = alpha_t (I - beta_t k_t k_t^T) S_{t-1} + beta_t k_t v_t^T        o_t = S_t^T q_t

A step reads what key k_t stands for, moves it towards v_t by the share beta_t, and forgets all by alpha_t.
With u_t the change that it writes under k_t,

    S_t = alpha_t S_{t-1} + k_t u_t^T        u_t = beta_t (v_t - alpha_t S_{t-1}^T k_t)

From the matrix S before a chunk of C steps, all u of the chunk solve one triangular system (the WY form:
arXiv 2406.06484, section 3.2; arXiv 2412.06464, section 3.3). With a_t = sum_{i<=t} log alpha_i,
G_ti = exp(a_t - a_i), g_t = exp(a_t), steps as rows, and * for products element by element:

    (I + L) u = w = beta * (v - g * k S)            L = beta * G * k k^T below the diagonal
    o = g * q S + A u                               A = G * q k^T up to the diagonal
    S' = g_C S + (e * k)^T u                        e is G's last row

This is done for all chunks at once, except for u and S', which go from chunk to chunk. No exponent is above 0,
so nothing overflows however strongly alpha forgets.

Legend: B batch, T steps, H heads, d width of keys and values, K chunks, C steps of a chunk, N = B H matrices,
M = K N chunks of all matrices.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

CHUNK = 16
"""The largest C. A chunk's products cost C^2, and each chunk waits for the one before."""


def delta_step(qkv: Tensor, log_alpha: Tensor, beta: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """One step, as `delta_rule` on T = 1: o [B, 1, H, d] and S_1 [B, 1, H, d, d]."""
    q, k, v = qkv[:, 0].unsqueeze(-2).unbind(1)  # [B, H, 1, d]
    log_alpha, beta = log_alpha[:, 0, :, None, None], beta[:, 0, :, None, None]
    kept = start * torch.exp(log_alpha)
    after = torch.addcmul(kept, k.mT, (v - k @ kept) * beta)
    return (q @ after)[:, None, :, 0], after[:, None]


def delta_rule(
    qkv: Tensor, log_alpha: Tensor, beta: Tensor, start: Tensor, want_states: bool
) -> tuple[Tensor, Tensor | None]:
    """All steps.

    Args:
        qkv: [B, T, 3, H, d] queries, keys and values.
        log_alpha: [B, T, H], at most 0.
        beta: [B, T, H], from 0 to 1.
        start: [B, H, d, d] S_0, rows by the key's features.
        want_states: give S_t of every step, without gradient: d times as many numbers as in all o.
    Returns: o [B, T, H, d], and S_t [B, T, H, d, d] or None.
    """
    batch, steps, _, heads, width = qkv.shape
    count = -(-steps // CHUNK)
    size = -(-steps // count)
    rows = count * size - steps  # whatever they hold, no step before them sees it

    def by_chunk(x: Tensor) -> Tensor:
        """[B, T, H] -> [M, C, 1]"""
        x = F.pad(x, (0, 0, 0, rows)).view(batch, count, size, heads)
        return x.permute(1, 0, 3, 2).reshape(-1, size, 1)

    vectors = F.pad(qkv, (0, 0, 0, 0, 0, 0, 0, rows)).view(batch, count, size, 3, heads, width)
    vectors = vectors.permute(1, 0, 4, 3, 2, 5).reshape(-1, 3, size, width)
    log_g, beta = by_chunk(log_alpha).cumsum(1), by_chunk(beta)
    first = start.reshape(-1, width, width)
    o, change, before = _Chunks.apply(vectors, log_g, beta, first)
    o = o.view(count, batch, heads, size, width).permute(1, 0, 3, 2, 4).flatten(1, 2)[:, :steps]
    if not want_states:
        return o, None
    with torch.no_grad():
        states = qkv.new_empty((batch, count, size, heads, width, width))
        now = before
        log_alpha = by_chunk(log_alpha)
        for t, after in enumerate(states.unbind(2)):
            now = now * log_alpha[:, t, :, None].exp()
            now = now.addcmul_(vectors[:, 1, t, :, None], change[:, t, None])
            after.copy_(now.view(count, batch, heads, width, width).transpose(0, 1))
        return o, states.flatten(1, 2)[:, :steps]


class _Chunks(torch.autograd.Function):
    """The module's equations, and their derivatives.

    With dx the gradient of x, and the gradient of log G gathered by rows and columns into that of a:

        du = A^T do + (e * k) dS'          dw = (I + L)^-T du
        dA = do u^T                        dL = -dw u^T
        dS = g_C dS' + (g * q)^T do - (beta * g * k)^T dw
    """

    @staticmethod
    def forward(
        ctx: Any, qkv: Tensor, log_g: Tensor, beta: Tensor, start: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """qkv [M, 3, C, d], a and beta [M, C, 1], start [N, d, d] -> o and u [M, C, d], S [M, d, d]."""
        size, width, matrices = *qkv.shape[2:], len(start)
        qk, k, v = qkv[:, :2].flatten(1, 2), qkv[:, 1], qkv[:, 2]
        later = torch.ones(size, size, dtype=torch.bool, device=qkv.device).triu_(1)
        decay = (log_g - log_g.mT).masked_fill_(later, -torch.inf).exp_()  # G
        products = (qk @ k.mT).view(-1, 2, size, size).mul_(decay[:, None])
        # The solver reads nothing on or above the diagonal.
        inverse = torch.linalg.solve_triangular(
            products[:, 1] * beta,
            torch.eye(size, dtype=qkv.dtype, device=qkv.device),
            upper=False,
            unitriangular=True,
        )
        g = log_g.exp()
        now, change, before = start, torch.empty_like(v), []
        for bv, bgk, kept_keys, solve, keep, u in zip(
            *_split(matrices, beta * v, beta * g * k, k * decay[:, -1, :, None], inverse, g[:, -1:], change),
            strict=True,
        ):
            before.append(now)
            torch.bmm(solve, torch.baddbmm(bv, bgk, now, alpha=-1), out=u)
            now = torch.baddbmm(keep * now, kept_keys.mT, u)
        states = torch.cat(before)
        read = (qk @ states).view_as(qkv[:, :2])
        o = torch.baddbmm(read[:, 0] * g, products[:, 0], change)
        ctx.save_for_backward(qkv, g, beta, decay, products, inverse, change, states, read)
        ctx.matrices = matrices
        ctx.mark_non_differentiable(change, states)
        return o, change, states

    @staticmethod
    def backward(ctx: Any, d_o: Tensor, *_: None) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        qkv, g, beta, decay, products, inverse, change, states, read = ctx.saved_tensors
        qk, k, v = qkv[:, :2].flatten(1, 2), qkv[:, 1], qkv[:, 2]
        left = decay[:, -1, :, None]  # e
        d_rows = torch.empty_like(qkv[:, :2])  # do, -dw
        d_rows[:, 0] = d_o
        g_rows = torch.stack([g, g * beta], dim=1)
        d_read = torch.empty_like(d_rows)  # of q S, of k S
        d_after, d_now = [], torch.zeros_like(states[: ctx.matrices])
        for of_output, kept_keys, solve, keep, g_row, row, read_row, keys in reversed(
            list(
                zip(
                    *_split(
                        ctx.matrices,
                        products[:, 0].mT @ d_o,
                        k * left,
                        inverse,
                        g[:, -1:],
                        g_rows,
                        d_rows,
                        d_read,
                        qk,
                    ),
                    strict=True,
                )
            )
        ):
            d_after.append(d_now)
            row[:, 1] = solve.mT @ torch.baddbmm(of_output, kept_keys, d_now, beta=-1, alpha=-1)
            torch.mul(g_row, row, out=read_row)
            d_now = torch.baddbmm(keep * d_now, keys.mT, read_row.flatten(1, 2))
        d_states = torch.cat(d_after[::-1])
        d_products = (d_rows.flatten(1, 2) @ change.mT).view_as(products)  # dA, dL
        d_products[:, 1].tril_(-1)
        d_log = d_products * products
        d_beta = d_log[:, 1].sum(-1, keepdim=True)
        d_beta -= (d_rows[:, 1] * (v - g * read[:, 1])).sum(-1, keepdim=True)
        d_log = torch.addcmul(d_log[:, 0], d_log[:, 1], beta)
        d_products *= decay[:, None]
        d_products[:, 1] *= beta
        d_products = d_products.flatten(1, 2)
        d_qkv = torch.empty_like(qkv)
        d_qk = torch.baddbmm(d_products @ k, d_read.flatten(1, 2), states.mT).view_as(read)
        d_qkv[:, 0] = d_qk[:, 0]
        of_end = (change @ d_states.mT).mul_(left)
        d_left = (of_end * k).sum(-1, keepdim=True)
        d_qkv[:, 1] = torch.baddbmm(d_qk[:, 1].add_(of_end), d_products.mT, qk)
        torch.mul(d_rows[:, 1], -beta, out=d_qkv[:, 2])
        d_log_g = (d_read * read).sum((1, 3))[..., None]
        d_log_g += d_log.sum(2, keepdim=True) - d_log.sum(1)[..., None] - d_left
        d_log_g[:, -1] += d_left.sum(1) + g[:, -1] * (d_states * states).sum((1, 2))[:, None]
        return d_qkv, d_log_g, d_beta, d_now if ctx.needs_input_grad[3] else None


def _split(matrices: int, *of_chunks: Tensor) -> list[tuple[Tensor, ...]]:
    """[M, ...] each -> K views [N, ...] each, chunk by chunk."""
    return [x.split(matrices) for x in of_chunks]
