"""The learner against its slow twin, junk in padding, the guard against non-finite updates, and its state."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import gymnasium
import pytest
import torch
from torch import Tensor, nn

from dtqn.learning.batches import split
from dtqn.learning.learner import Learner
from dtqn.types import NonFiniteError, Sequences
from tests.cases import learner_config, make, randomise
from tests.learning import learners
from tests.learning.batches import N_STEP, SHAPES, Shape, make_batch
from tests.learning.learners import errors_of
from tests.reference import learner_twin as twin
from tests.reference.pqn_twin import RAdam

CATEGORICAL: dict[str, Any] = {"distribution": "categorical", "num_atoms": 7, "v_min": -2.0, "v_max": 1.5}
TABLE: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    # settings of the learner, of the network, observations
    ({}, {}, "multi_discrete"),
    ({"value_rescaling": True}, {"gate": "output", "use_prev_reward": True}, "box"),
    ({"double_q": False}, {"gate": "residual", "norm": "post", "memory_length": 2}, "box"),
    (
        {"target_update": "hard", "target_update_period": 2},
        {"memory_length": 0, "dueling": False},
        "discrete",
    ),
    ({"max_grad_norm": 0.05, "n_step": 1}, {"memory_length": 12, "gate": "highway"}, "multi_binary"),
    ({"reward_scale": 3.0}, {"core": "lstm"}, "box"),
    ({}, CATEGORICAL, "box"),
    ({"double_q": False, "n_step": 1}, CATEGORICAL | {"dueling": False, "num_atoms": 2}, "discrete"),
    ({"value_rescaling": True}, CATEGORICAL | {"v_min": -0.3, "v_max": 0.4}, "box"),
    ({"returns": "watkins", "q_lambda": 0.8}, CATEGORICAL, "box"),
    ({"returns": "watkins", "q_lambda": 0.9, "trace_tolerance": 0.3}, {}, "box"),
    ({"returns": {"name": "watkins", "tolerance": 0.2, "tolerance_of": "gaps"}}, {}, "box"),
    ({"returns": "peng", "value_rescaling": True}, CATEGORICAL, "box"),
    ({"bootstrap": "advantage", "double_q": False}, {}, "box"),
    ({"bootstrap": "advantage", "value_rescaling": True}, {}, "box"),
    ({"bootstrap": "advantage"}, CATEGORICAL | {"dueling": False, "core": "gru"}, "multi_discrete"),
    ({"bootstrap": "advantage", "returns": "watkins"}, CATEGORICAL, "box"),
    ({"returns": "peng", "q_lambda": 0.6}, {}, "box"),
    ({"returns": "watkins", "q_lambda": 0.9, "value_rescaling": True}, {"core": "gru"}, "box"),
    ({"returns": "peng", "bootstrap": "advantage", "n_step": 1}, {}, "discrete"),
    ({"max_grad_norm": 0.3}, CATEGORICAL | {"recall_weight": 0.7}, "multi_discrete"),
    ({"target_update": "none", "returns": "peng"}, {"core": "gru", "encoder_layers": 2}, "box"),
    ({"target_update": "none", "bootstrap": "advantage", "double_q": False}, {"encoder_layers": 1}, "box"),
    ({"optimizer": "radam"}, {"core": "lstm", "encoder_layers": 3}, "discrete"),
    ({"n_step": 1}, {"recall_weight": 3.0, "core": "gru", "dueling": False}, "multi_discrete"),
    ({"novelty_weight": 0.7}, {}, "multi_discrete"),
    ({"repeat_cost": 0.3}, {}, "discrete"),
    ({"novelty_weight": 0.2, "bootstrap": "advantage"}, {}, "discrete"),
    (
        {"novelty_weight": 0.4, "repeat_cost": 0.5, "returns": "watkins", "weight_decay": 8.0},
        CATEGORICAL,
        "box",
    ),
]


def make_learner(
    settings: dict[str, Any] | None = None,
    space: str | gymnasium.Space = "box",
    parts: int = 1,
    **network: Any,
) -> Learner:
    """A learner whose target network differs from its online network."""
    plain = {"returns": "n_step", "n_step": N_STEP, "gamma": 0.9, "target_ema_rate": 0.1}
    config = learner_config(**(plain | (settings or {})))
    learner = learners.make_learner(make(space, **network), config, parts=parts)
    randomise(learner.target, seed=9, scale=0.1)
    return learner


def snapshot(module: nn.Module) -> list[Tensor]:
    return [p.detach().clone() for p in module.parameters()]


def gradients(learner: Learner) -> list[Tensor]:
    return [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in learner.online.parameters()]


def assert_all_close(actual: list[Tensor], expected: list[Tensor]) -> None:
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("settings, network, space", TABLE)
def test_twin(settings: dict[str, Any], network: dict[str, Any], space: str) -> None:
    """Two updates: TD errors, loss, priorities, clipped gradient, Adam's step, target network."""
    learner = make_learner(settings, space, **network)
    config, online, target = learner.config, learner.online, learner.target
    adam: twin.Adam | RAdam = twin.Adam(
        snapshot(online), config.learning_rate, config.adam_epsilon, config.weight_decay
    )
    if config.optimizer == "radam":
        adam = RAdam(len(snapshot(online)), config.learning_rate, config.adam_epsilon)
    for number in (1, 2):
        batch = make_batch(online, space, seed=number)
        expected = twin.update(online, target, batch, config, eta=0.9)
        scale = min(1.0, config.max_grad_norm / (twin.norm(expected.gradients) + 1e-6))
        clipped = [scale * g for g in expected.gradients]
        stepped = adam.step(snapshot(online), clipped)
        before = snapshot(target)

        td_error, mask, q_taken, y, *_ = errors_of(learner, batch)
        for b, deltas in enumerate(expected.deltas):
            assert td_error[b][mask[b]].tolist() == pytest.approx(deltas, abs=1e-9)
            assert y[b][mask[b]].tolist() == pytest.approx(expected.targets[b], abs=1e-9)
        torch.testing.assert_close(td_error[mask], (y - q_taken)[mask])

        update = learner.update(batch)
        assert update.metrics["learner/loss"] == pytest.approx(expected.loss, rel=1e-6)
        assert update.metrics.get("learner/recall_loss", 0.0) == pytest.approx(expected.recall, rel=1e-6)
        assert update.metrics["learner/grad_norm"] == pytest.approx(twin.norm(expected.gradients), rel=1e-6)
        assert update.priorities is not None
        assert update.priorities.tolist() == pytest.approx(expected.priorities, rel=1e-6)
        assert_all_close(gradients(learner), clipped)
        assert_all_close(snapshot(online), stepped)
        if config.target_update.name == "soft":
            assert_all_close(
                snapshot(target), [t + 0.1 * (o - t) for t, o in zip(before, stepped, strict=True)]
            )
        elif config.target_update.name == "hard":
            assert_all_close(snapshot(target), stepped if number == 2 else before)
        else:
            assert target is online
        assert learner.learner_steps == number
    assert (scale < 1) == ("max_grad_norm" in settings)


@pytest.mark.parametrize(
    "network, parts",
    [({}, 1), ({"memory_length": 2}, 2), ({"core": "lstm"}, 1), ({"core": "lru"}, 1)],
    ids=str,
)
def test_the_fresh_memory_is_that_of_the_online_network(network: dict[str, Any], parts: int) -> None:
    """At every real timestep of burn-in and learned segment, by the parameters before the update."""
    config = learner_config(returns="n_step", n_step=N_STEP)
    learner = learners.make_learner(make("box", **network), config, parts=parts, want_memory=True)
    batch = make_batch(learner.online, "box")
    expected = {}
    for b in range(len(SHAPES)):
        for offset, memory in twin.memory_at_steps(learner.online, batch, b).items():
            expected[b, offset] = memory
    fresh = learner.update(batch).memory
    assert fresh is not None
    places = list(zip(fresh.sequence.tolist(), fresh.offset.tolist(), strict=True))
    assert sorted(places) == sorted(expected)
    for i, place in enumerate(places):
        for name, values in fresh.memory.items():
            torch.testing.assert_close(values[i], expected[place][name], rtol=0, atol=1e-9)
    assert set(fresh.memory) == set(learner.online.memory_spec())
    assert not any(values.requires_grad for values in fresh.memory.values())
    assert learner.update(poisoned(batch, float("nan"))).memory is None
    assert make_learner(**network).update(batch).memory is None


def test_metrics_are_of_the_learned_steps() -> None:
    learner = make_learner()
    batch = make_batch(learner.online, "box", junk=1e30)
    expected = twin.update(learner.online, learner.target, batch, learner.config, eta=0.9)
    metrics = learner.update(batch).metrics
    deltas, targets = (list(itertools.chain(*each)) for each in (expected.deltas, expected.targets))
    q = [y - delta for y, delta in zip(targets, deltas, strict=True)]
    assert metrics["learner/td_error"] == pytest.approx(sum(map(abs, deltas)) / len(deltas), rel=1e-6)
    assert metrics["learner/q_mean"] == pytest.approx(sum(q) / len(q), rel=1e-6)
    for name, value in (
        ("q_max", max(q)),
        ("q_min", min(q)),
        ("target_max", max(targets)),
        ("target_min", min(targets)),
    ):
        assert metrics[f"learner/{name}"] == pytest.approx(value, rel=1e-6)
    assert metrics["replay/importance_weight_min"] == pytest.approx(
        float(batch.importance_weights.min()), rel=1e-6
    )


@pytest.mark.parametrize("space", ["box", "multi_discrete"])
@pytest.mark.parametrize(
    "settings, network",
    [
        ({}, {}),
        ({"value_rescaling": True}, {}),
        ({}, CATEGORICAL),
        ({"bootstrap": "advantage", "returns": "watkins"}, {}),
    ],
    ids=str,
)
def test_junk_in_the_padding_of_every_block_changes_nothing(
    space: str, settings: dict[str, Any], network: dict[str, Any]
) -> None:
    results = []
    for junk in (None, 0.0, 1e30, -1e30):
        learner = make_learner(settings, space, **network)
        batch = make_batch(learner.online, space, junk=junk)
        update = learner.update(batch)
        assert update.priorities is not None
        results.append([torch.tensor(update.metrics["learner/loss"]), update.priorities, *gradients(learner)])
    for result in results[1:]:
        assert_all_close(result, results[0])


@pytest.mark.parametrize("parts, num_parts", [(1, 1), (2, 2)])
def test_a_batch_cut_into_parts_is_the_same_batch(parts: int, num_parts: int) -> None:
    shapes = (*SHAPES, Shape(5, 3, 24), Shape(0, 0, 2), Shape(1, 0, 24, terminated=True))
    learner = make_learner(parts=parts)
    batch = make_batch(learner.online, "box", shapes, learn_length=21)
    members = make_learner(parts=parts)._step(batch, 0.0).members
    assert len(members) == num_parts
    assert sorted(torch.cat(members).tolist()) == list(range(len(shapes)))
    expected = twin.update(learner.online, learner.target, batch, learner.config, eta=0.9)
    update = learner.update(batch)
    assert update.priorities is not None
    assert update.priorities.tolist() == pytest.approx(expected.priorities, rel=1e-6)
    scale = min(1.0, learner.config.max_grad_norm / (twin.norm(expected.gradients) + 1e-6))
    assert_all_close(gradients(learner), [scale * g for g in expected.gradients])


@pytest.mark.parametrize(("packs", "shorter"), [(False, [1, 3, 4, 6]), (True, [0, 1, 3, 4, 6])])
def test_both_parts_take_about_as_long(packs: bool, shorter: list[int]) -> None:
    """By timesteps 2 and 10: padded, 4 x 2 beside 3 x 11 is less than 5 x 10; packed, 18 beside 21."""
    shapes = tuple(Shape(0, 0, learned) for learned in (10, 2, 10, 2, 2, 11, 2))
    batch = make_batch(make_learner().online, "box", shapes, learn_length=10)
    assert split(batch, packs)[0].tolist() == shorter


def test_no_gradient_enters_burn_in_or_memory() -> None:
    learner = make_learner()
    batch = make_batch(learner.online, "box")
    blocks = [batch.burn_in.observation, *batch.memory.values(), batch.learn.observation]
    for block in blocks:
        block.requires_grad_()
    td_error, mask, *_ = errors_of(learner, batch)
    into = torch.autograd.grad(td_error[mask].square().sum(), blocks, allow_unused=True)
    assert into[0] is None and into[1] is None
    assert into[2] is not None and into[2].abs().max() > 0
    assert not any(p.requires_grad for p in learner.target.parameters())


def test_rewards_are_scaled_in_the_loss_only() -> None:
    learner = make_learner({"reward_scale": 0.5, "gamma": 0.0, "n_step": 1}, use_prev_reward=True)
    batch = make_batch(learner.online, "box")
    _, mask, _, y, *_ = errors_of(learner, batch)
    assert torch.allclose(y[mask], 0.5 * batch.learn.reward[:, 1:][mask])
    doubled = batch._replace(learn=batch.learn._replace(reward=2 * batch.learn.reward))
    assert not torch.allclose(errors_of(learner, doubled).target[mask], y[mask])


@pytest.mark.parametrize("share", [0.0, 0.25])
def test_the_step_is_a_share_of_the_learning_rate(share: float) -> None:
    """Adam's first step is proportional to the step size."""

    def moved(learning_rate_share: float) -> list[Tensor]:
        learner = make_learner()
        before = snapshot(learner.online)
        learner.update(make_batch(learner.online, "box"), learning_rate_share)
        return [new - old for new, old in zip(snapshot(learner.online), before, strict=True)]

    assert_all_close(moved(share), [share * step for step in moved(1.0)])


def poisoned(batch: Sequences, value: float) -> Sequences:
    reward = batch.learn.reward.clone()
    reward[0, 1] = value
    return batch._replace(learn=batch.learn._replace(reward=reward))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_non_finite_loss_is_skipped_and_counted(value: float) -> None:
    learner = make_learner()
    batch = make_batch(learner.online, "box")
    learner.update(batch)
    before = copy.deepcopy(learner.get_state())
    update = learner.update(poisoned(batch, value))
    after = learner.get_state()
    assert update.priorities is None and update.metrics == {}
    assert (after["skipped_updates"], after["learner_steps"]) == (1, 1)
    for name in ("online", "target"):
        assert all(torch.equal(x, after[name][key]) for key, x in before[name].items())
    for name, moments in before["optimizer"].items():
        assert all(torch.equal(x, after["optimizer"][name][key]) for key, x in moments.items())


def test_a_non_finite_gradient_is_skipped_too() -> None:
    learner = make_learner()
    before = snapshot(learner.online)
    handle = next(learner.online.parameters()).register_hook(lambda gradient: gradient * float("inf"))
    batch = make_batch(learner.online, "box")
    assert learner.update(batch).priorities is None
    assert all(torch.equal(*pair) for pair in zip(before, snapshot(learner.online), strict=True))
    handle.remove()
    assert learner.update(batch).priorities is not None
    assert (learner.skipped_updates, learner.learner_steps) == (1, 1)


def test_ten_in_a_row_raise() -> None:
    learner = make_learner()
    batch = make_batch(learner.online, "box")
    bad = poisoned(batch, float("nan"))
    for _ in range(9):
        learner.update(bad)
    learner.update(batch)  # a good one in between: counting begins anew
    for _ in range(9):
        learner.update(bad)
    with pytest.raises(NonFiniteError, match="10 updates in a row"):
        learner.update(bad)
    assert learner.skipped_updates == 19


@pytest.mark.parametrize("settings", [{}, {"target_update": "hard", "target_update_period": 3}])
def test_state_continues_bit_for_bit(settings: dict[str, Any]) -> None:
    learner = make_learner(settings)
    batches = [make_batch(learner.online, "box", seed=seed) for seed in range(5)]
    for batch in batches[:2]:
        learner.update(batch)
    learner.update(poisoned(batches[0], float("nan")))
    state = copy.deepcopy(learner.get_state())
    resumed = learners.make_learner(make("box", seed=3), learner.config)
    resumed.set_state(state)
    assert resumed.learning_rate == learner.learning_rate > 0
    for batch in batches[2:]:
        one, other = learner.update(batch), resumed.update(batch)
        assert one.metrics == other.metrics
        assert one.priorities is not None and other.priorities is not None
        assert torch.equal(one.priorities, other.priorities)
    for module in ("online", "target"):
        one, other = getattr(learner, module).state_dict(), getattr(resumed, module).state_dict()
        assert all(torch.equal(x, other[name]) for name, x in one.items())
    counters = ("learner_steps", "skipped_updates", "skipped_in_a_row")
    assert [learner.get_state()[name] for name in counters] == [
        resumed.get_state()[name] for name in counters
    ]
