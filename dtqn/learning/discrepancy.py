"""How much stored memory moves Q-values: staleness, against the same parameters run from the episode's start.

Legend: B sequences, R timesteps of the learned segment, A actions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from dtqn.networks.q_network import QNetwork
from dtqn.types import Sequences, StepInputs, length_mask

NEAR_TIE = 0.01
"""The gap between the best two actions, as a share of the range of all Q-values, below which they tie."""


class Discrepancy(NamedTuple):
    """Q-values of learned segments [B, R, A] by one network's parameters."""

    stored: Tensor
    """From the state that the learner unrolls from stored memory and burn-in."""
    exact: Tensor
    """From the episode's first timestep."""

    def delta_q(self, steps: Tensor) -> tuple[Tensor, Tensor]:
        """R2D2's Q-value discrepancy (Kapturowski et al. 2019, section 3).

            Delta Q_i = ||q(h^_{t+i}) - q(h_{t+i})||_2 / |max_{a, j} q(h^_{t+j})_a|

        h^ is the state that the learner unrolls, and the maximum is over all actions a and learned steps j of
        the sequence. h is the state that it should be: here the one that the present parameters reach from
        the episode's first timestep. The paper takes the state that the actor stored at each step, by which a
        stored state that is not burned in has no discrepancy at its first step, however stale it is.

        Args:
            steps: [B] learned steps.
        Returns: the measure [B] at the first and at the last learned step.
        """
        learned = length_mask(steps, self.stored.shape[1])
        largest = self.stored.amax(dim=-1).masked_fill(~learned, -math.inf).amax(dim=-1).abs()
        distance = (self.stored - self.exact).norm(dim=-1)
        ends = torch.stack([torch.zeros_like(steps), steps - 1], dim=1)
        tiny = torch.finfo(largest.dtype).tiny
        first, last = (distance.gather(1, ends) / largest.clamp(min=tiny)[:, None]).unbind(dim=1)
        return first, last

    def greedy_actions(self, timesteps: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of the greedy policy by the stored memory at some `timesteps` [B, R] bool.

        Returns: whether the greedy action is another one [n] bool, at the timesteps where it is no near tie
            (`NEAR_TIE`); and max_a Q(a) - Q(a'), with a' the greedy action by stored memory and Q exact, [m]
            at all timesteps.
        """
        exact, chosen = self.exact[timesteps], self.stored[timesteps].argmax(dim=-1, keepdim=True)
        if exact.shape[-1] == 1 or not len(exact):
            return torch.zeros(0, dtype=torch.bool), exact.new_zeros(len(exact))
        best = exact.topk(2, dim=-1).values
        clear = best[:, 0] - best[:, 1] >= NEAR_TIE * (exact.max() - exact.min())
        lost = best[:, 0] - exact.gather(-1, chosen).squeeze(-1)
        return (lost > 0)[clear], lost


@torch.no_grad()
def discrepancy(
    network: QNetwork, batch: Sequences, episode: Callable[[int, int], StepInputs], chunk_timesteps: int
) -> Discrepancy:
    """Both Q-values of a batch's learned segments.

    Args:
        batch: B sequences.
        episode: (start, stop) -> those timesteps of their episodes [B, stop - start, ...], counted from the
            episode's first one.
        chunk_timesteps: timesteps that are asked for at a time.
    Returns: padding holds arbitrary numbers.
    """
    stored = network.learn_values(batch)[0].q
    sequence_start = (batch.episode_step + batch.burn_in_timesteps)[:, None]
    timestep = sequence_start + torch.arange(stored.shape[1], device=sequence_start.device)
    end = int((sequence_start.squeeze(1) + batch.learn_timesteps).max())
    exact, state = torch.zeros_like(stored), network.initial_state(len(sequence_start))
    for start in range(0, end, chunk_timesteps):
        output, state, _ = network(episode(start, start + chunk_timesteps), state)
        place = timestep - start
        here = (place >= 0) & (place < output.q.shape[1])
        index = place.clamp(0, output.q.shape[1] - 1)[..., None].expand_as(stored)
        exact = torch.where(here[..., None], output.q.gather(1, index), exact)
    return Discrepancy(stored, exact)
