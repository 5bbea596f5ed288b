"""DTQN's decoder with a loop over everything: windows, layers, steps, heads, keys.

Parameters come as plain dictionaries (see `tests/networks/parameters.py`).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.reference.gates_twin import gate
from tests.reference.gtrxl_twin import layer_norm, mlp, sinusoid


def attend(steps: list[Tensor], t: int, p: dict[str, Any], heads: int) -> Tensor:
    """Attention of step t over the steps 0..t, as the projections read them."""
    d = len(steps[t]) // heads
    mixed = []
    for h in range(heads):
        of_head = slice(h * d, (h + 1) * d)
        q = (p["W_q"] @ steps[t] + p["b_q"])[of_head]
        keys = [(p["W_k"] @ step + p["b_k"])[of_head] for step in steps[: t + 1]]
        values = [(p["W_v"] @ step + p["b_v"])[of_head] for step in steps[: t + 1]]
        weights = [torch.exp(q.dot(k) / math.sqrt(d)) for k in keys]
        mixed.append(sum(w / sum(weights) * v for w, v in zip(weights, values, strict=True)))
    return p["W_O"] @ torch.cat(mixed) + p["b_O"]


def layer(steps: list[Tensor], p: dict[str, Any], heads: int, norm: str, name: str) -> list[Tensor]:
    outputs = []
    for t, x in enumerate(steps):
        if norm == "none":
            x = gate(name, p["gate_1"], x, torch.clamp(attend(steps, t, p, heads), min=0))
            outputs.append(gate(name, p["gate_2"], x, torch.clamp(mlp(x, p), min=0)))
        elif norm == "pre":
            normed = [layer_norm(step, p["norm_1"]) for step in steps]
            x = gate(name, p["gate_1"], x, torch.clamp(attend(normed, t, p, heads), min=0))
            f = torch.clamp(mlp(layer_norm(x, p["norm_2"]), p), min=0)
            outputs.append(gate(name, p["gate_2"], x, f))
        else:
            y = torch.clamp(attend(steps, t, p, heads), min=0)
            x = layer_norm(gate(name, p["gate_1"], x, y), p["norm_1"])
            f = torch.clamp(mlp(x, p), min=0)
            outputs.append(layer_norm(gate(name, p["gate_2"], x, f), p["norm_2"]))
    return outputs


def decoder(
    window: Tensor,
    parameters: list[dict[str, Any]],
    heads: int,
    positions: Tensor | str,
    norm: str,
    gate_name: str,
) -> Tensor:
    """Features [T, D] of one window -> [T, D]; `positions` is a table [K, D], `sinusoidal` or `none`."""
    steps = list(window)
    if isinstance(positions, Tensor):
        steps = [step + positions[t] for t, step in enumerate(steps)]
    elif positions == "sinusoidal":
        steps = [step + sinusoid(t, len(step)) for t, step in enumerate(steps)]
    for p in parameters:
        steps = layer(steps, p, heads, norm, gate_name)
    return torch.stack(steps)


def acting(features: Tensor, context_length: int, *settings: Any) -> Tensor:
    """Features [T, D] from an episode's start -> [T, D]: each step from a window of its own."""
    return torch.stack(
        [
            decoder(features[max(0, t + 1 - context_length) : t + 1], *settings)[-1]
            for t in range(len(features))
        ]
    )
