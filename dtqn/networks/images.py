"""Convolutional networks for pictures [n, C, H, W] whose numbers are about 1; they return [n, features].

Both keep torch's own initialisation, uniform within 1/sqrt(fan in). Torch 7, in which the first of them was
written, had the same.

Views of a grid world recur: of a batch's thousand pictures in MiniGrid's Memory tasks one in ten is distinct.
Of equal pictures of codes a network has to see only one (`on_distinct`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dtqn.shapes import follow_data

_LEAST_COUNT = 256
"""A network is done with fewer before they are told apart."""
_LARGEST_SHARE = 0.5
"""Where more are distinct, it runs on all."""
NATURE_SIDE = 36
"""The smallest side that Nature's kernels fit into."""


class NatureCNN(nn.Module):
    """Mnih et al. 2015 (Nature 518, Methods): three convolutions and a hidden layer, each with a ReLU.

    32 filters of 8 x 8 with stride 4, 64 of 4 x 4 with stride 2, 64 of 3 x 3 with stride 1, 512 units.
    These kernels do not fit a side below 36 pixels: there all are 3 x 3 with a padding of 1, the second with
    stride 2, and the first too if both sides are at least 16.
    """

    output_width = 512

    def __init__(self, channels: int, height: int, width: int) -> None:
        super().__init__()
        kernels, strides, padding = (8, 4, 3), (4, 2, 1), 0
        if min(height, width) < NATURE_SIDE:
            kernels, strides, padding = (3, 3, 3), (2 if min(height, width) >= 16 else 1, 2, 1), 1
        filters = (channels, 32, 64, 64)
        layers: list[nn.Module] = []
        for i in range(3):
            layers += [nn.Conv2d(filters[i], filters[i + 1], kernels[i], strides[i], padding), nn.ReLU()]
        self.convolutions = nn.Sequential(*layers)
        self.hidden = nn.Linear(_features(self.convolutions, channels, height, width), self.output_width)

    def forward(self, picture: Tensor) -> Tensor:
        return self.hidden(self.convolutions(picture).flatten(1)).relu()


class MiniGridCNN(nn.Module):
    """The network of the agents that MiniGrid's authors publish (torch-ac), for views of a few cells.

    Three 2 x 2 convolutions of 16, 32 and 64 filters with ReLUs, a 2 x 2 max pool after the first, no hidden
    layer: 64 features of a 7 x 7 view, for 4 % of Nature's arithmetic where it has 24 channels. A side below
    7 is not pooled, and one below 4 has a padding of 1 in each convolution.
    """

    def __init__(self, channels: int, height: int, width: int) -> None:
        super().__init__()
        side = min(height, width)
        padding = 1 if side < 4 else 0
        layers: list[nn.Module] = [nn.Conv2d(channels, 16, 2, padding=padding), nn.ReLU()]
        if side >= 7:
            layers.append(nn.MaxPool2d(2))
        for filters, more in ((16, 32), (32, 64)):
            layers += [nn.Conv2d(filters, more, 2, padding=padding), nn.ReLU()]
        self.convolutions = nn.Sequential(*layers)
        self.output_width = _features(self.convolutions, channels, height, width)

    def forward(self, picture: Tensor) -> Tensor:
        features: Tensor = self.convolutions(picture).flatten(1)
        return features


def _features(network: nn.Module, channels: int, height: int, width: int) -> int:
    """The number of features that the network makes of one picture."""
    with torch.no_grad():
        return network(torch.zeros(1, channels, height, width)).numel()


def on_distinct(network: Callable[[Tensor], Tensor], pictures: Tensor) -> Tensor:
    """Features [n, F] of pictures [n, ...] of integers by a network that reads each one separately."""
    if len(pictures) < _LEAST_COUNT or not follow_data(pictures):
        return network(pictures)
    data = np.ascontiguousarray(pictures.numpy()).reshape(len(pictures), -1)
    _, first, kind = np.unique(
        data.view(f"V{data.itemsize * data.shape[1]}")[:, 0], return_index=True, return_inverse=True
    )
    if len(first) > _LARGEST_SHARE * len(pictures):
        return network(pictures)
    features = network(pictures.index_select(0, torch.from_numpy(first)))
    # The backward of an embedding is the fastest sum by kind. It must not add up in half precision.
    exact = features.float() if features.dtype is torch.bfloat16 else features
    return F.embedding(torch.from_numpy(kind), exact).to(features.dtype)
