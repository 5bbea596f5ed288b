"""Setup: what a run will take, and what its start does not pay for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dtqn.settings import presets
from dtqn.settings.config import Config
from dtqn.training import setup

ROOT = Path(__file__).resolve().parents[2]


def config_of(agent: str, **flags: str) -> Config:
    return presets.resolve(None, {"agent": agent, "env": "gridverse-memory-7x7", **flags}, {})


@pytest.mark.parametrize("agent", ["gtrxl", "coberl", "darqn", "dtqn-bag", "lru", "dtqn-paper"])
def test_planned_bytes_are_those_of_the_network(agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six times its parameters, whether it is made to be counted or is only a shape."""
    config = config_of(agent)
    parameters = sum(p.numel() * p.element_size() for p in setup.make_network(config).parameters())
    made = setup.plan_bytes(config)
    monkeypatch.setattr(setup, "_SMALL", 0)
    shape = setup.plan_bytes(config)
    assert made == shape
    assert made["networks"] == 6 * parameters


def test_a_network_that_fits_nowhere_is_counted() -> None:
    plan = setup.plan_bytes(config_of("gtrxl", **{"network.width": "300000", "network.num_heads": "2"}))
    assert plan["networks"] > 6 * 4 * 2 * 12 * 300_000**2  # two layers of GRU gates: 12 matrices each


def test_a_start_does_not_import_the_compiler_of_torch() -> None:
    """It takes longer to import than a short run to train; so does scipy.stats."""
    script = (
        "import sys; from dtqn.settings import presets; from dtqn.training import session, setup, trainer;"
        "config = presets.resolve(None, {'total_env_steps': '200', 'evaluation.episodes': '2',"
        " 'actor.num_envs': '4', 'replay.capacity': '4000', 'task.time_limit': '10'}, {});"
        "setup.plan_bytes(config); run = trainer.Trainer(config);"
        "[run.advance() for _ in range(3)]; run.finish();"
        "assert not {'torch._dynamo', 'scipy.stats', 'wandb'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
