"""`--config configs/paper/...` is the published set-up, whatever the presets of tasks say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dtqn.settings import layers, presets
from dtqn.settings.config import Config, settings_of

FILES = sorted((layers.CONFIGS / "paper").glob("*.yaml"))
NAMES = [path.stem for path in FILES]

# As documented by the public code's branch `paper`: its run.py, agents and networks.
OF_ALL: dict[str, Any] = {
    "env": "gridverse-memory-7x7",
    "total_env_steps": 2_050_000, "warmup_env_steps": 50_000, "stop_at_success": None,
    "task.time_limit": 500, "task.observation": None, "task.hide": None, "task.frame_stack": 1,
    "network.encoder": "dtqn", "network.width": 128, "network.encoder.embedding_width": 8,
    "network.head_width": 128,
    "network.dueling": False, "network.encoder.use_prev_action": False,
    "network.distribution": "none", "network.recall_weight": 0,
    "learner.learning_rate": 3e-4, "learner.final_learning_rate_share": 1, "learner.batches.size": 32,
    "learner.gamma": 0.99, "learner.n_step": 1, "learner.returns": "n_step", "learner.double_q": True,
    "learner.bootstrap": "greedy", "learner.value_rescaling": False,
    "learner.reward_scale": 1.0, "learner.target_update": "hard", "learner.target_update.period": 10_000,
    "learner.batches.env_steps_per_update": 1, "learner.max_grad_norm": 0.5, "learner.adam_epsilon": 5e-9,
    "replay.capacity": 500_000, "replay.learn_length": 1, "replay.sequence_period": None,
    "replay.priority_exponent": 0, "replay.importance_sampling_exponent": 0,
    "actor.num_envs": 1, "actor.exploration": "annealed", "actor.epsilon_final": 0.1,
    "actor.epsilon_anneal_env_steps": 200_000, "actor.annealing": "exponential",
    "actor.burst_share": 0, "actor.untried_share": 0.0,
    "evaluation.period": 5_000, "evaluation.episodes": 10, "evaluation.num_envs": 10,
}  # fmt: skip
OF_WINDOWS = {
    "replay.burn_in_length": 49, "replay.learn_burn_in": True, "learner.next_window": True,
}  # fmt: skip
OF_EACH: dict[str, dict[str, Any]] = {
    "dtqn-gridverse-memory-7x7": OF_WINDOWS | {
        "agent": "dtqn-paper", "network.core": "dtqn", "network.core.num_layers": 2,
        "network.core.num_heads": 8,
        "network.core.mlp_width": 512, "network.core.context_length": 50, "network.core.positions": "learned",
        "network.core.norm": "post", "network.core.final_norm": True, "network.core.gate": "residual",
        "network.core.gate_bias": 0,
        "network.core.share_gates": True,
    },
    "drqn-gridverse-memory-7x7": OF_WINDOWS | {
        "agent": "drqn-paper", "network.core": "lstm", "network.core.num_layers": 1,
        "network.core.initial_weights": "torch",
        "network.core.skip_connections": False, "replay.memory": "zero",
    },
    "dqn-gridverse-memory-7x7": {
        "agent": "dqn-paper", "network.core": "none", "replay.burn_in_length": 0,
        "learner.next_window": False,
        "replay.learn_burn_in": False,
    },
}  # fmt: skip


def resolved(file: Path, **flags: str) -> Config:
    return presets.resolve(file, flags, {})


ENVS = ("gridverse-memory-7x7", "t-maze-passive-50", "hallway", "ALE/Pong-v5", "MiniGrid-MemoryS7-v0")


@pytest.mark.parametrize("env", ENVS)
@pytest.mark.parametrize("agent", ["dtqn-paper", "drqn-paper", "dqn-paper"])
def test_an_agent_is_as_published_on_every_task(agent: str, env: str) -> None:
    """All that belongs to the agent and not to its run: network, learner, replay, exploration."""
    of_run = ("task.", "evaluation.")
    expected = OF_ALL | OF_EACH[f"{agent.removesuffix('-paper')}-gridverse-memory-7x7"]
    of_agent = {
        name: value for name, value in expected.items() if "." in name and not name.startswith(of_run)
    }
    config = presets.resolve(None, {"agent": agent, "env": env}, {})
    assert {name: settings_of(config)[name] for name in of_agent} == of_agent


def test_every_file_is_documented_here() -> None:
    assert sorted(OF_EACH) == NAMES


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_it_is_the_published_set_up(file: Path) -> None:
    config = resolved(file)
    expected = OF_ALL | OF_EACH[file.stem]
    assert {name: settings_of(config)[name] for name in expected} == expected
    # That code's gates would read these with `network.core.gate: gru`; the published sums have no gates.
    assert set(config.unread()) <= {"network.core.gate_bias", "network.core.share_gates"}


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_no_preset_of_a_task_is_left_in_it(file: Path) -> None:
    mine = layers.file_layer(file)
    without = layers.build([presets.find_agent(mine.values["agent"]).preset, mine])
    assert resolved(file) == without


def test_flags_come_after_it() -> None:
    config = resolved(FILES[0], seed="3", total_env_steps="60000")
    assert (config.seed, config.total_env_steps, config.learner.gamma) == (3, 60_000, 0.99)
