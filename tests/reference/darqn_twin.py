"""Soft attention and an LSTM on one sequence, part by part (Sorokin et al. 2015, arXiv 1512.01693)."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.reference.gates_twin import tanh
from tests.reference.lstm_twin import step


def attend(parts: Tensor, h: Tensor, p: dict[str, Tensor]) -> Tensor:
    """parts [P, D], h [D] -> the mix of the parts [D]."""
    scores = [torch.exp(p["a"] @ tanh(p["W_v"] @ v + p["b"] + p["W_h"] @ h)) for v in parts]
    total = sum(scores)
    return torch.stack([score / total * v for score, v in zip(scores, parts, strict=True)]).sum(dim=0)


def darqn(x: Tensor, hidden: Tensor, cell: Tensor, p: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """x [T, P, D], hidden and cell [D] -> hiddens, which are the output, and cells [T, D]."""
    h, c = hidden, cell
    hiddens, cells = [], []
    for parts in x:
        h, c = step(attend(parts, h, p), h, c, p)
        hiddens.append(h)
        cells.append(c)
    return torch.stack(hiddens), torch.stack(hiddens), torch.stack(cells)
