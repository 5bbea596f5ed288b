"""Vectors by number, with a gradient that a GPU repeats to the digit."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dtqn.shapes import follow_data
from dtqn.types import StepInputs


class Embedding(nn.Embedding):
    """torch's, whose own gradient on a GPU adds up in an order that changes from one run to the next."""

    def forward(self, index: Tensor) -> Tensor:
        """Numbers [...] int64 -> vectors [..., E]"""
        return super().forward(index) if follow_data(index) else self.weight[index]


def previous_action(embedding: Embedding, inputs: StepInputs) -> Tensor:
    """Features [B, T, E] of the previous action. A first row has none: no sentinel, its features are 0."""
    action = inputs.prev_action.to(torch.int64).masked_fill(inputs.first, 0)
    features: Tensor = embedding(action)
    return features.masked_fill(inputs.first[..., None], 0.0)
