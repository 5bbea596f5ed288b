"""Compressed memory: a slot for each block of steps beyond GTrXL's memory (Compressive Transformer).

Rae et al. 2019, arXiv 1911.05507. A block is c steps of an episode, from a multiple of c on, and its slot is
a linear map of the block's layer inputs (section 3.2: a convolution of width and stride c). The slot stands
at its block's first step. With C slots a query at step t sees the steps t-M..t themselves, and the slots of
the last C blocks that begin more than M steps before it.

The blocks that a query sees depend on t alone, however an episode is split into calls. All of them lie within
the last M + C c steps, so a state is made from the memory of that many steps.

Legend: B batch, T steps of the call, m steps of memory in a state, M memory length, C slots, c steps of a
block, K blocks that some query of the call may see, H heads, d features of a head, D width.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from dtqn.networks.attention import sinusoid


class Blocks(NamedTuple):
    """The blocks of one call, by their places in memory-then-steps."""

    places: Tensor
    """[B, K, c] the places of a block's steps; any places if no query sees the block."""
    distance: Tensor
    """[B, T, K] steps from a block's first one to the query."""
    visible: Tensor
    """[B, T, K] bool"""

    def steps(self, x: Tensor) -> Tensor:
        """[B, K, c, D] of x [B, m + T, D]."""
        batch = torch.arange(len(x), device=x.device)[:, None, None]
        return x[batch, self.places]


class Compression(nn.Module):
    """The geometry of compressed memory. It has no parameters: the linear maps are the layers'."""

    positions: Tensor
    """[C c, D] sinusoids of the distances M + 1..M + C c."""

    def __init__(self, *, width: int, memory_length: int, num_slots: int, rate: int) -> None:
        super().__init__()
        self.memory_length, self.num_slots, self.rate = memory_length, num_slots, rate
        self.window = memory_length + num_slots * rate
        table = sinusoid(num_slots * rate, width, memory_length + 1)
        self.register_buffer("positions", table, persistent=False)

    def blocks(self, count: Tensor, phase: Tensor, num_memory: int, steps: int) -> Blocks | None:
        """The blocks of a call; None if no query is far enough from the first step.

        Args:
            count: [B] real steps of memory, the last of `num_memory`.
            phase: [B] the place of the call's first step in its block.
        """
        far = num_memory + steps - 1 - self.memory_length
        if far < 1:
            return None
        first = (num_memory - phase) % self.rate  # the place where the first whole block begins
        number = torch.arange(-(-far // self.rate), device=count.device)
        begin = first[:, None] + self.rate * number
        places = begin[..., None] + torch.arange(self.rate, device=count.device)
        query = torch.arange(num_memory, num_memory + steps, device=count.device)
        distance = query[:, None] - begin[:, None]
        visible = (distance > self.memory_length) & (distance <= self.window)
        is_real = begin >= (num_memory - count)[:, None]
        return Blocks(places.clamp(max=num_memory + steps - 1), distance, visible & is_real[:, None])


def compressor(width: int, rate: int) -> nn.Linear:
    """A block's steps [c D] -> its slot [D]; at first their mean."""
    layer = nn.Linear(rate * width, width)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(width).repeat(1, rate) / rate)
        layer.bias.zero_()
    return layer
