"""Updates in bfloat16: close to those in float32, with parameters, heads and sums in float32."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from dtqn import networks
from dtqn.learning.learner import Learner, Rounded
from dtqn.settings.config import ConfigError
from dtqn.settings.presets import resolve
from dtqn.types import Sequences
from tests.cases import NUM_ACTIONS, OURS, SMALL, SPACES, learner_config, network_config, randomise
from tests.learning import learners
from tests.learning.batches import N_STEP, make_batch
from tests.learning.learners import errors_of

NETWORKS: dict[str, dict[str, Any]] = {
    **{name: {"core": name} for name, core in OURS.items() if core.rounds},
    "gtrxl-post": {"norm": "post", "gate": "residual"},
    "gtrxl-recall": {"recall_weight": 0.5, "distribution": "categorical", "num_atoms": 7},
    "darqn": {"core": "lstm", "soft_attention": True},
}


def of(name: str, precision: str, **given: Any) -> tuple[Learner, Sequences]:
    """A learner in float32 and a batch for it."""
    torch.manual_seed(0)
    sizes = {"width": 64, "mlp_width": 64, "context_length": 12}
    settings = network_config(**(SMALL | sizes | NETWORKS[name]))
    network = randomise(networks.build(settings, SPACES["multi_discrete"], NUM_ACTIONS), scale=0.02)
    config = learner_config(**({"n_step": N_STEP, "gamma": 0.9, "precision": precision} | given))
    learner = learners.make_learner(network, config, want_memory=True)
    randomise(learner.target, seed=9, scale=0.02)
    return learner, make_batch(network, "multi_discrete", dtype=torch.float32)


def joined(tensors: Iterable[Tensor]) -> Tensor:
    return torch.cat([x.detach().flatten() for x in tensors])


def gradient(learner: Learner, batch: Sequences) -> Tensor:
    learner.update(batch, learning_rate_share=0.0)
    return joined(cast(Tensor, x.grad) for x in learner.online.parameters())


@pytest.mark.parametrize("name", NETWORKS)
def test_the_gradient_is_near_that_of_float32_and_is_not_it(name: str) -> None:
    """In so small a batch one ReLU of the head that opens by rounding moves a tenth of it."""
    # Double Q-learning's choice between nearly equal values would jump; errors near 0 would be all rounding.
    settings: dict[str, Any] = {"double_q": False, "reward_scale": 5.0, "max_grad_norm": 1e9}
    exact, rounded = (gradient(*of(name, precision, **settings)) for precision in ("float32", "bfloat16"))
    assert rounded.dtype == torch.float32
    assert float((rounded - exact).norm() / exact.norm()) > 1e-5
    assert float(torch.cosine_similarity(rounded, exact, dim=0)) > 0.95


@pytest.mark.parametrize("name", [name for name in NETWORKS if not name.startswith("gtrxl-")])
def test_it_is_the_update_of_networks_that_are_rounded_by_hand(name: str) -> None:
    """After an update too: parameters are rounded anew, those of the target as well."""
    learner, batch = of(name, "bfloat16", target_ema_rate=0.5, max_grad_norm=1e9)
    learner.update(batch)

    online, target = (_by_hand(network) for network in (learner.online, learner.target))
    output = online.learn_values(batch)[0]
    with torch.no_grad():
        errors = learner.objective.errors(batch, output, target.learn_values(batch)[0], output)
    expected = learner.objective.errors(batch, output, target.learn_values(batch)[0], output)
    loss = (expected.loss * batch.importance_weights[:, None]).sum() / batch.learned_steps.sum()
    by_hand = torch.autograd.grad(loss, list(online.parameters()))

    mask, found = errors.mask, errors_of(learner, batch)
    assert found.q_taken.dtype == torch.float32
    assert torch.equal(found.q_taken[mask], errors.q_taken[mask])
    assert torch.equal(found.td_error[mask], errors.td_error[mask])
    torch.testing.assert_close(gradient(learner, batch), joined(x.float() for x in by_hand))


def _by_hand(network: Any) -> Any:
    rounded = copy.deepcopy(network).requires_grad_(True).bfloat16()
    rounded.head = _Unrounded(copy.deepcopy(network.head))
    return rounded


class _Unrounded(nn.Module):
    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.head = head

    def forward(self, features: Tensor) -> Any:
        return self.head(features.float())


@pytest.mark.parametrize("name", ["gtrxl", "lstm"])
def test_the_fresh_trace_is_in_float32(name: str) -> None:
    learner, batch = of(name, "bfloat16")
    fresh = learner.update(batch).memory
    assert fresh is not None
    assert {x.dtype for x in fresh.memory.values()} == {torch.float32}


def test_numbers_are_normalised_before_they_are_rounded() -> None:
    """Around 1000 this type has no number but multiples of 4."""
    network = networks.build(
        network_config(**SMALL, core="lstm", encoder={"normalise": True}), SPACES["box"], NUM_ACTIONS
    )
    encoder: Any = network.encoder.observation
    encoder.mean.fill_(1000.0), encoder.factor.fill_(2.0)
    rounded = Rounded(network)
    rounded.refresh()
    numbers = torch.tensor([[[1001.0, 999.5, 1000.0]]])
    found = rounded.network.encoder.observation(numbers)
    assert found.dtype is torch.bfloat16 and found.tolist() == [[[2.0, -1.0, 0.0]]]


def test_steps_too_small_for_bfloat16_add_up() -> None:
    """A step of 1e-5 is below half of the distance between two numbers of this type near 0.01."""
    learner, batch = of("gtrxl", "bfloat16", learning_rate=1e-5)
    before = joined(learner.online.parameters())
    for _ in range(20):
        learner.update(batch)
    moved = (joined(learner.online.parameters()) - before).abs()
    assert float(moved.median()) > 5e-5


@pytest.mark.parametrize("agent", ["mingru", "gru", "lru", "coberl", "dqn"])
def test_other_cores_are_refused_in_one_line(agent: str) -> None:
    with pytest.raises(
        ConfigError, match=r"learner\.precision is bfloat16 with network\.core .*; try float32"
    ):
        resolve(None, {"agent": agent, "learner.precision": "bfloat16"}, {})
