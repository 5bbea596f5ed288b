"""Recurrent cores against their twins, the scan against a loop, initial values, actor and learner in one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dtqn import networks
from dtqn.networks import builder
from dtqn.networks.darqn import AttentiveLSTMLayer, FeatureMap, PartsEncoder
from dtqn.networks.deltanet import GatedDeltaNetLayer
from dtqn.networks.dtqn_encoder import DTQNEncoder
from dtqn.networks.images import MiniGridCNN
from dtqn.networks.linear_recurrences import R_MAX, R_MIN, LRULayer, MinGRULayer, linear_scan
from dtqn.networks.rnn import GRULayer
from dtqn.networks.stack import Hidden, HiddenAndCell, RecurrentStack
from dtqn.settings import layers, presets
from dtqn.settings.config import Config, NetworkConfig
from dtqn.types import StepInputs
from tests import reference
from tests.cases import OURS, REGISTERED, SPACES, inputs, network_config, randomise
from tests.networks.modules import assert_close, gradients_of, gru_layer, lstm_layer, random
from tests.networks.parameters import block_parameters, lstm_parameters
from tests.reference.darqn_twin import darqn
from tests.reference.deltanet_twin import deltanet
from tests.reference.gru_twin import gru
from tests.reference.lru_twin import lru
from tests.reference.lstm_twin import lstm
from tests.reference.mingru_twin import mingru
from tests.training.test_parity import Played, draw, error, play

WIDTH, BATCH, STEPS = 6, 3, 7


def gru_parameters(layer: GRULayer) -> dict[str, Tensor]:
    p = dict(layer.gru.named_parameters())
    w, u, b, c = (p[name].chunk(3) for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"))
    named = {f"{n}_{gate}": x[i] for n, x in (("W", w), ("U", u)) for i, gate in enumerate("rzn")}
    return named | {"b_r": b[0] + c[0], "b_z": b[1] + c[1], "b_n": b[2], "c_n": c[2]}


def mingru_parameters(layer: MinGRULayer) -> dict[str, Any]:
    (w_z, w_h), (b_z, b_h) = layer.gate_and_candidate.weight.chunk(2), layer.gate_and_candidate.bias.chunk(2)
    return {
        "W_z": w_z, "b_z": b_z, "W_h": w_h, "b_h": b_h,
        **block_parameters(layer, layer.norm),
    }  # fmt: skip


def lru_parameters(layer: LRULayer) -> dict[str, Any]:
    (b_re, b_im), (c_re, minus_c_im) = layer.b.chunk(2), layer.c.chunk(2, dim=1)
    (w_v, w_g), (b_v, b_g) = layer.glu.weight.chunk(2), layer.glu.bias.chunk(2)
    return {
        "nu": layer.nu, "theta": layer.theta, "log_gamma": layer.log_gamma, "d": layer.d,
        "B_re": b_re, "B_im": b_im, "C_re": c_re, "C_im": -minus_c_im,
        "W_v": w_v, "b_v": b_v, "W_g": w_g, "b_g": b_g, "norm": dict(layer.norm.named_parameters()),
    }  # fmt: skip


def deltanet_parameters(layer: GatedDeltaNetLayer) -> dict[str, Any]:
    width, count = layer.out.weight.shape[0], layer.num_heads
    *vectors, w_b, w_a = layer.join.weight.split([width] * 4 + [count] * 2)
    heads = zip(*(x.chunk(count) for x in vectors), w_b, w_a, layer.log_rate, layer.decay_bias, strict=True)
    names = ("W_q", "W_k", "W_v", "W_g", "w_b", "w_a", "a", "b")
    return {
        "heads": [{"scale": layer.output_norm} | dict(zip(names, head, strict=True)) for head in heads],
        "W_o": layer.out.weight,
        **block_parameters(layer, layer.norm),
    }


def attention_parameters(layer: AttentiveLSTMLayer) -> dict[str, Tensor]:
    return lstm_parameters(layer.lstm, "") | {
        "a": layer.score.weight[0], "W_v": layer.of_part.weight, "b": layer.of_part.bias,
        "W_h": layer.of_hidden.weight,
    }  # fmt: skip


LAYERS: dict[str, tuple[Callable[[bool], nn.Module], type, tuple[int, ...]]] = {
    "lstm": (lambda skip: lstm_layer(WIDTH, skip), HiddenAndCell, (WIDTH,)),
    "gru": (lambda skip: gru_layer(WIDTH, skip), Hidden, (WIDTH,)),
    "mingru": (lambda _: MinGRULayer(width=WIDTH, mlp_width=9, longest=None), Hidden, (WIDTH,)),
    "lru": (lambda _: LRULayer(WIDTH), Hidden, (2, WIDTH)),
    "deltanet": (
        lambda _: GatedDeltaNetLayer(width=WIDTH, num_heads=2, mlp_width=9, longest=None),
        Hidden,
        (2, WIDTH // 2, WIDTH // 2),
    ),
    "attention": (
        lambda _: AttentiveLSTMLayer(width=WIDTH, longest=None, orthogonal=False),
        HiddenAndCell,
        (WIDTH,),
    ),
}
"""A layer, with or without skip connections; the state of a stack of them, and the shape of its fields."""
TWINS: dict[str, Callable[[RecurrentStack, Tensor, Any, bool], tuple[Tensor, ...]]] = {
    "lstm": lambda core, x, s, skip: lstm(
        x, s.hidden, s.cell, [lstm_parameters(layer.lstm) for layer in core.layers], skip
    ),
    "gru": lambda core, x, s, skip: gru(x, s.hidden, [gru_parameters(layer) for layer in core.layers], skip),
    "mingru": lambda core, x, s, _: mingru(x, s.hidden, [mingru_parameters(layer) for layer in core.layers]),
    "lru": lambda core, x, s, _: lru(x, s.hidden, [lru_parameters(layer) for layer in core.layers]),
    "deltanet": lambda core, x, s, _: deltanet(
        x, s.hidden, [deltanet_parameters(layer) for layer in core.layers]
    ),
    "attention": lambda core, x, s, _: tuple(
        y if i == 0 else y[:, None]
        for i, y in enumerate(darqn(x, s.hidden[0], s.cell[0], attention_parameters(core.layers[0])))
    ),
}
TABLE = [
    (name, depth, skip, steps)
    for name, depth, skip in [
        ("lstm", 1, False),
        ("lstm", 3, True),
        ("gru", 1, False),
        ("gru", 2, True),
        ("mingru", 2, False),
        ("lru", 2, False),
        ("deltanet", 2, False),
        ("attention", 1, False),
    ]
    for steps in (1, STEPS)
]


def test_every_core_has_a_twin() -> None:
    """In a file of its own; those that are stacks of layers are held to theirs here."""
    twins = {path.stem.removesuffix("_twin") for path in Path(reference.__path__[0]).glob("*_twin.py")}
    assert set(OURS) - twins == {"none"}
    made = {name: builder.make_core(network_config(**core)) for name, core in REGISTERED.items()}
    stacks = {name for name, core in made.items() if isinstance(core, RecurrentStack)}
    assert stacks - {"none"} == set(TWINS) - {"attention"} == {name for name, *_ in TABLE} - {"attention"}


def bare(name: str, depth: int, skip: bool) -> RecurrentStack:
    torch.manual_seed(0)
    layer, state, shape = LAYERS[name]
    core = RecurrentStack([layer(skip) for _ in range(depth)], state(*[shape] * len(state._fields)))
    randomise(core.double())
    return core


def features_of(name: str, steps: int) -> Tensor:
    parts = (4,) if name == "attention" else ()
    return random(BATCH, steps, *parts, WIDTH).requires_grad_()


def state_of(core: RecurrentStack) -> Any:
    empty = core.initial_state(BATCH)
    return type(empty)(*(random(*field.shape, seed=5 + i).abs() for i, field in enumerate(empty)))


@pytest.mark.parametrize("name, depth, skip, steps", TABLE)
def test_twin(name: str, depth: int, skip: bool, steps: int) -> None:
    """Outputs, memory, and the gradients of inputs and of every parameter."""
    core, x = bare(name, depth, skip), features_of(name, steps)
    state = state_of(core)
    output, after, memory = core(x, state)
    twins = [TWINS[name](core, x[b], type(state)(*(f[b] for f in state)), skip) for b in range(BATCH)]
    expected, *fields = (torch.stack(parts) for parts in zip(*twins, strict=True))
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-9)
    for last, left, field in zip(after, memory, fields, strict=True):
        torch.testing.assert_close(left, field, rtol=0, atol=1e-9)
        torch.testing.assert_close(last, field[:, -1], rtol=0, atol=1e-9)
    weights = random(*output.shape, seed=3)
    found, wanted = (gradients_of((y * weights).sum(), core, x) for y in (output, expected))
    assert all(gradient.abs().max() > 0 for gradient in found.values())
    assert_close(found, wanted)


@pytest.mark.parametrize("name", LAYERS)
def test_no_gradient_enters_the_state(name: str) -> None:
    core, x = bare(name, 1, False), features_of(name, 4)
    before = type(core.initial_state(1))(*(f.requires_grad_() for f in state_of(core)))
    output, after, _ = core(x, before)
    gradients = torch.autograd.grad(output.sum(), list(before), allow_unused=True)
    assert all(gradient is None for gradient in gradients)
    assert not any(field.requires_grad for field in after)


def loop(a: Tensor, b: Tensor, start: Tensor) -> Tensor:
    h, result = start, []
    for t in range(b.shape[1]):
        h = a[:, t] * h + b[:, t]
        result.append(h)
    return torch.stack(result, dim=1)


def coefficients(steps: int, kind: str) -> tuple[Tensor, Tensor, Tensor]:
    a, b, start = torch.sigmoid(2 * random(2, steps, 3)), random(2, steps, 3, seed=2), random(2, 3, seed=3)
    if kind == "complex":
        a = torch.polar(a[:1] ** 0.1, 3 * random(1, steps, 3, seed=4))  # of the whole batch
        b, start = torch.complex(b, random(2, steps, 3, seed=6)), torch.complex(start, -start)
    return a, b, start


@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize("steps", [1, 2, 3, 4, 5, 9, 43, 130, 2000])
def test_the_scan_is_the_loop(steps: int, kind: str) -> None:
    a, b, start = (x.requires_grad_() for x in coefficients(steps, kind))
    weights = random(*b.shape, seed=7)
    found, wanted = linear_scan(a, b, start), loop(a.expand_as(b), b, start)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-9)

    def gradients(h: Tensor) -> tuple[Tensor, ...]:
        parts = torch.view_as_real(h) if h.is_complex() else h[..., None]
        return torch.autograd.grad((parts * weights[..., None]).sin().sum(), [a, b, start])

    for one, other in zip(gradients(found), gradients(wanted), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("keep", [0.0, 1e-30, 0.5, 1 - 2**-24, 1.0])
def test_the_scan_is_stable_in_float32(keep: float) -> None:
    """2000 steps of what forgets at once and of what never forgets, against the loop in float64."""
    b = random(2, 2000, 3)
    a, start = torch.full_like(b, keep), torch.full((2, 3), 1e4, dtype=torch.float64)
    found = linear_scan(a.float(), b.float(), start.float())
    assert found.isfinite().all()
    torch.testing.assert_close(found.double(), loop(a.float().double(), b, start), rtol=1e-5, atol=1e-3)
    large = linear_scan(a.float(), torch.full_like(b, 1e30).float(), start.float())
    assert large.isfinite().all()
    parts = [x.float().requires_grad_() for x in (a, b)]
    linear_scan(*parts, start.float()).sum().backward()
    assert all(part.grad is not None and part.grad.isfinite().all() for part in parts)


def test_an_lru_forgets_whatever_its_parameters() -> None:
    layer = LRULayer(64)
    with torch.no_grad():
        layer.nu.copy_(torch.linspace(-12, 5, 64))
        layer.theta.copy_(torch.linspace(-20, 6, 64))
    assert (layer.eigenvalues().abs() < 1).all()


def test_initial_values() -> None:
    torch.manual_seed(0)
    width = 1024
    layer = LRULayer(width)
    size = layer.eigenvalues().abs()
    assert R_MIN - 1e-6 <= size.min() < R_MIN + 0.002 and R_MAX - 0.002 < size.max() <= R_MAX + 1e-6
    area = (size.square() - R_MIN**2) / (R_MAX**2 - R_MIN**2)  # uniform in the ring's area
    assert area.mean().item() == pytest.approx(0.5, abs=0.03)
    assert area.std().item() == pytest.approx(12**-0.5, abs=0.02)
    torch.testing.assert_close(torch.exp(layer.log_gamma).square(), 1 - size.square(), rtol=1e-3, atol=1e-6)
    assert layer.b.std().item() == pytest.approx((2 * width) ** -0.5, rel=0.02)
    assert layer.c.std().item() == pytest.approx(width**-0.5, rel=0.02)
    bound = 64**-0.5
    for rnn in (lstm_layer(64).lstm, gru_layer(64).gru):
        for parameter in rnn.parameters():
            assert parameter.abs().max() <= bound
            assert parameter.std().item() == pytest.approx(bound / 3**0.5, rel=0.2)


@pytest.mark.parametrize("longest", [0, 2, 40, 1000])
def test_chrono_initialisation(longest: int) -> None:
    """The odds of keeping to forgetting are uniform from 1 to T_max - 1, and those of writing the inverse."""
    torch.manual_seed(0)
    width = 500
    _, _, b_ih, b_hh = lstm_layer(width, longest=longest).lstm.all_weights[0]
    write, forget, *_ = (b_ih + b_hh).chunk(4)
    assert torch.equal(write, -forget)
    update = sum(x.chunk(3)[1] for x in gru_layer(width, longest=longest).gru.all_weights[0][2:])
    mingru_update = MinGRULayer(width=width, mlp_width=1, longest=longest).gate_and_candidate.bias[:width]
    attentive = AttentiveLSTMLayer(width=width, longest=longest, orthogonal=True).lstm
    sizes = {"width": 2 * width, "num_heads": width, "mlp_width": 4}
    deltanet = GatedDeltaNetLayer(**sizes, longest=longest)
    assert not deltanet.log_rate.any()
    for bias in (
        forget,
        update,
        -mingru_update,
        -deltanet.decay_bias,
        (attentive.bias_ih + attentive.bias_hh)[width : 2 * width],
    ):
        scale = torch.exp(bias)  # uniform from 1 to longest - 1
        high = max(1.0, longest - 1.0)
        assert 1 - 1e-5 <= scale.min() <= 1.01 + 0.01 * high and 0.98 * high <= scale.max() <= high * (
            1 + 1e-5
        )
        assert scale.mean().item() == pytest.approx((1 + high) / 2, rel=0.05)


def test_orthogonal_initialisation() -> None:
    """Each gate's matrix on the state keeps lengths; weights on the input have variance 1 / D."""
    torch.manual_seed(0)
    width = 200
    cell = AttentiveLSTMLayer(width=width, longest=None, orthogonal=True).lstm
    for weight_ih, weight_hh, *biases in (
        lstm_layer(width, orthogonal=True).lstm.all_weights[0],
        gru_layer(width, orthogonal=True).gru.all_weights[0],
        (cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh),
    ):
        for gate in weight_hh.split(width):
            torch.testing.assert_close(gate @ gate.T, torch.eye(width), rtol=0, atol=1e-5)
        assert weight_ih.std().item() == pytest.approx(width**-0.5, rel=0.02)
        assert all(not bias.any() for bias in biases)


def test_chrono_initialisation_goes_before_the_orthogonal_one() -> None:
    layer = lstm_layer(20, longest=50, orthogonal=True).lstm
    bias = sum(layer.all_weights[0][2:])
    assert bias[:40].all() and not bias[40:].any()


@pytest.mark.parametrize("agent", ["dqn-paper", "drqn-paper", "dtqn-paper"])
def test_initial_values_of_dtqns_public_code(agent: str) -> None:
    config = layers.build([presets.find_agent(agent).preset]).network
    space = gymnasium.spaces.MultiDiscrete([21] * 6)
    torch.manual_seed(0)
    network = networks.build(config, space, 6)
    for module in network.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            assert module.weight.std().item() == pytest.approx(0.02, rel=0.1)
        if isinstance(module, nn.Linear):
            assert not module.bias.any()
        if isinstance(module, nn.LSTM):
            for name, parameter in module.named_parameters():
                deviation = parameter.std().item()
                assert deviation == (0 if "bias" in name else pytest.approx(0.02, rel=0.1))


@pytest.mark.parametrize("use_prev_action", [False, True])
def test_dtqns_encoder_shares_one_table(use_prev_action: bool) -> None:
    space = gymnasium.spaces.MultiDiscrete([3, 4, 2], start=[1, 0, -1])
    sizes = {"num_actions": 3, "width": 8, "embedding_width": 3}
    encoder = DTQNEncoder(observation_space=space, use_prev_action=use_prev_action, **sizes).double()
    assert encoder.embedding is not None and encoder.embedding.num_embeddings == 6
    steps = inputs("multi_discrete", 2, 4)
    seen = steps._replace(observation=steps.observation + torch.tensor([1, 0, -1]))
    table = encoder.embedding.weight
    for b in range(2):
        for t in range(4):
            joined = torch.cat([table[int(value)] for value in steps.observation[b, t]])
            expected = encoder.join.weight @ joined + encoder.join.bias
            if encoder.prev_action is not None:
                acted = encoder.prev_action.weight[int(steps.prev_action[b, t])] * float(t > 0)
                expected = torch.cat([acted, expected])
            torch.testing.assert_close(encoder(seen)[b, t], expected, rtol=0, atol=1e-12)
    assert expected.shape == (8,)


def parts_encoder(space: gymnasium.Space, width: int, beside: bool) -> PartsEncoder:
    """`beside` the observation are the previous action and reward."""
    return PartsEncoder(
        observation_space=space,
        num_actions=3,
        width=width,
        use_prev_action=beside,
        use_prev_reward=beside,
        image_encoder="nature",
    )


def test_the_parts_of_a_small_grid_are_the_cells_before_the_pool() -> None:
    torch.manual_seed(0)
    network = MiniGridCNN(3, 7, 7)
    parts = FeatureMap(network, 5)
    picture = torch.rand(2, 3, 7, 7)
    x = picture
    for layer in (layer for layer in network.convolutions if isinstance(layer, torch.nn.Conv2d)):
        x = layer(x).relu()
    assert x.shape == (2, 64, 4, 4)
    expected = torch.stack([parts.join(x[:, :, i, j]) for i in range(4) for j in range(4)], dim=1)
    torch.testing.assert_close(parts(picture), expected)


PICTURE = gymnasium.spaces.Box(0, 255, (40, 40, 3), np.uint8)


@pytest.mark.parametrize(
    "space, parts",
    [
        (SPACES["discrete"], 1),
        (SPACES["multi_discrete"], 3),
        (SPACES["multi_binary"], 3),
        (SPACES["box"], 3),
        (PICTURE, 1),
        (gymnasium.spaces.Dict({"a": SPACES["box"], "b": SPACES["discrete"]}), 4),
    ],
    ids=str,
)
def test_the_parts_of_an_observation(space: gymnasium.Space, parts: int) -> None:
    """Each part is read from its own place, and what is fed besides is a part more each."""
    torch.manual_seed(0)
    encoder = parts_encoder(space, 5, beside=True)
    space.seed(0)
    samples = [space.sample() for _ in range(8)]
    if isinstance(space, gymnasium.spaces.Dict):
        seen = {
            key: torch.from_numpy(np.stack([s[key] for s in samples])).view(2, 4, *space[key].shape)
            for key in space
        }
    else:
        seen = torch.from_numpy(np.stack(samples)).view(2, 4, *space.shape)
    steps = inputs("box", 2, 4)
    steps = steps._replace(observation=seen, reward=steps.reward.float())
    features = encoder(steps)
    assert features.shape == (2, 4, parts + 2, 5)
    assert not features[:, 0, parts].any()  # no action before a first step
    other = encoder(steps._replace(prev_action=(steps.prev_action + 1) % 3, reward=steps.reward + 1))
    changed = (features - other).abs().amax(-1)[:, 1:] > 0
    assert changed.all(dim=0).all(dim=0).tolist() == [False] * parts + [True, True]
    assert changed.any(dim=0).any(dim=0).tolist() == [False] * parts + [True, True]


def test_each_part_has_a_place_of_its_own() -> None:
    """A change of one component changes one part; cells share a value's vector and have one of their own."""
    encoder = parts_encoder(gymnasium.spaces.MultiDiscrete([5, 5, 5]), 4, beside=False).double()
    nothing = torch.zeros(1, 1)

    def read(*values: int) -> Tensor:
        given = StepInputs(torch.tensor([[values]]), nothing.long(), nothing, nothing.bool())
        return encoder(given)[0, 0]

    one, other = read(1, 2, 3), read(1, 4, 3)
    assert ((one - other).abs().amax(-1) > 0).tolist() == [False, True, False]
    shared = encoder.observation.values.embedding.weight
    own = encoder.observation.encoder.embedding.weight
    torch.testing.assert_close(
        one, torch.stack([own[1] + shared[1], own[7] + shared[2], own[13] + shared[3]])
    )


CORES: dict[str, dict[str, Any]] = {
    **REGISTERED,
    "deep lstm": {"core": "lstm", "num_layers": 4, "skip_connections": True, "use_prev_reward": True},
    "darqn": {"core": "lstm", "num_layers": 1, "soft_attention": True, "use_prev_action": False},
    "fields of two shapes": {"core": "tests.own_cores:make_convolved"},
    "fields of two windows": {"core": "tests.own_cores:Averages"},
    "chrono": {"core": "gru", "core.initial_weights": "chrono"},
}


def every_kind(played: Played) -> bool:
    """Episode starts, whole and partly filled burn-in, and stored state before it are all in the sample."""
    batch, _ = draw(played)
    held, burned = batch.memory_valid.sum(dim=1), batch.burn_in_timesteps
    kinds = [(held == 0) & (burned == 0), (held == 0) & (burned > 0), (held > 0) & (burned > 0)]
    if not played.trainer.network.memory_spec():
        kinds = kinds[:2]
    return all(bool(kind.any()) for kind in kinds)


@pytest.mark.parametrize("name", CORES)
@pytest.mark.parametrize("burn_in_length", [3, 4])
def test_parity(name: str, burn_in_length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a stored sequence the learner's path returns the Q-values that the actor saw."""
    played = play(
        monkeypatch,
        replay={"burn_in_length": burn_in_length, "sequence_period": 3},
        memory_length=5,
        **CORES[name],
    )
    batch, info = draw(played)
    assert every_kind(played)
    assert error(played, batch, info) < 1e-9
    if batch.memory:
        shifted = batch._replace(memory={n: x.roll(1, dims=0) for n, x in batch.memory.items()})
        assert error(played, shifted, info) > 1e-3


@pytest.mark.parametrize("name", [name for name in CORES if name != "none"])
@pytest.mark.parametrize("parameters", [0.05, 0.3])
def test_parity_with_float16_memory(name: str, parameters: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar is a share of the largest |Q|, or of 1."""
    played = play(
        monkeypatch, dtype=torch.float32, memory_dtype="float16", parameters=parameters, **CORES[name]
    )
    batch, info = draw(played)
    assert all(x.dtype == torch.float16 for x in batch.memory.values())
    assert error(played, batch, info) < 1e-3 * max(1.0, abs(played.q).max())


@pytest.mark.parametrize(
    "given, unread",
    [
        ({}, ""),
        ({"core": "lstm", "memory_length": 7, "context_length": 9, "width": 63}, ""),
        ({"gate": "input", "gate_bias": 1.0}, "core.gate_bias"),
        ({"gate": "highway", "gate_bias": 1.0}, ""),
    ],
)
def test_settings_that_a_core_does_not_read_are_named(given: dict[str, Any], unread: str) -> None:
    found = Config(network=network_config(**given)).unread()
    assert set(found) == {f"network.{name}" for name in unread.split()}


@pytest.mark.parametrize(
    "given, named",
    [
        ({"core": "gru", "soft_attention": True}, "network.encoder is parts with network.core gru"),
        (
            {"compressed_slots": 2, "adaptive_span": True},
            "network.core.compressed_slots is 2 with network.core.ad",
        ),
        (
            {"compressed_slots": 2, "memory_length": 3},
            "network.core.memory_length is 3 with network.core.compressed_slots 2.* try 4",
        ),
        ({"core": "mingru", "core.initial_weights": "orthogonal"}, "initial_weights\n.*'torch' or 'chrono'"),
        ({"core": "dtqn", "width": 12, "num_heads": 8}, "network.width is 12, not a multiple .* try 16"),
        ({"core": "deltanet", "width": 10, "num_heads": 3}, "network.width is 10, not a multiple .* try 9"),
        (
            {"core": "dtqn", "width": 7, "num_heads": 7, "positions": "sinusoidal"},
            "network.width is 7.*try 14",
        ),
    ],
)
def test_settings_that_do_not_go_together(given: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Config(network=network_config(**given))


def test_a_space_that_dtqns_encoder_cannot_read_is_named() -> None:
    with pytest.raises(ValueError, match=r"network.encoder is dtqn.*Box.*try default"):
        networks.build(NetworkConfig(encoder="dtqn"), PICTURE, 3)
