"""GTrXL with a loop over everything: batch timesteps, layers, queries, heads, keys.

Parameters come as plain dictionaries (see `tests/networks/parameters.py`), memory as lists of real timesteps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tests.reference.gates_twin import gate


def sinusoid(distance: int, width: int) -> Tensor:
    """[sin, cos](distance * 10000^(-2i/D)), i = 0..D/2-1."""
    angles = [distance * 10000 ** (-2 * i / width) for i in range(width // 2)]
    return torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles], dtype=torch.float64)


def layer_norm(x: Tensor, p: dict[str, Tensor]) -> Tensor:
    centred = x - x.sum() / len(x)
    variance = (centred * centred).sum() / len(x)
    return centred / torch.sqrt(variance + 1e-5) * p["weight"] + p["bias"]


def mlp(x: Tensor, p: dict[str, Tensor]) -> Tensor:
    return p["W_2"] @ torch.clamp(p["W_1"] @ x + p["b_1"], min=0) + p["b_2"]


def attend(query: Tensor, keys: list[tuple[int, Tensor]], p: dict[str, Tensor], heads: int) -> Tensor:
    """Attention of one timestep over (distance, timestep) pairs; all timesteps as the projections read
    them."""
    width = len(query)
    d = width // heads
    mixed = []
    for h in range(heads):
        of_head = slice(h * d, (h + 1) * d)
        q = (p["W_q"] @ query)[of_head]
        scores, values = [], []
        for distance, timestep in keys:
            k = (p["W_k"] @ timestep)[of_head]
            r = (p["W_R"] @ sinusoid(distance, width))[of_head]
            score = q.dot(k) + q.dot(r) + p["u"][h].dot(k) + p["v"][h].dot(r)
            weight = torch.exp(score / math.sqrt(d))
            if "z" in p:  # an adaptive span
                share = (p["R"] + p["z"][h] - distance) / p["R"]
                if share <= 0:
                    continue
                weight = weight * share if share < 1 else weight
            scores.append(weight)
            values.append((p["W_v"] @ timestep)[of_head])
        total = sum(scores)
        mixed.append(sum(s / total * v for s, v in zip(scores, values, strict=True)))
    return p["W_O"] @ torch.cat(mixed)


def layer(
    steps: list[Tensor],
    memory: list[Tensor],
    p: dict[str, Any],
    heads: int,
    reach: int | None,
    norm: str,
    name: str,
    far: Callable[[list[Tensor], int], list[tuple[int, Tensor]]] = lambda timesteps, now: [],
) -> list[Tensor]:
    """One layer on the steps of one sequence; `memory` are its inputs at the steps before, oldest first.

    Without a `reach` every step sees all steps, those that come later too. `far` gives (distance, timestep)
    pairs that the step at place `now` of the timesteps sees besides.
    """
    outputs = []
    for t, x in enumerate(steps):
        now = len(memory) + t
        timesteps = [timestep.detach() for timestep in memory] + steps
        seen = [
            (now - j, timestep)
            for j, timestep in enumerate(timesteps)
            if reach is None or 0 <= now - j <= reach
        ]
        seen += far(timesteps, now)
        if norm == "none":
            x = gate(name, p["gate_1"], x, attend(x, seen, p, heads))
            outputs.append(gate(name, p["gate_2"], x, mlp(x, p)))
        elif norm == "pre":
            normed = [(distance, layer_norm(timestep, p["norm_1"])) for distance, timestep in seen]
            y = torch.clamp(attend(layer_norm(x, p["norm_1"]), normed, p, heads), min=0)
            x = gate(name, p["gate_1"], x, y)
            f = torch.clamp(mlp(layer_norm(x, p["norm_2"]), p), min=0)
            outputs.append(gate(name, p["gate_2"], x, f))
        else:
            x = layer_norm(gate(name, p["gate_1"], x, attend(x, seen, p, heads)), p["norm_1"])
            outputs.append(layer_norm(gate(name, p["gate_2"], x, mlp(x, p)), p["norm_2"]))
    return outputs


def gtrxl(
    features: Tensor,
    memories: list[list[Tensor]],
    parameters: list[dict[str, Any]],
    heads: int,
    memory_length: int,
    norm: str,
    gate_name: str,
) -> tuple[Tensor, Tensor]:
    """features [B, T, D], real memory timesteps [L, D] each -> output [B, T, D], trace [B, T, L, D]."""
    outputs, traces = [], []
    for sequence, memory in zip(features, memories, strict=True):
        steps, trace = list(sequence), []
        for i, p in enumerate(parameters):
            trace.append(torch.stack(steps))
            steps = layer(
                steps, [timestep[i] for timestep in memory], p, heads, memory_length, norm, gate_name
            )
        outputs.append(torch.stack(steps))
        traces.append(torch.stack(trace, dim=1))
    return torch.stack(outputs), torch.stack(traces)
