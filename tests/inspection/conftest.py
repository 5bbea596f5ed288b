"""Short runs and the page about two of them, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtqn import cli
from tests import tiny

PLAYED = ["--episodes", "8", "--shown", "4"]


@pytest.fixture(scope="session")
def runs(tiny_run: Path) -> Path:
    """The runs `one` and `two` of gtrxl, with seeds 1 and 2."""
    tiny.train(tiny_run.parent / "two", "gtrxl", "--seed", "2")
    return tiny_run.parent


@pytest.fixture(scope="session")
def window_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of dtqn there."""
    return tiny.train(tmp_path_factory.mktemp("window") / "run", "dtqn", "--learner.n_step", "1")


@pytest.fixture(scope="session")
def page(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of `one` and `two`."""
    file = tmp_path_factory.mktemp("page") / "page.html"
    paths = [str(runs / name) for name in ("one", "two")]
    assert cli.main(["report", *paths, "--out", str(file), *PLAYED]) == 0
    return file
