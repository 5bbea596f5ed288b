"""Each vector step of a run against plain loops: what is stored, drawn, weighed, updated and evaluated."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import envs
from dtqn.acting.evaluation import film
from dtqn.settings.config import Config
from dtqn.training import checkpoint, session
from dtqn.training.directory import RunDir
from dtqn.training.trainer import Trainer
from tests.cases import config_from, randomise
from tests.reference.trainer_twin import NaiveTrainer
from tests.training.test_trainer import evaluated, make_trainer

NETWORK = {"width": 8, "num_layers": 1, "mlp_width": 8, "memory_length": 3, "head_width": 8}
COMMON: dict[str, dict[str, Any]] = {
    "learner": {
        "batch_size": 3,
        "learning_rate": 3e-3,
        "adam_epsilon": 1e-6,
        "final_learning_rate_share": 0.2,
        "gamma": 0.9,
        "n_step": 2,
        "reward_scale": 4.0,
    },
    "replay": {
        "capacity": 100,
        "learn_length": 4,
        "sequence_period": 3,
        "burn_in_length": 2,
        "priority_exponent": 0.7,
        "importance_sampling_exponent": 0.5,
    },
    "actor": {"num_envs": 4, "epsilon_anneal_env_steps": 60},
    "evaluation": {"episodes": 6, "num_envs": 4, "period": 40},
}
CASES: dict[str, dict[str, dict[str, Any]]] = {
    "two updates a step": {
        "learner": {
            "env_steps_per_update": 2.0,
            "target_ema_rate": 0.05,
            "novelty_weight": 0.6,
            "repeat_cost": 0.3,
        },
        "actor": {"ladder_base": 0.8, "ladder_exponent": 3.0, "untried_share": 0.5},
    },
    "refreshed": {
        "network": {"core": "lstm"},
        "learner": {"env_steps_per_update": 8.0, "target_update": "hard", "target_update_period": 5},
        "replay": {"memory": "refreshed", "priority_exponent": 0.0},
        "actor": {"exploration": "annealed", "epsilon_final": 0.2},
    },
    "zero": {
        "network": {"core": "gru"},
        "learner": {"env_steps_per_update": 5.0},
        "replay": {"memory": "zero", "sequence_period": None},
        "evaluation": {"epsilon": 0.4},
    },
}
"""Settings differ from their defaults where a part could be built without them."""


@pytest.fixture
def double() -> Iterator[None]:
    """Two ways of adding up then differ too little to choose another action."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def configured(case: dict[str, dict[str, Any]]) -> Config:
    groups = {name: COMMON.get(name, {}) | case.get(name, {}) for name in COMMON}
    return config_from(
        {
            "env": "tests.toy:Echo",
            "seed": 5,
            "device": "cpu",
            "wandb": "disabled",
            "total_env_steps": 160,
            "warmup_env_steps": 71,  # within a vector step
            "metrics_every": 10**6,
            "network": NETWORK | case.get("network", {}),
            **groups,
        }
    )


def assert_same_weights(what: str, network: nn.Module, expected: nn.Module) -> None:
    ours, theirs = (nn.utils.parameters_to_vector(n.parameters()) for n in (network, expected))
    np.testing.assert_allclose(ours.detach(), theirs.detach(), rtol=0, atol=1e-6, err_msg=what)


def assert_same_timesteps(trainer: Trainer, twin: NaiveTrainer) -> None:
    """All that is stored, ring by ring."""
    stored, size = trainer.replay.get_state()["rows"], twin.replay.size
    expected: list[dict[str, np.ndarray]] = []
    for stream in range(twin.num_envs):
        steps = [step for episode in twin.replay.episodes[stream] for step in episode.timesteps]
        first = max(0, len(steps) - size)
        expected += [steps[i] for i in sorted(range(first, len(steps)), key=lambda i: i % size)]
    for name, values in stored.items():
        if name in ("episode_step", "sequence_learn_rows"):  # the replay's own
            continue
        ours = np.array([step[name.removeprefix("trace/")] for step in expected])
        np.testing.assert_allclose(values, ours, rtol=1e-3, atol=1e-6, err_msg=name)


def assert_same(trainer: Trainer, twin: NaiveTrainer) -> None:
    assert trainer.env_steps == twin.env_steps
    assert trainer.learner_steps == twin.learner.learner_steps
    assert trainer.learner.learning_rate == pytest.approx(twin.learner.learning_rate, rel=1e-12)
    assert trainer.actor.epsilon() == pytest.approx([twin.epsilon(i) for i in range(twin.num_envs)])
    assert trainer.actor.version == twin.version
    assert_same_weights("online", trainer.learner.online, twin.learner.online)
    assert_same_weights("target", trainer.learner.target, twin.learner.target)
    assert_same_weights("actor", trainer.actor.network, twin.acting)
    sampler = trainer.replay.get_state()["sampler"]
    priorities = [twin.replay.priorities[id_] for id_ in twin.replay.sampleable()]
    np.testing.assert_allclose(sampler["priorities"], priorities, rtol=1e-5, atol=1e-6, err_msg="priorities")
    assert sampler["max_priority"] == pytest.approx(twin.replay.max_priority, rel=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_a_run_is_that_of_plain_loops(case: str, double: None) -> None:
    config = configured(CASES[case])
    trainer, twin = Trainer(config), NaiveTrainer(config)
    evaluations = []
    while not trainer.finished:
        row, result = evaluated(trainer, trainer.advance()), twin.advance()
        assert_same(trainer, twin)
        assert (row is None) == (result is None)
        if row is not None and result is not None:
            assert row["eval/return"] == pytest.approx(result.episode_return, rel=1e-12)
            assert row["eval/length"] == result.length
            evaluations.append(result)
    assert_same_timesteps(trainer, twin)
    assert len(evaluations) == 4 and twin.version > 0
    assert twin.replay.so_far(0) > twin.replay.size, "nothing was overwritten"
    assert twin.replay.max_priority > 1, "no priority was above that which the first sequences have"


def test_the_film_shows_the_online_network(tmp_path: Path) -> None:
    trainer = make_trainer(100)
    randomise(trainer.learner.target, scale=1.0)
    trainer.film(tmp_path / "run.gif")
    seed = np.random.SeedSequence(trainer.config.seed, spawn_key=(6,))
    for name in ("online", "target"):
        env = envs.make_vector(trainer.config.env, 1, seed, render_mode="rgb_array", time_limit=20)
        film(getattr(trainer.learner, name), env, tmp_path / f"{name}.gif")
    shown, online, target = ((tmp_path / f"{name}.gif").read_bytes() for name in ("run", "online", "target"))
    assert shown == online != target


def test_a_finished_run_keeps_the_weights_of_its_online_network(tmp_path: Path) -> None:
    """Its only evaluation, at the end, is the best; the environment cannot be drawn, which ends no run."""
    config = configured({"evaluation": {"period": 10**6}})
    directory = RunDir(tmp_path / "run")
    assert session.start(config, directory, io.StringIO()) == 0
    learner = checkpoint.load_state(directory.checkpoints)["learner"]
    for kept in (
        checkpoint.load_weights(directory.checkpoints)[1],
        checkpoint.load_weights(directory.checkpoints, "best")[1],
    ):
        assert kept.keys() == learner["online"].keys()
        assert all(torch.equal(kept[name], weights) for name, weights in learner["online"].items())
        assert not all(torch.equal(kept[name], weights) for name, weights in learner["target"].items())
