"""DARQN: an LSTM that attends to parts of the observation (Sorokin et al. 2015, arXiv 1512.01693, section 2).

    w_i = softmax_i( a . tanh(W_v v_i + b + W_h h_{t-1}) )    z_t = sum_i w_i v_i    h_t = LSTM(z_t, h_{t-1})

The parts v_i are the cells of a feature map in the paper; here also the components of a vector.

Legend: B batch, T steps, P parts, D width.
"""

from __future__ import annotations

import gymnasium
import torch
from torch import Tensor, nn

from dtqn.networks.encoders import (
    CategoricalEncoder,
    CodePictureEncoder,
    DictEncoder,
    Embedding,
    ImageEncoder,
    ImageNetwork,
    NumericEncoder,
    PictureEncoder,
    observation_encoder,
    previous_action,
    set_encoder,
)
from dtqn.networks.rnn import initialise_
from dtqn.types import StepInputs


class CodeParts(nn.Module):
    """Each component of a discrete observation as a vector of its own table.

    Components that all take the same values, as the cells of a view do, share one more table: the value's
    vector in it, the same for every cell, is added.
    """

    def __init__(self, encoder: CategoricalEncoder, space: gymnasium.Space, width: int) -> None:
        super().__init__()
        self.encoder, self.width = encoder, width
        self.values = set_encoder(space, width)

    def forward(self, observation: Tensor) -> Tensor:
        """[B, T, P] (or [B, T] for Discrete) -> [B, T, P, D]"""
        parts = self.encoder(observation).unflatten(-1, (-1, self.width))
        if self.values is None:
            return parts
        return parts + self.values.embedding(observation.flatten(2).to(torch.int64) - self.values.start)


class NumberParts(nn.Module):
    """Each of P numbers as its value times a vector of its own, plus another."""

    def __init__(self, encoder: NumericEncoder, width: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.weight = nn.Parameter(torch.randn(encoder.output_width, width))
        self.bias = nn.Parameter(torch.randn(encoder.output_width, width))

    def forward(self, observation: Tensor) -> Tensor:
        """[B, T, ...] -> [B, T, P, D]"""
        return torch.addcmul(self.bias, self.encoder(observation)[..., None], self.weight)


class FeatureMap(nn.Module):
    """The convolutions of an image network; the parts are the cells of their last map, as in the paper.

    MiniGrid's go without their pool, which would leave a single cell of a 7 x 7 view.
    """

    def __init__(self, network: ImageNetwork, width: int) -> None:
        super().__init__()
        layers = [layer for layer in network.convolutions if not isinstance(layer, nn.MaxPool2d)]
        self.convolutions = nn.Sequential(*layers)
        filters = [module.out_channels for module in network.modules() if isinstance(module, nn.Conv2d)][-1]
        self.join = nn.Linear(filters, width)

    def forward(self, picture: Tensor) -> Tensor:
        """[n, C, H, W] -> [n, P, D]"""
        return self.join(self.convolutions(picture).flatten(2).transpose(1, 2))


class DictParts(nn.Module):
    """The parts of every key of a Dict, in the order of its space."""

    def __init__(self, parts: dict[str, nn.Module]) -> None:
        super().__init__()
        self.names = list(parts)
        self.parts = nn.ModuleList(parts.values())

    def forward(self, observation: dict[str, Tensor]) -> Tensor:
        pairs = zip(self.names, self.parts, strict=True)
        return torch.cat([parts(observation[name]) for name, parts in pairs], dim=2)


def _parts_of(encoder: object, space: gymnasium.Space, width: int) -> nn.Module:
    """The module that reads what `encoder` reads, [B, T, ...], as parts [B, T, P, D]."""
    match encoder:
        case CategoricalEncoder():
            return CodeParts(encoder, space, width)
        case NumericEncoder():
            return NumberParts(encoder, width)
        case PictureEncoder() | CodePictureEncoder():
            encoder.network = FeatureMap(encoder.network, width)  # type: ignore[assignment]
            return encoder
        case DictEncoder() if isinstance(space, gymnasium.spaces.Dict):
            pairs = zip(encoder.keys, encoder.encoders, strict=True)
            return DictParts({key: _parts_of(part, space[key], width) for key, part in pairs})
    raise ValueError(f"network.encoder is parts, but observation space {space} has no parts; try default")


class PartsEncoder(nn.Module):
    """Features [B, T, P, D]: a vector for each part of the observation.

    The previous action and the previous reward add one part each if they are switched on.
    """

    def __init__(
        self,
        *,
        observation_space: gymnasium.Space,
        num_actions: int,
        width: int,
        use_prev_action: bool,
        use_prev_reward: bool,
        image_encoder: ImageEncoder,
        normalise: bool = False,
    ) -> None:
        super().__init__()
        encoder = observation_encoder(
            observation_space, embedding_width=width, image_encoder=image_encoder, normalise=normalise
        )
        self.observation = _parts_of(encoder, observation_space, width)
        self.prev_action = Embedding(num_actions, width) if use_prev_action else None
        self.prev_reward = (
            NumberParts(NumericEncoder(size=1, divisor=1.0), width) if use_prev_reward else None
        )

    def forward(self, inputs: StepInputs) -> Tensor:
        parts = [self.observation(inputs.observation)]
        if self.prev_action is not None:
            parts.append(previous_action(self.prev_action, inputs)[:, :, None])
        if self.prev_reward is not None:
            parts.append(self.prev_reward(inputs.reward))
        return torch.cat(parts, dim=2)


class AttentiveLSTMLayer(nn.Module):
    """An LSTM that reads a mix of a step's parts, weighed by its hidden state before the step.

    So each step needs the one before it: a loop over T.
    """

    def __init__(self, *, width: int, longest: int | None, orthogonal: bool) -> None:
        """`longest` and `orthogonal`: see `initialise_`. Initial values are torch's else."""
        super().__init__()
        self.of_part = nn.Linear(width, width)
        self.of_hidden = nn.Linear(width, width, bias=False)
        self.score = nn.Linear(width, 1, bias=False)  # a bias would cancel in the softmax
        self.lstm = nn.LSTMCell(width, width)
        initialise_(list(self.lstm.parameters()), longest, orthogonal)

    def forward(
        self, x: Tensor, want_memory: bool, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
        """x [B, T, P, D], hidden and cell [B, D] -> output [B, T, D]; hidden and cells [B, T, D]."""
        hiddens, cells = [], []
        # Unbound once: the gradient of a slice is an array of zeros as large as the whole, at every step.
        for parts, projected in zip(x.unbind(dim=1), self.of_part(x).unbind(dim=1), strict=True):
            score = self.score(torch.tanh(projected + self.of_hidden(hidden)[:, None]))
            attended = (torch.softmax(score, dim=1) * parts).sum(dim=1)
            hidden, cell = self.lstm(attended, (hidden, cell))
            hiddens.append(hidden)
            cells.append(cell)
        y = torch.stack(hiddens, dim=1)
        return y, (y, torch.stack(cells, dim=1)) if want_memory else None
