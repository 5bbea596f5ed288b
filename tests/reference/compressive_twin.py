"""GTrXL with compressed memory, block by block: what a step sees beyond the memory, the compressors' loss.

Memories are lists of real steps, oldest first; `start` is the episode step of a sequence's first timestep.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from tests.reference import gtrxl_twin


def blocks(num_timesteps: int, now: int, first_step: int, reach: int, slots: int, rate: int) -> Iterator[int]:
    """Places, of which the first is at `first_step`, where the blocks begin that `now` sees."""
    for place in range(num_timesteps):
        distance = now - place
        if (first_step + place) % rate == 0 and reach < distance <= reach + slots * rate:
            yield place


def compress(steps: list[Tensor], p: dict[str, Tensor]) -> Tensor:
    return p["weight"] @ torch.cat(steps) + p["bias"]


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
    """features [B, T, D], memory [L, D] a step -> output [B, T, D], what the layers read [B, T, L, D]."""
    outputs, inputs = [], []
    for sequence, memory, start in zip(features, memories, starts, strict=True):
        steps, of_layers = list(sequence), []
        for i, p in enumerate(parameters):

            def far(seen: list[Tensor], now: int, p: Any = p, first: int = start - len(memory)) -> Any:
                return [
                    (now - place, compress(seen[place : place + rate], p["compressor"]).detach())
                    for place in blocks(len(seen), now, first, reach, slots, rate)
                ]

            of_layers.append(torch.stack(steps))
            before = [step[i] for step in memory]
            steps = gtrxl_twin.layer(steps, before, p, heads, reach, norm, gate_name, far)
        outputs.append(torch.stack(steps))
        inputs.append(torch.stack(of_layers, dim=1))
    return torch.stack(outputs), torch.stack(inputs)


def content_attention(query: Tensor, steps: list[Tensor], p: dict[str, Any], heads: int) -> Tensor:
    """[D] of all heads, by content alone; every parameter is taken as it is."""
    d = len(query) // heads
    mixed = []
    for h in range(heads):
        of_head = slice(h * d, (h + 1) * d)
        q = (p["W_q"].detach() @ query)[of_head]
        weights = [torch.exp(q.dot((p["W_k"].detach() @ step)[of_head]) / math.sqrt(d)) for step in steps]
        values = [(p["W_v"].detach() @ step)[of_head] for step in steps]
        mixed.append(sum(w / sum(weights) * v for w, v in zip(weights, values, strict=True)))
    return torch.cat(mixed)


def reconstruction_loss(
    inputs: list[Tensor],
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
        for of_layers, memory, start in zip(inputs, memories, starts, strict=True):
            steps = [step[i].detach() for step in memory] + list(of_layers[:, i].detach())
            for now in range(len(memory), len(steps)):
                places = list(blocks(len(steps), now, start - len(memory), reach, slots, rate))
                if not places:
                    continue
                exact = [steps[place + j] for place in places for j in range(rate)]
                short = [compress(steps[place : place + rate], p["compressor"]) for place in places]
                read = [steps[now], *exact, *short]
                if norm == "pre":
                    read = [gtrxl_twin.layer_norm(step, fixed) for step in read]
                query, exact, short = read[0], read[1 : 1 + len(exact)], read[1 + len(exact) :]
                read_short, read_exact = (content_attention(query, x, p, heads) for x in (short, exact))
                difference = read_short - read_exact
                errors.append((difference * difference).sum() / len(query))
        if errors:
            total = total + sum(errors) / len(errors)
    return total
