"""The loss of recall: each step's output names the values that its episode has shown so far.

A reward comes at an episode's end, and it teaches a core to remember only where what was seen decides it.
But which values have been in sight is known at every step. So a linear layer reads them off the core's
output, and its loss reaches the memory from every learned step. (In Memory Gym it helps a Transformer-XL to
reconstruct observations: Pleines et al. 2023, arXiv 2309.17207. Theirs is the present one, which needs no
memory.)

Legend: B sequences, P timesteps of burn-in, R of the learned segment, D width, V values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dtqn.networks.encoders import has_one_set_of_values, is_code_picture
from dtqn.networks.heads import Prediction
from dtqn.networks.q_network import Head
from dtqn.types import Observation, QOutput, Sequences, length_mask


class Codes(NamedTuple):
    """The values of one space: a component's value plus its offset is the value's number."""

    offsets: Sequence[int]
    size: int
    """How many there are."""


def codes(space: gymnasium.Space) -> Codes | None:
    """The codes of a Discrete, MultiDiscrete or MultiBinary; None for any other space.

    Components that take the same values share them, as the cells of a view do. The cells of a picture share
    them channel by channel. Every other component has values of its own.
    """
    match space:
        case gymnasium.spaces.Discrete():
            return Codes([-int(space.start)], int(space.n))
        case gymnasium.spaces.MultiBinary():
            size = int(np.prod(space.shape))
            return Codes(range(0, 2 * size, 2), 2 * size)
        case gymnasium.spaces.MultiDiscrete():
            nvec, start = (np.broadcast_to(x, space.shape) for x in (space.nvec, space.start))
            if has_one_set_of_values(space):
                return Codes((-start).ravel().tolist(), int(nvec.flat[0]))
            alike = nvec[0, 0] if is_code_picture(space) else nvec.ravel()
            offsets = np.cumsum([0, *alike[:-1]]) - start.reshape(-1, len(alike))
            return Codes(offsets.ravel().tolist(), int(alike.sum()))
    return None


MOST_CODES = 2000
"""More would make each step's logits the larger part of an update."""
MOST_CASES = 16
"""Cases in which a value counts apart, at most."""


def cases(parts: Mapping[str, gymnasium.Space]) -> dict[str, int]:
    """The Discrete parts that split the other parts' values into cases, and how many values each one takes.

    They say how the agent stands, as MiniGrid's direction does: an object that it saw when it looked back
    counts apart from the same object ahead. Empty if these are all parts, or make more than `MOST_CASES`.
    """
    found = {key: int(part.n) for key, part in parts.items() if isinstance(part, gymnasium.spaces.Discrete)}
    return found if len(found) < len(parts) and math.prod(found.values()) <= MOST_CASES else {}


def with_values(space: gymnasium.Space) -> dict[str, tuple[gymnasium.Space, Codes]]:
    """Its parts that have values and not too many, by key; "" for a space that is no Dict."""
    parts = dict(space.spaces) if isinstance(space, gymnasium.spaces.Dict) else {"": space}
    found = {key: (part, held) for key, part in parts.items() if (held := codes(part)) is not None}
    return {key: (part, held) for key, (part, held) in found.items() if held.size <= MOST_CODES}


class Shown(nn.Module):
    """Which values each step's observation shows, in which of the `cases`."""

    def __init__(self, space: gymnasium.Space) -> None:
        """Read those parts that have values, at least one."""
        super().__init__()
        read = with_values(space)
        parts = {key: part for key, (part, _) in read.items()}
        found = {key: held for key, (_, held) in read.items()}
        self._cases = cases(parts)
        self._apart = {
            key: held.size for key, held in found.items() if self._cases and key not in self._cases
        }
        self._firsts, self.count = dict[str, int](), 0
        for i, (key, held) in enumerate(found.items()):
            offsets = torch.as_tensor(np.asarray(held.offsets) + self.count, dtype=torch.int64)
            self.register_buffer(f"offsets_{i}", offsets, persistent=False)
            self._firsts[key] = self.count
            self.count += held.size * (math.prod(self._cases.values()) if key in self._apart else 1)

    def forward(self, observation: Observation, real: Tensor) -> Tensor:
        """Observations [B, T, ...] -> [B, T, V] bool, False in padding, where `real` [B, T] is False."""
        shown = torch.zeros((*real.shape, self.count), dtype=torch.bool, device=real.device)
        parts = observation if isinstance(observation, dict) else {"": observation}
        numbers: dict[str, Tensor] = {}
        for i, key in enumerate(self._firsts):
            offsets = self.get_buffer(f"offsets_{i}")
            numbers[key] = parts[key].reshape(*real.shape, len(offsets)).to(torch.int64) + offsets
        case: Tensor | int = 0
        for key, count in self._cases.items():
            case = case * count + numbers[key] - self._firsts[key]
        for key, size in self._apart.items():
            numbers[key] = numbers[key] + case * size
        for found in numbers.values():
            # Padding may hold what is no value.
            shown.scatter_(2, found.masked_fill(~real[..., None], 0), True)
        return shown & real[..., None]


class Recall(nn.Module):
    """A linear layer from the core's output to the values shown so far, and its loss."""

    def __init__(self, *, observation_space: gymnasium.Space, width: int, weight: float) -> None:
        """`weight`: of this loss relative to the TD errors' loss."""
        super().__init__()
        self.weight = weight
        self.shown = Shown(observation_space)
        self.logits = nn.Linear(width, self.shown.count)

    def loss(self, logits: Tensor, batch: Sequences) -> Tensor:
        """The loss at each timestep of the learned segment, [B, R], from its logits [B, R, V].

            l_t = -1/V sum over known v of [v was shown] log p_tv + [it was not] log (1 - p_tv)

        A value that the sequence has shown up to step t is known. One that it has not shown is known if the
        sequence begins with its episode; otherwise it may have been shown before. Padding has any loss.
        """
        blocks = ((batch.burn_in, batch.burn_in_timesteps), (batch.learn, batch.learn_timesteps))
        shown = [self.shown(x.observation, length_mask(count, x.first.shape[1])) for x, count in blocks]
        burned = batch.burn_in.first.shape[1]
        seen = torch.cat(shown, dim=1).to(torch.uint8).cummax(dim=1).values[:, burned:].bool()
        known = seen | (batch.episode_step == 0)[:, None, None]
        losses = F.binary_cross_entropy_with_logits(logits, seen.to(logits.dtype), reduction="none")
        return torch.where(known, losses, 0.0).mean(dim=-1)


class RecallingHead(nn.Module):
    """A head on features that `recall` reads too."""

    def __init__(self, head: Head, recall: Recall) -> None:
        super().__init__()
        self.head, self.recall = head, recall

    @property
    def prediction(self) -> Prediction:
        return self.head.prediction

    def forward(self, features: Tensor) -> QOutput:
        """[B, T, D] -> output"""
        return self.head(features)._replace(recall=self.recall.logits(features))
