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
from torch.nn import functional as F

from dtqn.types import StepInputs


class CategoricalEncoder(nn.Module):
    """Discrete or MultiDiscrete: component i takes nvec[i] values from start[i], each value a vector [E]."""

    offset: Tensor

    def __init__(self, nvec: Sequence[int], start: Sequence[int], embedding_width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(int(sum(nvec)), embedding_width)
        first_row = np.cumsum([0, *nvec[:-1]]) - np.asarray(start)
        self.register_buffer("offset", torch.as_tensor(first_row, dtype=torch.int64), persistent=False)
        self.output_width = len(nvec) * embedding_width

    def forward(self, observation: Tensor) -> Tensor:
        """[B, T, components] (or [B, T] for Discrete) -> [B, T, components * E]"""
        components = observation.view(*observation.shape[:2], -1).to(torch.int64)
        return self.embedding(components + self.offset).flatten(2)


class NumericEncoder(nn.Module):
    """MultiBinary or a Box: the numbers as they are, flattened."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.output_width = size
        self.register_buffer("dtype_of", torch.zeros(()), persistent=False)

    def forward(self, observation: Tensor) -> Tensor:
        return observation.flatten(2).to(self.get_buffer("dtype_of").dtype)


def observation_encoder(space: gymnasium.Space, embedding_width: int) -> CategoricalEncoder | NumericEncoder:
    """The encoder for an observation space; a ValueError names a space that has none."""
    match space:
        case gymnasium.spaces.Discrete():
            return CategoricalEncoder([int(space.n)], [int(space.start)], embedding_width)
        case gymnasium.spaces.MultiDiscrete():
            return CategoricalEncoder(
                space.nvec.flatten().tolist(), np.broadcast_to(space.start, space.nvec.shape).flatten().tolist(), embedding_width
            )
        case gymnasium.spaces.MultiBinary():
            return NumericEncoder(int(np.prod(space.shape)))
        case gymnasium.spaces.Box() if len(space.shape) <= 1:
            return NumericEncoder(int(np.prod(space.shape)))
    raise ValueError(
        f"observation space {space} has no encoder; Discrete, MultiDiscrete, MultiBinary and Box vectors have"
    )


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
        nn.init.xavier_normal_(self.join.weight)
        nn.init.zeros_(self.join.bias)

    def forward(self, inputs: StepInputs) -> Tensor:
        parts = [self.observation(inputs.observation)]
        if self.prev_action is not None:
            # On a first row there is no previous action: no sentinel value, its features are zero.
            action = inputs.prev_action.to(torch.int64).masked_fill(inputs.first, 0)
            parts.append(self.prev_action(action).masked_fill(inputs.first[..., None], 0.0))
        if self.use_prev_reward:
            parts.append(inputs.reward[..., None].to(parts[0].dtype))
        return F.linear(torch.cat(parts, dim=-1), self.join.weight, self.join.bias)
