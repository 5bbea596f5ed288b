"""Equal pictures of codes, of which a network has to see only one.

Views of a grid world recur: of a batch's thousand pictures in MiniGrid's Memory tasks one in ten is distinct.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from dtqn.shapes import follow_data

_LEAST_COUNT = 256
"""A network is done with fewer before they are told apart."""
_LARGEST_SHARE = 0.5
"""Where more are distinct, it runs on all."""


def on_distinct(network: Callable[[Tensor], Tensor], pictures: Tensor) -> Tensor:
    """Features [n, F] of pictures [n, ...] of integers by a network that acts on each one by itself."""
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
