"""DTQN's decoder against its twin, and which window each Q-value of the learner comes from."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dtqn import networks
from dtqn.networks.decoder import TransformerDecoder
from dtqn.networks.windowed_q_network import WindowedQNetwork
from dtqn.settings.config import Config
from dtqn.types import Sequences, StepInputs, leaves, map_tree
from tests.cases import config_from, network_config, randomise
from tests.learning.batches import Shape, make_batch
from tests.networks import modules
from tests.networks.modules import GATES, Observe, Show, assert_same_gradients, gradients_of, random, shown
from tests.networks.parameters import decoder_parameters
from tests.reference.dtqn_twin import acting, decoder
from tests.reference.gtrxl_twin import layer_norm

WIDTH, HEADS, K, BATCH = 8, 2, 4, 2


def around(core: TransformerDecoder) -> WindowedQNetwork:
    space = gymnasium.spaces.Box(-1, 1, (WIDTH,), np.float64)
    return WindowedQNetwork(
        encoder=Observe(), decoder=randomise(core.double()), head=Show(), observation_space=space
    )


def bare(gate: str, norm: str, positions: str) -> WindowedQNetwork:
    """A network that is its decoder alone: features in, features out."""
    torch.manual_seed(0)
    return around(modules.decoder(num_layers=2, positions=positions, gate=gate, norm=norm))


def settings_of(network: WindowedQNetwork, gate: str, norm: str, positions: str) -> tuple[Any, ...]:
    table = network.decoder.positions if positions == "learned" else positions
    layers = [decoder_parameters(gate, layer) for layer in network.decoder.layers]
    return layers, HEADS, table, norm, gate


TABLE = [(gate, norm, "learned") for gate in GATES for norm in ("pre", "post")] + [
    ("residual", "post", "sinusoidal"),
    ("residual", "post", "none"),
    ("residual", "none", "learned"),
]


@pytest.mark.parametrize("gate, norm, positions", TABLE)
@pytest.mark.parametrize("steps", [1, K, 7])
def test_twin(gate: str, norm: str, positions: str, steps: int) -> None:
    """The acting function from an episode's start, before and after its window slides."""
    network = bare(gate, norm, positions)
    features, weights = random(2, BATCH, steps, WIDTH, seed=1)
    features.requires_grad_()
    q = network(shown(features), network.initial_state(BATCH))[0].q
    settings = settings_of(network, gate, norm, positions)
    expected = torch.stack([acting(x, K, *settings) for x in features])
    torch.testing.assert_close(q, expected, rtol=0, atol=1e-9)
    assert_same_gradients(network, (q * weights).sum(), (expected * weights).sum(), features)


@pytest.mark.parametrize("gate, norm, positions", TABLE)
def test_twin_of_one_window(gate: str, norm: str, positions: str) -> None:
    """Every position of a window in one pass: intermediate Q-value prediction."""
    network = bare(gate, norm, positions)
    features, weights = random(2, BATCH, K, WIDTH, seed=1)
    features.requires_grad_()
    q = network.window(shown(features)).q
    settings = settings_of(network, gate, norm, positions)
    expected = torch.stack([decoder(x, *settings) for x in features])
    torch.testing.assert_close(q, expected, rtol=0, atol=1e-9)
    assert_same_gradients(network, (q * weights).sum(), (expected * weights).sum(), features)


@pytest.mark.parametrize("gate", ["gru", "output"])
def test_twin_with_shared_gates_and_a_norm_at_the_end(gate: str) -> None:
    """The twin is given one pair of gates for both layers; their gradient is that of all their uses."""
    torch.manual_seed(0)
    core = modules.decoder(gate=gate, share_gates=True, final_norm=True)
    network = around(core)
    separate = modules.decoder(gate=gate)
    of_gates = sum(p.numel() for p in separate.layers[0].attention_gate.parameters())
    size = sum(p.numel() for p in separate.parameters())
    assert sum(p.numel() for p in core.parameters()) == size - 2 * of_gates + 2 * WIDTH
    features, weights = random(2, BATCH, 7, WIDTH, seed=1)
    features.requires_grad_()
    q = network(shown(features), network.initial_state(BATCH))[0].q
    first, second = settings_of(network, gate, "post", "learned")[0]
    shared = [first, second | {"gate_1": first["gate_1"], "gate_2": first["gate_2"]}]
    table, norm = core.positions, dict(core.final_norm.named_parameters())
    expected = torch.stack(
        [
            torch.stack([layer_norm(step, norm) for step in acting(x, K, shared, HEADS, table, "post", gate)])
            for x in features
        ]
    )
    torch.testing.assert_close(q, expected, rtol=0, atol=1e-9)
    assert_same_gradients(network, (q * weights).sum(), (expected * weights).sum(), features)
    copied = copy.deepcopy(core)
    assert copied.layers[0].mlp_gate is copied.layers[1].mlp_gate is not core.layers[0].mlp_gate


def test_every_parameter_has_a_gradient() -> None:
    """Else the comparisons above would say nothing of it."""
    network = bare("gru", "pre", "learned")
    features = torch.randn(BATCH, 7, WIDTH, dtype=torch.float64)
    loss = network(shown(features), network.initial_state(BATCH))[0].q.square().sum()
    assert all(gradient.any() for gradient in gradients_of(loss, network).values())


# Real timesteps of context and learned segment. K is 4, learn_length 2, so context is 2; the tail has n = 3.
LEARN_LENGTH, N_STEP = 2, 3
SHAPES = (
    Shape(0, 2, 5),  # steps 0..6: the second window is steps 3..6, "n steps later"
    Shape(0, 0, 5),  # an episode's start; steps 0..4: the second is 1..4
    Shape(0, 1, 2, terminated=True),  # all in the first window
    Shape(0, 2, 2),
    Shape(0, 2, 3),  # cut one step beyond the first window
)


def run_of(batch: Sequences, b: int) -> Tensor:
    """[total, D] the real timesteps of sequence b: context, then the learned segment."""
    before, learned = int(batch.burn_in_timesteps[b]), int(batch.learn_timesteps[b])
    return torch.cat([batch.burn_in.observation[b, :before], batch.learn.observation[b, :learned]])


def batch_of(network: nn.Module, junk: float | None = None, shapes: tuple[Shape, ...] = SHAPES) -> Sequences:
    batch = make_batch(network, "box", shapes, 0, junk, LEARN_LENGTH)
    padding = (WIDTH - 3) // 3 + 1

    def widened(given: StepInputs) -> StepInputs:
        wide = torch.cat([given.observation, *[given.observation.cos()] * padding], -1)[..., :WIDTH]
        return given._replace(observation=wide)

    return batch._replace(burn_in=widened(batch.burn_in), learn=widened(batch.learn))


@pytest.mark.parametrize(
    "shapes, num_second",
    [(SHAPES, 3 + 1 + 0 + 0 + 1), ((Shape(0, 2, 2 + K), Shape(0, 0, 1 + K), Shape(0, 2, 2)), K + 1)],
    ids=["n below K", "n is K"],
)
def test_which_window_each_value_comes_from(shapes: tuple[Shape, ...], num_second: int) -> None:
    """Steps 0..3 of a run from its first window, those beyond from the one that ends with it; by the twin."""
    network = bare("residual", "post", "learned").requires_grad_(False)
    settings = settings_of(network, "residual", "post", "learned")
    batch = batch_of(network, shapes=shapes)
    q = network.learn_values(batch)[0].q
    second = []
    for b, shape in enumerate(shapes):
        run = run_of(batch, b)
        first, last = decoder(run[:K], *settings), decoder(run[-K:], *settings)
        for t in range(shape.learn):
            place = shape.burn_in + t
            second.append(place >= K)
            expected = first[place] if place < K else last[place - len(run)]
            torch.testing.assert_close(q[b, t], expected, rtol=0, atol=1e-9)
            if place >= K:  # the other choice would have been seen
                assert t >= LEARN_LENGTH
                assert (acting(run, K, *settings)[place] - q[b, t]).abs().max() > 1e-3 or t == shape.learn - 1
    assert sum(second) == num_second


def test_the_second_window_gives_no_gradient_and_context_does() -> None:
    network = bare("residual", "post", "learned")
    batch = batch_of(network)
    context = batch.burn_in.observation.requires_grad_()
    learn = batch.learn.observation.requires_grad_()
    burn_in, learned = batch.burn_in._replace(observation=context), batch.learn._replace(observation=learn)
    q = network.learn_values(batch._replace(burn_in=burn_in, learn=learned))[0].q
    beyond = torch.autograd.grad(q[0, 2:].sin().sum(), [context, learn], retain_graph=True)
    assert all(not g.any() for g in beyond)
    of_context, of_learn = torch.autograd.grad(q[0, :2].sin().sum(), [context, learn])
    assert (of_context[0] != 0).any(-1).all()
    assert (of_learn[0] != 0).any(-1).tolist() == [True, True, False, False, False]
    assert not of_context[1:].any() and not of_learn[1:].any()


def test_the_second_window_is_skipped_where_no_sequence_reaches_it() -> None:
    network = bare("residual", "post", "learned")
    calls = []
    network.decoder.register_forward_hook(lambda *_: calls.append(1))
    network.learn_values(batch_of(network))
    assert len(calls) == 2
    calls.clear()
    batch = batch_of(network)
    network.learn_values(batch._replace(learn_timesteps=batch.learn_timesteps.clamp(max=2)))
    assert len(calls) == 1


@pytest.mark.parametrize("junk", [1e30, -1e3])
def test_padding_changes_nothing(junk: float) -> None:
    network = bare("residual", "post", "learned").requires_grad_(False)
    real = torch.arange(5) < torch.tensor([shape.learn for shape in SHAPES])[:, None]
    clean, dirty = (network.learn_values(batch_of(network, given))[0].q[real] for given in (None, junk))
    assert torch.equal(clean, dirty)


def test_dtqns_initial_gates() -> None:
    """Deviation 0.02 as everywhere in that code; the bias is `gate_bias`, which is zero there."""
    for bias, expected in ((0.0, 0.0), (None, 2.0)):
        config = network_config(core="dtqn", encoder="dtqn", gate="gru", gate_bias=bias)
        network = networks.build(config, gymnasium.spaces.MultiDiscrete([21] * 6), 6)
        gate = network.decoder.layers[1].mlp_gate
        assert gate.w_rzg.std().item() == pytest.approx(0.02, rel=0.1)
        assert gate.bias.unique().tolist() == [expected]


def test_observations_of_several_parts() -> None:
    """A Dict, its parts of dtypes of their own: step by step is one call, and its context is its state."""
    space = gymnasium.spaces.Dict(
        {
            "code": gymnasium.spaces.MultiDiscrete([3, 4]),
            "numbers": gymnasium.spaces.Box(-1, 1, (2,), np.float32),
        }
    )
    torch.manual_seed(0)
    config = network_config(core="dtqn", width=8, context_length=K, mlp_width=8, head_width=8)
    network = randomise(networks.build(config, space, 3).double()).requires_grad_(False)
    generator = np.random.default_rng(0)
    code = torch.from_numpy(generator.integers([3, 4], size=(2, 7, 2), dtype=np.uint8))
    numbers = torch.from_numpy(generator.random((2, 7, 2), np.float32))
    first = (torch.arange(7) == 0).expand(2, -1)
    action = torch.from_numpy(generator.integers(3, size=(2, 7)))
    inputs = StepInputs({"code": code, "numbers": numbers}, action, torch.zeros(2, 7), first)
    whole, _, _ = network(inputs, network.initial_state(2))
    state = network.initial_state(2)
    shapes = {name: x.shape for name, x in state.rows.observation.items()}
    assert shapes == dict.fromkeys(space, (2, K - 1, 2))
    for t in range(7):
        output, state, _ = network(map_tree(lambda x, t=t: x[:, t : t + 1], inputs), state)
        torch.testing.assert_close(output.q[:, 0], whole.q[:, t], rtol=0, atol=1e-9)
    assert state.rows.observation["code"].dtype == torch.uint8
    context = map_tree(lambda x: x[:, :6], inputs)
    valid, steps = torch.ones(2, 6, dtype=torch.bool), torch.tensor([6, 6])
    state = network.state_from_memory(leaves(context), valid, steps)
    output, _, _ = network(map_tree(lambda x: x[:, 6:], inputs), state)
    torch.testing.assert_close(output.q[:, 0], whole.q[:, 6], rtol=0, atol=1e-9)


def config_with(**replay: int) -> Config:
    return config_from({"network": {"core": "dtqn", "context_length": 20}, "replay": replay})


def test_context_and_learned_steps_make_up_a_window() -> None:
    assert config_with(learn_length=15, burn_in_length=5).network.core.memory_window == 0
    with pytest.raises(
        ValueError, match=r"learn_length is 15 and .* 4, but .*context_length 20.* try 15 and 5"
    ):
        config_with(learn_length=15, burn_in_length=4)
    with pytest.raises(ValueError, match="try 20 and 0"):
        config_with(learn_length=40, burn_in_length=4)
