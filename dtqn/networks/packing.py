"""The real timesteps of a batch, packed: side by side, without the padding of their blocks.

A third of a batch is padding, and more where stored memory is short. Parts that read each timestep
separately (encoder, projections, gates, feed-forward parts, head) run on packed timesteps [n, D]. Attention
alone needs blocks, and a `Layout` says how they are filled.

A block's packed timesteps are filled up to a multiple of `MULTIPLE`, so that products come in few shapes: in
bfloat16 torch takes a millisecond to prepare each shape. The added timesteps repeat the block's first one.
Nothing reads their results: they lie in no block, and no gradient reaches them.

Legend: B sequences, N packed timesteps of a call, n of them queries, T query places and J key places of a
sequence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from dtqn.types import Sequences, StepInputs, length_mask, map_tree

T = TypeVar("T")

MULTIPLE = 32
"""Packed timesteps come in multiples of so many."""

NOWHERE = -(2**40)
"""A position before every timestep."""


class PackedTimesteps(NamedTuple):
    """The real timesteps of one block of a batch, sequence by sequence, and those that fill them up."""

    place: Tensor
    """[n] of each among all the block's timesteps."""
    sequence: Tensor
    """[n] which sequence it is of."""
    position: Tensor
    """[n] timesteps since the learned segment began, negative before it; `NOWHERE` where it fills up."""
    real: int
    """How many are real, the first ones."""
    counts: Tensor
    """[B] timesteps of each sequence."""
    shape: tuple[int, int]
    """[B, steps] of the block."""

    def pack(self, block: Any) -> Any:
        """A tree of [B, steps, ...] -> [n, ...]"""
        return map_tree(lambda x: x.flatten(0, 1).index_select(0, self.place), block)

    def unpack(self, packed: Tensor) -> Tensor:
        """[n, ...] -> [B, steps, ...], 0 in the padding."""
        unpacked: Tensor = _Unpack.apply(packed, self.place[: self.real], self.shape)
        return unpacked


class _Unpack(torch.autograd.Function):
    """Real timesteps into a block of zeros. Each has a place of its own, so the backward is a selection."""

    @staticmethod
    def forward(ctx: Any, packed: Tensor, place: Tensor, shape: tuple[int, int]) -> Tensor:
        ctx.save_for_backward(place)
        ctx.count = len(packed)
        block = packed.new_zeros((math.prod(shape), *packed.shape[1:]))
        return block.index_copy_(0, place, packed[: len(place)]).view(*shape, *packed.shape[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (place,) = ctx.saved_tensors
        packed = grad.new_empty((ctx.count, *grad.shape[2:]))
        packed[len(place) :] = 0.0
        torch.index_select(grad.flatten(0, 1), 0, place, out=packed[: len(place)])
        return packed, None, None


class Packing:
    """The real timesteps of a batch, and what networks of one kind work out from these once."""

    def __init__(self, batch: Sequences) -> None:
        self._batch = batch
        self._known: dict[Hashable, Any] = {}

    @cached_property
    def memory(self) -> PackedTimesteps:
        """The timesteps of stored memory."""
        valid = self._batch.memory_valid
        return _packed(valid, -valid.shape[1] - self._batch.burn_in_timesteps)

    @cached_property
    def burn_in(self) -> PackedTimesteps:
        count = self._batch.burn_in_timesteps
        return _packed(length_mask(count, self._batch.burn_in.first.shape[1]), -count)

    @cached_property
    def learn(self) -> PackedTimesteps:
        count = self._batch.learn_timesteps
        return _packed(length_mask(count, self._batch.learn.first.shape[1]), torch.zeros_like(count))

    @cached_property
    def burn_in_inputs(self) -> StepInputs:
        """[1, n, ...]"""
        return _sequence(self.burn_in.pack(self._batch.burn_in))

    @cached_property
    def learn_inputs(self) -> StepInputs:
        """[1, n, ...]"""
        return _sequence(self.learn.pack(self._batch.learn))

    def stored(self, dtype: torch.dtype) -> dict[str, Tensor]:
        """Stored memory by path, [n, ...]."""
        return self.once(dtype, lambda: map_tree(lambda x: x.to(dtype), self.memory.pack(self._batch.memory)))

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of `make`, which is a function of the key and of this batch alone."""
        if key not in self._known:
            self._known[key] = make()
        found: T = self._known[key]
        return found


def _sequence(packed: StepInputs) -> StepInputs:
    """Packed timesteps [n, ...] as one sequence [1, n, ...], as networks read them."""
    unsqueezed: StepInputs = map_tree(lambda x: x[None], packed)
    return unsqueezed


def _packed(real: Tensor, first_position: Tensor) -> PackedTimesteps:
    """A block's timesteps that are `real` [B, steps]; column 0 is at `first_position` [B]."""
    sequence, column = real.nonzero().unbind(1)
    count = len(sequence)
    place = sequence * real.shape[1] + column
    position = first_position[sequence] + column
    if more := -count % MULTIPLE:
        place, sequence = (torch.cat([x, x[:1].expand(more)]) for x in (place, sequence))
        position = F.pad(position, (0, more), value=NOWHERE)
    return PackedTimesteps(place, sequence, position, count, real.sum(dim=1), (real.shape[0], real.shape[1]))


class Places(NamedTuple):
    """How packed timesteps lie in the blocks that attention works on, head by head.

    Behind a head's block there is one spare place, for keys that are out of every query's reach and for what
    fills up. A place of the block without a timestep is filled with timestep 0, no real query sees it, and no
    gradient leaves it or the spare place.

    Packed timesteps [n, P d] and blocks [P, B * S + 1, d] are moved d numbers at a time, by the number of a
    part among all: P parts of a timestep, S places of a sequence.
    """

    shape: tuple[int, int, int]
    """(P, B, S)"""
    place: Tensor
    """[n * P] where each part of each timestep lies."""
    part: Tensor
    """[P * (B * S + 1)] the number, among all timesteps' parts, of the one at each place."""

    def fill(self, packed: Tensor) -> Tensor:
        """[n, P d] -> [P, B * S + 1, d]"""
        return self._by_part(packed.reshape(len(self.place), -1).index_select(0, self.part))

    def fill_or_zero(self, packed: Tensor) -> Tensor:
        """As `fill`, with 0 in places without a timestep."""
        parts = packed.reshape(len(self.place), -1)
        blocks = parts.new_zeros((len(self.part), parts.shape[1]))
        return self._by_part(blocks.index_copy_(0, self.place, parts))

    def packed(self, blocks: Tensor) -> Tensor:
        """The inverse of `fill`."""
        parts = blocks.flatten(0, 1).index_select(0, self.place)
        return parts.view(-1, len(blocks) * blocks.shape[2])

    def blocks(self, filled: Tensor) -> Tensor:
        """[P, B * S + 1, d] -> the view [P, B, S, d] of all but the spare places."""
        return filled[:, :-1].unflatten(1, self.shape[1:])

    def _by_part(self, parts: Tensor) -> Tensor:
        return parts.view(self.shape[0], -1, parts.shape[1])


class Layout(NamedTuple):
    """Where the queries of a call lie, and where its keys and values do."""

    queries: Places
    """Its parts are H heads, its places T."""
    keys: Places
    """Its parts are the keys of H heads and then their values, its places J."""


def layout(blocks: list[PackedTimesteps], queries: int, first_query: int, reach: int, heads: int) -> Layout:
    """The layout of a call.

    Args:
        blocks: all timesteps of the call, in their order; the last `queries` blocks are queries as well.
        first_query: the position that query place 0 stands for.
        reach: how many places before itself a query sees; key place 0 is so many before query place 0.
        heads: H.
    """
    steps = blocks[-1].shape[1] - first_query
    return Layout(
        _places(blocks[-queries:], first_query, steps, heads),
        _places(blocks, first_query - reach, reach + steps, 2 * heads),
    )


def _places(blocks: list[PackedTimesteps], origin: int, size: int, parts: int) -> Places:
    """The places of some blocks' timesteps; `origin` is the position that place 0 of `size` stands for."""
    count = blocks[0].shape[0]
    sequence, position = (torch.cat(x) for x in zip(*((b.sequence, b.position) for b in blocks), strict=True))
    column = position - origin
    place = torch.where(column < 0, count * size, sequence * size + column)
    part = torch.arange(parts, device=place.device)
    timestep = torch.arange(len(place), device=place.device)
    timestep = place.new_zeros(count * size + 1).index_copy_(0, place, timestep)
    of_parts = place[:, None] + part * (count * size + 1)
    return Places((parts, count, size), of_parts.flatten(), (timestep * parts + part[:, None]).flatten())
