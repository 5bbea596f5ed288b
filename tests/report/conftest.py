"""A short run and the page about it, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtqn import cli

SHORT = [
    *("--total-env-steps", "600", "--warmup-env-steps", "200", "--evaluation.period", "200"),
    *("--metrics_every", "100", "--evaluation.episodes", "20", "--evaluation.first_episodes", "10"),
    *("--learner.env_steps_per_update", "40", "--learner.batch_size", "4", "--wandb", "disabled"),
    *("--network.width", "16", "--network.mlp_width", "16", "--device", "cpu"),
]
PLAYED = ["--episodes", "8", "--shown", "4"]


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`one` and `two` of gtrxl, and one of dtqn, in a T-Maze of seven steps."""
    folder = tmp_path_factory.mktemp("runs")
    for name, agent, seed in (("one", "gtrxl", 1), ("two", "gtrxl", 2), ("dtqn", "dtqn", 1)):
        flags = ["--env", "t-maze-passive-6", "--agent", agent, "--seed", str(seed)]
        assert cli.main([*flags, "--run-dir", str(folder / name), *SHORT]) == 0
    return folder


@pytest.fixture(scope="session")
def page(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the two runs of gtrxl."""
    file = tmp_path_factory.mktemp("page") / "page.html"
    paths = [str(runs / name) for name in ("one", "two")]
    assert cli.main(["report", *paths, "--out", str(file), *PLAYED]) == 0
    return file
