"""minGRU blocks on one sequence, number by number (Feng et al. 2024, arXiv 2410.01201)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.reference.gtrxl_twin import layer_norm


def recurrence(x: Tensor, h: Tensor, p: dict[str, Any]) -> Tensor:
    """The paper's step on each feature by itself: z, then the candidate, then their mix."""
    numbers = []
    for d in range(len(h)):
        z = 1 / (1 + torch.exp(-(p["W_z"][d] @ x + p["b_z"][d])))
        pre = p["W_h"][d] @ x + p["b_h"][d]
        candidate = pre + 0.5 if pre.item() >= 0 else 1 / (1 + torch.exp(-pre))
        numbers.append((1 - z) * h[d] + z * candidate)
    return torch.stack(numbers)


def mingru(x: Tensor, hidden: Tensor, layers: list[dict[str, Any]]) -> tuple[Tensor, Tensor]:
    """x [T, D], hidden [L, D] -> output [T, D], hiddens [T, L, D]."""
    h = list(hidden)
    outputs, hiddens = [], []
    for features in x:
        for layer, p in enumerate(layers):
            h[layer] = recurrence(layer_norm(features, p["norm_1"]), h[layer], p)
            features = features + h[layer]
            inner = torch.clamp(p["W_1"] @ layer_norm(features, p["norm_2"]) + p["b_1"], min=0)
            features = features + p["W_2"] @ inner + p["b_2"]
        outputs.append(features)
        hiddens.append(torch.stack(h))
    return torch.stack(outputs), torch.stack(hiddens)
