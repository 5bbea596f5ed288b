"""A process beside the run: its answers, its faults, and that nothing of it is left."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.kills import alive, wait
from dtqn.training.worker import Worker, WorkerError
from tests.training.served import Counter

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def working(start: int = 0) -> Iterator[Worker]:
    worker = Worker("counts", Counter, start)
    try:
        yield worker
    finally:
        worker.close()


def call(worker: Worker, method: str, *arguments: object) -> object:
    worker.ask(method, *arguments)
    assert worker.answered(60)
    return worker.answer()


def test_an_object_keeps_its_state_and_its_errors_come_back() -> None:
    with working(5) as worker:
        assert call(worker, "add", 2) == 7
        with pytest.raises(KeyError, match="because") as caught:
            call(worker, "fail", "because")
        assert "served.py" in caught.value.__notes__[0], "where it was raised"
        with pytest.raises(RuntimeError, match="TwoPartError: a: b"):
            call(worker, "fail_oddly")
        assert call(worker, "add", 3) == 10
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # which are for the run
            os.kill(worker.pid, number)
        assert call(worker, "add", 3) == 13


def test_an_object_that_cannot_be_made_is_the_answer() -> None:
    with working(-1) as worker:
        for _ in range(2):
            with pytest.raises(ValueError, match="start is -1"):
                call(worker, "add", 1)


def test_a_worker_that_was_killed_is_one_line() -> None:
    with working() as worker:
        worker.ask("sleep", Path(os.devnull), Path(os.devnull))
        assert not worker.answered(0)
        os.kill(worker.pid, signal.SIGKILL)
        assert worker.answered(60)
        for lost in (worker.answer, lambda: worker.ask("add", 1)):
            with pytest.raises(WorkerError) as caught:
                lost()
            assert str(caught.value) == (
                "the process that counts has ended: killed by SIGKILL (out of memory?)"
            )


def test_a_call_that_is_broken_off_cleans_up(tmp_path: Path) -> None:
    with working() as worker:
        worker.ask("sleep", tmp_path / "begun", tmp_path / "ended")
        wait((tmp_path / "begun").exists)
    assert (tmp_path / "ended").exists()
    assert not alive(worker.pid)


def test_what_catches_an_exit_does_not_hold_a_worker(tmp_path: Path) -> None:
    with working() as worker:
        worker.ask("sleep_guarded", tmp_path / "begun")
        wait((tmp_path / "begun").exists)
        began = time.monotonic()
    assert time.monotonic() - began < 8, "it would be killed after ten seconds"
    assert not alive(worker.pid)


def test_a_worker_ends_with_a_run_that_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from dtqn.training.worker import Worker;"
        "from tests.training.served import Counter; worker = Worker('counts', Counter, 0);"
        "worker.ask('sleep', *map(Path, sys.argv[1:])); print(worker.pid, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "begun"), str(tmp_path / "ended")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        pid = int(run.stdout.readline())
        wait((tmp_path / "begun").exists)
        run.kill()
    wait(lambda: not alive(pid))
    assert (tmp_path / "ended").exists()
