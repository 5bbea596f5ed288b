"""Recordings of every preset: its resolved configuration and the rows of a short run.

A configuration changes with any default, preset or rule. The rows of a run change with anything on the way
from the environment to the gradient. They are compared to the last digit, so only on the kind of machine that
recorded them: another one adds numbers up in another order. If a change is meant, record anew from the root
of the repository, all or the named ones; names that are gone leave the recordings too:

    python -m tests.training.test_recorded_runs [--settings-only] [NAME ...]

Of a preset's settings the recording has the differences from the defaults, which stand before them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from dtqn import cli
from dtqn.settings import layers, presets
from dtqn.training.trainer import Trainer
from tests import golden
from tests.cases import PRESETS

OPTIONS = {
    "gtrxl+stored+n_step": ["--replay.memory", "stored", "--learner.returns", "n_step"],
    "gtrxl+peng+hard": ["--learner.returns", "peng", "--learner.target_update", "hard"],
    "gtrxl+heavenhell": ["--env", "heavenhell", "--wandb", "disabled"],
    "pqn+rollouts": ["--learner.rollout_length", "16", "--learner.batches.minibatches", "4"],
}
"""A preset, what is added to it, and the flags that add it."""
CONFIGS: dict[str, dict[str, Any]] = {
    **{name: {"agent": name} for name in PRESETS},
    "dtqn+t-maze": {"agent": "dtqn", "env": "t-maze-passive-50"},
}
"""The choices of each recorded configuration. The last task's name fixes the length of its episodes."""
DEFAULTS = "defaults"
"""What the recording of every setting without a choice is called."""
NAMES = sorted([*PRESETS, *OPTIONS])
REGENERATE = "python -m tests.training.test_recorded_runs"
SHORT = [
    *("--env", "gridverse-memory-7x7", "--task.time_limit", "60", "--seed", "3"),
    *("--device", "cpu", "--wandb", "disabled", "--threads", "1", "--evaluator", "inline"),
    *("--total-env-steps", "1200", "--warmup-env-steps", "400", "--metrics-every", "400"),
    *("--actor.num_envs", "16", "--actor.epsilon_anneal_env_steps", "1000"),
    *("--evaluation.period", "600", "--evaluation.episodes", "8", "--evaluation.num_envs", "8"),
    *("--replay.capacity", "4096"),
]
"""A second or two in which warm-up ends, targets are copied and episodes are evaluated."""
SHARED = "learner: {batches: {size: 4, env_steps_per_update: 50}, target_update: {period: 10}}"
"""A file's settings, each for the agents that have it."""
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
    """The settings, resolved, that differ from a default run's, by dotted name."""
    found, usual = layers.named(presets.resolve(None, CONFIGS[name], {})), layers.named(layers.build([]))
    return {setting: x for setting, x in found.items() if setting not in usual or x != usual[setting]}


def run(name: str, folder: Path) -> list[dict[str, Any]]:
    """The rows of a short run without its clocks."""
    folder.parent.joinpath("shared.yaml").write_text(SHARED)
    flags = ["--agent", name.partition("+")[0], *SHORT, "--config", f"{folder.parent}/shared.yaml"]
    assert cli.main([*flags, *OPTIONS.get(name, []), "--run-dir", str(folder)]) == 0
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if not key.startswith(CLOCKS)} for row in rows]


@pytest.mark.parametrize("name", CONFIGS)
def test_the_configuration_of_a_preset_is_the_recorded_one(name: str) -> None:
    recorded = golden.read(golden.SETTINGS)[name]
    assert configuration(name) == recorded, f"if this is meant: {REGENERATE} --settings-only {name}"


def test_the_defaults_are_the_recorded_ones() -> None:
    assert layers.named(layers.build([])) == golden.read(golden.SETTINGS)[DEFAULTS]


@pytest.mark.parametrize("name", NAMES)
def test_a_short_run_has_the_recorded_rows(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, *recorded = golden.read(golden.RUNS)[name]
    if where != machine():
        pytest.skip(f"recorded on another machine: {where}")
    monkeypatch.setattr(Trainer, "film", lambda *_: None)
    rows = run(name, tmp_path / "run")
    assert texts(rows) == texts(recorded), f"if this is meant: {REGENERATE} {name}"


def texts(rows: list[dict[str, Any]]) -> list[str]:
    """To be compared to the last digit and in the order of the keys; NaN is NaN."""
    return [json.dumps(row) for row in rows]


def test_every_recording_is_of_a_preset_or_an_option() -> None:
    assert list(golden.read(golden.SETTINGS)) == [DEFAULTS, *sorted(CONFIGS)]
    assert list(golden.read(golden.RUNS)) == NAMES


def record_settings(names: Collection[str]) -> None:
    """The defaults, and the differences of these presets from them."""
    anew = {name: configuration(name) for name in names}
    found = {DEFAULTS: layers.named(layers.build([]))} | golden.updated(golden.SETTINGS, anew, CONFIGS)
    golden.SETTINGS.write_text(yaml.safe_dump(found, sort_keys=False))


def record_run(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        golden.write(golden.RUNS, {name: [machine(), *run(name, Path(folder) / "run")]}, NAMES)


def main() -> None:
    parser = argparse.ArgumentParser(description="Record presets anew.")
    parser.add_argument("names", nargs="*", default=sorted({*CONFIGS, *NAMES}), metavar="NAME")
    parser.add_argument("--settings-only", action="store_true")
    asked = parser.parse_args()
    record_settings([name for name in asked.names if name in CONFIGS])
    for name in asked.names:
        if name in NAMES and not asked.settings_only:
            record_run(name)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
