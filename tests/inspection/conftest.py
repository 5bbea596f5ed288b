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


def _train(folder: Path, agent: str, seed: int, *more: str) -> None:
    flags = ["--agent", agent, "--seed", str(seed), "--run-dir", str(folder), *more]
    assert cli.main([*flags, *_SHORT]) == 0


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs `one` and `two` of gtrxl in a T-Maze of seven steps, with seeds 1 and 2."""
    folder = tmp_path_factory.mktemp("runs")
    inside = (
        "--replay.learn_length",
        "3",
        "--replay.burn_in_length",
        "0",
    )  # of an episode, with stale memory
    _train(folder / "one", "gtrxl", 1, *inside)
    _train(folder / "two", "gtrxl", 2, *inside)
    return folder


@pytest.fixture(scope="session")
def window_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of dtqn there."""
    folder = tmp_path_factory.mktemp("window") / "run"
    _train(folder, "dtqn", 1, "--learner.n_step", "1")
    return folder


@pytest.fixture(scope="session")
def page(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of `one` and `two`."""
    file = tmp_path_factory.mktemp("page") / "page.html"
    paths = [str(runs / name) for name in ("one", "two")]
    assert cli.main(["report", *paths, "--out", str(file), *PLAYED]) == 0
    return file
