"""A small run whose files are damaged in random ways: whatever comes of it is the truth or one line."""

from __future__ import annotations

import io
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from dtqn.settings.config import ConfigError
from dtqn.settings.presets import resolve
from dtqn.training import session, trained
from dtqn.training.directory import RunDir
from dtqn.training.metrics import read_rows

_DAMAGES = 35
_SETTINGS = {
    **{"env": "gridverse-memory-5x5", "task.time_limit": 10, "wandb": "disabled", "device": "cpu"},
    **{"total_env_steps": 240, "warmup_env_steps": 100, "metrics_every": 40, "checkpoint_every": 1000},
    **{"actor.num_envs": 4, "actor.epsilon_anneal_env_steps": 100, "learner.batches.env_steps_per_update": 4},
    **{"learner.batches.size": 2, "network.width": 8, "network.head_width": 8, "network.core.mlp_width": 8},
    **{"network.core.num_layers": 1, "network.core.num_heads": 1, "network.core.memory_length": 4},
    **{"replay.capacity": 400, "replay.learn_length": 6, "replay.sequence_period": 3},
    **{"replay.burn_in_length": 2, "evaluation.period": 80, "evaluation.episodes": 4},
    **{"evaluation.num_envs": 4},
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("fuzz") / "run"
    assert session.start(resolve(None, _SETTINGS, {}), RunDir(path), io.StringIO()) == 0
    return path


def _damage(path: Path, generator: np.random.Generator) -> str:
    """Damage one file; what was done to which."""
    files = sorted(file for file in path.rglob("*") if file.is_file() and file.suffix not in (".png", ".gif"))
    file = files[generator.integers(len(files))]
    data = bytearray(file.read_bytes())
    kind = generator.choice(["truncate", "flip", "flips", "empty", "swap", "remove", "insert", "folder"])
    match kind:
        case "truncate":
            del data[generator.integers(len(data)) :]
        case "flip" | "flips":
            for _ in range(1 if kind == "flip" else 20):
                data[generator.integers(len(data))] ^= 1 << int(generator.integers(8))
        case "empty":
            data.clear()
        case "insert":
            at = generator.integers(len(data))
            data[at:at] = generator.bytes(8)
        case "swap":
            other = files[generator.integers(len(files))]
            data, content = bytearray(other.read_bytes()), bytes(data)
            other.write_bytes(content)
            return f"swap {file.name} {other.name}" if file.write_bytes(data) >= 0 else ""
        case "remove" | "folder":
            file.unlink()
            if kind == "folder":
                file.mkdir()
            return f"{kind} {file.name}"
    file.write_bytes(data)
    return f"{kind} {file.name}"


def _attempt(action) -> str:
    try:
        action()
    except ConfigError as error:
        assert "\n" not in str(error)
        return "one line"
    return "whole"


def test_no_damage_ends_in_anything_but_one_line(tmp_path, finished, monkeypatch):
    monkeypatch.setattr(session, "learning_curve", lambda *_: None)  # half the time
    came = Counter()
    evaluated = {name: trained.evaluate_run(RunDir(finished), 2, 3, name) for name in ("last", "best")}
    for seed in range(_DAMAGES):
        path = tmp_path / "run"
        shutil.copytree(finished, path)
        done = _damage(path, np.random.default_rng(seed))
        directory = RunDir(path)

        def go_on(directory=directory):
            config = directory.resumed_config({"total_env_steps": 248}, {})
            assert session.resume(config, directory, io.StringIO()) == 0
            assert read_rows(directory.metrics_file)[-1]["env_steps"] >= 248

        def evaluate(name, directory=directory):
            assert trained.evaluate_run(directory, 2, 3, name) == evaluated[name]

        try:
            came["last", _attempt(lambda: evaluate("last"))] += 1
            came["best", _attempt(lambda: evaluate("best"))] += 1
            came["resume", _attempt(go_on)] += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}: {done}") from error
        shutil.rmtree(path)
    assert min(came.values()) > _DAMAGES / 10, came
    assert len(came) == 6, "each of the three is refused in some cases and does its work in others"
