"""Padding is not paid for: per-step work is done on the real steps of a batch alone.

Sequences of a batch end at different steps. Encoder, projections, gates, feed-forward parts and head act on each
step by itself, so they take the real steps as one long row; only attention over time sees the padded [B, T].
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Packing(NamedTuple):
    """Which of the B x T steps of a batch are real."""

    index: Tensor
    """[N] positions of the real steps in the flattened [B * T], ascending."""
    batch: int
    steps: int

    def pack(self, padded: Tensor) -> Tensor:
        """[B, T, ...] -> [1, N, ...]"""
        return padded.flatten(0, 1).index_select(0, self.index)[None]

    def unpack(self, packed: Tensor) -> Tensor:
        """[1, N, ...] -> [B, T, ...], zero on padding."""
        padded = packed.new_zeros((self.batch * self.steps, *packed.shape[2:]))
        return padded.index_copy_(0, self.index, packed[0]).unflatten(0, (self.batch, self.steps))


class Unpacked:
    """Every step is real: nothing moves."""

    @staticmethod
    def pack(padded: Tensor) -> Tensor:
        return padded

    @staticmethod
    def unpack(packed: Tensor) -> Tensor:
        return packed


def packing_of(rows: Tensor | None, batch: int, steps: int) -> Packing | Unpacked:
    """How to pack a batch whose sequence b has `rows[b]` real steps [B]; none: all are real."""
    if rows is None or bool((rows >= steps).all()):
        return Unpacked()
    real = torch.arange(steps, device=rows.device) < rows[:, None]
    return Packing(real.flatten().nonzero().squeeze(1), batch, steps)
