"""A batch in two parts, the shorter sequences and the longer ones: less padding, and a core for each.

The gradient of a batch is the sum of its parts' gradients. Each part is cropped to its own longest sequence
and memory, which saves the padding of the short ones, and the parts can be run side by side.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dtqn.types import FreshTrace, Sequences, map_tree

PART_COST = 1000
"""What a second part costs by itself, in quarters of a row of the learn block; measured on a CPU."""


def split(batch: Sequences, side_by_side: bool) -> list[Tensor]:
    """The members [n] of each part of the batch; one part on an accelerator, which would rather have it so.

    Args:
        side_by_side: the parts will run at the same time, so the larger of them counts; otherwise their sum,
            and there is a second part only where the padding that it saves is worth its own cost.
    """
    size, device = len(batch.learn_rows), batch.learn_rows.device
    whole = [torch.arange(size, device=device)]
    if size == 1 or device.type != "cpu":
        return whole
    # Rows of the learn block are run by both networks, once with a gradient; what comes before costs about a
    # quarter (memory: projections alone) to a half (burn-in: forward alone) of that.
    before = batch.trace_valid.sum(dim=1) + 2 * batch.burn_in_rows
    cost, order = (4 * batch.learn_rows + before).sort(stable=True)
    count = torch.arange(1, size)
    shorter, longer = count * cost[:-1], (size - count) * cost[-1]
    price = torch.maximum(shorter, longer) if side_by_side else shorter + longer + PART_COST
    cut = int(price.argmin()) + 1
    if not side_by_side and price[cut - 1] >= size * cost[-1]:
        return whole
    return [order[:cut].sort().values, order[cut:].sort().values]


def take(batch: Sequences, members: Tensor) -> Sequences:
    """Some members [n] of a batch, every block cropped to the longest of them."""
    if len(members) == len(batch.learn_rows):
        return batch
    valid = batch.trace_valid[members]
    burn_in_rows, learn_rows = batch.burn_in_rows[members], batch.learn_rows[members]
    memory, burned, rows = int(valid.sum(dim=1).max()), int(burn_in_rows.max()), int(learn_rows.max())
    return Sequences(
        trace={name: x[members, max(0, x.shape[1] - memory) :] for name, x in batch.trace.items()},
        trace_valid=valid[:, valid.shape[1] - memory :],
        episode_step=batch.episode_step[members],
        burn_in=map_tree(lambda x: x[members, :burned], batch.burn_in),
        burn_in_rows=burn_in_rows,
        learn=map_tree(lambda x: x[members, :rows], batch.learn),
        discount=batch.discount[members, :rows],
        learn_rows=learn_rows,
        learned_steps=batch.learned_steps[members],
        importance_weights=batch.importance_weights[members],
        beside={name: x[members, :rows] for name, x in batch.beside.items()},
    )


def fresh_rows(batch: Sequences, trace: dict[str, Tensor]) -> FreshTrace:
    """The real rows of a trace of burn-in and learn block, field -> [B, P + R, ...]."""
    device = batch.learn_rows.device
    burned = torch.arange(batch.burn_in.first.shape[1], device=device)
    learned = torch.arange(batch.learn.first.shape[1], device=device).expand(len(batch.learn_rows), -1)
    burn_in_rows = batch.burn_in_rows[:, None]
    offset = torch.cat([burned - burn_in_rows, learned], dim=1)
    real = torch.cat([burned < burn_in_rows, learned < batch.learn_rows[:, None]], dim=1)
    return FreshTrace(
        real.nonzero()[:, 0], offset[real], {name: values[real] for name, values in trace.items()}
    )
