"""Short runs and the page about two of them, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtqn import cli

_SHORT = [
    *(
        "--env",
        "t-maze-passive-6",
        "--total-env-steps",
        "600",
        "--warmup-env-steps",
        "200",
        "--wandb",
        "disabled",
    ),
    *("--metrics-every", "100", "--evaluation.period", "200", "--evaluation.episodes", "20"),
    *("--evaluation.first-episodes", "10", "--evaluator", "inline", "--threads", "1", "--device", "cpu"),
    *("--learner.env_steps_per_update", "40", "--learner.batch_size", "4"),
    *("--network.width", "16", "--network.mlp_width", "16"),
]
PLAYED = ["--episodes", "8", "--shown", "4"]


def _train(folder: Path, agent: str, seed: int) -> None:
    flags = ["--agent", agent, "--seed", str(seed), "--run-dir", str(folder)]
    assert cli.main([*flags, *_SHORT]) == 0


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs `one` and `two` of gtrxl in a T-Maze of seven steps, with seeds 1 and 2."""
    folder = tmp_path_factory.mktemp("runs")
    _train(folder / "one", "gtrxl", 1)
    _train(folder / "two", "gtrxl", 2)
    return folder


@pytest.fixture(scope="session")
def window_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of dtqn there."""
    folder = tmp_path_factory.mktemp("window") / "run"
    _train(folder, "dtqn", 1)
    return folder


@pytest.fixture(scope="session")
def page(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of `one` and `two`."""
    file = tmp_path_factory.mktemp("page") / "page.html"
    paths = [str(runs / name) for name in ("one", "two")]
    assert cli.main(["report", *paths, "--out", str(file), *PLAYED]) == 0
    return file
