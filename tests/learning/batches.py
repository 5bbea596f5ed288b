"""Batches of sequences as replay hands them out, of random content."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from dtqn.types import Sequences, StepInputs
from tests.cases import NUM_ACTIONS, inputs, observations


def f64(*values: object) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


class Shape(NamedTuple):
    """Real timesteps of each block of one sequence."""

    memory: int
    burn_in: int
    learn: int
    terminated: bool = False


LEARN_LENGTH, N_STEP = 4, 3
SHAPES = (
    Shape(5, 3, 7),  # in the middle of an episode
    Shape(0, 0, 7),  # at its start
    Shape(0, 2, 3),  # burn-in from its start; truncated at its end
    Shape(2, 3, 2, terminated=True),  # a tail of one step
    Shape(5, 1, 5, terminated=True),
    Shape(4, 0, 4),
)


def _junk_rows(
    space: str, timesteps: StepInputs, counts: torch.Tensor, number: float, seed: int
) -> StepInputs:
    """`timesteps` with other padding: legal values where they are looked up, else `number`."""
    batch, steps = timesteps.first.shape
    generator = np.random.default_rng(seed)
    padding = torch.arange(steps) >= counts[:, None]
    other = observations(space, (batch, steps), generator)
    if space == "box":
        other = torch.full_like(other, number)
    of_observation = padding.view(batch, steps, *[1] * (timesteps.observation.dim() - 2))
    return StepInputs(
        torch.where(of_observation, other, timesteps.observation),
        torch.where(
            padding,
            torch.from_numpy(generator.integers(NUM_ACTIONS, size=(batch, steps))),
            timesteps.prev_action,
        ),
        torch.where(padding, number, timesteps.reward),
        timesteps.first | (padding & torch.from_numpy(generator.random((batch, steps)) < 0.5)),
    )


def make_batch(
    network: nn.Module,
    space: str,
    shapes: tuple[Shape, ...] = SHAPES,
    seed: int = 0,
    junk: float | None = None,
    learn_length: int = LEARN_LENGTH,
    dtype: torch.dtype = torch.float64,
) -> Sequences:
    """A batch of these shapes; with `junk`, its padding is other, and its free numbers are `junk`."""
    spec = network.memory_spec()
    window = min(max((f.window for f in spec.values()), default=0), max(s.memory for s in shapes))
    memory, burned, learn = (torch.tensor([s[i] for s in shapes]) for i in range(3))
    memory = memory.clamp(max=window)
    batch = len(shapes)
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(batch, *shape, generator=generator, dtype=torch.float64).to(dtype)

    valid = torch.arange(window) >= window - memory[:, None]
    trace = {name: random(window, *f.shape) for name, f in spec.items() if f.window}
    burn_in = inputs(space, batch, int(burned.max()), seed + 1, first=False)
    timesteps = inputs(space, batch, int(learn.max()), seed + 2, first=False)
    starts = memory == 0
    burn_in.first[:, :1] = starts[:, None]
    timesteps.first[:, 0] = starts & (burned == 0)
    discount = torch.ones(timesteps.first.shape, dtype=dtype)
    for b, shape in enumerate(shapes):
        discount[b, shape.learn - 1] = float(not shape.terminated)
    if junk is not None:
        trace = {
            name: torch.where(valid.view(batch, window, *[1] * (x.dim() - 2)), x, junk)
            for name, x in trace.items()
        }
        burn_in = _junk_rows(space, burn_in, burned, junk, seed + 3)
        timesteps = _junk_rows(space, timesteps, learn, junk, seed + 4)
        discount = torch.where(torch.arange(discount.shape[1]) < learn[:, None], discount, junk)
    generator_of_novel = torch.Generator().manual_seed(seed + 6)

    def novel(counts: torch.Tensor) -> torch.Tensor:
        padding = torch.arange(int(counts.max())) >= counts[:, None]
        is_novel = torch.rand(padding.shape, generator=generator_of_novel) < 0.5
        return is_novel ^ (padding & (junk is not None))

    return Sequences(
        memory=trace,
        memory_valid=valid,
        episode_step=memory.clone(),
        burn_in=burn_in._replace(reward=burn_in.reward.to(dtype)),
        burn_in_timesteps=burned,
        learn=timesteps._replace(reward=timesteps.reward.to(dtype)),
        discount=discount,
        learn_timesteps=learn,
        learned_steps=(learn - 1).clamp(max=learn_length),
        importance_weights=torch.rand(batch, generator=generator, dtype=torch.float64).to(dtype) + 0.2,
        burn_in_facts={"novel": novel(burned)},
        learn_facts={"novel": novel(learn)},
        novel_share=torch.full((batch,), 0.37, dtype=torch.float64),
    )
