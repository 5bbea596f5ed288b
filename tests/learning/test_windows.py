"""Windows learned whole and bootstrapped from the next one, beside plain loops over timesteps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dtqn.learning.batches import whole_sequence
from dtqn.settings import presets
from dtqn.training.trainer import Trainer
from dtqn.types import Sequences, StepInputs, map_tree
from tests.cases import config_from, learner_config, make, randomise
from tests.learning.batches import Shape, make_batch
from tests.learning.learners import errors_of, make_learner

K = 5
GAMMA, SCALE, RATE = 0.9, 0.2, 1e-2
SHAPES = (
    Shape(3, 4, 2),  # a full window in the middle of an episode, and the timestep after it
    Shape(0, 4, 2),
    Shape(0, 0, 2),  # an episode's first step
    Shape(0, 2, 2, terminated=True),
    Shape(2, 4, 2, terminated=True),
)
NETWORKS = {
    "dtqn": {"core": "dtqn", "context_length": K, "norm": "post", "gate": "residual"},
    "lstm": {"core": "lstm"},
}


def whole_of(batch: Sequences, b: int) -> tuple[StepInputs, Tensor]:
    """The real timesteps of sequence b [1, T, ...], those of burn-in first, and their discounts."""
    burned, learned = int(batch.burn_in_timesteps[b]), int(batch.learn_timesteps[b])
    blocks = batch.burn_in, batch.learn
    steps = map_tree(lambda x, y: torch.cat([x[b, :burned], y[b, :learned]])[None], *blocks)
    return steps, torch.cat([torch.ones(burned), batch.discount[b, :learned]])


@pytest.mark.parametrize("junk", [None, 1e30])
def test_a_whole_sequence_joins_real_timesteps(junk: float | None) -> None:
    network = make("box", **NETWORKS["lstm"])
    batch = make_batch(network, "box", (*SHAPES, Shape(1, 1, 7), Shape(0, 0, 4)), junk=junk)
    whole = whole_sequence(batch)
    assert whole.burn_in.first.shape[1] == 0 and not whole.burn_in_timesteps.any()
    assert torch.equal(whole.episode_step, batch.episode_step)
    for b in range(len(batch.learn_timesteps)):
        steps, discount = whole_of(batch, b)
        count = int(whole.learn_timesteps[b])
        assert count == steps.first.shape[1]
        assert whole.learned_steps[b] == batch.burn_in_timesteps[b] + batch.learned_steps[b]
        for name, value in steps._asdict().items():
            assert torch.equal(getattr(whole.learn, name)[b, :count], value[0]), name
        assert torch.equal(whole.discount[b, :count], discount)
        burned, learned = int(batch.burn_in_timesteps[b]), int(batch.learn_timesteps[b])
        novel = [x["novel"][b] for x in (batch.burn_in_facts, batch.learn_facts)]
        novel = [*novel[0][:burned].tolist(), *novel[1][:learned].tolist()]
        assert whole.learn_facts["novel"][b, :count].tolist() == novel


def windows_q(network: nn.Module, steps: StepInputs) -> Tensor:
    """[T, A] from these timesteps [1, T, ...] alone: DTQN's window, or a recurrence's zero state."""
    if hasattr(network, "window"):
        return network.window(steps).q[0]
    return network(steps, network.initial_state(1))[0].q[0]


def original_update(
    online: nn.Module, target: nn.Module, batch: Sequences, double_q: bool
) -> tuple[Any, ...]:
    """The update of DTQN's public code, window by window and step by step, on windows without padding.

    The squared error's mean over all steps, gradients cut at norm 1, Adam with its usual constant.
    """
    errors = []
    for b in range(len(batch.learn_timesteps)):
        steps, discount = whole_of(batch, b)
        count = steps.first.shape[1] - 1
        q = windows_q(online, map_tree(lambda x: x[:, :count], steps))  # noqa: B023
        with torch.no_grad():
            after = map_tree(lambda x: x[:, 1:], steps)
            of_online, of_target = windows_q(online, after), windows_q(target, after)
        for t in range(count):
            chooser = of_online[t] if double_q else of_target[t]
            value = of_target[t][int(chooser.argmax())]
            y = SCALE * steps.reward[0, t + 1] + GAMMA * discount[t + 1] * value
            errors.append((q[t, int(steps.prev_action[0, t + 1])] - y) ** 2)
    loss = torch.stack(errors).mean()
    optimizer = torch.optim.Adam(online.parameters(), lr=RATE)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(online.parameters(), 1.0)
    optimizer.step()
    return loss.item(), norm.item(), len(errors)


@pytest.mark.parametrize("double_q", [True, False])
@pytest.mark.parametrize("core", NETWORKS)
def test_an_update_is_that_of_the_public_code(core: str, double_q: bool) -> None:
    """With `max_grad_norm` 0.5 and half of Adam's constant: the loss here is half the squared error."""
    settings = {
        "gamma": GAMMA, "reward_scale": SCALE, "returns": "n_step", "n_step": 1, "learning_rate": RATE,
        "double_q": double_q, "next_window": True, "max_grad_norm": 0.5, "adam_epsilon": 5e-9,
        "target_update": "hard",
    }  # fmt: skip
    learner = make_learner(make("box", **NETWORKS[core]), learner_config(**settings), whole=True)
    randomise(learner.target, seed=9)
    online = make("box", **NETWORKS[core])
    batch = make_batch(online, "box", SHAPES, learn_length=1)._replace(
        importance_weights=torch.ones(len(SHAPES), dtype=torch.float64)
    )
    zero_state = batch._replace(
        memory={name: x[:, :0] for name, x in batch.memory.items()}, memory_valid=batch.memory_valid[:, :0]
    )
    update = learner.update(zero_state)
    loss, norm, learned = original_update(online, learner.target, batch, double_q)
    assert learned == 5 + 5 + 1 + 3 + 5 == update.metrics["replay/learned_steps_per_update"]
    assert update.metrics["learner/loss"] == pytest.approx(loss / 2, rel=1e-9)
    assert update.metrics["learner/grad_norm"] == pytest.approx(norm / 2, rel=1e-6)
    assert norm > 1  # the cut is part of what is compared
    for (name, one), other in zip(learner.online.named_parameters(), online.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9, msg=name)


def test_without_a_target_network_the_first_timestep_is_of_the_first_window() -> None:
    """The cost of the first step's action, by the network's values at the first timestep."""
    settings: dict[str, Any] = {
        "next_window": True, "bootstrap": "advantage",
        "target_update": "none", "double_q": False, "n_step": 1, "gamma": 0.9, "reward_scale": 1.0,
    }  # fmt: skip
    network = make("box", **NETWORKS["lstm"])
    learner = make_learner(network, learner_config(**settings), whole=True)
    batch = make_batch(network, "box", (Shape(0, 0, 5),), learn_length=4)
    batch = batch._replace(
        memory={name: x[:, :0] for name, x in batch.memory.items()}, memory_valid=batch.memory_valid[:, :0]
    )

    def q_values(steps: StepInputs) -> Tensor:
        return network(steps, network.initial_state(1))[0].q[0]

    with torch.no_grad():
        found = errors_of(learner, batch).target[0]
        first = q_values(map_tree(lambda x: x[:, :4], batch.learn))
        later = q_values(map_tree(lambda x: x[:, 1:], batch.learn))
    of_step = torch.cat([first[:1], later])
    for t in range(4):
        action, reward = int(batch.learn.prev_action[0, t + 1]), float(batch.learn.reward[0, t + 1])
        cost = 0.9 * max(float(of_step[t][action] - of_step[t].max()), -1.0)
        expected = reward + cost + 0.9 * float(batch.discount[0, t + 1]) * float(of_step[t + 1].max())
        assert float(found[t]) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("agent", ["dtqn-paper", "drqn-paper"])
def test_every_env_step_has_one_window_up_to_it(agent: str) -> None:
    """Drawn uniformly, all of it learned: the public code's replay of contexts."""
    flags = {
        "agent": agent, "env": "gridverse-memory-5x5", "task.time_limit": "12", "actor.num_envs": "2",
        "network.width": "8", "network.core.num_heads": "2", "network.core.context_length": "5",
        "replay.burn_in_length": "4",
        "warmup_env_steps": "200", "total_env_steps": "1000", "replay.capacity": "1000", "device": "cpu",
        "replay.priority_exponent": "0", "metrics_every": "100",
    }  # fmt: skip
    if agent == "drqn-paper":
        del flags["network.core.num_heads"], flags["network.core.context_length"]
    trainer = Trainer(presets.resolve(None, flags, {}))
    while trainer.env_steps < 200:
        trainer.advance()
    # The timestep that an env step leads to is stored by the next vector step.
    assert trainer.env_steps - trainer.replay.num_sequences == 2
    sampled, info = trainer.replay.sample(400, np.random.default_rng(0))
    assert np.ptp(info.probabilities) < 1e-12 and (info.importance_weights == 1).all()
    batch = trainer.learner.learned(trainer.schema.sequences(sampled, info.importance_weights))
    step = torch.from_numpy(sampled.episode_step + sampled.burn_in_timesteps)  # of the window's last timestep
    assert torch.equal(batch.learned_steps, (step + 1).clamp(max=5))
    assert torch.equal(batch.learn_timesteps, batch.learned_steps + 1)
    assert torch.equal(batch.episode_step, (step - 4).clamp(min=0))
    assert batch.memory_valid.shape[1] == 0 or agent == "dtqn-paper"
    assert set(step.tolist()) >= set(range(12))
    metrics = [row for row in (trainer.advance() for _ in range(80)) if row]
    assert trainer.learner_steps > 100 and all(row.get("learner/skipped_updates", 0) == 0 for row in metrics)


_NO_FIRST_STEP = {"next_window": True, "double_q": False}


@pytest.mark.parametrize(
    "settings, message",
    [
        (
            {"learner": {"next_window": True}},
            r"next_window is true, but replay.burn_in_length is 4 .* try true, or a burn-in of 0",
        ),
        (
            {"learner": {"next_window": True}, "replay": {"burn_in_length": 0}},
            r"next_window is true with replay.memory refreshed.* try zero",
        ),
        (
            {"replay": {"learn_burn_in": True, "memory": "refreshed"}},
            "learn_burn_in is true with replay.memory refreshed",
        ),
        (
            {"network": {"core": "lstm", "encoder": "dtqn", "core.initial_weights": "chrono"}},
            "initial_weights is chrono, but network.encoder is dtqn",
        ),
        (
            {"learner": {"next_window": True, "bootstrap": "advantage"}, "replay": {"burn_in_length": 0}},
            "learner.next_window is true with learner.bootstrap advantage.* try greedy",
        ),
        (
            {
                "learner": {**_NO_FIRST_STEP, "returns": "watkins", "trace_tolerance": 0.1},
                "replay": {"burn_in_length": 0},
            },
            "next_window is true with learner.double_q false and learner.returns.tolerance 0.1.* try",
        ),
    ],
)
def test_what_does_not_fit_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config_from(settings)
