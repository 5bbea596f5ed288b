"""Batches as DTQN's public code has them: a window is learned whole, and bootstrapped from the next one.

With K rows up to step t and the one after it, r_0 .. r_K, the Q-values of the steps come from the window
r_0 .. r_{K-1}, and those that are bootstrapped from from r_1 .. r_K, which does not have row r_0.

Legend: B sequences, P burn-in (or context) rows, R rows of the learn block.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from dtqn.types import Sequences, map_tree


def learned_whole(batch: Sequences) -> Sequences:
    """`batch` with its burn-in rows put before the learn block, to be learned as well."""
    burned, device = batch.burn_in.first.shape[1], batch.learn_rows.device
    before, learn_rows = batch.burn_in_rows[:, None], batch.burn_in_rows + batch.learn_rows
    place = torch.minimum(torch.arange(int(learn_rows.max()), device=device), learn_rows[:, None] - 1)
    index = torch.where(place < before, place, place - before + burned)
    rows = torch.arange(len(index), device=device)[:, None]

    def joined(burn_in: Tensor, learn: Tensor) -> Tensor:
        return torch.cat([burn_in, learn], dim=1)[rows, index]

    # No row before the anchor terminates.
    discount = F.pad(batch.discount, (burned, 0), value=1.0)[rows, index]
    return batch._replace(
        burn_in=map_tree(lambda x: x[:, :0], batch.burn_in),
        burn_in_rows=torch.zeros_like(batch.burn_in_rows),
        learn=map_tree(joined, batch.burn_in, batch.learn),
        discount=discount,
        learn_rows=learn_rows,
        learned_steps=batch.burn_in_rows + batch.learned_steps,
    )


def next_window(batch: Sequences) -> Sequences:
    """`batch`, which has no burn-in, without the first row of its sequences."""
    assert batch.burn_in.first.shape[1] == 0
    return batch._replace(
        episode_step=batch.episode_step + 1,
        learn=map_tree(lambda x: x[:, 1:], batch.learn),
        discount=batch.discount[:, 1:],
        beside={name: x[:, 1:] for name, x in batch.beside.items()},
        learn_rows=batch.learn_rows - 1,
        learned_steps=batch.learned_steps - 1,
    )
