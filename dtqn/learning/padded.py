"""A batch's blocks at one size and at one place, as a recorded update reads them.

Legend: B sequences; timesteps: W of stored memory, P of burn-in, R of the learned segment.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from dtqn.types import Sequences, map_tree


class BlockSizes(NamedTuple):
    """The most timesteps that a batch's blocks may have."""

    memory: int
    """W"""
    burn_in: int
    """P"""
    learn: int
    """R"""


class Padded:
    """Copies each batch, cropped to its longest members, to the same blocks of full size.

    Padding holds timesteps of earlier batches, which any network can take, and no result depends on them.
    """

    def __init__(self, sizes: BlockSizes) -> None:
        self._sizes = sizes
        self._held: tuple[Sequences, Tensor] | None = None

    def __call__(self, batch: Sequences, learning_rate: float) -> tuple[Sequences, Tensor]:
        """The batch [B, W, ...], [B, P, ...], [B, R, ...], and the learning rate on the device.

        B is the first batch's size.
        """
        if self._held is None:
            self._held = self._room(batch), torch.empty((), device=batch.learn_timesteps.device)
        held, rate = self._held
        rate.fill_(learning_rate)
        held.memory_valid.fill_(False)
        for name in Sequences._fields:
            newest_last = name in ("memory", "memory_valid")
            map_tree(_newest if newest_last else _first, getattr(held, name), getattr(batch, name))
        return self._held

    def _room(self, batch: Sequences) -> Sequences:
        """A tree of the shape of `batch`, full of what networks can take."""
        memory, burn_in, learn = self._sizes

        def repeated(count: int) -> Any:
            return lambda x: x[:, :1].repeat(1, count, *[1] * (x.dim() - 2))

        return batch._replace(burn_in=batch.learn, burn_in_facts=batch.learn_facts).by_block(
            memory=lambda x: x.new_zeros((x.shape[0], memory, *x.shape[2:])),
            burn_in=repeated(burn_in),
            learn=repeated(learn),
            sequence=Tensor.clone,
        )


def _first(to: Tensor, x: Tensor) -> None:
    """Copies timesteps [B, T, ...] to the first of a longer block, or numbers [B] to numbers."""
    (to if x.dim() == 1 else to[:, : x.shape[1]]).copy_(x, non_blocking=True)


def _newest(to: Tensor, x: Tensor) -> None:
    """Copies timesteps [B, T, ...] to the last of a longer block."""
    to[:, to.shape[1] - x.shape[1] :].copy_(x, non_blocking=True)
