"""Sweeps of a small program that behaves like a training, and a sweep of runs that have finished."""

import functools
import sys
from pathlib import Path

import numpy as np
import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from dtqn import cli
from dtqn.experiments import jobs, sweep
from dtqn.experiments.sweep_file import read_file
from dtqn.experiments.sweep_study import Trial

SHIPPED = sorted((Path(__file__).parents[2] / "configs" / "sweeps").glob("*.yaml"))
_STAND_IN = """
import fcntl, json, os, pathlib, select, signal, sys, time
folder, here = pathlib.Path(sys.argv[2]), pathlib.Path(__file__).parent
config = dict(line.strip().split(": ", 1) for line in (folder / "config.yaml").open() if ": " in line)
rate, n_step, seed = (json.loads(config[name]) for name in ("learning_rate", "n_step", "seed"))
name = f"{n_step} {seed}"
caught = []
fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
if f'"run_dir":{json.dumps(str(folder))}' not in (here / "out" / "journal.log").read_text():
    sys.exit("error: begun before it was noted down")
signal.signal(signal.SIGTERM, lambda number, frame: caught.append(number))
with (here / "begun").open("a") as file:
    file.write(name + "\\n")
(here / "wandb").open("a").write(f"{os.environ['WANDB_RUN_GROUP']} {os.environ['WANDB_JOB_TYPE']}\\n")
with (here / "started").open("a") as file:
    file.write(folder.name + "\\n")
if (here / "broken").exists() and (here / "broken").read_text() in (name, "all"):
    sys.exit("error: the loss is not finite")
held = (here / "held").read_text().splitlines() if (here / "held").exists() else []
saved = folder / "saved"
pause = float((here / "slow").read_text()) if (here / "slow").exists() else 0
for i in range(int(saved.read_text()) if saved.exists() else 0, 4):
    score = round((i + 1) / 4 - abs(n_step - 3) / 10 - seed / 100 - (rate if pause else 0), 4)
    row = {"env_steps": 100 * (i + 1), "learner_steps": i, "seconds": 1.0, "eval/success": score}
    row |= {"eval/success_low": score, "eval/success_high": score, "eval/return": score}
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(row | {"best_success": score, "mean_success": score}) + "\\n")
        file.write(json.dumps({"env_steps": 100 * (i + 1) + 1}) + "\\n")
    time.sleep(pause)
    while name in held and i == 2 and not caught:
        time.sleep(0.01)
        caught += select.select([0], [], [], 0)[0]
    caught += select.select([0], [], [], 0)[0]  # closed, as the sweep has gone
    if caught:
        saved.write_text(str(i + 1))
        sys.exit(143)
(folder / "result.json").write_text(json.dumps({"ends_at": [int(config["total_env_steps"]), None]}))
"""
GRID = """
method: grid
metric: {name: best_success, goal: maximize}
parameters:
  learner: {parameters: {n_step: {values: [1, 2, 3]}}}
  seed: {values: [1, 2]}
  learner.learning_rate: {value: 0.002}
"""


def score_of(n_step, seed, rows=4):
    return pytest.approx(rows / 4 - abs(n_step - 3) / 10 - seed / 100)


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """A function that runs the command by the small program; exit code, what was printed, the folder."""
    (tmp_path / "program.py").write_text(_STAND_IN)
    program = [sys.executable, "-I", "-S", str(tmp_path / "program.py")]
    monkeypatch.setattr(sweep, "RunQueue", functools.partial(jobs.RunQueue, program=program))
    monkeypatch.setattr(jobs, "_POLL_SECONDS", 0.02)

    def run(content, *arguments, jobs=2):
        file = content if isinstance(content, Path) else tmp_path / "file.yaml"
        if file != content:
            file.write_text(content)
        folder = tmp_path / "out"
        argv = ["sweep", str(file), "--out", str(folder), "--runs-dir", str(tmp_path / "runs")]
        code = cli.main([*argv, "--jobs", str(jobs), *arguments])
        printed = capsys.readouterr()
        return code, printed.out + printed.err, folder

    run.folder = tmp_path
    return run


def recorded(folder):
    """The trials of a sweep as dictionaries, by number."""
    storage = JournalStorage(JournalFileBackend(str(folder / "journal.log")))
    study = optuna.load_study(study_name=None, storage=storage)
    return [Trial.of(trial)._asdict() for trial in study.trials]


def results_of(folder, values):
    """The results of a sweep of two parameters with a finished run for each value."""
    (folder / "file.yaml").write_text(
        "{method: random, metric: {name: best_success, goal: maximize}, "
        "parameters: {learner.gamma: {min: 0.5, max: 0.9}, learner.n_step: {values: [1, 2, 3]}}}"
    )
    draw = np.random.default_rng(1)
    trials = [
        Trial(
            number,
            {"learner.gamma": float(draw.uniform(0.5, 0.9)), "learner.n_step": int(draw.integers(1, 4))},
            "finished",
            value=float(value),
        )
        for number, value in enumerate(values, 1)
    ]
    return sweep.Results(read_file(folder / "file.yaml"), folder, trials)
