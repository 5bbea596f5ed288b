"""CoBERL against its twin: core and contrastive loss, values and gradients; the loss in the learner."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from dtqn.learning.learner import Learner
from dtqn.networks.auxiliary import TEMPERATURE, real_timesteps
from dtqn.networks.coberl import CoBERL, CoBERLMemory
from dtqn.networks.gates import make_gate
from dtqn.networks.gtrxl import GTrXLMemory
from dtqn.networks.stack import HiddenAndCell
from dtqn.settings.config import ConfigError, LearnerConfig
from dtqn.settings.presets import resolve
from tests.cases import config_from, make, randomise
from tests.learning.batches import Shape, make_batch
from tests.learning.learners import make_learner
from tests.networks.modules import assert_same_gradients, gtrxl, lstm_layer, random
from tests.networks.parameters import gate_parameters, layer_parameters, lstm_parameters
from tests.reference.coberl_twin import coberl, contrastive_loss
from tests.training.test_parity import assert_every_kind_is_there, draw, error, play

WIDTH, LAYERS, HEADS, BATCH, STEPS = 8, 2, 2, 3, 5
SHAPES = (Shape(5, 3, 5), Shape(0, 0, 7), Shape(2, 3, 2, terminated=True), Shape(0, 0, 1))


@pytest.mark.parametrize(
    "memory_length, gate, norm", [(3, "gru", "pre"), (0, "output", "pre"), (3, "highway", "post")]
)
def test_twin(memory_length: int, gate: str, norm: str) -> None:
    """From partly filled memories and an LSTM in the middle of an episode, and at one's start."""
    torch.manual_seed(0)
    core = CoBERL(
        transformer=gtrxl(memory_length=memory_length, gate=gate, norm=norm),
        gate=make_gate(gate, width=WIDTH, bias=None),
        lstm=lstm_layer(WIDTH),
    )
    randomise(core.double())
    features, weights = random(2, BATCH, STEPS, WIDTH, seed=1)
    features.requires_grad_()
    window = max(1, memory_length)
    fill = [window, 1, 0]
    held = random(BATCH, window, LAYERS, WIDTH, seed=2)
    hidden, cell = random(2, BATCH, window, 1, WIDTH, seed=3)
    memory = CoBERLMemory(GTrXLMemory(held), HiddenAndCell(hidden, cell))
    valid = torch.arange(window) >= window - torch.tensor(fill)[:, None]
    state = core.state_from_memory(memory, valid, torch.tensor(fill))
    output, _, stored = core(features, state)
    settings = (
        [layer_parameters(gate, layer) for layer in core.transformer.layers],
        gate_parameters(gate, core.gate),
        lstm_parameters(core.recurrent.layers[0].lstm),
        HEADS,
        memory_length,
        norm,
        gate,
    )
    expected = []
    for b, n in enumerate(fill):
        before = [held[b, window - i] for i in range(min(n, memory_length), 0, -1)]
        h, c = (x[b, -1, 0] if n else torch.zeros_like(x[b, -1, 0]) for x in (hidden, cell))
        expected.append(coberl(features[b], before, h, c, *settings))
    outputs, memories, hiddens, cells = (torch.stack(x) for x in zip(*expected, strict=True))
    kept = stored.transformer.memory, stored.recurrent.hidden[:, :, 0], stored.recurrent.cell[:, :, 0]
    left = zip(kept, (memories, hiddens, cells), strict=True)
    for mine, twin in ((output, outputs), *left):
        torch.testing.assert_close(mine, twin, rtol=0, atol=1e-9)
    assert_same_gradients(core, (output * weights).sum(), (outputs * weights).sum(), features)


def network_of(**settings: Any) -> nn.Module:
    return make("box", core="coberl", **settings)


@pytest.mark.parametrize(
    "settings",
    [{}, {"norm": "post", "gate": "output"}, {"memory_length": 0, "num_layers": 1}],
    ids=str,
)
def test_contrastive_loss(settings: dict[str, Any]) -> None:
    """Sequences of 5, 7, 2 and 1 real timesteps, some of them without a hidden one, as the twin has them."""
    network = network_of(**settings)
    loss = network.auxiliary
    batch = make_batch(network, "box", SHAPES)
    real = real_timesteps(batch)
    hidden = {(0, 1), (0, 4), (1, 0), (1, 3), (1, 6), (3, 0)}
    masked = torch.tensor([[(b, t) in hidden for t in range(7)] for b in range(4)])
    y = network.encoder(batch.learn)
    mine = loss.of_features(network, y, real, masked)
    gate, norm = settings.get("gate", "gru"), settings.get("norm", "pre")
    twin = contrastive_loss(
        [list(y[b, : shape.learn]) for b, shape in enumerate(SHAPES)],
        [masked[b, : shape.learn].tolist() for b, shape in enumerate(SHAPES)],
        loss.critic.weight,
        TEMPERATURE,
        [layer_parameters(gate, layer) for layer in network.core.transformer.layers],
        HEADS,
        norm,
        gate,
    )
    torch.testing.assert_close(mine, twin, rtol=1e-9, atol=1e-9)
    assert_same_gradients(network, mine, twin)


def test_what_is_hidden_is_drawn_anew_from_the_generator() -> None:
    network = network_of()
    batch = make_batch(network, "box", SHAPES * 40)
    real, y = real_timesteps(batch), network.encoder(batch.learn)
    values = []
    for seed in (1, 1, 2):
        value = network.auxiliary(network, batch, torch.Generator().manual_seed(seed))
        masked = real & (torch.rand(real.shape, generator=torch.Generator().manual_seed(seed)) < 0.15)
        assert 0.1 < masked[real].float().mean() < 0.2
        torch.testing.assert_close(value, network.auxiliary.of_features(network, y, real, masked))
        values.append(value.item())
    assert values[0] == values[1] != values[2]


def test_junk_in_the_padding_changes_nothing() -> None:
    network = network_of()
    results = []
    for junk in (None, 1e30):
        loss = network.auxiliary(
            network, make_batch(network, "box", SHAPES, junk=junk), torch.Generator().manual_seed(1)
        )
        gradients = torch.autograd.grad(loss, list(network.parameters()), materialize_grads=True)
        results.append([loss, *gradients])
    assert results[0][0] > 0
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def updated(weight: float, parts: int = 1, seed: int = 5) -> tuple[Learner, dict[str, float]]:
    """A learner after two updates, and the metrics of the second."""
    config = LearnerConfig(auxiliary_weight=weight, max_grad_norm=1e9)
    learner = make_learner(network_of(), config, parts=parts, seed=seed)
    for number in (1, 2):
        metrics = learner.update(make_batch(learner.online, "box", seed=number)).metrics
    return learner, metrics


def test_the_learner_adds_it() -> None:
    """Its gradient, weighed, to that of the TD errors; its value to the metrics."""
    weight = 0.3
    learner = make_learner(network_of(), LearnerConfig(auxiliary_weight=weight, max_grad_norm=1e9), seed=5)
    plain = make_learner(network_of(), LearnerConfig(max_grad_norm=1e9), seed=5)
    batch = make_batch(learner.online, "box")
    loss = plain.online.auxiliary(plain.online, batch, plain._generator(torch.device("cpu")))
    added = torch.autograd.grad(loss, list(plain.online.parameters()), materialize_grads=True)
    metrics, others = learner.update(batch).metrics, plain.update(batch).metrics
    assert metrics["learner/auxiliary_loss"] == pytest.approx(loss.item(), rel=1e-9)
    assert others == {name: others[name] for name in metrics if name != "learner/auxiliary_loss"}
    assert metrics["learner/loss"] == pytest.approx(others["learner/loss"], rel=1e-9)
    for mine, other, extra in zip(learner.online.parameters(), plain.online.parameters(), added, strict=True):
        torch.testing.assert_close(mine.grad, other.grad + weight * extra, rtol=1e-9, atol=1e-9)


def test_it_does_not_hang_on_the_parts_of_a_batch() -> None:
    one, metrics = updated(0.3)
    other, others = updated(0.3, parts=2)
    assert others["learner/auxiliary_loss"] == pytest.approx(metrics["learner/auxiliary_loss"], rel=1e-9)
    assert updated(0.3, seed=6)[1]["learner/auxiliary_loss"] != pytest.approx(
        metrics["learner/auxiliary_loss"], rel=1e-3
    )
    for mine, its in zip(one.online.parameters(), other.online.parameters(), strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-7, atol=1e-7)


def test_a_weight_without_a_loss_is_refused() -> None:
    with pytest.raises(
        ConfigError,
        match=r"learner.auxiliary_weight is 0.1.*gru.*no auxiliary loss with these settings; try 0",
    ):
        resolve(None, {"agent": "gru", "learner.auxiliary_weight": "0.1"}, {})
    assert config_from({"network": {"core": "coberl"}, "learner": {"auxiliary_weight": 0.1}})


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"memory_length": 0},
        {"keeps_keys": True},
        {"replay": {"burn_in_length": 7}, "memory_length": 4},
    ],
    ids=str,
)
def test_parity(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The learner's path returns the Q-values that the actor saw."""
    played = play(monkeypatch, core="coberl", **settings)
    assert (played.trainer.actor.state.transformer.keys is not None) == ("keeps_keys" in settings)
    batch, info = draw(played)
    if settings.get("memory_length", 5):
        assert_every_kind_is_there(played, batch, info)
    assert error(played, batch, info) < 1e-9
    cell = {"recurrent/cell": batch.memory["recurrent/cell"].roll(1, 0)}
    broken = batch._replace(memory=batch.memory | cell)
    assert error(played, broken, info) > 1e-6
