"""The encoder of DTQN's public code (Esslinger et al. 2022, arXiv 2206.01078; github.com/kevslinger/DTQN).

One table of embeddings serves all components of a discrete observation, with timesteps for the code's padding
values that are never looked up here. The embeddings, joined, go through one linear map.
"""

from __future__ import annotations

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

from dtqn.networks.encoders import Embedding, previous_action
from dtqn.networks.gates import GRUGate
from dtqn.types import StepInputs

DEVIATION = 0.02


class DTQNEncoder(nn.Module):
    """Features [B, T, D]; the previous action, if it is switched on, takes the first E of them."""

    start: Tensor

    def __init__(
        self,
        *,
        observation_space: gymnasium.Space,
        num_actions: int,
        width: int,
        embedding_width: int,
        use_prev_action: bool,
    ) -> None:
        super().__init__()
        if use_prev_action and embedding_width >= width:
            raise ValueError(
                f"network.encoder.embedding_width is {embedding_width}, not below network.width {width}: "
                "with the previous action no features would be left for the observation"
            )
        size, vocabulary, start = self._size_of(observation_space)
        self.register_buffer("start", torch.as_tensor(start, dtype=torch.int64), persistent=False)
        self.embedding = Embedding(vocabulary, embedding_width) if vocabulary else None
        joined = size * embedding_width if vocabulary else size
        self.join = nn.Linear(joined, width - embedding_width * use_prev_action)
        self.prev_action = Embedding(num_actions, embedding_width) if use_prev_action else None

    @staticmethod
    def _size_of(space: gymnasium.Space) -> tuple[int, int, int | list[int]]:
        """Components, rows of the table (0: the numbers themselves are taken) and the smallest values."""
        match space:
            case gymnasium.spaces.Discrete():
                return 1, int(space.n) + 1, int(space.start)
            case gymnasium.spaces.MultiDiscrete():
                start = np.broadcast_to(space.start, space.nvec.shape).flatten().tolist()
                return space.nvec.size, int(space.nvec.max()) + 2, start
            case gymnasium.spaces.MultiBinary():
                size = int(np.prod(space.shape))
                return size, max(size, 1) + 1, 0
            case gymnasium.spaces.Box() if len(space.shape) <= 1:
                return int(np.prod(space.shape)), 0, 0
        shape = f" of shape {space.shape}" if space.shape else ""
        raise ValueError(
            f"network.encoder is dtqn, which cannot read a {type(space).__name__}{shape}; try default"
        )

    def forward(self, inputs: StepInputs) -> Tensor:
        assert isinstance(inputs.observation, Tensor)
        observation = inputs.observation.reshape(*inputs.observation.shape[:2], -1)
        if self.embedding is None:
            features = self.join(observation.to(self.join.weight.dtype))
        else:
            features = self.join(self.embedding(observation.to(torch.int64) - self.start).flatten(2))
        if self.prev_action is None:
            return features
        return torch.cat([previous_action(self.prev_action, inputs), features], dim=-1)


def initialise_as_dtqn(module: nn.Module) -> None:
    """For `Module.apply`: weights of deviation 0.02 and zero biases in linear maps, embeddings and LSTMs.

    The GRU gate gets such weights too and keeps the bias of `gate_bias`, which that code sets to zero.
    """
    match module:
        case nn.Linear() | nn.Embedding() | nn.LSTM() | GRUGate():
            for parameter in module.parameters():
                if parameter.dim() == 2:
                    nn.init.normal_(parameter, std=DEVIATION)
                elif not isinstance(module, GRUGate):
                    nn.init.zeros_(parameter)
