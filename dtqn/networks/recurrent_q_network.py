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


def latest_timesteps(memory: Tensor, burned: Tensor, burn_in_timesteps: Tensor, window: int) -> Tensor:
    """[B, min(window, W + P), ...]: the last of `memory` [B, W, ...] and then the real timesteps of `burned`.

    `burned` is [B, P, ...].
    """
    # Stored timesteps are float16; the burn-in's own keep their digits.
    stored = torch.cat([memory.to(burned.dtype), burned], dim=1)
    size = min(window, stored.shape[1])
    # Places before all timesteps hold any timestep at all; the caller knows which these are.
    index = _latest_index(memory.shape[1], burn_in_timesteps, size).clamp(min=0)
    return stored.gather(
        1, index.view(*index.shape, *[1] * (stored.dim() - 2)).expand(-1, -1, *stored.shape[2:])
    )


def _latest_index(num_memory: int, counts: Tensor, size: int) -> Tensor:
    """[B, size] places, in memory and then `counts` of burn-in, of the last `size` steps; negative: none."""
    return torch.arange(size, device=counts.device) + (num_memory - size + counts)[:, None]


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
        features, state, stored = self.core(self.encoder(inputs), state, want_memory)
        return self.head(features), state, stored

    def learn_values(
        self, batch: Sequences, want_memory: bool = False
    ) -> tuple[QOutput, dict[str, Tensor] | None]:
        """From the network's own starting state."""
        # Padding is left out where the host may look at the counts of real timesteps.
        if getattr(self.core, "packs", False) and follow_data(batch.learn_timesteps):
            return self._packed(batch, want_memory)
        state, burned = self.starting_state(batch)
        output, _, learned = self(batch.learn, state, want_memory)
        if not want_memory:
            return output, None
        left = [leaves(stored) for stored in (burned, learned) if stored is not None]
        return output, {
            name: torch.cat([timesteps[name].detach() for timesteps in left], dim=1)
            for name in self.memory_spec()
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
        x, new_memory = cast(PackedCore, self.core).packed(features, burned, memory, packing, want_memory)
        output = map_tree(lambda timesteps: packing.learn.unpack(timesteps[0]), self.head(x[None]))
        if new_memory is None:
            return output, None
        split, blocks, stored = [len(burned), len(x)], (packing.burn_in, packing.learn), self.memory_spec()
        return output, {
            name: torch.cat(
                [block.unpack(part) for block, part in zip(blocks, x.split(split), strict=True)], dim=1
            )
            for name, x in leaves(new_memory).items()
            if name in stored
        }

    def starting_state(self, batch: Sequences) -> tuple[State, StoredMemory | None]:
        """The state at the start, and the burn-in's stored memory [B, P, ...] where there is a burn-in.

        It is the stored memory, freshened by its own burn-in, without gradient.
        """
        with torch.no_grad():
            valid = batch.memory_valid
            state = self.state_from_memory(batch.memory, valid, batch.episode_step)
            burn_in = batch.burn_in.first.shape[1]
            if burn_in == 0:
                return state, None
            _, _, burned = self.core(self.encoder(batch.burn_in), state, True)
            fresh, memory = leaves(burned), valid.shape[1]
            windows = {name: field.window for name, field in self.memory_spec().items()}
            timesteps = {
                name: latest_timesteps(batch.memory[name], fresh[name], batch.burn_in_timesteps, window)
                for name, window in windows.items()
            }
            size = min(max(windows.values(), default=0), memory + burn_in)
            index = _latest_index(memory, batch.burn_in_timesteps, size)
            padded = torch.cat([valid, valid.new_ones(len(valid), burn_in)], dim=1)
            is_real = (index >= 0) & padded.gather(1, index.clamp(min=0))
            return self.state_from_memory(
                timesteps, is_real, batch.episode_step + batch.burn_in_timesteps
            ), burned

    def initial_state(self, batch_size: int) -> State:
        """The state at an episode's start, [B, ...]."""
        return self.core.initial_state(batch_size)

    def state_from_memory(self, timesteps: dict[str, Tensor], valid: Tensor, episode_step: Tensor) -> State:
        """The state after stored memory, path -> [B, W, ...], newest last; the last are real: `valid` [B,
        W]."""
        tree = from_leaves(self.core.memory_spec(), timesteps)
        return self.core.state_from_memory(tree, valid, episode_step)

    def memory_spec(self) -> dict[str, MemorySpec]:
        """The fields of stored memory, by their paths in the core's stored memory."""
        return leaves(self.core.memory_spec())

    def cache(self, state: State) -> State:
        """`state` with all that can be computed from it once while the parameters stay the same."""
        return self.core.cache(state)
