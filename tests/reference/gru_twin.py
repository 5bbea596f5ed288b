"""GRU layers on one sequence, step by step, in the form that torch and cuDNN compute.

h' = (1 - z) * tanh(W_n x + b_n + r * (U_n h + c_n)) + z * h: z keeps, and the reset gate acts on the product
with U_n, where Cho et al. 2014 (arXiv 1406.1078) have it act on h.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tests.reference.gates_twin import sigmoid, tanh


def step(x: Tensor, h: Tensor, p: dict[str, Tensor]) -> Tensor:
    r = sigmoid(p["W_r"] @ x + p["U_r"] @ h + p["b_r"])
    z = sigmoid(p["W_z"] @ x + p["U_z"] @ h + p["b_z"])
    n = tanh(p["W_n"] @ x + p["b_n"] + r * (p["U_n"] @ h + p["c_n"]))
    return (1 - z) * n + z * h


def gru(x: Tensor, hidden: Tensor, layers: list[dict[str, Tensor]], skip: bool) -> tuple[Tensor, Tensor]:
    """x [T, D], hidden [L, D] -> output [T, D], hiddens [T, L, D]."""
    h = list(hidden)
    outputs, hiddens = [], []
    for features in x:
        for layer, p in enumerate(layers):
            h[layer] = step(features, h[layer], p)
            features = features + h[layer] if skip else h[layer]
        outputs.append(features)
        hiddens.append(torch.stack(h))
    return torch.stack(outputs), torch.stack(hiddens)
