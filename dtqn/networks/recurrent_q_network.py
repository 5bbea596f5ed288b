"""The Q-network of every agent that carries a state: encoder, recurrent core, head.

The acting function and the learning function are one: the actor calls it with T = 1, the learner with a
whole sequence, and any split of a sequence into calls gives the same Q-values.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from dtqn.networks.packing import Packing
from dtqn.networks.q_network import AuxiliaryLoss, Core, Encoder, Head, PackedCore, QNetwork
from dtqn.shapes import follow_data
from dtqn.types import (
    MemorySpec,
    QOutput,
    Sequences,
    State,
    StepInputs,
    StoredMemory,
    from_leaves,
    leaves,
    map_tree,
)


def latest(memory: Tensor, burned: Tensor, burn_in_timesteps: Tensor, window: int) -> Tensor:
    """[B, min(window, W + P), ...]: the last of `memory` [B, W, ...] and then what is real of `burned`.

    `burned` is [B, P, ...].
    """
    # Stored memory is float16; the burn-in's own keeps its digits.
    joined = torch.cat([memory.to(burned.dtype), burned], dim=1)
    size = min(window, joined.shape[1])
    # Places before both hold anything; the caller knows which these are.
    index = _latest_index(memory.shape[1], burn_in_timesteps, size).clamp(min=0)
    index = index.view(*index.shape, *[1] * (joined.dim() - 2))
    return joined.gather(1, index.expand(-1, -1, *joined.shape[2:]))


def _latest_index(num_memory: int, burn_in_timesteps: Tensor, size: int) -> Tensor:
    """[B, size] places in memory-then-burn-in of the last `size` before the start; negative: before both."""
    first = num_memory - size + burn_in_timesteps
    return torch.arange(size, device=first.device) + first[:, None]


class RecurrentQNetwork(QNetwork):
    """A Q-network that carries the state of its core."""

    def __init__(self, *, encoder: Encoder, core: Core, head: Head, auxiliary: AuxiliaryLoss | None) -> None:
        """`auxiliary`: a loss that the learner may add; a module where it has parameters."""
        super().__init__()
        self.encoder, self.core, self.head, self.auxiliary = encoder, core, head, auxiliary

    def forward(
        self, inputs: StepInputs, state: State, want_memory: bool = True
    ) -> tuple[QOutput, State, StoredMemory]:
        """Q-values of T steps from the core's state before them."""
        features, state, memory = self.core(self.encoder(inputs), state, want_memory)
        return self.head(features), state, memory

    @property
    def packs(self) -> bool:
        return getattr(self.core, "packs", False)

    def learn_values(
        self, batch: Sequences, want_memory: bool = False
    ) -> tuple[QOutput, dict[str, Tensor] | None]:
        """From the network's own starting state."""
        # Padding is left out where the host may look at the counts of real timesteps.
        if self.packs and follow_data(batch.learn_timesteps):
            return self._packed(batch, want_memory)
        state, burned = self.starting_state(batch)
        output, _, learned = self(batch.learn, state, want_memory)
        if not want_memory:
            return output, None
        left = [leaves(memory) for memory in (burned, learned) if memory is not None]
        return output, {
            name: torch.cat([memory[name].detach() for memory in left], dim=1) for name in self.memory_spec()
        }

    def _packed(self, batch: Sequences, want_memory: bool) -> tuple[QOutput, dict[str, Tensor] | None]:
        """`learn_values` of the real timesteps alone, burn-in and learned segment in one pass."""
        packing = Packing(batch) if batch.packing is None else batch.packing
        features = self.encoder(packing.learn_inputs)[0]
        with torch.no_grad():
            burned = features[:0].detach()
            if len(packing.burn_in.place):
                burned = self.encoder(packing.burn_in_inputs)[0]
            memory = from_leaves(self.core.memory_spec(), packing.stored(features.dtype))
        x, left = cast(PackedCore, self.core).packed(features, burned, memory, packing, want_memory)
        output = map_tree(lambda packed: packing.learn.unpack(packed[0]), self.head(x[None]))
        if left is None:
            return output, None
        split, blocks, stored = [len(burned), len(x)], (packing.burn_in, packing.learn), self.memory_spec()
        return output, {
            name: torch.cat(
                [block.unpack(part) for block, part in zip(blocks, packed.split(split), strict=True)], dim=1
            )
            for name, packed in leaves(left).items()
            if name in stored
        }

    def starting_state(self, batch: Sequences) -> tuple[State, StoredMemory | None]:
        """The state at the sequence's start, and what its burn-in, if any, leaves for replay, [B, P, ...].

        The state comes from the stored memory, freshened by the burn-in, without gradient.
        """
        with torch.no_grad():
            valid = batch.memory_valid
            state = self.state_from_memory(batch.memory, valid, batch.episode_step)
            burn_in = batch.burn_in.first.shape[1]
            if burn_in == 0:
                return state, None
            _, _, burned = self.core(self.encoder(batch.burn_in), state, True)
            fresh, num_memory = leaves(burned), valid.shape[1]
            windows = {name: field.window for name, field in self.memory_spec().items()}
            joined = {
                name: latest(batch.memory[name], fresh[name], batch.burn_in_timesteps, window)
                for name, window in windows.items()
            }
            size = min(max(windows.values(), default=0), num_memory + burn_in)
            index = _latest_index(num_memory, batch.burn_in_timesteps, size)
            padded = torch.cat([valid, valid.new_ones(len(valid), burn_in)], dim=1)
            is_real = (index >= 0) & padded.gather(1, index.clamp(min=0))
            start = batch.episode_step + batch.burn_in_timesteps
            return self.state_from_memory(joined, is_real, start), burned

    def initial_state(self, batch_size: int) -> State:
        """The state at an episode's start, [B, ...]."""
        return self.core.initial_state(batch_size)

    def state_from_memory(self, memory: dict[str, Tensor], valid: Tensor, episode_step: Tensor) -> State:
        """The state after stored memory, path -> [B, W, ...], newest last; `valid` [B, W] marks the real."""
        tree = from_leaves(self.core.memory_spec(), memory)
        return self.core.state_from_memory(tree, valid, episode_step)

    def memory_spec(self) -> dict[str, MemorySpec]:
        """The fields of stored memory, by their paths in the core's `memory_spec`."""
        return leaves(self.core.memory_spec())

    def cache(self, state: State) -> State:
        """`state` with all that can be computed from it once while the parameters stay the same."""
        return self.core.cache(state)
