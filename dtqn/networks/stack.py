"""A core made of recurrent layers. Its state is the last timestep of its stored memory: W = 1.

Legend: B batch, T steps, L layers, D width, N the shape that a layer keeps of one field, each its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dtqn.settings.config import NetworkConfig
from dtqn.types import MemorySpec, State, StoredMemory, map_tree


class NoState(NamedTuple):
    """The state of a core without memory."""


class Hidden(NamedTuple):
    """State [B, L, N], stored memory [B, T, L, N], or N."""

    hidden: Any


class HiddenAndCell(NamedTuple):
    """State [B, L, N] each, stored memory [B, T, L, N], or N."""

    hidden: Any
    cell: Any


class RecurrentStack(nn.Module):
    """Layers one on the other, from first to last.

    A layer is called with features x [B, T, D], True if its timesteps are wanted, and the fields of its own
    state before the first step, [B, N] each. It returns its output [B, T, D] and, if they are wanted, the
    fields of its state after each step, [B, T, N] each. A stack of no layers is a core without memory.
    """

    def __init__(self, layers: Iterable[nn.Module], shapes: Any) -> None:
        """`shapes`: a NamedTuple of the fields that every layer keeps, with the shape of each at one step."""
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.num_layers = len(self.layers)
        self._state_type: Callable[..., State] = type(shapes)
        self._shapes = [(self.num_layers, *shape) for shape in shapes]

    def memory_spec(self) -> StoredMemory:
        return self._state_type(*(MemorySpec(shape, 1) for shape in self._shapes))

    def initial_state(self, batch_size: int) -> State:
        return self._state_type(
            *(next(self.parameters()).new_zeros((batch_size, *shape)) for shape in self._shapes)
        )

    def state_from_memory(self, timesteps: StoredMemory, valid: Tensor, episode_step: Tensor) -> State:
        """The newest of the stored memory [B, W, ...], or the initial state where that is not `valid` [B,
        W]."""
        if valid.shape[1] == 0:
            return self.initial_state(len(valid))

        def newest(timestep: Tensor) -> Tensor:
            last = timestep[:, -1].to(next(self.parameters()).dtype)
            return last.masked_fill(~valid[:, -1].view(-1, *[1] * (last.dim() - 1)), 0.0)

        return map_tree(newest, timesteps)

    def cache(self, state: State) -> State:
        return state

    def forward(
        self, x: Tensor, state: State, want_memory: bool = True
    ) -> tuple[Tensor, State | None, StoredMemory | None]:
        """x [B, T, D] -> output [B, T, D]; on request the state after it and its steps' stored memory."""
        left = []
        for i, layer in enumerate(self.layers):
            x, timesteps = layer(x, want_memory, *(field[:, i].detach() for field in state))
            left.append(timesteps)
        if not want_memory:
            return x, None, None
        stored = self._state_type(*(torch.stack(timesteps, dim=2) for timesteps in zip(*left, strict=True)))
        return x, self._state_type(*(timesteps[:, -1].detach() for timesteps in stored)), stored


def make_none(config: NetworkConfig) -> RecurrentStack:
    """A core without memory."""
    return RecurrentStack([], NoState())
