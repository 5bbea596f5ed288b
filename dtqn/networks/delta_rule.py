"""The gated delta rule: a matrix that stores values under keys, all steps at once.

Yang, Kautz and Hatamizadeh, ICLR 2025, arXiv 2412.06464, equation 10, transposed, with keys of length at most 1:

    S_t = alpha_t (I - beta_t k_t k_t^T) S_{t-1} + beta_t k_t v_t^T        o_t = S_t^T q_t

It reads what key k_t stands for, moves that towards v_t by the share beta_t, and forgets all by alpha_t. With
u_t the change that it writes under k_t,

    S_t = alpha_t S_{t-1} + k_t u_t^T        u_t = beta_t (v_t - alpha_t S_{t-1}^T k_t)

Given the matrix S before a chunk of C steps, all u of the chunk solve one triangular system (the WY form: arXiv
2406.06484, section 3.2; arXiv 2412.06464, section 3.3). With G_ti = alpha_{i+1} ... alpha_t for i <= t, g_t =
alpha_1 ... alpha_t, and L_ti = beta_t G_ti k_t.k_i for i < t:

    u = (I + L)^-1 (beta v - beta g k S)        o_t = g_t S^T q_t + sum_{i <= t} G_ti (q_t.k_i) u_i

Legend: B batch, T steps, H heads, d width of a key and of a value, C steps of a chunk, K chunks, N = B H matrices.
"""

from __future__ import annotations

import torch
from torch import Tensor

CHUNK = 16
"""C: a chunk costs C^2 for each pair of its steps and one operation after the other for its matrix."""


def delta_step(qkv: Tensor, log_alpha: Tensor, beta: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """One step. qkv [B, 3, H, d], log_alpha and beta [B, H], start [B, H, d, d] -> o [B, H, d], S_1 as start."""
    q, k, v = qkv[..., None, :].unbind(1)
    kept = start * torch.exp(log_alpha)[..., None, None]
    change = (v - k @ kept) * beta[..., None, None]
    after = kept + k.mT * change
    return (q @ after)[..., 0, :], after


def delta_rule(
    qkv: Tensor, log_alpha: Tensor, beta: Tensor, start: Tensor, want_states: bool
) -> tuple[Tensor, Tensor | None]:
    """All steps, by chunks.

    Args:
        qkv: [B, T, 3, H, d] queries, keys and values.
        log_alpha: [B, T, H], at most 0.
        beta: [B, T, H] from 0 to 1.
        start: [B, H, d, d] S_0, rows by the key's features.
        want_states: give S_t of every step too, without gradient: T d^2 numbers a head, more than all else.
    Returns: o [B, T, H, d], and S_t [B, T, H, d, d] or None.
    """
    batch, steps, _, heads, width = qkv.shape
    size = min(CHUNK, steps)
    count = -(-steps // size)
    # A step of zeros after the last one keeps S as it is.
    rows = torch.cat([qkv.flatten(2), log_alpha, beta], dim=2)
    rows = torch.nn.functional.pad(rows, (0, 0, 0, count * size - steps))
    vectors, numbers = rows.split([3 * heads * width, 2 * heads], dim=2)
    q, k, v = (
        vectors.view(batch, count, size, 3, heads, width).permute(3, 0, 4, 1, 2, 5).reshape(3, -1, size, width)
    )  # [N K, C, d]
    log_alpha, beta = (
        numbers.view(batch, count, size, 2, heads).permute(3, 0, 4, 1, 2).reshape(2, -1, size, 1)
    )  # [N K, C, 1]
    log_g = log_alpha.cumsum(dim=1)
    later = torch.ones(size, size, dtype=torch.bool, device=q.device).triu(1)
    decay = torch.exp((log_g - log_g.mT).masked_fill(later, -torch.inf))  # G
    of_keys, of_queries = (torch.cat([k, q], dim=1) @ k.mT).view(-1, 2, size, size).mul(decay[:, None]).unbind(1)
    g = torch.exp(log_g)
    # The solver reads nothing on or above the diagonal.
    solved = torch.linalg.solve_triangular(
        beta * of_keys, torch.cat([v, g * k], dim=2) * beta, upper=False, unitriangular=True
    )
    written, read = solved.split(width, dim=2)  # u = written - read S
    to_end = (k * decay[:, -1, :, None]).mT  # what is left of a key at the chunk's end
    # The matrix after a chunk is linear in the one before it: S' = (g_C - to_end read) S + to_end written.
    step = (to_end @ solved).view(-1, count, width, 2 * width)
    g_end = g[:, -1].view(-1, count, 1, 1)
    matrices = [start.reshape(-1, width, width)]
    for i in range(count - 1):
        add, remove = step[:, i].split(width, dim=2)
        matrices.append(torch.baddbmm(add + g_end[:, i] * matrices[-1], remove, matrices[-1], alpha=-1))
    before = torch.stack(matrices, dim=1).view(-1, width, width)  # [N K, d, d]
    change = torch.baddbmm(written, read, before, alpha=-1)  # u
    output = torch.baddbmm(of_queries @ change, g * q, before)
    output = output.view(batch, heads, -1, width).transpose(1, 2)[:, :steps]
    if not want_states:
        return output, None
    with torch.no_grad():
        pairs = (k[..., None] * change[..., None, :]).flatten(2)  # [N K, C, d d]
        states = torch.baddbmm(g * before.flatten(1)[:, None], decay, pairs)
        states = states.view(batch, heads, -1, width, width).transpose(1, 2)[:, :steps]
    return output, states
