"""Pools of a small program that behaves like a training; real runs are run by test_compare.py."""

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dtqn.experiments import jobs
from dtqn.experiments.jobs import fitting
from dtqn.settings.presets import resolve
from tests.experiments import stand_in
from tests.experiments.stand_in import events, run

_ROOT = Path(__file__).parents[2]


@pytest.fixture
def make(tmp_path, monkeypatch):
    """A function that makes a job of the small program, and one that makes a pool of it."""
    monkeypatch.setattr(jobs, "_POLL_SECONDS", 0.02)
    program = stand_in.program(tmp_path)
    job = functools.partial(stand_in.job, tmp_path)
    job.pool = lambda at_once, *added: stand_in.queue(program, *added, at_once=at_once)
    return job


@pytest.mark.parametrize("at_once", [1, 2])
def test_so_many_at_a_time_in_order_with_one_thread_each(make, tmp_path, at_once):
    """Each of two at a time waits until the other has begun, so that they overlap on any machine."""
    pairs = {"a": "b", "b": "a", "c": "d", "d": "c"} if at_once == 2 else dict.fromkeys("abcd")
    pool = make.pool(at_once, *(make(name, **{"with": other}) for name, other in pairs.items()))
    assert run(pool) == dict.fromkeys("abcd", "finished")
    running, most = 0, 0
    for kind, _, threads in events(tmp_path):
        assert threads == "1"
        running += 1 if kind == "begin" else -1
        most = max(most, running)
    assert most == at_once
    begun = [name for kind, name, _ in events(tmp_path) if kind == "begin"]
    assert sorted(begun[:at_once]) == ["a", "b"][:at_once]
    assert {job.exit_code for job in pool.jobs} == {0}


def test_every_row_is_reported_and_the_output_kept(make, tmp_path):
    seen = {"a": [], "b": []}

    def after(changed):
        for job in changed:
            seen[job.name].append((job.state, len(job.rows)))

    run(make.pool(2, make("a", 3), make("b", 1)), after=after)
    for name, rows in (("a", 3), ("b", 1)):
        assert seen[name][-1] == ("finished", rows)
        assert seen[name][0] == ("waiting", 0) or seen[name][0] == ("running", 0)
        assert [state for state, _ in seen[name]].count("finished") == 1
        assert (tmp_path / name / "output.log").read_text() == "done\n"


def test_what_has_finished_is_not_run_again(make, tmp_path):
    run(make.pool(2, make("a")))
    assert run(make.pool(2, make("a"), make("b"))) == {"a": "finished", "b": "finished"}
    assert [name for kind, name, _ in events(tmp_path) if kind == "begin"] == ["a", "b"]


def test_a_run_that_was_made_longer_is_unfinished(make):
    job = make("a")
    run(make.pool(1, job))
    assert job.directory.read_result() is not None
    job.directory.write_config(resolve(None, {"total_env_steps": 2000, "warmup_env_steps": 200}, {}))
    assert job.directory.read_result() is None


@pytest.mark.parametrize(
    ("plan", "state", "error"),
    [
        ({"code": 3}, "failed", "exit code 3: error: it broke"),
        # Its task called `sys.exit`, say.
        ({"ends_at": "elsewhere"}, "failed", "exit code 0, but it ended without a result: done"),
        # Told that the run's folder is in use; by the time we look the other process has ended.
        ({"code": 2, "beaten": True}, "finished", "exit code 2: error: it broke"),
    ],
)
def test_how_a_training_ends_is_told_and_the_others_go_on(make, plan, state, error):
    pool = make.pool(1, make("a", **plan), make("b"))
    assert run(pool) == {"a": state, "b": "finished"}
    assert pool.jobs[0].error == error


def test_a_training_that_is_killed_is_named_and_run_once_more(make, tmp_path):
    told = []
    pool = make.pool(1, make("a", dies=[1]), make("b"), make("c", dies=[1, 1]))
    assert run(pool, after=lambda _: told.extend(pool.news)) == {
        "a": "finished",
        "b": "finished",
        "c": "failed",
    }
    begun = [name for kind, name, _ in events(tmp_path) if kind == "begin"]
    assert begun == ["a", "b", "c", "a", "c"], "when the others are done"
    why = "killed by SIGKILL (out of memory?)"
    assert told == [f"a: {why}; it is run once more", f"c: {why}; it is run once more"]
    assert pool.jobs[2].error == f"{why}: no output"


def test_a_training_that_others_end_by_a_signal_goes_on(make, tmp_path):
    """It saves, and says by its exit code what came."""
    sent = []

    def after(changed):
        for job in changed:
            if job.state == "running" and job.rows and not sent:
                sent.append(job._process.end())
                plan = json.loads((tmp_path / "a/plan.json").read_text())
                (tmp_path / "a/plan.json").write_text(json.dumps(plan | {"rows": 3}))

    pool = make.pool(1, make("a", 1000))
    assert run(pool, after=after) == {"a": "finished"}
    assert pool.jobs[0].killed == "killed by SIGTERM"


_PARENT = """
import os, subprocess, sys
from dtqn.signals import ends_with_stdin
os.environ["PARENT"] = str(os.getpid())
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[2]], stdin=subprocess.PIPE,
                         stdout=sys.stdout, env=ends_with_stdin(os.environ), start_new_session=True)
child.wait()
"""
_CHILD = """
import os, signal, sys, time
from dtqn.signals import Signals, end_with_parent
end_with_parent()
with Signals() as signals:
    if sys.argv[1] == "saves":
        os.kill(os.getpid(), signal.SIGINT)
    print("begun", flush=True)
    while signals.caught is None or os.getppid() == int(os.environ["PARENT"]):
        time.sleep(0.01)
    time.sleep(0.5)
print(f"saved after {signals.caught}", flush=True)
"""


@pytest.mark.parametrize(("does", "number"), [("trains", signal.SIGTERM), ("saves", signal.SIGINT)])
def test_a_training_ends_when_its_parent_is_killed(does, number):
    """By SIGKILL, which no program can answer. To one that saves it is no second signal.

    A training under `compare` is killed so by test_compare.py.
    """
    command = [sys.executable, "-c", _PARENT, _CHILD, does]
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout.readline() == "begun\n"
        parent.kill()
        # All who could write have gone then.
        assert parent.stdout.read() == f"saved after {int(number)}\n"


def test_one_is_stopped_early_and_can_be_gone_on_with(make, tmp_path):
    pool = make.pool(2, make("a", 1000), make("b"), make("c"))

    def after(changed):
        pool.stop(pool.jobs[2])  # has not begun
        for job in changed:
            if job.name == "a" and len(job.rows) >= 2:
                pool.stop(job)

    assert run(pool, after=after) == {"a": "stopped", "b": "finished", "c": "stopped"}
    saved = int((tmp_path / "a/saved").read_text())
    assert 2 <= saved == len(pool.jobs[0].rows)
    again = make("a", saved + 2)
    assert run(make.pool(1, again)) == {"a": "finished"}
    assert [row["env_steps"] for row in again.rows] == list(range(saved + 2))
    assert (tmp_path / "a/output.log").read_text() == "interrupted and saved\ndone\n"
    assert not (tmp_path / "c/output.log").exists()


def test_jobs_that_are_added_on_the_way_arerun(make):
    pool = make.pool(1, make("a"))

    def after(changed):
        if any(job.state == "finished" for job in changed) and len(pool.jobs) < 3:
            pool.add(make("abc"[len(pool.jobs)]))

    assert run(pool, after=after) == dict.fromkeys("abc", "finished")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_every_training_save_and_end(make, tmp_path, number):
    pool = make.pool(2, *(make(name, 1000) for name in "abc"))
    before = signal.getsignal(number)

    def after(changed):
        if pool.caught is None and all(job.rows for job in pool.jobs[:2]):
            os.kill(os.getpid(), number)

    assert run(pool, after=after) == {"a": "interrupted", "b": "interrupted", "c": "waiting"}
    assert pool.caught == number
    assert signal.getsignal(number) == before
    assert (tmp_path / "a/saved").exists() and (tmp_path / "b/saved").exists()
    assert "c" not in {name for _, name, _ in events(tmp_path)}


def test_a_second_ctrl_c_takes_effect_at_once(make):
    pool = make.pool(1, make("a", deaf=True))

    def after(changed):
        if pool.jobs[0].rows:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(pool, after=after)
    assert pool.jobs[0].state == "interrupted"
    assert not pool.jobs[0].directory.in_use


@pytest.mark.parametrize("signalled", [False, True])
def test_no_training_outlives_its_pool(make, tmp_path, signalled):
    """After a Ctrl-C the output may be lost: its reader in a pipe has got the Ctrl-C too."""

    def after(changed):
        if pool.jobs[0].rows:
            if signalled:
                os.kill(os.getpid(), signal.SIGINT)
            raise ZeroDivisionError

    pool = make.pool(1, make("a", 1000))
    with pytest.raises(ZeroDivisionError):
        run(pool, after=after)
    assert pool.jobs[0].state == "interrupted"
    assert (tmp_path / "a/saved").exists(), "it was asked before"


_HOLD = """
import sys, time
from pathlib import Path
from dtqn.training.directory import RunDir
with RunDir(Path(sys.argv[1])).lock():
    print("held", flush=True)
    time.sleep(600)
"""


@contextlib.contextmanager
def _held(job):
    """Another process that trains in the job's directory."""
    command = [sys.executable, "-c", _HOLD, str(job.directory.path)]
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        try:
            yield other
        finally:
            other.kill()


def test_a_directory_that_another_process_trains_in_is_waited_for(make):
    job, seen = make("a"), []
    with _held(job) as other:
        assert job.directory.in_use

        def after(changed):
            seen.append(job.state)
            if len(seen) == 5:
                assert seen == ["waiting"] * 5
                other.kill()

        assert run(make.pool(1, job), after=after) == {"a": "finished"}
        assert len(seen) > 5


def test_a_training_that_another_pool_began_a_moment_before_is_waited_for(make, tmp_path):
    """The program finds its directory in use and fails; that is no failure of the run."""
    job, seen = make("a", code=2), []
    with _held(job) as other:
        program = [sys.executable, "-I", str(tmp_path / "program.py")]
        job._start(program, [])  # as before the other had the lock

        def after(changed):
            seen.append(job.state)
            if job.state == "waiting" and other.poll() is None:
                plan = json.loads((tmp_path / "a/plan.json").read_text())
                (tmp_path / "a/plan.json").write_text(json.dumps(plan | {"code": 0}))
                other.kill()

        assert run(make.pool(1, job), after=after) == {"a": "finished"}
    assert "failed" not in seen and "waiting" in seen


@pytest.mark.parametrize(
    ("device", "visible", "torch_sees_them", "at_a_time"),
    [
        ("auto", "0,1", True, 2),
        ("cuda", "0", True, 1),
        ("auto", "0,1,2,3,4,5,6,7,8", True, 8),  # a CPU for each training
        ("cpu", "0,1", True, 8),
        ("auto", "", True, 8),
        ("auto", "0,1", False, 8),  # torch's build for CPUs
    ],
)
def test_by_default_each_training_has_a_cpu_and_a_gpu_of_its_own(
    monkeypatch: pytest.MonkeyPatch, device: str, visible: str, torch_sees_them: bool, at_a_time: int
) -> None:
    monkeypatch.setattr("dtqn.training.machine.cores", lambda: 16)
    monkeypatch.setattr("torch.cuda.is_available", lambda: torch_sees_them)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert fitting(resolve(None, {"device": device, "threads": 2}, {})) == at_a_time
