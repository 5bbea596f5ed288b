"""A short run and its export, made once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dtqn import cli

SHORT = [
    *("--env", "t-maze-passive-6", "--agent", "gru", "--wandb", "disabled", "--device", "cpu"),
    *("--threads", "1", "--total-env-steps", "900", "--warmup-env-steps", "200", "--metrics-every", "100"),
    *("--actor.num_envs", "4", "--evaluation.period", "150", "--evaluation.episodes", "12"),
    *("--learner.batch_size", "4", "--learner.env_steps_per_update", "20"),
    *("--replay.capacity", "2000", "--network.width", "16"),
]


@pytest.fixture(scope="session")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "gru"
    assert cli.main([*SHORT, "--run-dir", str(path)]) == 0
    return path


@pytest.fixture(scope="session")
def exported(run_dir: Path) -> Path:
    to = run_dir.parent / "exported"
    assert cli.main(["export", str(run_dir), "--to", str(to), "--episodes", "40"]) == 0
    return to


@pytest.fixture
def copied(exported: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(exported, tmp_path / "copied"))
