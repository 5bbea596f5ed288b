"""Which GPU a run sees."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dtqn.experiments import jobs
from dtqn.experiments.jobs import Job, RunQueue, visible_gpus
from dtqn.settings.presets import resolve
from dtqn.training.directory import RunDir

_WAITS = """
import os, pathlib, sys, time
directory = pathlib.Path(sys.argv[-1])
(directory / "sees").write_text(os.environ.get("CUDA_VISIBLE_DEVICES", "all"))
while not (directory / "end").exists():
    time.sleep(0.01)
"""
Start = Callable[..., tuple[str, Job]]


@pytest.fixture(autouse=True)
def each_test_has_a_driver_of_its_own() -> Iterator[None]:
    jobs._of_the_driver.cache_clear()
    yield
    jobs._of_the_driver.cache_clear()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a run that says which GPUs it sees and waits to be told to end."""
    queue = RunQueue(9, (sys.executable, "-c", _WAITS))

    def started(device: str = "auto") -> tuple[str, Job]:
        directory = RunDir(tmp_path / str(len(queue.jobs)))
        directory.prepare(resolve(None, {"device": device}, {}))
        queue.add(Job("", directory))
        queue._start()
        file = directory.path / "sees"
        while not file.exists() or not file.read_text():
            time.sleep(0.01)
        return file.read_text(), queue.jobs[-1]

    yield started
    for job in queue.jobs:
        _end(job)
        assert job.exit_code == 0


def _end(job: Job) -> None:
    (job.directory.path / "end").touch()
    while job.state == "running":
        job._update()
        time.sleep(0.01)


def test_each_run_takes_the_gpu_with_the_fewest(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5")
    assert start("cpu")[0] == "2,5"
    assert start()[0] == "2"
    gpu, job = start("cuda")
    assert gpu == "5"
    assert start()[0] == "2"
    _end(job)
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
