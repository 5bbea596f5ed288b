"""Gated DeltaNet blocks on one sequence, step by step (Yang et al. 2025, arXiv 2412.06464)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.reference.gates_twin import sigmoid
from tests.reference.gtrxl_twin import layer_norm


def delta_rule(
    q: Tensor, k: Tensor, v: Tensor, alpha: Tensor, beta: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Equation 10 of one head: q, k, v [T, d], alpha, beta [T], S [d_v, d_k] -> outputs [T, d], every S."""
    outputs, states = [], []
    for t in range(len(q)):
        forget = torch.eye(len(k[t]), dtype=k.dtype) - beta[t] * torch.outer(k[t], k[t])
        state = state @ (alpha[t] * forget) + beta[t] * torch.outer(v[t], k[t])
        outputs.append(state @ q[t])
        states.append(state)
    return torch.stack(outputs), torch.stack(states)


def silu(x: Tensor) -> Tensor:
    return x * sigmoid(x)


def unit(x: Tensor) -> Tensor:
    return x / torch.sqrt(x.dot(x) + 1e-6)


def head(x: Tensor, state: Tensor, p: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """One step of one head: x [D], S [d_v, d_k] -> its part of the layer's output [d], S."""
    q, k, v = unit(silu(p["W_q"] @ x)), unit(silu(p["W_k"] @ x)), silu(p["W_v"] @ x)
    beta = sigmoid(p["w_b"].dot(x))
    alpha = torch.exp(-torch.exp(p["a"]) * torch.log(1 + torch.exp(p["w_a"].dot(x) + p["b"])))
    outputs, states = delta_rule(q[None], k[None], v[None], alpha[None], beta[None], state)
    o = outputs[0]
    o = p["scale"] * o / torch.sqrt(o.dot(o) / len(o) + 1e-5)
    return o * silu(p["W_g"] @ x), states[0]


def deltanet(x: Tensor, hidden: Tensor, layers: list[dict[str, Any]]) -> tuple[Tensor, Tensor]:
    """x [T, D], hidden [L, H, d_k, d_v] (the paper's S transposed) -> output [T, D], hiddens [T, ...]."""
    states = [[of_head.T for of_head in of_layer] for of_layer in hidden]
    outputs, hiddens = [], []
    for features in x:
        for layer, p in enumerate(layers):
            given, parts = layer_norm(features, p["norm_1"]), []
            for h, of_head in enumerate(p["heads"]):
                part, states[layer][h] = head(given, states[layer][h], of_head)
                parts.append(part)
            features = features + p["W_o"] @ torch.cat(parts)
            inner = torch.clamp(p["W_1"] @ layer_norm(features, p["norm_2"]) + p["b_1"], min=0)
            features = features + p["W_2"] @ inner + p["b_2"]
        outputs.append(features)
        hiddens.append(torch.stack([torch.stack([s.T for s in of_layer]) for of_layer in states]))
    return torch.stack(outputs), torch.stack(hiddens)
