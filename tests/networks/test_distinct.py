"""Equal pictures that a network sees once, against the network run on all of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from dtqn import shapes
from dtqn.networks.images import on_distinct

SHAPE = (3, 2, 2)


class Counting(torch.nn.Module):
    """A network of pictures that notes how many it is given."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(12, 5, dtype=dtype)
        self.counts: list[int] = []

    def forward(self, pictures: Tensor) -> Tensor:
        self.counts.append(len(pictures))
        return self.linear(pictures.flatten(1).to(self.linear.weight.dtype)).tanh()


def drawn(count: int, kinds: int, dtype: torch.dtype = torch.uint8) -> Tensor:
    """`count` pictures of so many kinds, each there at least once."""
    rng = np.random.default_rng(count + kinds)
    codes = rng.permutation(9**6)[:kinds]
    values = codes[:, None] // 9 ** np.arange(6) % 9
    which = rng.permutation(np.concatenate([np.arange(kinds), rng.integers(kinds, size=count - kinds)]))
    return torch.from_numpy(np.tile(values, 2)[which].reshape(count, *SHAPE)).to(dtype)


def gradient(run: Tensor, network: Counting) -> list[Tensor]:
    weights = torch.randn(run.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return list(torch.autograd.grad((run * weights.to(run.dtype)).sum(), list(network.parameters())))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64], ids=str)
@pytest.mark.parametrize("transposed", [False, True])
def test_values_and_gradients_are_those_of_all_pictures(dtype: torch.dtype, transposed: bool) -> None:
    pictures = drawn(300, 40, dtype)
    if transposed:
        pictures = pictures.transpose(1, 3)
    network = Counting(torch.float64)
    of_all, once = network(pictures), on_distinct(network, pictures)
    assert network.counts == [300, 40]
    torch.testing.assert_close(once, of_all, rtol=1e-14, atol=1e-15)
    for a, b in zip(gradient(once, network), gradient(of_all, network), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-13)


def test_the_last_byte_of_a_picture_counts() -> None:
    pictures = drawn(300, 40)
    changed = pictures.clone()
    changed[7].view(-1)[-1] = 77
    network = Counting(torch.float64)
    torch.testing.assert_close(on_distinct(network, changed), network(changed), rtol=1e-14, atol=1e-15)
    assert network.counts == [41, 300]


@pytest.mark.parametrize(
    ("count", "kinds", "run"), [(255, 20, 255), (256, 20, 20), (300, 150, 150), (300, 151, 300)]
)
def test_all_run_where_it_would_not_pay(count: int, kinds: int, run: int) -> None:
    network = Counting(torch.float64)
    on_distinct(network, drawn(count, kinds))
    assert network.counts == [run]


def test_all_run_where_shapes_are_fixed() -> None:
    network = Counting(torch.float64)
    with shapes.fixed():
        on_distinct(network, drawn(300, 40))
    assert network.counts == [300]


def test_gradients_of_equal_pictures_add_up_in_single_precision() -> None:
    """In bfloat16 the sum of a thousand ones is 256."""
    pictures = torch.zeros((1000, *SHAPE), dtype=torch.uint8)
    feature = torch.zeros((1, 4), dtype=torch.bfloat16, requires_grad=True)
    features = on_distinct(lambda x: feature.expand(len(x), -1) * 1, pictures)
    assert features.shape == (1000, 4) and features.dtype is torch.bfloat16
    (total,) = torch.autograd.grad(features.float().sum(), feature)
    assert total.float().tolist() == [[1000.0] * 4]
