"""Gated DeltaNet: a linear recurrence whose state is a matrix that is corrected and forgets.

Yang, Kautz and Hatamizadeh, ICLR 2025, arXiv 2412.06464, section 3.4. With x the block's input after
LayerNorm, for each of H heads of d features:

    q, k = SiLU(W_q x), SiLU(W_k x), each divided by its length        v = SiLU(W_v x)
    beta = sigmoid(w_b x)        log alpha = -exp(a) softplus(w_a x + b)
    y = W_o (RMSNorm(o) * SiLU(W_g x))

The paper's short convolutions over the last steps of q, k and v are left out, as their inputs would have to
be stored with the matrix, and keys and values have one width.

The gated delta rule stores values under keys in a matrix (equation 10, transposed; keys no longer than 1):

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

This is done for all chunks at once, except for u and S', which go from chunk to chunk. No exponent is above
0, so nothing overflows however strongly alpha forgets.

Legend: B batch, T steps, D width, H heads, d width of a head's keys and values, K chunks, C steps of a chunk,
N = B H matrices, M = K N chunks of all matrices.
"""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dtqn.choices import cores
from dtqn.networks.gates import feed_forward
from dtqn.networks.rnn import chrono_bias
from dtqn.networks.stack import Hidden, RecurrentStack
from dtqn.settings.config import NetworkConfig

CHUNK = 16
"""The largest C. A chunk's products cost C^2, and each chunk waits for the one before."""
FORGOTTEN = -30.0
"""Less than e^-30 of a matrix is as good as nothing, and sums a_t this small keep float32's digits."""
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

    Initial values are torch's, except for alpha. Its values are the paper's or, if `longest` is given, chrono
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

    def forward(self, x: Tensor, want_memory: bool, hidden: Tensor) -> tuple[Tensor, tuple[Tensor] | None]:
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
        o, states = delta_step(*given) if one_step else delta_rule(*given, want_states=want_memory)
        # RMSNorm: what has length 1 has a root mean square of 1 / sqrt(d).
        o = unit(o, 1e-5 * width) * (width**0.5 * self.output_norm)
        x = x + self.out(o.flatten(2) * F.silu(gate))
        return x + self.mlp(self.mlp_norm(x)), None if states is None else (states,)


def delta_step(
    qk: Tensor, v: Tensor, log_alpha: Tensor, beta: Tensor, start: Tensor
) -> tuple[Tensor, Tensor]:
    """One step, as `delta_rule` on T = 1: o [B, 1, H, d] and S_1 [B, 1, H, d, d]."""
    q, k = qk[:, 0, ..., None, :].unbind(1)  # [B, H, 1, d]
    log_alpha, beta = log_alpha[:, 0, :, None, None], beta[:, 0, :, None, None]
    kept = start * torch.exp(log_alpha)
    after = torch.addcmul(kept, k.mT, (v[:, 0, :, None] - k @ kept) * beta)
    return (q @ after)[:, None, :, 0], after[:, None]


def delta_rule(
    qk: Tensor, v: Tensor, log_alpha: Tensor, beta: Tensor, start: Tensor, want_states: bool
) -> tuple[Tensor, Tensor | None]:
    """All steps.

    Args:
        qk: [B, T, 2, H, d] queries and keys.
        v: [B, T, H, d] values.
        log_alpha: [B, T, H], at most 0.
        beta: [B, T, H], from 0 to 1.
        start: [B, H, d, d] S_0, rows by the key's features.
        want_states: give S_t of every step, without gradient: d times as many numbers as in all o.
    Returns: o [B, T, H, d], and S_t [B, T, H, d, d] or None.
    """
    batch, steps, heads, width = v.shape
    count = -(-steps // CHUNK)
    size = -(-steps // count)
    more = count * size - steps  # whatever they hold, no step before them sees it

    def by_chunk(x: Tensor) -> Tensor:
        """[B, T, ..., H, n] -> [M, ..., C, n]"""
        if more:
            x = F.pad(x, (0, 0) * (x.dim() - 2) + (0, more))
        x = x.unflatten(1, (count, size)).movedim((1, -2, 2), (0, 2, -2))
        return x.flatten(0, 2)

    log_alpha = log_alpha.clamp(min=FORGOTTEN)
    qk, v, log_alpha, beta = (by_chunk(x) for x in (qk, v, log_alpha[..., None], beta[..., None]))
    first = start.reshape(-1, width, width)
    o, change, before = _Chunks.apply(qk, v, log_alpha.cumsum(1), beta, first)
    o = o.view(count, batch, heads, size, width).permute(1, 0, 3, 2, 4).flatten(1, 2)[:, :steps]
    if not want_states:
        return o, None
    with torch.no_grad():
        states = v.new_empty((batch, count, size, heads, width, width))
        now = before
        for t, after in enumerate(states.unbind(2)):
            now = now * log_alpha[:, t, :, None].exp()
            now = now.addcmul_(qk[:, 1, t, :, None], change[:, t, None])
            after.copy_(now.view(count, batch, heads, width, width).transpose(0, 1))
        return o, states.flatten(1, 2)[:, :steps]


class _Chunks(torch.autograd.Function):
    """The module's equations and their derivatives, in fewer passes over its arrays than autograd's own.

    dx is the gradient of x. As log G = a_t - a_i, the rows and columns of d(log G) enter da:

        du = A^T do + (e * k) dS'          dw = (I + L)^-T du
        dA = do u^T                        dL = -dw u^T below the diagonal
        dS = g_C dS' + (g * q)^T do - (beta * g * k)^T dw
    """

    @staticmethod
    def forward(
        ctx: Any, qk: Tensor, v: Tensor, log_g: Tensor, beta: Tensor, start: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """qk [M, 2, C, d], v [M, C, d], a and beta [M, C, 1], start [N, d, d], chunk by chunk.

        Returns: o and u [M, C, d], S before each chunk [M, d, d].
        """
        size, k = v.shape[1], qk[:, 1]
        later = torch.ones(size, size, dtype=torch.bool, device=v.device).triu_(1)
        decay = (log_g - log_g.mT).masked_fill_(later, -torch.inf).exp_()  # G
        mix = (qk.flatten(1, 2) @ k.mT).view(-1, 2, size, size).mul_(decay[:, None])  # A, L / beta
        # The solver reads nothing on or above the diagonal.
        identity = torch.eye(size, dtype=v.dtype, device=v.device)
        solved = torch.linalg.solve_triangular(mix[:, 1] * beta, identity, upper=False, unitriangular=True)
        g, change = log_g.exp(), torch.empty_like(v)
        by_chunk = (beta * v, beta * g * k, solved, change, (k * decay[:, -1, :, None]).mT, g[:, -1:])
        now, before = start, []
        for bv, bgk, inverse, u, ek, keep in zip(*(x.split(len(start)) for x in by_chunk), strict=True):
            before.append(now)
            torch.bmm(inverse, torch.baddbmm(bv, bgk, now, alpha=-1), out=u)
            now = torch.baddbmm(keep * now, ek, u)
        states = torch.cat(before)
        read = (qk.flatten(1, 2) @ states).view_as(qk)  # q S, k S
        o = torch.baddbmm(g * read[:, 0], mix[:, 0], change)
        ctx.save_for_backward(qk, v, g, beta, decay, mix, solved, change, states, read)
        ctx.num_matrices = len(start)
        ctx.mark_non_differentiable(change, states)
        return o, change, states

    @staticmethod
    def backward(ctx: Any, d_o: Tensor, *_: None) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        qk, v, g, beta, decay, mix, solved, change, states, read = ctx.saved_tensors
        k, end = qk[:, 1], decay[:, -1, :, None]  # e
        d_rows = torch.stack([d_o, torch.empty_like(d_o)], dim=1)  # do, -dw
        d_read = torch.empty_like(qk)
        d_now, d_after = torch.zeros_like(states[: ctx.num_matrices]), []
        d_change, of_read = mix[:, 0].mT @ d_o, torch.stack([g, g * beta], dim=1)
        by_chunk = (d_change, k * end, solved.mT, d_rows, of_read, d_read, qk.flatten(1, 2).mT, g[:, -1:])
        chunks = list(zip(*(x.split(ctx.num_matrices) for x in by_chunk), strict=True))
        for du, ek, inverse, rows, factors, d_reads, of_keys, keep in reversed(chunks):
            d_after.append(d_now)
            rows[:, 1] = inverse @ torch.baddbmm(du, ek, d_now, beta=-1, alpha=-1)
            torch.mul(rows, factors, out=d_reads)
            d_now = torch.baddbmm(keep * d_now, of_keys, d_reads.flatten(1, 2))
        d_states = torch.cat(d_after[::-1])

        d_mix = (d_rows.flatten(1, 2) @ change.mT).view_as(mix)  # dA, dL
        d_mix[:, 1].tril_(-1)
        d_log_decay = d_mix * mix
        d_beta = d_log_decay[:, 1].sum(2, keepdim=True)
        d_beta -= (d_rows[:, 1] * (v - g * read[:, 1])).sum(2, keepdim=True)
        d_log_decay = torch.addcmul(d_log_decay[:, 0], d_log_decay[:, 1], beta)
        d_mix *= decay[:, None]
        d_mix[:, 1] *= beta
        d_mix = d_mix.flatten(1, 2)
        d_qk = torch.baddbmm(d_mix @ k, d_read.flatten(1, 2), states.mT).view_as(qk)
        d_end_k = (change @ d_states.mT).mul_(end)
        d_qk[:, 1] += d_end_k.baddbmm(d_mix.mT, qk.flatten(1, 2))
        d_log_end = (d_end_k * k).sum(2, keepdim=True)
        d_log_g = (d_read * read).sum((1, 3))[..., None] - d_log_end
        d_log_g += d_log_decay.sum(2, keepdim=True) - d_log_decay.sum(1)[..., None]
        d_log_g[:, -1] += d_log_end.sum(1) + g[:, -1] * (d_states * states).sum((1, 2))[:, None]
        return d_qk, -beta * d_rows[:, 1], d_log_g, d_beta, d_now


def make_core(config: NetworkConfig) -> RecurrentStack:
    core, width = cast(cores.DeltaNet, config.core), config.width
    heads, size = core.num_heads, width // core.num_heads
    sizes: dict[str, Any] = {"num_heads": heads, "mlp_width": core.mlp_width, "longest": core.longest}
    layers = [GatedDeltaNetLayer(width=width, **sizes) for _ in range(core.num_layers)]
    return RecurrentStack(layers, Hidden((heads, size, size)))
