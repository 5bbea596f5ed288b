"""GTrXL against its twin: outputs, memory, and the gradients of inputs and of every parameter."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dtqn.networks.recurrent_q_network import RecurrentQNetwork
from dtqn.types import length_mask
from tests.cases import make, randomise
from tests.learning.batches import Shape, make_batch
from tests.networks import modules
from tests.networks.modules import GATES, Observe, Show, assert_same_gradients, gradients_of, random, shown
from tests.networks.parameters import layer_parameters
from tests.reference import gtrxl_twin

WIDTH, LAYERS, HEADS, BATCH = 8, 2, 2, 3


def bare(memory_length: int, gate: str, norm: str) -> RecurrentQNetwork:
    """A network that is its core alone: features in, features out."""
    torch.manual_seed(0)
    core = modules.gtrxl(memory_length=memory_length, gate=gate, norm=norm).double()
    return RecurrentQNetwork(encoder=Observe(), core=randomise(core), head=Show(), auxiliary=None)


TABLE = (
    [(4, 6, fill, gate, norm) for gate in GATES for norm in ("pre", "post") for fill in [(4, 1, 0)]]
    + [
        (memory, steps, fill, "gru", norm)
        for memory, steps, fill in [
            (0, 4, (0, 0, 0)),
            (3, 8, (3, 3, 3)),
            (3, 8, (0, 2, 3)),
            (12, 4, (12, 5, 7)),
            (12, 4, (0, 0, 0)),
            (5, 1, (5, 4, 0)),
            (1, 4, (1, 0, 1)),
        ]
        for norm in ("pre", "post")
    ]
    + [(4, 6, (4, 1, 0), "gru", "none")]
)


@pytest.mark.parametrize("memory_length, steps, fill, gate, norm", TABLE)
def test_twin(memory_length: int, steps: int, fill: tuple[int, ...], gate: str, norm: str) -> None:
    network = bare(memory_length, gate, norm)
    features, weights = random(2, BATCH, steps, WIDTH, seed=1)
    features.requires_grad_()
    memory = random(BATCH, memory_length, LAYERS, WIDTH, seed=2)
    valid = torch.arange(memory_length) >= memory_length - torch.tensor(fill)[:, None]

    state = network.state_from_memory({"memory": memory}, valid, torch.tensor(fill))
    output, _, stored = network(shown(features), state)
    expected, expected_memory = gtrxl_twin.gtrxl(
        features,
        [[memory[b, memory_length - n + i] for i in range(n)] for b, n in enumerate(fill)],
        [layer_parameters(gate, layer) for layer in network.core.layers],
        HEADS,
        memory_length,
        norm,
        gate,
    )
    torch.testing.assert_close(output.q, expected, rtol=0, atol=1e-9)
    torch.testing.assert_close(stored.memory, expected_memory, rtol=0, atol=1e-9)
    assert_same_gradients(network, (output.q * weights).sum(), (expected * weights).sum(), features)


def test_every_parameter_has_a_gradient() -> None:
    """Else the comparison above would say nothing of it."""
    network = bare(4, "gru", "pre")
    output, _, _ = network(shown(torch.randn(2, 6, WIDTH, dtype=torch.float64)), network.initial_state(2))
    assert all(gradient.any() for gradient in gradients_of(output.q.square().sum(), network).values())


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_gradient_does_not_enter_the_state_but_its_projections_learn(norm: str) -> None:
    """d/dw of the output with the raw memory held fixed, against central differences."""
    network = bare(4, "gru", norm)
    memory, features = random(2, 4, LAYERS, WIDTH, seed=2).requires_grad_(), random(2, 3, WIDTH, seed=3)

    def loss() -> Tensor:
        valid, before = torch.ones(2, 4, dtype=torch.bool), torch.full((2,), 4)
        state = network.state_from_memory({"memory": memory}, valid, before)
        return network(shown(features), state)[0].q.sin().sum()

    attention = network.core.layers[0].attention
    wanted = [attention.qkv.weight, network.core.layers[0].attention_norm.weight]
    into_memory, *gradients = torch.autograd.grad(loss(), [memory, *wanted], allow_unused=True)
    assert into_memory is None
    for parameter, gradient in zip(wanted, gradients, strict=True):
        direction = random(*parameter.shape, seed=4)
        with torch.no_grad():
            parameter += 1e-5 * direction
            above = loss()
            parameter -= 2e-5 * direction
            below = loss()
            parameter += 1e-5 * direction
        torch.testing.assert_close((gradient * direction).sum(), (above - below) / 2e-5, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("memory_length", [0, 3, 5, 9])
@pytest.mark.parametrize("num_layers", [1, 2])
def test_packed_timesteps_are_padded_ones(memory_length: int, norm: str, num_layers: int) -> None:
    """Values, memory and gradients, with sequences that begin their episodes and junk as padding."""
    network = make("box", core="gtrxl", memory_length=memory_length, norm=norm, num_layers=num_layers)
    begins = (Shape(0, 0, 7), Shape(0, 2, 3), Shape(0, 3, 5), Shape(0, 0, 1))
    goes_on = (Shape(5, 3, 7), Shape(2, 3, 2), Shape(5, 1, 4), Shape(3, 0, 6))
    for shapes in (begins + goes_on, begins, goes_on, (Shape(4, 0, 5), Shape(0, 0, 2)), (Shape(9, 3, 2),)):
        batch = make_batch(network, "box", shapes, junk=1e9)
        learned = length_mask(batch.learn_timesteps, batch.learn.first.shape[1])
        burned = length_mask(batch.burn_in_timesteps, batch.burn_in.first.shape[1])
        found = []
        for network.core.packs in (True, False):
            output, memory = network.learn_values(batch, want_memory=True)
            assert not any(x.requires_grad for x in memory.values())
            loss = output.q[learned].sin().sum()
            left = (x[torch.cat([burned, learned], dim=1)] for x in memory.values())
            gradients = torch.autograd.grad(loss, list(network.parameters()), materialize_grads=True)
            found.append([output.q[learned], *left, *gradients])
        for one, two in zip(*found, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-10)
