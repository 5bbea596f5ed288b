"""Which GPU a run sees."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dtqn.experiments import jobs
from dtqn.experiments.jobs import Process, Starter, visible_gpus
from dtqn.settings.presets import resolve
from dtqn.training.directory import RunDir

_WAITS = """
import os, pathlib, sys, time
directory = pathlib.Path(sys.argv[-1])
(directory / "sees").write_text(os.environ.get("CUDA_VISIBLE_DEVICES", "all"))
while not (directory / "end").exists():
    time.sleep(0.01)
"""
Start = Callable[..., tuple[str, Path, Process]]


@pytest.fixture(autouse=True)
def each_test_has_a_driver_of_its_own() -> Iterator[None]:
    jobs._of_the_driver.cache_clear()
    yield
    jobs._of_the_driver.cache_clear()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a run that says which GPUs it sees and waits to be told to end."""
    starter, begun = Starter((sys.executable, "-c", _WAITS)), []

    def started(device: str = "auto") -> tuple[str, Path, Process]:
        directory = tmp_path / str(len(begun))
        directory.mkdir()
        process = starter.start(RunDir(directory), resolve(None, {"device": device}, {}))
        begun.append((directory, process))
        while not (directory / "sees").exists() or not (directory / "sees").read_text():
            time.sleep(0.01)
        return (directory / "sees").read_text(), directory, process

    yield started
    for directory, process in begun:
        (directory / "end").touch()
        assert process._process.wait() == 0


def test_each_run_takes_the_gpu_with_the_fewest(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5")
    assert start("cpu")[0] == "2,5"
    assert start()[0] == "2"
    gpu, directory, process = start("cuda")
    assert gpu == "5"
    assert start()[0] == "2"
    (directory / "end").touch()
    process._process.wait()
    assert start()[0] == "5"
    assert start()[0] == "5"
    assert start()[0] == "2"


@pytest.mark.parametrize("visible", ["", "3"])
def test_where_there_is_no_choice_nothing_is_set(
    start: Start, monkeypatch: pytest.MonkeyPatch, visible: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    if visible:
        assert [start()[0], start()[0]] == [visible, visible]
    assert visible_gpus() == [visible] * bool(visible)


@pytest.mark.parametrize(
    ("says", "found"),
    [
        ("echo 'GPU 0: one (UUID: GPU-1)'; echo 'GPU 1: other (UUID: GPU-2)'", ["0", "1"]),
        (
            "echo 'GPU 0: one (UUID: GPU-1)'; echo '  MIG 1g.5gb Device 0: (UUID: MIG-a)'; "
            "echo '  MIG 1g.5gb Device 1: (UUID: MIG-b)'",
            ["MIG-a", "MIG-b"],
        ),
        ("echo no driver; exit 9", []),
        ("echo No devices were found", []),
        (None, []),
    ],
)
def test_gpus_are_those_that_the_driver_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str | None, found: list[str]
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    if says is not None:
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{says}\n")
        program.chmod(0o755)
    assert visible_gpus() == found
