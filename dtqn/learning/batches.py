"""Batches: the timesteps that are learned, their bootstrap values, and the split of a batch into parts.

This suite's agents learn the timesteps after the burn-in and bootstrap from the same pass (`same_window`).
DTQN's public code learns a whole window (`whole_sequence`) and bootstraps from the next one (`next_window`).
Given the K timesteps up to step t and the one after it, x_0 .. x_K, the Q-values of the steps come from the
window x_0 .. x_{K-1} and the bootstrap values from the window x_1 .. x_K, which lacks x_0.

Where a learner has two cores, a batch is split into the shorter and the longer sequences, and its gradient is
the sum of the gradients of both parts, which run side by side. Each part is cropped to its own longest
sequence and memory, which saves the padding of the short ones.

Legend: B sequences; timesteps: P of burn-in (or context), R of the learned segment.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from dtqn.networks.packing import Packing
from dtqn.networks.q_network import QNetwork
from dtqn.shapes import follow_data, largest
from dtqn.types import FreshMemory, QOutput, Sequences, map_tree

# How a batch is read.


class Outputs(NamedTuple):
    """The networks' outputs on the learned segment, [B, R, ...] each."""

    online: QOutput
    """The online network's, with gradient; a sequence's last step has no TD error and may hold anything."""
    target: QOutput
    """The target network's: the values that steps bootstrap from."""
    chooser: QOutput
    """The online network's: the actions of these values, with double Q-learning."""
    memory: dict[str, Tensor] | None
    """What the online pass leaves for replay now, where it is wanted: field -> [B, P + R, ...]."""


def whole_sequence(batch: Sequences) -> Sequences:
    """`batch` with its burn-in put before the learned segment, to be learned as well."""
    burned, device = batch.burn_in.first.shape[1], batch.learn_timesteps.device
    before = batch.burn_in_timesteps[:, None]
    learn_timesteps = batch.burn_in_timesteps + batch.learn_timesteps
    longest = largest(learn_timesteps, burned + batch.learn.first.shape[1])
    place = torch.minimum(torch.arange(longest, device=device), learn_timesteps[:, None] - 1)
    index = torch.where(place < before, place, place - before + burned)
    members = torch.arange(len(index), device=device)[:, None]

    def joined(burn_in: Tensor, learn: Tensor) -> Tensor:
        return torch.cat([burn_in, learn], dim=1)[members, index]

    # No timestep before the sequence's start terminates.
    discount = F.pad(batch.discount, (burned, 0), value=1.0)[members, index]
    return batch._replace(
        burn_in=map_tree(lambda x: x[:, :0], batch.burn_in),
        burn_in_facts={},
        burn_in_timesteps=torch.zeros_like(batch.burn_in_timesteps),
        learn=map_tree(joined, batch.burn_in, batch.learn),
        learn_facts=map_tree(joined, batch.burn_in_facts, batch.learn_facts),
        discount=discount,
        learn_timesteps=learn_timesteps,
        learned_steps=batch.burn_in_timesteps + batch.learned_steps,
    )


def same_window(online: QNetwork, target: QNetwork, batch: Sequences, want_memory: bool) -> Outputs:
    """Timesteps are learned and bootstrapped from in one pass of each network.

    There is one pass where the online network is its own target.
    """
    # Both networks read the same timesteps, so the places of these are worked out once.
    batch = batch._replace(packing=Packing(batch))
    output, memory = online.learn_values(batch, want_memory)
    if target is online:
        return Outputs(output, output, output, memory)
    with torch.no_grad():
        return Outputs(output, target.learn_values(batch)[0], output, memory)


def next_window(online: QNetwork, target: QNetwork, batch: Sequences, want_memory: bool) -> Outputs:
    """Bootstrap values come from passes of their own, which leave out the sequence's first timestep.

    No step bootstraps from the first timestep, but its values say what the first action costs (advantage
    learning) and how large values are (Watkins' tolerance). The online network's values there come from the
    first pass. A target network has no such pass: the second timestep's values take their place, and
    settings that would read them are refused (`LearnerConfig.misfits`).
    """
    # The last timestep has no TD error, and nothing else needs its value in this pass.
    learned = batch._replace(learn_timesteps=batch.learn_timesteps - 1)
    output, memory = online.learn_values(learned, want_memory)
    with torch.no_grad():
        later = without_first_timestep(batch)

        def after(first: Tensor, rest: Tensor) -> Tensor:
            return torch.cat([first[:, :1], rest], dim=1)

        chooser: QOutput = map_tree(after, output, online.learn_values(later)[0])
        if target is online:
            return Outputs(output, chooser, chooser, memory)
        of_target = target.learn_values(later)[0]
        return Outputs(output, map_tree(after, of_target, of_target), chooser, memory)


def without_first_timestep(batch: Sequences) -> Sequences:
    """`batch`, which has no burn-in, without the first timestep of its sequences."""
    assert batch.burn_in.first.shape[1] == 0
    return batch._replace(
        episode_step=batch.episode_step + 1,
        learn=map_tree(lambda x: x[:, 1:], batch.learn),
        discount=batch.discount[:, 1:],
        learn_timesteps=batch.learn_timesteps - 1,
        learned_steps=batch.learned_steps - 1,
    )


# Parts.


def split(batch: Sequences, packs: bool) -> list[Tensor]:
    """The members [n] of the two parts of a batch that take the longer one the least time.

    A network that `packs` takes time for real timesteps, another one for padding too.

    On an accelerator there is one part, which suits it better.
    """
    size, device = len(batch.learn_timesteps), batch.learn_timesteps.device
    if size == 1 or not follow_data(batch.learn_timesteps):
        return [torch.arange(size, device=device)]
    # The learned segment is run by both networks, once with a gradient; what comes before costs about a
    # quarter (memory: projections alone) to a half (burn-in: forward alone) of that.
    before = batch.memory_valid.sum(dim=1) + 2 * batch.burn_in_timesteps
    cost, order = (4 * batch.learn_timesteps + before).sort(stable=True)
    if packs:
        sums = cost.cumsum(0)
        shorter, longer = sums[:-1], sums[-1] - sums[:-1]
    else:
        count = torch.arange(1, size)
        shorter, longer = count * cost[:-1], (size - count) * cost[-1]
    cut = int(torch.maximum(shorter, longer).argmin()) + 1
    return [order[:cut].sort().values, order[cut:].sort().values]


def take(batch: Sequences, members: Tensor) -> Sequences:
    """Some members [n] of a batch, every block cropped to the longest of them."""
    if len(members) == len(batch.learn_timesteps):
        return batch
    memory = int(batch.memory_valid[members].sum(dim=1).max())
    burned, learned = int(batch.burn_in_timesteps[members].max()), int(batch.learn_timesteps[members].max())
    return batch.by_block(
        memory=lambda x: x[members, max(0, x.shape[1] - memory) :],
        burn_in=lambda x: x[members, :burned],
        learn=lambda x: x[members, :learned],
        sequence=lambda x: x[members],
    )


def join(parts: list[Tensor], members: list[Tensor]) -> Tensor:
    """Numbers [n] of each part's sequences, in the order of the whole batch [B]."""
    return torch.cat(parts)[torch.cat(members).argsort()]


class MemoryBlock(NamedTuple):
    """What burn-in and learned segment leave for replay, padding included."""

    real: Tensor
    """[B, P + R] bool: no padding."""
    offset: Tensor
    """[B, P + R] timesteps after the sequence's start."""
    memory: dict[str, Tensor]
    """Field -> [B, P + R, ...]"""

    @classmethod
    def of(cls, batch: Sequences, memory: dict[str, Tensor]) -> MemoryBlock:
        size, device = len(batch.learn_timesteps), batch.learn_timesteps.device
        burned = torch.arange(batch.burn_in.first.shape[1], device=device)
        learned = torch.arange(batch.learn.first.shape[1], device=device).expand(size, -1)
        burn_in_timesteps = batch.burn_in_timesteps[:, None]
        # Burn-in lies before the start: its offsets are negative, and its padding's are not read.
        offset = torch.cat([burned - burn_in_timesteps, learned], dim=1)
        real = torch.cat([burned < burn_in_timesteps, learned < batch.learn_timesteps[:, None]], dim=1)
        return cls(real, offset, memory)

    def fresh(self, members: Tensor) -> FreshMemory:
        """The memory of real timesteps; the block's sequences are `members` [B] of the whole batch."""
        sequence, column = self.real.nonzero().unbind(1)
        memory = {name: values[sequence, column] for name, values in self.memory.items()}
        return FreshMemory(members[sequence], self.offset[sequence, column], memory)


def join_memory(blocks: list[MemoryBlock | None], members: list[Tensor]) -> FreshMemory | None:
    """The fresh memory of all parts as one, by places in the whole batch."""
    pairs = zip(blocks, members, strict=True)
    placed = [block.fresh(of_part) for block, of_part in pairs if block is not None]
    if not placed:
        return None
    joined: FreshMemory = map_tree(lambda *parts: torch.cat(parts), *placed)
    return joined
