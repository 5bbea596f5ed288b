"""GTrXL with compressed memory, block by block: what a step sees beyond the memory, the compressors' loss.

Memories are lists of real timesteps, oldest first; `start` is the episode step of a sequence's first
timestep.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from tests.reference import gtrxl_twin


def blocks(num_timesteps: int, now: int, first_step: int, reach: int, slots: int, rate: int) -> Iterator[int]:
    """Places in the timesteps, of which the first is at `first_step`, where the blocks begin that `now`
    sees."""
    for place in range(num_timesteps):
        distance = now - place
        if (first_step + place) % rate == 0 and reach < distance <= reach + slots * rate:
            yield place


def compress(timesteps: list[Tensor], p: dict[str, Tensor]) -> Tensor:
    return p["weight"] @ torch.cat(timesteps) + p["bias"]


def compressive(
    features: Tensor,
    memories: list[list[Tensor]],
    starts: list[int],
    parameters: list[dict[str, Any]],
    heads: int,
    reach: int,
    slots: int,
    rate: int,
    norm: str,
    gate_name: str,
) -> tuple[Tensor, Tensor]:
    """features [B, T, D], memory timesteps [L, D] each -> output [B, T, D], trace [B, T, L, D]."""
    outputs, traces = [], []
    for sequence, memory, start in zip(features, memories, starts, strict=True):
        steps, trace = list(sequence), []
        for i, p in enumerate(parameters):

            def far(timesteps: list[Tensor], now: int, p: Any = p, first: int = start - len(memory)) -> Any:
                return [
                    (now - place, compress(timesteps[place : place + rate], p["compressor"]).detach())
                    for place in blocks(len(timesteps), now, first, reach, slots, rate)
                ]

            trace.append(torch.stack(steps))
            before = [timestep[i] for timestep in memory]
            steps = gtrxl_twin.layer(steps, before, p, heads, reach, norm, gate_name, far)
        outputs.append(torch.stack(steps))
        traces.append(torch.stack(trace, dim=1))
    return torch.stack(outputs), torch.stack(traces)


def content_attention(query: Tensor, timesteps: list[Tensor], p: dict[str, Any], heads: int) -> Tensor:
    """[D] of all heads, by content alone; every parameter is taken as it is."""
    d = len(query) // heads
    mixed = []
    for h in range(heads):
        of_head = slice(h * d, (h + 1) * d)
        q = (p["W_q"].detach() @ query)[of_head]
        weights = [
            torch.exp(q.dot((p["W_k"].detach() @ timestep)[of_head]) / math.sqrt(d)) for timestep in timesteps
        ]
        values = [(p["W_v"].detach() @ timestep)[of_head] for timestep in timesteps]
        mixed.append(sum(w / sum(weights) * v for w, v in zip(weights, values, strict=True)))
    return torch.cat(mixed)


def reconstruction_loss(
    traces: list[Tensor],
    memories: list[list[Tensor]],
    starts: list[int],
    parameters: list[dict[str, Any]],
    heads: int,
    reach: int,
    slots: int,
    rate: int,
    norm: str,
) -> Tensor:
    """The loss on the layer inputs [T, L, D] at each sequence's real steps."""
    total = torch.zeros((), dtype=torch.float64)
    for i, p in enumerate(parameters):
        fixed = {name: x.detach() for name, x in p["norm_1"].items()}
        errors = []
        for trace, memory, start in zip(traces, memories, starts, strict=True):
            timesteps = [timestep[i].detach() for timestep in memory] + list(trace[:, i].detach())
            for now in range(len(memory), len(timesteps)):
                places = list(blocks(len(timesteps), now, start - len(memory), reach, slots, rate))
                if not places:
                    continue
                exact = [timesteps[place + j] for place in places for j in range(rate)]
                short = [compress(timesteps[place : place + rate], p["compressor"]) for place in places]
                read = [timesteps[now], *exact, *short]
                if norm == "pre":
                    read = [gtrxl_twin.layer_norm(timestep, fixed) for timestep in read]
                query, exact, short = read[0], read[1 : 1 + len(exact)], read[1 + len(exact) :]
                difference = content_attention(query, short, p, heads) - content_attention(
                    query, exact, p, heads
                )
                errors.append((difference * difference).sum() / len(query))
        if errors:
            total = total + sum(errors) / len(errors)
    return total
