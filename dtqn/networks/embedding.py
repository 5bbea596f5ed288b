"""Vectors by number, with a gradient that a GPU repeats to the digit."""

from __future__ import annotations

from torch import Tensor, nn

from dtqn.shapes import follow_data


class Embedding(nn.Embedding):
    """torch's, whose own gradient on a GPU adds up in an order that changes from one run to the next."""

    def forward(self, index: Tensor) -> Tensor:
        """Numbers [...] int64 -> vectors [..., E]"""
        return super().forward(index) if follow_data(index) else self.weight[index]
