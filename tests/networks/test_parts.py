"""Encoders, heads, and the initial values of the network that is built."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from torch.nn import functional as F

from dtqn import networks
from dtqn.learning.predictions import Categorical
from dtqn.networks.encoders import set_encoder
from dtqn.networks.heads import DuelingHead, QHead
from dtqn.types import StepInputs
from tests.cases import SPACES, inputs, make, network_config, observations, randomise
from tests.networks import modules

ONE_HOT = {  # what each value of a categorical observation is, as its own column
    "discrete": lambda x: F.one_hot(x - 2, 5),
    "multi_discrete": lambda x: torch.cat([F.one_hot(x[..., i], n) for i, n in enumerate([3, 4, 2])], -1),
}


@pytest.mark.parametrize("space", ONE_HOT)
def test_each_value_of_each_component_has_its_own_vector(space: str) -> None:
    encoder = randomise(modules.encoder(SPACES[space]).double())
    seen = observations(space, (6, 7), np.random.default_rng(0))
    one_hot = ONE_HOT[space](seen).flatten(0, 1).double()
    encoded = encoder(seen).flatten(0, 1)
    assert encoded.shape[-1] == encoder.output_width == (4 if space == "discrete" else 12)
    # A linear map of the one-hot columns, and one in which no two columns are alike.
    table = torch.linalg.lstsq(one_hot, encoded, driver="gelsd").solution
    torch.testing.assert_close(one_hot @ table, encoded, rtol=0, atol=1e-9)
    blocks = table.unfold(1, 4, 4).flatten(0, 1)
    assert len({tuple(np.round(b.detach().numpy(), 6)) for b in blocks}) > len(table) // 2
    assert encoder.embedding.num_embeddings == one_hot.shape[-1]


@pytest.mark.parametrize(
    "space, shape",
    [
        (gymnasium.spaces.Box(-1, 1, (4,)), (4,)),
        (gymnasium.spaces.Box(-1, 1, ()), ()),
        (gymnasium.spaces.Box(0, 9, (4,), np.int64), (4,)),
        (gymnasium.spaces.MultiBinary(4), (4,)),
        (gymnasium.spaces.MultiBinary([2, 3]), (2, 3)),
    ],
    ids=str,
)
def test_numbers_are_taken_as_they_are(space: gymnasium.Space, shape: tuple[int, ...]) -> None:
    encoder = modules.encoder(space).double()
    space.seed(0)
    seen = torch.from_numpy(np.stack([[space.sample() for _ in range(3)] for _ in range(2)]))
    assert torch.equal(encoder(seen), seen.reshape(2, 3, -1).double())
    assert encoder.output_width == max(1, int(np.prod(shape)))


@pytest.mark.parametrize(
    "space",
    [
        gymnasium.spaces.Text(3),
        gymnasium.spaces.Dict({"x": gymnasium.spaces.Text(3)}),
        gymnasium.spaces.Sequence(gymnasium.spaces.Discrete(2)),
    ],
    ids=["text", "dict", "sequence"],
)
def test_a_space_without_encoder_is_named(space: gymnasium.Space) -> None:
    with pytest.raises(ValueError, match="Sequence" if "Seq" in str(space) else "Text"):
        modules.encoder(space)


@pytest.mark.parametrize("use_prev_action", [False, True])
@pytest.mark.parametrize("use_prev_reward", [False, True])
def test_what_is_switched_on_counts_and_nothing_else(use_prev_action: bool, use_prev_reward: bool) -> None:
    encoder = modules.step_encoder(
        SPACES["box"], use_prev_action=use_prev_action, use_prev_reward=use_prev_reward
    ).double()
    timesteps = inputs("box", 2, 5, first=False)
    features = encoder(timesteps)
    other_action = encoder(timesteps._replace(prev_action=(timesteps.prev_action + 1) % 3))
    other_reward = encoder(timesteps._replace(reward=timesteps.reward + 1))
    assert (not torch.equal(features, other_action)) == use_prev_action
    assert (not torch.equal(features, other_reward)) == use_prev_reward
    assert encoder.join.in_features == 3 + 4 * use_prev_action + use_prev_reward


def test_the_action_before_a_first_row_is_ignored_whatever_it_is() -> None:
    encoder = modules.step_encoder(SPACES["box"]).double()
    timesteps = inputs("box", 2, 5)
    junk = timesteps._replace(prev_action=timesteps.prev_action.masked_fill(timesteps.first, -1_000_000))
    assert torch.equal(encoder(timesteps), encoder(junk))
    without = (
        torch.cat([timesteps.observation, torch.zeros(2, 5, 4, dtype=torch.float64)], -1)
        @ encoder.join.weight.T
    )
    torch.testing.assert_close(encoder(timesteps)[:, 0], without[:, 0] + encoder.join.bias, rtol=0, atol=1e-9)


def test_integers_of_any_width_are_the_same_input() -> None:
    network = make("multi_discrete")
    timesteps = inputs("multi_discrete", 2, 4)
    narrow = StepInputs(
        timesteps.observation.to(torch.uint8),
        timesteps.prev_action.to(torch.uint8),
        timesteps.reward,
        timesteps.first,
    )
    state = network.initial_state(2)
    assert torch.equal(network(timesteps, state)[0].q, network(narrow, state)[0].q)


@pytest.mark.parametrize("hidden", [0, 5])
def test_plain_head(hidden: int) -> None:
    head = randomise(modules.head(QHead, hidden).double())
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    h = torch.clamp(x @ head.hidden.weight.T + head.hidden.bias, min=0) if hidden else x
    torch.testing.assert_close(head(x).q, h @ head.q.weight.T + head.q.bias, rtol=0, atol=1e-9)


@pytest.mark.parametrize("hidden", [0, 5])
def test_dueling_head(hidden: int) -> None:
    """Q = V + A - mean A: the mean over actions is the value, the differences are the advantages'."""
    head = randomise(modules.head(DuelingHead, hidden).double())
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    h = torch.clamp(x @ head.hidden.weight.T + head.hidden.bias, min=0) if hidden else torch.cat([x, x], -1)
    value = h[..., : h.shape[-1] // 2] @ head.value.weight.T + head.value.bias
    advantage = h[..., h.shape[-1] // 2 :] @ head.advantage.weight.T + head.advantage.bias
    q = head(x).q
    torch.testing.assert_close(q.mean(-1, keepdim=True), value, rtol=0, atol=1e-9)
    torch.testing.assert_close(q.diff(dim=-1), advantage.diff(dim=-1), rtol=0, atol=1e-9)


@pytest.mark.parametrize("dueling", [False, True])
def test_a_distributional_head_has_its_expected_value(dueling: bool) -> None:
    """And Z numbers for each action, by their own weights; dueling for each of the numbers by itself."""
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    torch.manual_seed(1)
    head = modules.head(DuelingHead if dueling else QHead, 0, prediction=Categorical(5, -1.0, 3.0))
    head = randomise(head.double())
    if dueling:
        advantage = (x @ head.advantage.weight.T + head.advantage.bias).view(2, 3, 3, 5)
        value = (x @ head.value.weight.T + head.value.bias).view(2, 3, 1, 5)
        numbers = value + advantage - advantage.mean(2, keepdim=True)
    else:
        numbers = (x @ head.q.weight.T + head.q.bias).view(2, 3, 3, 5)
    output = head(x)
    p = numbers.exp() / numbers.exp().sum(-1, keepdim=True)
    torch.testing.assert_close(output.distribution.exp(), p, rtol=0, atol=1e-9)
    atoms = torch.tensor([-1.0, 0.0, 1.0, 2.0, 3.0], dtype=torch.float64)
    torch.testing.assert_close(output.q, (p * atoms).sum(-1), rtol=0, atol=1e-9)
    assert "prediction.atoms" not in head.state_dict()


def test_initial_values_of_the_built_network() -> None:
    """Xavier normal with zero biases, u and v; LayerNorm one and zero; each projection by its own size."""
    torch.manual_seed(0)
    network = networks.build(network_config(width=96, mlp_width=160), SPACES["multi_discrete"], 6)
    for layer in network.core.layers:
        attention = layer.attention
        square = (2 / (96 + 96)) ** 0.5
        for weight in (*attention.qkv.weight.chunk(3), attention.relative.weight, attention.output.weight):
            assert weight.std().item() == pytest.approx(square, rel=0.05)
        for weight in (layer.mlp[0].weight, layer.mlp[2].weight):
            assert weight.std().item() == pytest.approx((2 / (96 + 160)) ** 0.5, rel=0.05)
        zeros = [attention.u, attention.v, layer.mlp[0].bias, layer.mlp[2].bias]
        zeros += [layer.attention_norm.bias, layer.mlp_norm.bias]
        assert all(not z.any() for z in zeros)
        assert (layer.attention_norm.weight == 1).all() and (layer.mlp_norm.weight == 1).all()
    joined = network.encoder.join
    assert joined.weight.std().item() == pytest.approx((2 / sum(joined.weight.shape)) ** 0.5, rel=0.1)


def test_the_set_of_values_in_sight_is_summed_wherever_and_however_often() -> None:
    space = gymnasium.spaces.MultiDiscrete([5, 5, 5])
    encoder = set_encoder(space, 4)
    assert encoder is not None
    e = encoder.embedding.weight
    seen = torch.tensor([[[3, 1, 3], [1, 3, 3], [2, 2, 2]]])
    torch.testing.assert_close(encoder(seen), torch.stack([e[1] + e[3], e[1] + e[3], e[2]])[None])


@pytest.mark.parametrize(
    "space",
    [
        gymnasium.spaces.MultiDiscrete([5, 4]),
        gymnasium.spaces.MultiDiscrete([5]),
        gymnasium.spaces.Discrete(5),
    ],
)
def test_components_of_different_kinds_have_no_common_set(space: gymnasium.Space) -> None:
    assert set_encoder(space, 4) is None
