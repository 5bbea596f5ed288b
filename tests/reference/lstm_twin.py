"""LSTM layers (with forget gates) on one sequence, step by step and gate by gate."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.reference.gates_twin import sigmoid, tanh


def step(x: Tensor, h: Tensor, c: Tensor, p: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Vectors [D]; `p` holds W_g, U_g [D, D] and b_g [D] of each gate g in i, f, o and of the candidate."""
    i, f, o = (sigmoid(p[f"W_{g}"] @ x + p[f"U_{g}"] @ h + p[f"b_{g}"]) for g in "ifo")
    c = f * c + i * tanh(p["W_c"] @ x + p["U_c"] @ h + p["b_c"])
    return o * tanh(c), c


def lstm(
    x: Tensor, hidden: Tensor, cell: Tensor, layers: list[dict[str, Tensor]], skip: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """x [T, D], hidden and cell [L, D] -> output [T, D], hiddens and cells [T, L, D]."""
    h, c = list(hidden), list(cell)
    outputs, hiddens, cells = [], [], []
    for features in x:
        for layer, p in enumerate(layers):
            h[layer], c[layer] = step(features, h[layer], c[layer], p)
            features = features + h[layer] if skip else h[layer]
        outputs.append(features)
        hiddens.append(torch.stack(h))
        cells.append(torch.stack(c))
    return torch.stack(outputs), torch.stack(hiddens), torch.stack(cells)
