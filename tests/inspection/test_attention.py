"""The noted attention against its formula, computed from the layer's parameters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from dtqn.inspection.attention import attention
from dtqn.inspection.dependence import q_values
from dtqn.inspection.recorder import Episode
from dtqn.networks.attention import sinusoid
from tests.cases import inputs, make

T, M = 7, 4


def episode_of(network: Any, space: str) -> Episode:
    timesteps = inputs(space, 1, T)
    return Episode(
        timesteps, None, np.zeros(T, int), q_values(network, timesteps)[0], np.zeros(T), 0.0, False
    )


def test_gtrxls_first_layer_is_that_of_dai_et_al() -> None:
    """Scores (q + u) k + (q + v) r over the last M steps and the present one, in plain loops."""
    network: Any = make("box", memory_length=M)
    found = attention(network, episode_of(network, "box"))
    assert found is not None
    layer = network.core.layers[0]
    attending, heads, width = layer.attention, 2, 8
    with torch.no_grad():
        x = layer.attention_norm(network.encoder(inputs("box", 1, T)))[0]
        q, k, v = (part.unflatten(1, (heads, -1)) for part in (x @ attending.qkv.weight.T).chunk(3, dim=1))
        by_distance = sinusoid(M + 1, width).double() @ attending.relative.weight.T
        r = by_distance.unflatten(1, (heads, -1))
        for head in range(heads):
            of_head = attending.output.weight[:, head * 4 : (head + 1) * 4]
            for t in range(T):
                steps = range(max(0, t - M), t + 1)
                scores = torch.tensor([
                    float((q[t, head] + attending.u[head, 0]) @ k[s, head])
                    + float((q[t, head] + attending.v[head, 0]) @ r[t - s, head])
                    for s in steps
                ]) / math.sqrt(width / heads)  # fmt: skip
                weights = scores.double().softmax(dim=0).tolist()
                for s, weight in zip(steps, weights, strict=True):
                    length = float((of_head @ v[s, head]).norm())
                    assert found.looked[0, head, t, s] == pytest.approx(weight * length, rel=1e-5)
                assert found.looked[0, head, t, [s for s in range(T) if s not in steps]].sum() == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"memory_length": 12},
        {"core": "coberl", "num_layers": 1},
        {"core": "dtqn", "context_length": 8},
        {"core": "dtqn", "context_length": 8, "share_gates": True},
    ],
)
def test_rows_of_the_rollout_sum_to_one_and_nothing_stays_behind(settings: dict[str, Any]) -> None:
    network: Any = make("box", **settings)
    before = episode_of(network, "box")
    found = attention(network, before)
    assert found is not None
    assert found.rollout.sum(axis=1) == pytest.approx(np.ones(T))
    assert np.triu(found.rollout, 1).max() == 0
    assert ((found.openness > 0) & (found.openness < 1)).all()
    assert torch.equal(q_values(network, before.inputs)[0], before.q)
    assert not [
        name for module in network.modules() for name in ("_mixed", "_attend") if name in vars(module)
    ]


def test_rollout_of_one_layer_is_its_attention_behind_its_gate() -> None:
    network: Any = make("box", memory_length=12, num_layers=1)
    found = attention(network, episode_of(network, "box"))
    assert found is not None
    looked = found.looked[0].sum(axis=0)
    share = found.openness[0][:, None]
    expected = (1 - share) * np.eye(T) + share * looked / looked.sum(axis=1, keepdims=True)
    assert found.rollout == pytest.approx(expected)


@pytest.mark.parametrize(
    "settings", [{"core": "lstm"}, {"core": "dtqn", "context_length": 5}, {"core": "none"}]
)
def test_what_does_not_attend_to_the_episode_has_none(settings: dict[str, Any]) -> None:
    network: Any = make("box", **settings)
    assert attention(network, episode_of(network, "box")) is None
