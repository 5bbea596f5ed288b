"""Encoders of pictures, codes and Dicts against loops, and of every space against each timestep alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from dtqn.networks.encoders import (
    CodePictureEncoder,
    NumericEncoder,
    PictureEncoder,
)
from dtqn.networks.images import MiniGridCNN, NatureCNN
from dtqn.types import StepInputs
from tests.networks import modules

Array = np.ndarray[Any, Any]


def array(tensor: torch.Tensor) -> Array:
    return tensor.detach().numpy()


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def convolve(x: Array, layer: torch.nn.Conv2d, stride: int, padding: int) -> Array:
    """[C, H, W] -> [filters, H', W'], one number after the other."""
    weight, bias = array(layer.weight), array(layer.bias)
    x = np.pad(x, ((0, 0), (padding, padding), (padding, padding)))
    size = weight.shape[2]
    height, width = ((side - size) // stride + 1 for side in x.shape[1:])
    out = np.empty((len(weight), height, width))
    for f in range(len(weight)):
        for i in range(height):
            for j in range(width):
                seen = x[:, i * stride : i * stride + size, j * stride : j * stride + size]
                out[f, i, j] = (seen * weight[f]).sum() + bias[f]
    return out


def linear(x: Array, layer: torch.nn.Linear) -> Array:
    return array(layer.weight) @ x.ravel() + array(layer.bias)


@pytest.mark.parametrize(
    ("size", "layers"),
    [
        ((36, 37), [(4, 0), (2, 0), (1, 0)]),
        ((7, 7), [(1, 1), (2, 1), (1, 1)]),
        ((16, 18), [(2, 1), (2, 1), (1, 1)]),
    ],
)
def test_natures_network_is_the_loops(size: tuple[int, int], layers: list[tuple[int, int]]) -> None:
    torch.manual_seed(1)
    network = NatureCNN(2, *size).double()
    picture = np.random.default_rng(1).random((2, *size))
    x = picture
    for layer, (stride, padding) in zip(network.convolutions[::2], layers, strict=True):
        x = relu(convolve(x, layer, stride, padding))
    expected = relu(linear(x, network.hidden))
    got = network(torch.from_numpy(picture)[None])[0]
    np.testing.assert_allclose(array(got), expected, rtol=1e-10, atol=1e-12)
    assert (expected > 0).sum() > 100


@pytest.mark.parametrize(
    ("size", "pools", "padding", "features"),
    [((7, 7), True, 0, 64), ((9, 8), True, 0, 128), ((5, 6), False, 0, 384), ((2, 3), False, 1, 1920)],
)
def test_minigrids_network_is_the_loops(
    size: tuple[int, int], pools: bool, padding: int, features: int
) -> None:
    torch.manual_seed(3)
    network = MiniGridCNN(2, *size).double()
    picture = np.random.default_rng(1).random((2, *size))
    first, second, third = (layer for layer in network.convolutions if isinstance(layer, torch.nn.Conv2d))
    x = relu(convolve(picture, first, 1, padding))
    if pools:
        corners = [
            x[:, i : x.shape[1] - 1 + i : 2, j : x.shape[2] - 1 + j : 2] for i in (0, 1) for j in (0, 1)
        ]
        x = np.max(corners, axis=0)
    x = relu(convolve(relu(convolve(x, second, 1, padding)), third, 1, padding))
    got = network(torch.from_numpy(picture)[None])[0]
    np.testing.assert_allclose(array(got), x.ravel(), rtol=1e-10, atol=1e-12)
    assert network.output_width == features == x.size and (x > 0).sum() > 10


def test_parameters_are_those_of_the_paper() -> None:
    """On 84 x 84 x 4: 8 224 + 32 832 + 36 928 + 1 606 144."""
    assert sum(p.numel() for p in NatureCNN(4, 84, 84).parameters()) == 1_684_128


@pytest.mark.parametrize("side", [1, 2, 5, 7, 8, 9, 10, 15, 16, 17, 35, 36, 64])
@pytest.mark.parametrize("kind", [NatureCNN, MiniGridCNN])
def test_every_size_is_read(kind: Any, side: int) -> None:
    network = kind(3, side, side + 1)
    out = network(torch.rand(2, 3, side, side + 1))
    assert out.shape == (2, network.output_width)
    assert not torch.equal(out[0], out[1])
    if kind is not MiniGridCNN:
        assert network.hidden.in_features <= 64 * 9 * 10


@pytest.mark.parametrize("name", ["nature", "minigrid"])
@pytest.mark.parametrize("shape", [(9, 7, 3), (9, 7)])
def test_pictures_are_bytes_over_255_with_channels_last(name: Any, shape: tuple[int, ...]) -> None:
    torch.manual_seed(3)
    encoder = modules.encoder(Box(0, 255, shape, np.uint8), 4, name)
    assert isinstance(encoder, PictureEncoder)
    seen = torch.from_numpy(np.random.default_rng(1).integers(0, 256, (2, 3, *shape), np.uint8))
    out = encoder(seen)
    assert out.shape == (2, 3, encoder.output_width)
    for b in range(2):
        for t in range(3):
            picture = seen[b, t].reshape(9, 7, -1).permute(2, 0, 1).float() / 255
            torch.testing.assert_close(out[b, t], encoder.network(picture[None])[0])


def test_floats_are_taken_as_they_are_and_bytes_over_their_bound() -> None:
    picture = modules.encoder(Box(0, 1, (6, 6, 2), np.float32))
    assert isinstance(picture, PictureEncoder)
    seen = torch.rand(1, 1, 6, 6, 2)
    torch.testing.assert_close(picture(seen)[0, 0], picture.network(seen[0].permute(0, 3, 1, 2))[0])
    for space, numbers in ((Box(0, 200, (3,), np.uint8), [50, 100, 200]), (Box(-9, 9, (3,)), [0.25, 0.5, 1])):
        vector = modules.encoder(space)
        assert isinstance(vector, NumericEncoder)
        assert vector(torch.tensor([[numbers]]))[0, 0].tolist() == [0.25, 0.5, 1.0]
    normalised = modules.step_encoder(Box(0, 255, (1,), np.uint8), normalise=True).observation
    normalised.mean.data.fill_(1)
    normalised.factor.data.fill_(4)
    assert normalised(torch.tensor([[[0], [2]]], dtype=torch.uint8)).flatten().tolist() == [-4, 4]
    matrix = modules.encoder(Box(-1, 1, (2, 3)))
    assert isinstance(matrix, NumericEncoder)


@pytest.mark.parametrize("name", ["nature", "minigrid"])
def test_codes_share_their_vectors_among_cells(name: Any) -> None:
    torch.manual_seed(4)
    nvec = np.broadcast_to([4, 3], (5, 6, 2))
    encoder = modules.encoder(MultiDiscrete(nvec, start=np.broadcast_to([1, 0], (5, 6, 2))), 3, name)
    assert isinstance(encoder, CodePictureEncoder)
    seen = np.random.default_rng(1).integers([1, 0], [5, 3], (2, 3, 5, 6, 2))
    out = encoder(torch.from_numpy(seen))
    table = encoder.codes.embedding.weight
    assert table.shape == (7, 3)
    for b in range(2):
        for t in range(3):
            picture = torch.empty(6, 5, 6)
            for i in range(5):
                for j in range(6):
                    first, second = seen[b, t, i, j]
                    picture[:, i, j] = torch.cat([table[first - 1], table[4 + second]])
            torch.testing.assert_close(out[b, t], encoder.network(picture[None])[0])


@pytest.mark.parametrize(
    "nvec", [np.full((2, 3, 3), 4), np.arange(1, 76).reshape(5, 5, 3)], ids=["small", "cells differ"]
)
def test_other_codes_have_an_embedding_each(nvec: Array) -> None:
    encoder = modules.encoder(MultiDiscrete(nvec), 2)
    assert encoder.output_width == nvec.size * 2


def test_layers_are_a_linear_map_layer_norm_and_relu() -> None:
    torch.manual_seed(0)
    space = Box(-1, 1, (3,), np.float32)
    plain = modules.step_encoder(space, use_prev_action=False)
    layered = modules.step_encoder(space, use_prev_action=False, num_layers=2)
    layered.load_state_dict(plain.state_dict(), strict=False)
    inputs = StepInputs(torch.randn(2, 5, 3), *(torch.zeros(2, 5) for _ in range(3)))
    layers = list(layered.layers)
    x = plain(inputs)
    for k in range(2):
        if k:
            linear = layers.pop(0)
            x = x @ linear.weight.T + linear.bias
        layer_norm = layers.pop(0)
        assert isinstance(layer_norm, torch.nn.LayerNorm)
        mean = x.mean(dim=-1, keepdim=True)
        x = (x - mean) / ((x - mean).square().mean(dim=-1, keepdim=True) + 1e-5).sqrt()
        x = x * (x > 0)
        assert isinstance(layers.pop(0), torch.nn.ReLU)
    assert layers == []
    torch.testing.assert_close(layered(inputs), x)


def test_the_previous_action_is_added_behind_layers() -> None:
    """As W [x, one-hot(a)] = W_x x + W_a a; a first step has no a. Weights begin as in PQN's public code."""
    torch.manual_seed(0)
    space = Box(-1, 1, (3,), np.float32)
    alone = modules.step_encoder(space, use_prev_action=False, num_layers=2, width=512)
    both = modules.step_encoder(space, use_prev_action=True, num_layers=2, width=512)
    vectors = both.prev_action.weight
    std = both.join.weight.std().item(), vectors.norm(dim=1).mean().item()
    assert std == pytest.approx((3**-0.5, 1.0), rel=0.1)
    assert not both.load_state_dict(alone.state_dict(), strict=False).unexpected_keys
    action = torch.tensor([[0.0, 1.0, 1.0, 0.0]])
    first = torch.tensor([[True, False, False, False]])
    inputs = StepInputs(torch.randn(1, 4, 3), action, torch.zeros(1, 4), first)
    added = both(inputs) - alone(inputs)
    expected = torch.stack([torch.zeros(512), vectors[1], vectors[1], vectors[0]])
    torch.testing.assert_close(added[0], expected, rtol=0, atol=1e-5)


def test_a_dicts_parts_are_side_by_side() -> None:
    space = Dict(
        {
            "where": Box(-1, 1, (3,)),
            "a.b/c": Discrete(4),
            "view": Box(0, 255, (6, 6, 3), np.uint8),
            "set": MultiBinary(2),
        }
    )
    torch.manual_seed(5)
    encoder = modules.encoder(space, 5)
    keys = list(space.spaces)
    space.seed(1)
    seen = {key: torch.from_numpy(np.array([[space.sample()[key]]])) for key in keys}
    out = encoder(seen)[0, 0]
    parts = zip(keys, encoder.encoders, strict=True)  # type: ignore[attr-defined]
    torch.testing.assert_close(out, torch.cat([part(seen[key])[0, 0] for key, part in parts]))
    assert encoder.output_width == len(out) == 3 + 5 + 512 + 2
