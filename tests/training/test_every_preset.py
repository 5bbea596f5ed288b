"""Every agent's preset: it says what it means, trains, and goes on from a checkpoint bit for bit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import dtqn
from dtqn.settings import presets
from dtqn.settings.config import Config
from dtqn.training import checkpoint
from dtqn.training.setup import make_network
from dtqn.training.trainer import Trainer
from tests.cases import OURS, PRESETS

DOCS = Path(dtqn.__file__).parents[1] / "docs" / "agents.md"
SMALL = {
    "env": "gridverse-memory-5x5", "task.time_limit": "20", "seed": "3", "device": "cpu",
    "total_env_steps": "4000", "warmup_env_steps": "160", "metrics_every": "100000",
    "network.width": "16", "network.core.mlp_width": "16", "network.head_width": "8",
    "network.core.memory_length": "7",
    "learner.batches.size": "4", "learner.batches.env_steps_per_update": "8",
    "replay.capacity": "4000", "actor.num_envs": "4", "evaluation.period": "100000",
}  # fmt: skip

OF_AGENT = {
    "pqn": {
        "learner.batches.length": "16",
        "learner.batches.minibatches": "2",
        "learner.batches.epochs": "1",
    },
}


def config_of(agent: str) -> Config:
    return presets.resolve(None, {"agent": agent, "env": "gridverse-memory-7x7"}, {})


@pytest.mark.parametrize("agent", PRESETS)
def test_a_preset_is_a_difference(agent: str) -> None:
    """A preset may set something to its default; but no two presets are the same agent."""
    others = {other: config_of(other).model_dump(exclude={"agent"}) for other in PRESETS if other != agent}
    same = [
        name for name, config in others.items() if config == config_of(agent).model_dump(exclude={"agent"})
    ]
    assert same == []


def test_every_core_has_a_preset() -> None:
    assert {config_of(agent).network.core.name for agent in PRESETS} == set(OURS)


def test_the_docs_have_every_agent_with_its_parameters() -> None:
    timesteps = re.findall(
        r"^\| `([\w-]+)` \|.*\| ([\d ]+) \|$", DOCS.read_text(encoding="utf-8"), re.MULTILINE
    )
    counted = {
        agent: f"{sum(p.numel() for p in make_network(config_of(agent)).parameters()):,}".replace(",", " ")
        for agent in PRESETS
    }
    assert dict(timesteps) == counted


@pytest.mark.parametrize("agent", PRESETS)
def test_it_trains_and_goes_on_from_a_checkpoint(agent: str, tmp_path: Path) -> None:
    config = presets.resolve(None, {"agent": agent, **SMALL, **OF_AGENT.get(agent, {})}, {}, for_all=True)
    trainer = Trainer(config)
    before = [p.clone() for p in trainer.network.parameters()]
    while trainer.learner_steps < 4:
        trainer.advance()
    assert all(not torch.equal(a, b) for a, b in zip(before, trainer.network.parameters(), strict=True))
    checkpoint.save(
        tmp_path, trainer.env_steps, trainer.network.state_dict(), trainer.get_state(), {"agent": agent}
    )
    again = Trainer(config)
    again.set_state(checkpoint.load_state(tmp_path))
    for run in (trainer, again):
        while run.learner_steps < 8:
            run.advance()
    assert trainer.learner.skipped_updates == 0
    for a, b in zip(trainer.network.parameters(), again.network.parameters(), strict=True):
        assert a.isfinite().all() and torch.equal(a, b)
