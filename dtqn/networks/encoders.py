"""From a step's raw inputs to features [B, T, D]: the observation, the previous action, the previous reward.

    Discrete, MultiDiscrete          each component has an embedding of its own (`CategoricalEncoder`)
    MultiBinary, Box                 the numbers, normalised or not; bytes over a bound (`NumericEncoder`)
    Box of uint8 with 2 or 3 axes,   a picture: a convolutional network (`dtqn.networks.images`); a third
      any Box with 3                   axis holds the channels
    MultiDiscrete with 3 axes,       a picture of codes, such as MiniGrid's: each channel has an embedding
      the same in all cells            that its cells share, and the convolutional network reads these
    Dict                             an encoder a key, side by side (`DictEncoder`)

All features are concatenated and mapped to the width of the core.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeAlias

import gymnasium
import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from dtqn.networks.images import MiniGridCNN, NatureCNN, on_distinct
from dtqn.shapes import follow_data
from dtqn.types import Observation, StepInputs

ImageEncoder = Literal["nature", "minigrid"]
ImageNetwork: TypeAlias = NatureCNN | MiniGridCNN
IMAGE_NETWORKS: dict[ImageEncoder, type[ImageNetwork]] = {"nature": NatureCNN, "minigrid": MiniGridCNN}
MIN_PICTURE_SIDE = 5
"""Codes on a smaller grid are read one by one, not by a convolutional network."""


class ObservationEncoder(Protocol):
    """A module that maps an observation [B, T, ...] to features [B, T, output_width]."""

    output_width: int

    def __call__(self, observation: Observation, /) -> Tensor: ...


class Embedding(nn.Embedding):
    """torch's, whose own gradient on a GPU adds up in an order that changes from one run to the next."""

    def forward(self, index: Tensor) -> Tensor:
        """Numbers [...] int64 -> vectors [..., E]"""
        return super().forward(index) if follow_data(index) else self.weight[index]


def previous_action(embedding: Embedding, inputs: StepInputs) -> Tensor:
    """Features [B, T, E] of the previous action; 0 at a first timestep, which has none."""
    action = inputs.prev_action.to(torch.int64).masked_fill(inputs.first, 0)
    features: Tensor = embedding(action)
    return features.masked_fill(inputs.first[..., None], 0.0)


class CategoricalEncoder(nn.Module):
    """Discrete or MultiDiscrete: component i takes nvec[i] values from start[i], each value a vector [E]."""

    first_row: Tensor

    def __init__(self, *, nvec: ArrayLike, start: ArrayLike, embedding_width: int) -> None:
        super().__init__()
        nvec, start = (np.ravel(x).astype(np.int64) for x in (nvec, start))  # bytes would not hold the sum
        first_row = torch.as_tensor(np.cumsum([0, *nvec[:-1]]) - start, dtype=torch.int64)
        self.register_buffer("first_row", first_row, persistent=False)
        self.embedding = Embedding(int(sum(nvec)), embedding_width)
        self.output_width = len(nvec) * embedding_width

    def forward(self, observation: Tensor) -> Tensor:
        """[B, T, components] (or [B, T] for Discrete) -> [B, T, components * E]"""
        components = observation.view(*observation.shape[:2], -1).to(torch.int64)
        return self.embedding(components + self.first_row).flatten(2)


class SetEncoder(nn.Module):
    """The set of values in sight, wherever and however often: the sum of one embedding [D] over them.

    It is for a MultiDiscrete whose components all take the same values, such as the cells of a view. Without
    it a colour that was learned in one cell is unknown in the next; with counts in its place walls drown out
    rare values. Either way an agent needs several times the episodes.
    """

    def __init__(self, *, num_values: int, start: int, width: int) -> None:
        super().__init__()
        self.start = start
        self.embedding = Embedding(num_values, width)

    def forward(self, observation: Tensor) -> Tensor:
        """[B, T, components] -> [B, T, D]"""
        values = observation.flatten(2).to(torch.int64) - self.start
        weight = self.embedding.weight
        return weight.new_zeros((*values.shape[:2], len(weight))).scatter_(2, values, 1.0) @ weight


class _Scaled(nn.Module):
    def __init__(self, divisor: float) -> None:
        super().__init__()
        self.divisor = divisor
        self.register_buffer("dtype_of", torch.zeros(()), persistent=False)

    def scaled(self, numbers: Tensor) -> Tensor:
        """Over `divisor`, in the dtype of the network."""
        numbers = numbers.to(self.get_buffer("dtype_of").dtype)
        return numbers if self.divisor == 1 else numbers / self.divisor


class NumericEncoder(_Scaled):
    """MultiBinary or a Box: the numbers, flattened, over `divisor`; or less `mean`, times `factor`."""

    def __init__(self, *, size: int, divisor: float, normalise: bool = False) -> None:
        super().__init__(divisor)
        self.output_width = size
        self.normalise = normalise
        if normalise:
            # As frozen parameters they go wherever the others go. `training.random_play` measures them.
            self.mean = nn.Parameter(torch.zeros(size), requires_grad=False)
            self.factor = nn.Parameter(torch.ones(size), requires_grad=False)

    def forward(self, observation: Tensor) -> Tensor:
        numbers = observation.reshape(*observation.shape[:2], -1)
        if self.normalise:  # in the dtype of the mean, which is exact where the network is rounded
            numbers = (numbers.to(self.mean.dtype) - self.mean) * self.factor
        return self.scaled(numbers)


class PictureEncoder(_Scaled):
    """A picture of numbers [H, W] or [H, W, C], over `divisor`: 255 brings bytes into [0, 1]."""

    def __init__(self, *, shape: tuple[int, ...], divisor: float, image_encoder: ImageEncoder) -> None:
        super().__init__(divisor)
        self.has_channels = len(shape) == 3
        height, width, channels = shape if self.has_channels else (*shape, 1)
        self.network = IMAGE_NETWORKS[image_encoder](channels, height, width)
        self.output_width = self.network.output_width

    def forward(self, observation: Tensor) -> Tensor:
        """[B, T, H, W] or [B, T, H, W, C] -> [B, T, features]"""
        picture = observation if self.has_channels else observation[..., None]
        numbers = self.scaled(picture).flatten(0, 1).permute(0, 3, 1, 2)
        return self.network(numbers).unflatten(0, picture.shape[:2])


class CodePictureEncoder(nn.Module):
    """A picture [H, W, C] of codes: channel c takes nvec[c] values from start[c], each a vector [E].

    A value's vector is the same in every cell; the convolutional network learns which cells are neighbours.
    """

    def __init__(
        self, *, codes: CategoricalEncoder, shape: tuple[int, ...], image_encoder: ImageEncoder
    ) -> None:
        """`codes` reads a cell."""
        super().__init__()
        self.codes = codes
        self.network = IMAGE_NETWORKS[image_encoder](codes.output_width, *shape[:2])
        self.output_width = self.network.output_width

    def forward(self, observation: Tensor) -> Tensor:
        """[B, T, H, W, C] -> [B, T, features]"""
        features = on_distinct(self._features, observation.flatten(0, 1))
        return features.unflatten(0, observation.shape[:2])

    def _features(self, codes: Tensor) -> Tensor:
        """[n, H, W, C] -> [n, features]"""
        cells = self.codes(codes.flatten(1, 2)).unflatten(1, codes.shape[1:3])
        features: Tensor = self.network(cells.permute(0, 3, 1, 2))
        return features


class DictEncoder(nn.Module):
    """An encoder for each key of a Dict, in the order of its space; their features stand side by side."""

    def __init__(self, encoders: dict[str, ObservationEncoder]) -> None:
        super().__init__()
        self.keys = list(encoders)
        self.encoders = nn.ModuleList(encoders.values())  # type: ignore[arg-type]
        self.output_width = sum(encoder.output_width for encoder in encoders.values())

    def forward(self, observation: dict[str, Tensor]) -> Tensor:
        parts = zip(self.keys, self.encoders, strict=True)
        return torch.cat([encoder(observation[key]) for key, encoder in parts], dim=-1)


def observation_encoder(
    space: gymnasium.Space, *, embedding_width: int, image_encoder: ImageEncoder, normalise: bool = False
) -> ObservationEncoder:
    """The encoder for an observation space, or a ValueError that names a space without one."""
    match space:
        case gymnasium.spaces.Dict():
            same: dict[str, Any] = {"embedding_width": embedding_width, "image_encoder": image_encoder}
            parts = space.spaces.items()
            return DictEncoder(
                {key: observation_encoder(part, normalise=normalise, **same) for key, part in parts}
            )
        case gymnasium.spaces.Discrete():
            return CategoricalEncoder(nvec=space.n, start=space.start, embedding_width=embedding_width)
        case gymnasium.spaces.MultiDiscrete():
            start = np.broadcast_to(space.start, space.nvec.shape)
            if not is_code_picture(space):
                return CategoricalEncoder(nvec=space.nvec, start=start, embedding_width=embedding_width)
            codes = CategoricalEncoder(
                nvec=space.nvec[0, 0], start=start[0, 0], embedding_width=embedding_width
            )
            return CodePictureEncoder(codes=codes, shape=space.shape, image_encoder=image_encoder)
        case gymnasium.spaces.MultiBinary():
            return NumericEncoder(size=int(np.prod(space.shape)), divisor=1.0)
        case gymnasium.spaces.Box() if _is_picture(space):
            return PictureEncoder(shape=space.shape, divisor=divisor(space), image_encoder=image_encoder)
        case gymnasium.spaces.Box():
            size, over = int(np.prod(space.shape)), 1.0 if normalise else divisor(space)
            return NumericEncoder(size=size, divisor=over, normalise=normalise)
    raise ValueError(
        f"observation space {space} has no encoder; Discrete, MultiDiscrete, MultiBinary, Box and a Dict of "
        "these have"
    )


def _is_picture(space: gymnasium.spaces.Box) -> bool:
    return len(space.shape) == 3 or (len(space.shape) == 2 and space.dtype == np.uint8)


def has_one_set_of_values(space: gymnasium.spaces.MultiDiscrete) -> bool:
    """True of two or more components that all take the same values."""
    return space.nvec.size > 1 and len(np.unique(space.nvec)) == 1 and len(np.unique(space.start)) == 1


def is_code_picture(space: gymnasium.spaces.MultiDiscrete) -> bool:
    """True of rows, columns and channels, where each channel takes the same values in every cell."""
    if len(space.shape) != 3 or min(space.shape[:2]) < MIN_PICTURE_SIDE:
        return False
    return bool((space.nvec == space.nvec[0, 0]).all() and (space.start == space.start[0, 0]).all())


def divisor(space: gymnasium.spaces.Box) -> float:
    """The largest bound of bytes, and of pictures of 16 bits, which brings them into [-1, 1]; else 1."""
    dtype: Any = space.dtype
    is_picture_of_integers = _is_picture(space) and dtype.kind in "iu" and dtype.itemsize == 2
    if dtype != np.uint8 and not is_picture_of_integers:
        return 1.0
    return float(max(1, int(space.high.max()), -int(space.low.min())))


def set_encoder(space: gymnasium.Space, width: int) -> SetEncoder | None:
    """A set encoder if the components of a MultiDiscrete all take the same values, else None."""
    if not isinstance(space, gymnasium.spaces.MultiDiscrete) or not has_one_set_of_values(space):
        return None
    return SetEncoder(num_values=int(space.nvec.flat[0]), start=int(np.ravel(space.start)[0]), width=width)


def _layer(width: int, is_first: bool) -> list[nn.Module]:
    """The parts of a layer on features; the first one has its linear map before it."""
    parts: list[nn.Module] = []
    if not is_first:
        linear = nn.Linear(width, width)
        nn.init.xavier_normal_(linear.weight)
        nn.init.zeros_(linear.bias)
        parts.append(linear)
    return [*parts, nn.LayerNorm(width), nn.ReLU()]


class StepEncoder(nn.Module):
    """Features [B, T, D] of the observation and, as switched on, of the previous action and reward.

    With layers the previous action is added behind them, so that it is a small part of what the core reads.
    That is how PQN's public code gives it to its GRU: W [x, one-hot(a)] = W_x x + W_a a.
    """

    def __init__(
        self,
        *,
        observation_space: gymnasium.Space,
        num_actions: int,
        width: int,
        embedding_width: int,
        use_prev_action: bool,
        use_prev_reward: bool,
        image_encoder: ImageEncoder,
        num_layers: int,
        normalise: bool = False,
    ) -> None:
        """
        Args:
            normalise: numbers of a Box.
            num_layers: of a linear map, LayerNorm and ReLU (PQN: Gallici et al. 2025,
                arXiv 2407.04811); 0: one linear map. The first map's weights begin as in that code, normal
                with variance 1 / inputs.
        """
        super().__init__()
        self.observation = observation_encoder(
            observation_space,
            embedding_width=embedding_width,
            image_encoder=image_encoder,
            normalise=normalise,
        )
        has_layers = num_layers > 0
        action_width = width if has_layers else embedding_width
        self.prev_action = Embedding(num_actions, action_width) if use_prev_action else None
        self.use_prev_reward = use_prev_reward
        joined = self.observation.output_width + int(use_prev_reward)
        joined += action_width * (use_prev_action and not has_layers)
        self.join = nn.Linear(joined, width)
        self.values = set_encoder(observation_space, width)
        # Where no layers follow, a set of values in sight at first outweighs places and the previous action.
        nn.init.xavier_normal_(self.join.weight, gain=0.15 if self.values is not None else 1.0)
        nn.init.zeros_(self.join.bias)
        if has_layers:
            nn.init.normal_(self.join.weight, std=joined**-0.5)
            if self.prev_action is not None:
                nn.init.normal_(self.prev_action.weight, std=width**-0.5)
        self.layers = nn.Sequential(*(part for i in range(num_layers) for part in _layer(width, i == 0)))

    def forward(self, inputs: StepInputs) -> Tensor:
        parts = [self.observation(inputs.observation)]
        action = None if self.prev_action is None else previous_action(self.prev_action, inputs)
        is_behind = action is not None and len(self.layers) > 0
        if action is not None and not is_behind:
            parts.append(action)
        if self.use_prev_reward:
            parts.append(inputs.reward[..., None].to(parts[0].dtype))
        features = self.join(torch.cat(parts, dim=-1))
        if self.values is not None:
            features = features + self.values(inputs.observation)
        features = self.layers(features)
        return features + action if is_behind else features
