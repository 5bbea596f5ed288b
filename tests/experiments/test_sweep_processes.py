"""Several processes that work on one sweep, and their deaths: nothing is lost and nothing is run twice."""

import collections
import contextlib
import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dtqn.experiments.sweep_file import read_file
from dtqn.experiments.sweep_study import Study, draws
from dtqn.training.metrics import read_rows
from tests.experiments import sweep_program
from tests.experiments.sweep_program import GRID, SHIPPED, recorded

_ROOT = Path(__file__).parents[2]
_COMMAND = """
import functools, sys
from dtqn import cli
from dtqn.experiments import jobs, sweep
sweep.RunQueue = functools.partial(jobs.RunQueue, program=[sys.executable, "-I", "-S", sys.argv[1]])
jobs._POLL_SECONDS = 0.05
sys.exit(cli.main(sys.argv[2:]))
"""

run = sweep_program.run


@contextlib.contextmanager
def _commands(here, file, count, *arguments):
    """The same command several times at once."""
    argv = ["sweep", file, "--out", here / "out", "--runs-dir", here / "runs", "--jobs", "2", *arguments]
    command = list(map(str, [sys.executable, "-c", _COMMAND, here / "program.py", *argv]))
    environment = os.environ | {"PYTHONPATH": str(_ROOT)}
    with (here / "printed").open("a") as out:
        started = [
            subprocess.Popen(command, env=environment, stdout=out, stderr=out, start_new_session=True)
            for _ in range(count)
        ]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def _begun(here, name="begun"):
    return (here / name).read_text().splitlines() if (here / name).exists() else []


def _started(here):
    """The runs that were started, by the names of their folders."""
    return _begun(here, "started")


def _await(condition, *processes):
    while not condition():
        assert all(process.poll() is None for process in processes), "ended before its time"
        time.sleep(0.02)


def _check_runs(here, count):
    """Every trial has ended, is a run of its own and has each of its evaluations once."""
    records = recorded(here / "out")
    assert len(records) == count and {one["state"] for one in records} <= {"finished", "stopped"}
    assert [one["number"] for one in records] == list(range(1, count + 1))
    assert len({one["run_dir"] for one in records}) == count
    assert len({str(one["parameters"]) for one in records}) == count
    for record in records:
        rows = [row for row in read_rows(Path(record["run_dir"]) / "metrics.jsonl") if "eval/success" in row]
        steps = [row["env_steps"] for row in rows]
        assert steps == [100, 200, 300, 400][: len(steps)], "gone on with, not begun anew"
        assert len(steps) == 4 or record["state"] == "stopped"
    return records


@pytest.mark.timeout(120)
def test_the_trial_of_a_dead_process_goes_on_under_its_number(run):
    here = run.folder
    (here / "file.yaml").write_text(GRID)
    (here / "held").write_text("2 1")
    with _commands(here, here / "file.yaml", 1) as (process,):
        _await(lambda: "2 1" in _begun(here) and len(_begun(here)) > 3, process)
        process.kill()
        process.wait()
    before = recorded(here / "out")
    (held,) = (one for one in before if list(one["parameters"].values())[:2] == [2, 1])
    assert held["state"] == "open" and held["claim"].split("-")[-2] == str(process.pid)
    (here / "held").write_text("")
    code, printed, _ = run(GRID)
    assert code == 0, printed
    after = _check_runs(here, 6)
    now = after[held["number"] - 1]
    assert (now["parameters"], now["run_dir"]) == (held["parameters"], held["run_dir"])
    assert now["claim"].split("-")[-2] == str(os.getpid())
    assert _begun(here).count("2 1") == 2


def _claimed(path, out, start, answers):
    """Claim the point of a grid, or one of those that are left, again and again."""
    file = read_file(path)
    study = Study(file, out, 0, "digest")
    start.wait()
    mine = []
    for _ in range(20):
        with study.alone:
            left = [trial for trial in study.trials() if study.is_left(trial)]
            if left:
                mine.append(study.take(left[0].number, "").number)
            elif draw := next(study.draws(), None):
                mine.append(study.add(draw, "").number)
    answers.put(mine)
    start.wait()  # alive until all have claimed


@pytest.mark.timeout(120)
def test_a_claim_is_of_one_process(tmp_path):
    """Three processes, five trials of a dead one and a grid of fifteen points."""
    import multiprocessing

    path, out = tmp_path / "file.yaml", tmp_path / "out"
    path.write_text(
        "{method: grid, metric: {name: mean_success}, parameters: {seed: {min: 1, max: 15}, env: {value: a}}}"
    )
    out.mkdir()
    study = Study(read_file(path), out, 0, "digest")
    for draw in itertools.islice(draws(read_file(path), 0), 5):
        study.add(draw, "")
    study.close()
    context = multiprocessing.get_context("spawn")
    start, answers = context.Barrier(3), context.Queue()
    about = (path, out, start, answers)
    workers = [context.Process(target=_claimed, args=about, daemon=True) for _ in range(3)]
    for worker in workers:
        worker.start()
    numbers = [number for _ in workers for number in answers.get(timeout=90)]
    for worker in workers:
        worker.join()
    assert sorted(numbers) == list(range(1, 16))


def test_half_a_line_of_a_journal_is_cut_off(run):
    """Of a process that was killed while it wrote."""
    assert run(GRID, "--run-cap", "2")[0] == 0
    journal = run.folder / "out" / "journal.log"
    with journal.open("a") as file:
        file.write('{"op_code": 5, "tri')
    assert run(GRID)[0] == 0
    _check_runs(run.folder, 6)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_shipped_files_survive_kills(run, path):
    """Two processes, one of them killed, then both; what is left goes on to 40 trials, a grid to its end."""
    here, count = run.folder, 15 if path.stem == "memory-length" else 40
    (here / "slow").write_text("0.1")
    arguments = () if count == 15 else ("--run-cap", "40")
    with _commands(here, path, 2, *arguments) as (first, second):
        _await(lambda: len(set(_started(here))) >= count // 4, first, second)
        first.kill()
        _await(lambda: len(set(_started(here))) >= count // 2, second)
        second.kill()
    open_then = [one["number"] for one in recorded(here / "out") if one["state"] == "open"]
    with _commands(here, path, 2, *arguments) as processes:
        assert [process.wait() for process in processes] == [0, 0], (here / "printed").read_text()
    _check_runs(here, count)
    starts = collections.Counter(_started(here))
    again = sum(starts.values()) - len(starts)
    assert len(starts) == count
    assert again <= len(open_then) + 4, "at most those that ran when they were killed"
