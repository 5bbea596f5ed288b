"""Recordings of every preset: its resolved configuration and the rows of a short run.

A configuration changes with any default, preset or rule. The rows of a run change with anything on the way
from the environment to the gradient. They are compared to the last digit, so only on the kind of machine that
recorded them: another one adds numbers up in another order. If a change is meant, record anew from the root
of the repository, all or the named ones:

    python -m tests.training.test_recorded_runs [NAME ...]
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from dtqn import cli
from dtqn.settings import layers, presets
from dtqn.training import session
from dtqn.training.trainer import Trainer

GOLDEN = Path(__file__).parent.parent / "golden"
PRESETS = sorted(path.stem for path in (layers.CONFIGS / "agents").glob("*.yaml"))
OPTIONS = {
    "gtrxl+stored+n_step": ["--replay.memory", "stored", "--learner.returns", "n_step"],
    "gtrxl+peng+hard": ["--learner.returns", "peng", "--learner.target_update", "hard"],
    "gtrxl+heavenhell": ["--env", "heavenhell", "--wandb", "disabled"],
    "dtqn+quantile+threads": [
        *("--network.distribution", "quantile", "--learner.returns", "n_step", "--threads", "2"),
    ],
    "pqn+rollouts": ["--learner.rollout_length", "16", "--learner.minibatches", "4"],
}
"""A preset, what is added to it, and the flags that add it."""
CONFIGS: dict[str, dict[str, Any]] = {
    **{name: {"agent": name} for name in PRESETS},
    "gtrxl+hallway": {"agent": "gtrxl", "env": "hallway"},
}
"""The choices of each recorded configuration. A task without a preset shows defaults that others hide."""
NAMES = sorted([*PRESETS, *OPTIONS])
REGENERATE = "python -m tests.training.test_recorded_runs"
SHORT = [
    *("--env", "gridverse-memory-7x7", "--task.time_limit", "60", "--seed", "3"),
    *("--device", "cpu", "--wandb", "disabled", "--threads", "1", "--evaluator", "inline"),
    *("--total-env-steps", "1200", "--warmup-env-steps", "400", "--metrics-every", "400"),
    *("--actor.num_envs", "16", "--actor.epsilon_anneal_env_steps", "1000"),
    *("--learner.env_steps_per_update", "50", "--learner.batch_size", "4"),
    *("--learner.target_update_period", "10", "--replay.capacity", "2048"),
    *("--evaluation.period", "600", "--evaluation.episodes", "8", "--evaluation.num_envs", "8"),
]
"""A second or two in which warm-up ends, targets are copied and episodes are evaluated."""
CLOCKS = ("seconds", "speed/")


def machine() -> dict[str, str]:
    """The parts of a machine that the last digit of a sum depends on."""
    about: dict[str, str] = {}
    if (cpuinfo := Path("/proc/cpuinfo")).exists():
        lines = (line.partition(":") for line in cpuinfo.read_text().splitlines())
        about = {name.strip(): value.strip() for name, _, value in lines}  # of the last core
    return {
        "cpu": about.get("model name", platform.processor()),
        "flags": hashlib.sha256(about.get("flags", "").encode()).hexdigest()[:8],
        "vectors": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__.partition("+")[0],
        "numpy": np.__version__,
    }


def configuration(name: str) -> dict[str, Any]:
    """Every setting, resolved."""
    return yaml.safe_load(layers.to_yaml(presets.resolve(None, CONFIGS[name], {})))


def run(name: str, folder: Path) -> list[str]:
    """The rows of a short run without its clocks, a line of JSON each."""
    flags = ["--agent", name.partition("+")[0], *SHORT, *OPTIONS.get(name, []), "--run-dir", str(folder)]
    assert cli.main(flags) == 0
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [
        json.dumps({key: value for key, value in row.items() if not key.startswith(CLOCKS)}) for row in rows
    ]


@pytest.mark.parametrize("name", CONFIGS)
def test_the_configuration_of_a_preset_is_the_recorded_one(name: str) -> None:
    recorded = yaml.safe_load((GOLDEN / "configs" / f"{name}.yaml").read_text())
    assert configuration(name) == recorded, f"if this is meant: {REGENERATE} {name}"


@pytest.mark.parametrize("name", NAMES)
def test_a_short_run_has_the_recorded_rows(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    header, *recorded = (GOLDEN / "runs" / f"{name}.jsonl").read_text().splitlines()
    if json.loads(header) != machine():
        pytest.skip(f"recorded on another machine: {header}")
    monkeypatch.setattr(session, "learning_curve", lambda *_: None)
    monkeypatch.setattr(Trainer, "film", lambda *_: None)
    rows = run(name, tmp_path / "run")
    assert rows == recorded, f"if this is meant: {REGENERATE} {name}"


def test_every_recording_is_of_a_preset_or_an_option() -> None:
    assert sorted(path.stem for path in (GOLDEN / "configs").glob("*.yaml")) == sorted(CONFIGS)
    assert sorted(path.stem for path in (GOLDEN / "runs").glob("*.jsonl")) == NAMES


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sys.argv[1:] or sorted({*CONFIGS, *NAMES}):
        if name in CONFIGS:
            text = layers.to_yaml(presets.resolve(None, CONFIGS[name], {}))
            (GOLDEN / "configs" / f"{name}.yaml").write_text(text)
        if name not in NAMES:
            continue
        with tempfile.TemporaryDirectory() as folder:
            rows = [json.dumps(machine()), *run(name, Path(folder) / "run")]
        (GOLDEN / "runs" / f"{name}.jsonl").write_text("\n".join(rows) + "\n")
