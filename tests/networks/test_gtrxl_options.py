"""GTrXL's options against their twins: adaptive spans, compressed memory, and the losses that train them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from dtqn.choices import cores
from dtqn.networks.attention import AdaptiveSpan
from dtqn.networks.compression import Compression
from dtqn.networks.gtrxl import GTrXL, GTrXLMemory
from tests.cases import make, randomise
from tests.learning.batches import Shape, make_batch
from tests.networks import modules
from tests.networks.modules import assert_close, assert_same_gradients, gradients_of, random
from tests.networks.parameters import layer_parameters
from tests.reference.compressive_twin import compressive, reconstruction_loss
from tests.reference.gtrxl_twin import gtrxl
from tests.training.test_parity import draw, error, play

WIDTH, LAYERS, HEADS, BATCH = 8, 2, 2, 3


def core_of(memory_length: int, norm: str, **options: Any) -> GTrXL:
    torch.manual_seed(0)
    core = modules.gtrxl(memory_length=memory_length, norm=norm, **options)
    randomise(core.double())
    return core


def compression(reach: int, slots: int, rate: int) -> Compression:
    return Compression(width=WIDTH, memory_length=reach, num_slots=slots, rate=rate)


def state_and_rows(core: GTrXL, fill: list[int], steps: list[int]) -> tuple[Any, list[list[Tensor]]]:
    """A state with so many real timesteps, after so many steps of its episode; and these timesteps."""
    window = core.window
    memory = random(BATCH, window, LAYERS, WIDTH, seed=2)
    valid = torch.arange(window) >= window - torch.tensor(fill)[:, None]
    timesteps = [[memory[b, window - n + i] for i in range(n)] for b, n in enumerate(fill)]
    return core.state_from_memory(GTrXLMemory(memory), valid, torch.tensor(steps)), timesteps


def set_spans(core: GTrXL, shares: list[list[float]]) -> None:
    with torch.no_grad():
        for layer, of_layer in zip(core.layers, shares, strict=True):
            layer.attention.span.share.copy_(torch.tensor(of_layer))


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("shares", [[[0.13, 0.9], [0.31, 0.02]], [[1.2, 0.45], [0.0, 1.0]]], ids=str)
def test_span_twin(norm: str, shares: list[list[float]]) -> None:
    core = core_of(6, norm, span_ramp=2)
    set_spans(core, shares)
    features, weights = random(2, BATCH, 4, WIDTH, seed=1)
    features.requires_grad_()
    state, timesteps = state_and_rows(core, [6, 2, 0], [6, 2, 0])
    output, _, stored = core(features, state)
    parameters = [layer_parameters("gru", layer) for layer in core.layers]
    expected, expected_trace = gtrxl(features, timesteps, parameters, HEADS, 6, norm, "gru")
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-9)
    torch.testing.assert_close(stored.memory, expected_trace, rtol=0, atol=1e-9)
    mine, twin = (gradients_of((x * weights).sum(), core, features) for x in (output, expected))
    if 0.0 in shares[1]:  # there the masks have corners, where either side's slope will do
        mine.pop("layers.1.attention.span.share")
    else:
        assert all(mine[f"layers.{i}.attention.span.share"].abs().min() > 0 for i in range(LAYERS - 1))
    assert_close(mine, twin)


def test_spans_begin_as_plain_attention() -> None:
    torch.manual_seed(0)
    spans = modules.gtrxl(memory_length=6, span_ramp=2).double()
    plain = modules.gtrxl(memory_length=6).double()
    plain.load_state_dict({name: x for name, x in spans.state_dict().items() if "span" not in name})
    features = random(BATCH, 9, WIDTH, seed=1)
    outputs = [core(features, core.initial_state(BATCH))[0] for core in (spans, plain)]
    torch.testing.assert_close(*outputs, rtol=0, atol=1e-12)


def test_a_span_below_zero_is_zero_and_can_grow_again() -> None:
    """Its head sees R - 1 steps back, and the gradient is that of a span of zero."""
    core = core_of(6, "pre", span_ramp=3)
    features = random(BATCH, 9, WIDTH, seed=1)
    results = []
    for share in (0.0, -0.4):
        set_spans(core, [[share, 0.5], [0.5, 0.5]])
        output = core(features, core.initial_state(BATCH))[0]
        slope = gradients_of(output.square().sum(), core)["layers.0.attention.span.share"]
        results.append((output, slope))
    torch.testing.assert_close(results[0], results[1], rtol=1e-9, atol=1e-12)
    assert results[1][1][0].abs() > 1e-3


def test_span_penalty() -> None:
    """The mean length in steps; its slope is M over the number of heads, and none below zero."""
    network = make("box", adaptive_span=True, memory_length=6)
    set_spans(network.core, [[0.5, -0.1], [1.0, 0.25]])
    loss = network.auxiliary(network, make_batch(network, "box"), torch.Generator())
    assert loss.item() == pytest.approx(6 * (0.5 + 1.0 + 0.25) / 4)
    slopes = gradients_of(loss, network)
    assert slopes.pop("core.layers.0.attention.span.share").tolist() == [1.5, 0]
    assert slopes.pop("core.layers.1.attention.span.share").tolist() == [1.5, 1.5]
    assert all(slope.abs().max() == 0 for slope in slopes.values())


GEOMETRIES = [
    # M, C, c, steps of the call, real timesteps of each memory, episode steps before the call
    (3, 2, 2, 9, [7, 4, 0], [9, 4, 0]),
    (3, 2, 3, 5, [9, 9, 5], [10, 11, 5]),
    (4, 1, 4, 1, [8, 8, 6], [12, 15, 6]),
    (3, 3, 2, 4, [0, 3, 9], [5, 6, 13]),  # timesteps that were not stored, or are not handed in
]


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_compressive_twin(geometry: tuple[Any, ...], norm: str) -> None:
    reach, slots, rate, steps, fill, starts = geometry
    core = core_of(reach, norm, compression=compression(reach, slots, rate))
    features, weights = random(2, BATCH, steps, WIDTH, seed=1)
    features.requires_grad_()
    state, timesteps = state_and_rows(core, fill, starts)
    output, _, stored = core(features, state)
    parameters = [layer_parameters("gru", layer) for layer in core.layers]
    settings = (parameters, HEADS, reach, slots, rate, norm)
    expected, expected_trace = compressive(features, timesteps, starts, *settings, "gru")
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-9)
    torch.testing.assert_close(stored.memory, expected_trace, rtol=0, atol=1e-9)
    assert_same_gradients(core, (output * weights).sum(), (expected * weights).sum(), features)
    plain = gtrxl(features, [r[-reach:] for r in timesteps], parameters, HEADS, reach, norm, "gru")[0]
    assert (plain - output).abs().amax() > 1e-3  # some query sees compressed memory

    real = torch.arange(steps) < torch.tensor([steps, max(1, steps - 2), steps])[:, None]
    loss = core.reconstruction_loss(state, stored.memory, real)
    traces = [stored.memory[b, : int(real[b].sum())] for b in range(BATCH)]
    expected_loss = reconstruction_loss(traces, timesteps, starts, *settings)
    assert loss > 1e-3
    torch.testing.assert_close(loss, expected_loss, rtol=1e-9, atol=1e-12)
    mine, twin = (gradients_of(x, core, features) for x in (loss, expected_loss))
    assert_close(mine, twin)
    for name, slope in mine.items():
        assert (slope.abs().max() > 0) == ("compressor" in name)


def test_a_compressor_begins_as_the_mean() -> None:
    core = modules.gtrxl(num_layers=1, memory_length=3, compression=compression(3, 2, 2)).double()
    timesteps = random(4, 2, WIDTH, seed=1)
    torch.testing.assert_close(core.layers[0].compressor(timesteps.flatten(1)), timesteps.mean(dim=1))


def test_where_nothing_is_compressed_the_loss_is_zero() -> None:
    network = make("box", compressed_slots=2)
    batch = make_batch(network, "box", (Shape(0, 0, 4), Shape(0, 2, 3)))
    loss = network.auxiliary(network, batch, torch.Generator())
    assert loss.item() == 0
    assert all(slope.abs().max() == 0 for slope in gradients_of(loss, network).values())


def test_the_reconstruction_loss_is_of_the_learners_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the starting state of each sequence, at its real timesteps; junk in the padding changes
    nothing."""
    monkeypatch.setattr(cores, "COMPRESSION_RATE", 3)
    network = make("box", compressed_slots=2)
    shapes = (Shape(9, 3, 7), Shape(0, 0, 7), Shape(11, 2, 2), Shape(4, 3, 5))
    values = []
    for junk in (None, 1e30):
        batch = make_batch(network, "box", shapes, junk=junk)
        values.append(network.auxiliary(network, batch, torch.Generator()).item())
    state, _ = network.starting_state(batch)
    _, _, stored = network(batch.learn, state)
    parameters = [layer_parameters("gru", layer) for layer in network.core.layers]
    starts = (batch.episode_step + batch.burn_in_timesteps).tolist()
    timesteps = [list(state.memory[b, state.memory.shape[1] - int(n) :]) for b, n in enumerate(state.filled)]
    traces = [stored.memory[b, : shape.learn] for b, shape in enumerate(shapes)]
    twin = reconstruction_loss(traces, timesteps, starts, parameters, HEADS, 5, 2, 3, "pre")
    assert values[0] == pytest.approx(twin.item(), rel=1e-9)
    assert values[1] == pytest.approx(values[0], rel=1e-9)


@pytest.mark.parametrize(
    "rate, settings",
    [
        (3, {"compressed_slots": 2}),
        (2, {"compressed_slots": 3, "memory_length": 3, "keeps_keys": True}),
        (4, {"compressed_slots": 1, "replay": {"burn_in_length": 0}}),
        (3, {"compressed_slots": 2, "replay": {"burn_in_length": 8, "sequence_period": 1}}),
        (0, {"adaptive_span": True}),
        (0, {"adaptive_span": True, "keeps_keys": True}),
    ],
    ids=str,
)
def test_parity(rate: int, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The learner's path returns the Q-values that the actor saw."""
    monkeypatch.setattr(cores, "COMPRESSION_RATE", rate)
    played = play(monkeypatch, **settings)
    network = played.trainer.config.network.core
    assert played.trainer.network.core.window == network.memory_window
    batch, info = draw(played)
    held = batch.memory_valid.sum(dim=1)
    assert (held == network.memory_window).any() and ((held > 0) & (held < network.memory_window)).any()
    assert error(played, batch, info) < 1e-9
    if network.compressed_slots:
        shifted = batch._replace(episode_step=batch.episode_step + 1)
        assert error(played, shifted, info) > 1e-3


def test_distances_are_whole_beside_a_core_in_bfloat16() -> None:
    """A type that has no odd numbers above 256."""
    span = AdaptiveSpan(num_heads=1, memory_length=600, ramp=8)
    span.share.data.fill_(0.5)
    exact = span.log_mask(601).exp()
    rounded = span.to(torch.bfloat16).log_mask(601)
    assert rounded.dtype == torch.bfloat16
    torch.testing.assert_close(rounded.float().exp(), exact, rtol=0, atol=0.02)
