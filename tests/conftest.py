"""Settings of every test."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from dtqn.inspection.page_episodes import png
from dtqn.settings import trust
from dtqn.training import machine
from tests import tiny
from tests.browser import executable

DOT = png(np.zeros((1, 1, 3), np.uint8))

# As runs have it: on tensors this small, two threads spend their time waiting for each other.
torch.set_num_threads(1)

# What tests train is nothing that the user's own list of trusted code should know of.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="dtqn-tests-")

# A shell that starts pytest in the background lets it ignore Ctrl-C, and nohup a hangup. Tests send both.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory of a user who keeps modules there, which only the program itself finds.

    Modules that are imported from it are forgotten at the end.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def trusting() -> Iterator[None]:
    """The user has said `--trust-code`."""
    with trust.given(True):
        yield


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of gtrxl in a T-Maze of seven steps, seed 1; tests may add files to it."""
    return tiny.train(tmp_path_factory.mktemp("runs") / "one", "gtrxl")


@pytest.fixture(autouse=True)
def _busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are as on a machine with one free core, however busy this one is."""
    monkeypatch.setattr(machine, "free_cores", lambda: 1)


@pytest.fixture(autouse=True)
def _learning_curves_are_a_dot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing them is a third of a run of seconds; test_plots.py looks at real ones."""
    monkeypatch.setattr("dtqn.plots.learning_curve", lambda rows, path, *_: path.write_bytes(DOT))


@pytest.fixture(autouse=True)
def _no_job_of_the_test_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """`compare` and `sweep` say in the environment, for their runs, what W&B is to call them."""
    for name in ("WANDB_RUN_GROUP", "WANDB_JOB_TYPE"):
        monkeypatch.setenv(name, "")  # so that whatever the test leaves is undone
        monkeypatch.delenv(name)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line that says whether the page of `report` was tried in a browser; CI prints it again."""
    found = {
        outcome: [
            report
            for report in terminalreporter.stats.get(outcome, [])
            if "test_browser.py" in getattr(report, "nodeid", "")
        ]
        for outcome in ("passed", "failed", "error", "skipped")
    }
    ran = [report for outcome in ("passed", "failed", "error") for report in found[outcome]]
    if ran:
        terminalreporter.write_line(f"browser test: {len(ran)} tests RAN in {executable()}")
    elif found["skipped"]:
        reason = str(found["skipped"][0].longrepr[-1]).removeprefix("Skipped: ")
        terminalreporter.write_line(f"browser test: NOT RUN, {reason}", red=True)
