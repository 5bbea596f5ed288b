"""The trained agent that comes with the package."""

from __future__ import annotations

from pathlib import Path

import pytest

import dtqn
from dtqn.training.directory import DEMO
from tests.tiny import printed


@pytest.mark.parametrize(
    ("command", "said", "made"),
    [
        (("watch", "--delay", "0"), "a success\n", []),
        (("debug", "--episodes", "20"), "uses its memory?                     yes: ", ["debug"]),
        (("report", "--episodes", "4"), "report: report.html (", ["report.html"]),
        (("eval", "--episodes", "20"), "success 100.0%", []),
        (("verify",), "task                ok", []),
    ],
)
def test_commands_show_it_and_write_nothing_into_the_package(
    tmp_path: Path, monkeypatch, capsys, command, said, made
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(DEMO.iterdir())
    assert said in printed(capsys, command[0], "demo", *command[1:])
    assert sorted(DEMO.iterdir()) == before
    assert [path.name for path in tmp_path.iterdir()] == made


def test_it_is_small_and_loads(tmp_path: Path, monkeypatch) -> None:
    assert sum(file.stat().st_size for file in DEMO.iterdir()) < 1_000_000
    monkeypatch.chdir(tmp_path)
    assert dtqn.load("demo").config.env == "gridverse-memory-7x7"
    assert dtqn.evaluate("demo", episodes=20).success == 1.0
    (tmp_path / "demo").mkdir()  # a folder of the user's own is meant then
    with pytest.raises(ValueError, match="demo: holds no run"):
        dtqn.load("demo")
