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


def _with_junk(space: str, steps: StepInputs, counts: torch.Tensor, number: float, seed: int) -> StepInputs:
    """`steps` with other padding: legal values where they are looked up, else `number`."""
    shape = batch, longest = steps.first.shape
    generator = np.random.default_rng(seed)
    padding = torch.arange(longest) >= counts[:, None]
    other = observations(space, shape, generator)
    if space == "box":
        other = torch.full_like(other, number)
    actions = torch.from_numpy(generator.integers(NUM_ACTIONS, size=shape))
    of_observation = padding.view(batch, longest, *[1] * (steps.observation.dim() - 2))
    return StepInputs(
        torch.where(of_observation, other, steps.observation),
        torch.where(padding, actions, steps.prev_action),
        torch.where(padding, number, steps.reward),
        steps.first | (padding & torch.from_numpy(generator.random(shape) < 0.5)),
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
    held, burned, learned = (torch.tensor([s[i] for s in shapes]) for i in range(3))
    held = held.clamp(max=window)
    batch = len(shapes)
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(batch, *shape, generator=generator, dtype=torch.float64).to(dtype)

    valid = torch.arange(window) >= window - held[:, None]
    memory = {name: random(window, *f.shape) for name, f in spec.items() if f.window}
    burn_in = inputs(space, batch, int(burned.max()), seed + 1, first=False)
    learn = inputs(space, batch, int(learned.max()), seed + 2, first=False)
    starts = held == 0
    burn_in.first[:, :1] = starts[:, None]
    learn.first[:, 0] = starts & (burned == 0)
    discount = torch.ones(learn.first.shape, dtype=dtype)
    for b, shape in enumerate(shapes):
        discount[b, shape.learn - 1] = float(not shape.terminated)
    if junk is not None:
        memory = {
            name: torch.where(valid.view(batch, window, *[1] * (x.dim() - 2)), x, junk)
            for name, x in memory.items()
        }
        burn_in = _with_junk(space, burn_in, burned, junk, seed + 3)
        learn = _with_junk(space, learn, learned, junk, seed + 4)
        discount = torch.where(torch.arange(discount.shape[1]) < learned[:, None], discount, junk)
    generator_of_novel = torch.Generator().manual_seed(seed + 6)

    def novel(counts: torch.Tensor) -> torch.Tensor:
        padding = torch.arange(int(counts.max())) >= counts[:, None]
        is_novel = torch.rand(padding.shape, generator=generator_of_novel) < 0.5
        return is_novel ^ (padding & (junk is not None))

    return Sequences(
        memory=memory,
        memory_valid=valid,
        episode_step=held.clone(),
        burn_in=burn_in._replace(reward=burn_in.reward.to(dtype)),
        burn_in_timesteps=burned,
        learn=learn._replace(reward=learn.reward.to(dtype)),
        discount=discount,
        learn_timesteps=learned,
        learned_steps=(learned - 1).clamp(max=learn_length),
        importance_weights=torch.rand(batch, generator=generator, dtype=torch.float64).to(dtype) + 0.2,
        burn_in_facts={"novel": novel(burned)},
        learn_facts={"novel": novel(learned)},
    )
