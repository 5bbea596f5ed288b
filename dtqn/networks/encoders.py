"""From a step's raw inputs to features [B, T, D]: the observation, the previous action, the previous reward.

Each component of a Discrete or MultiDiscrete observation has an embedding of its own; MultiBinary and Box
vectors are taken as numbers. What there is is concatenated and mapped to the width of the core.
"""

from __future__ import annotations

from collections.abc import Sequence

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

from dtqn.types import StepInputs


class CategoricalEncoder(nn.Module):
    """Discrete or MultiDiscrete: component i takes nvec[i] values from start[i], each value a vector [E]."""

    first_row: Tensor

    def __init__(self, nvec: Sequence[int], start: Sequence[int], embedding_width: int) -> None:
        super().__init__()
        first_row = torch.as_tensor(np.cumsum([0, *nvec[:-1]]) - np.asarray(start), dtype=torch.int64)
        self.register_buffer("first_row", first_row, persistent=False)
        self.embedding = nn.Embedding(int(sum(nvec)), embedding_width)
        self.output_width = len(nvec) * embedding_width

    def forward(self, observation: Tensor) -> Tensor:
        """[B, T, components] (or [B, T] for Discrete) -> [B, T, components * E]"""
        components = observation.view(*observation.shape[:2], -1).to(torch.int64)
        return self.embedding(components + self.first_row).flatten(2)


class SetEncoder(nn.Module):
    """The set of values in sight, wherever and however often: the sum of one embedding [D] over them.

    For a MultiDiscrete whose components all take the same values, the cells of a view. Without it a colour
    that was learned in one cell is unknown in the next; with counts instead, walls drown what is rare. Either
    way an agent needs several times the episodes.
    """

    def __init__(self, num_values: int, start: int, width: int) -> None:
        super().__init__()
        self.start = start
        self.embedding = nn.Embedding(num_values, width)

    def forward(self, observation: Tensor) -> Tensor:
        """[B, T, components] -> [B, T, D]"""
        values = observation.flatten(2).to(torch.int64) - self.start
        weight = self.embedding.weight
        return weight.new_zeros((*values.shape[:2], len(weight))).scatter_(2, values, 1.0) @ weight


class NumericEncoder(nn.Module):
    """MultiBinary or a Box: the numbers as they are, flattened."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.output_width = size
        self.register_buffer("dtype_of", torch.zeros(()), persistent=False)

    def forward(self, observation: Tensor) -> Tensor:
        return observation.reshape(*observation.shape[:2], -1).to(self.get_buffer("dtype_of").dtype)


def observation_encoder(space: gymnasium.Space, embedding_width: int) -> CategoricalEncoder | NumericEncoder:
    """The encoder for an observation space; a ValueError names a space that has none."""
    match space:
        case gymnasium.spaces.Discrete():
            return CategoricalEncoder([int(space.n)], [int(space.start)], embedding_width)
        case gymnasium.spaces.MultiDiscrete():
            return CategoricalEncoder(
                space.nvec.flatten().tolist(),
                np.broadcast_to(space.start, space.nvec.shape).flatten().tolist(),
                embedding_width,
            )
        case gymnasium.spaces.MultiBinary():
            return NumericEncoder(int(np.prod(space.shape)))
        case gymnasium.spaces.Box() if len(space.shape) <= 1:
            return NumericEncoder(int(np.prod(space.shape)))
    raise ValueError(
        f"observation space {space} has no encoder; Discrete, MultiDiscrete, MultiBinary and Box vectors have"
    )


def set_encoder(space: gymnasium.Space, width: int) -> SetEncoder | None:
    """A set where every component of a MultiDiscrete takes the same values; none elsewhere."""
    if not isinstance(space, gymnasium.spaces.MultiDiscrete) or space.nvec.size < 2:
        return None
    values, starts = set(space.nvec.flatten().tolist()), set(np.ravel(space.start).tolist())
    return SetEncoder(values.pop(), starts.pop(), width) if len(values) == len(starts) == 1 else None


class StepEncoder(nn.Module):
    """Features [B, T, D] of the observation and, where switched on, of what came before it."""

    def __init__(
        self,
        observation_space: gymnasium.Space,
        num_actions: int,
        width: int,
        embedding_width: int = 8,
        use_prev_action: bool = True,
        use_prev_reward: bool = False,
    ) -> None:
        super().__init__()
        self.observation = observation_encoder(observation_space, embedding_width)
        self.prev_action = nn.Embedding(num_actions, embedding_width) if use_prev_action else None
        self.use_prev_reward = use_prev_reward
        joined = self.observation.output_width + embedding_width * use_prev_action + int(use_prev_reward)
        self.join = nn.Linear(joined, width)
        self.values = set_encoder(observation_space, width)
        # Where there is a set, what is seen speaks louder at first than where it is seen and what was done.
        nn.init.xavier_normal_(self.join.weight, gain=0.15 if self.values is not None else 1.0)
        nn.init.zeros_(self.join.bias)

    def forward(self, inputs: StepInputs) -> Tensor:
        parts = [self.observation(inputs.observation)]
        if self.prev_action is not None:
            # On a first row there is no previous action: no sentinel value, its features are zero.
            action = inputs.prev_action.to(torch.int64).masked_fill(inputs.first, 0)
            parts.append(self.prev_action(action).masked_fill(inputs.first[..., None], 0.0))
        if self.use_prev_reward:
            parts.append(inputs.reward[..., None].to(parts[0].dtype))
        features = self.join(torch.cat(parts, dim=-1))
        return features if self.values is None else features + self.values(inputs.observation)
