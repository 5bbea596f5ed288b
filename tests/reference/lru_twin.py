"""LRU blocks on one sequence, in real numbers, one by one (Orvieto et al. 2023, arXiv 2303.06349)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.reference.gates_twin import sigmoid, tanh
from tests.reference.gtrxl_twin import layer_norm


def gelu(x: Tensor) -> Tensor:
    """The approximation with tanh (Hendrycks and Gimpel 2016, arXiv 1606.08415, section 2)."""
    return 0.5 * x * (1 + tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def unit(u: Tensor, re: Tensor, im: Tensor, p: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
    """One step: output [D], the state's real and imaginary parts [D]."""
    new_re, new_im = [], []
    for n in range(len(re)):
        size = torch.exp(-torch.exp(p["nu"][n]))
        turn = torch.exp(p["theta"][n])
        a, b = size * torch.cos(turn), size * torch.sin(turn)
        gamma = torch.exp(p["log_gamma"][n])
        new_re.append(a * re[n] - b * im[n] + gamma * p["B_re"][n].dot(u))
        new_im.append(a * im[n] + b * re[n] + gamma * p["B_im"][n].dot(u))
    re, im = torch.stack(new_re), torch.stack(new_im)
    return p["C_re"] @ re - p["C_im"] @ im + p["d"] * u, re, im


def lru(x: Tensor, hidden: Tensor, layers: list[dict[str, Any]]) -> tuple[Tensor, Tensor]:
    """x [T, D], hidden [L, 2, D] -> output [T, D], hiddens [T, L, 2, D]."""
    h = list(hidden)
    outputs, hiddens = [], []
    for features in x:
        for layer, p in enumerate(layers):
            y, re, im = unit(layer_norm(features, p["norm"]), h[layer][0], h[layer][1], p)
            h[layer] = torch.stack([re, im])
            inner = gelu(y)
            features = features + (p["W_v"] @ inner + p["b_v"]) * sigmoid(p["W_g"] @ inner + p["b_g"])
        outputs.append(features)
        hiddens.append(torch.stack(h))
    return torch.stack(outputs), torch.stack(hiddens)
