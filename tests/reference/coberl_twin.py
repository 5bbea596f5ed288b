"""CoBERL on one sequence, step by step, and its contrastive loss term by term."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.reference import gtrxl_twin, lstm_twin
from tests.reference.gates_twin import gate


def coberl(
    features: Tensor,
    memory: list[Tensor],
    hidden: Tensor,
    cell: Tensor,
    transformer: list[dict[str, Any]],
    gate_parameters: dict[str, Tensor],
    lstm: dict[str, Tensor],
    heads: int,
    memory_length: int,
    norm: str,
    gate_name: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Features [T, D], real memory timesteps [L, D] each -> output, memory [T, L, D], hidden, cell: [T,
    D]."""
    settings = (transformer, heads, memory_length, norm, gate_name)
    predicted, trace = gtrxl_twin.gtrxl(features[None], [memory], *settings)
    outputs, hiddens, cells = [], [], []
    for y, x in zip(features, predicted[0], strict=True):
        hidden, cell = lstm_twin.step(gate(gate_name, gate_parameters, y, x), hidden, cell, lstm)
        outputs.append(hidden)
        hiddens.append(hidden)
        cells.append(cell)
    return torch.stack(outputs), trace[0], torch.stack(hiddens), torch.stack(cells)


def transformer_both_ways(
    features: list[Tensor], transformer: list[dict[str, Any]], heads: int, norm: str, gate_name: str
) -> list[Tensor]:
    steps = features
    for p in transformer:
        steps = gtrxl_twin.layer(steps, [], p, heads, None, norm, gate_name)
    return steps


def cosine(a: Tensor, b: Tensor, critic: Tensor) -> Tensor:
    a, b = critic @ a, critic @ b
    return a.dot(b) / torch.sqrt(a.dot(a)) / torch.sqrt(b.dot(b))


def shares(a: Tensor, others: list[Tensor], critic: Tensor, temperature: float) -> list[Tensor]:
    """exp(c(a, b_i) / temperature), over their sum."""
    weights = [torch.exp(cosine(a, b, critic) / temperature) for b in others]
    return [w / sum(weights) for w in weights]


def divergence(fixed: list[Tensor], other: list[Tensor]) -> Tensor:
    """KL(fixed || other), no gradient in `fixed`."""
    terms = [p.detach() * (torch.log(p.detach()) - torch.log(q)) for p, q in zip(fixed, other, strict=True)]
    return torch.stack(terms).sum()


def contrastive_loss(
    sequences: list[list[Tensor]],
    masked: list[list[bool]],
    critic: Tensor,
    temperature: float,
    *settings: Any,
) -> Tensor:
    """The loss on each sequence's real features [D], some of them hidden; `settings` of the transformer."""
    total, count = torch.zeros((), dtype=torch.float64), 0
    for y, hidden in zip(sequences, masked, strict=True):
        given = [
            torch.zeros_like(timestep) if is_hidden else timestep
            for timestep, is_hidden in zip(y, hidden, strict=True)
        ]
        x = transformer_both_ways(given, *settings)
        for t in range(len(y)):
            if not hidden[t]:
                continue
            q_x, q_y = shares(x[t], y, critic, temperature), shares(y[t], x, critic, temperature)
            s_x, s_y = shares(x[t], x, critic, temperature), shares(y[t], y, critic, temperature)
            pairs = [(q_x, q_y), (q_y, q_x), (s_x, s_y), (s_y, s_x)]
            total = total - torch.log(q_x[t]) - torch.log(q_y[t])
            for one, other in pairs:
                total = total + divergence(one, other)
            count += 1
    return total / count if count else total
