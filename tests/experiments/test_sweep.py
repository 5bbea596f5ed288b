"""W&B's sweep files: accepted by W&B's own code, and run here by a program that behaves like a training."""

import csv
import functools
import itertools
import json
import math
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

import envs
from dtqn import cli, plots
from dtqn.experiments import jobs, sweep, sweep_engine
from dtqn.experiments.importance import Axis, Importance, axis_of, dependence
from dtqn.experiments.sweep_engine import Trial, propose
from dtqn.experiments.sweep_file import read_file
from dtqn.settings.config import ConfigError
from dtqn.settings.presets import resolve
from dtqn.training.directory import RunDir
from dtqn.training.metrics import read_rows

_ROOT = Path(__file__).parents[2]
_SHIPPED = sorted((_ROOT / "configs" / "sweeps").glob("*.yaml"))
_STAND_IN = """
import json, os, pathlib, signal, sys, time
folder, here = pathlib.Path(sys.argv[2]), pathlib.Path(__file__).parent
config = dict(line.strip().split(": ", 1) for line in (folder / "config.yaml").open() if ": " in line)
rate, n_step, seed = (json.loads(config[name]) for name in ("learning_rate", "n_step", "seed"))
name = f"{n_step} {seed}"
caught = []
(folder / "pid").write_text(str(os.getpid()))
noted = json.loads((here / "out" / "sweep.json").read_text())["runs"]
if str(folder) not in [run["run_dir"] for run in noted]:
    sys.exit("error: begun before it was noted down")
signal.signal(signal.SIGTERM, lambda number, frame: caught.append(number))
with (here / "begun").open("a") as file:
    file.write(name + "\\n")
if (here / "broken").exists() and (here / "broken").read_text() in (name, "all"):
    sys.exit("error: the loss is not finite")
held = (here / "held").read_text().splitlines() if (here / "held").exists() else []
saved = folder / "saved"
for i in range(int(saved.read_text()) if saved.exists() else 0, 4):
    score = round((i + 1) / 4 - abs(n_step - 3) / 10 - seed / 100, 4)
    row = {"env_steps": 100 * (i + 1), "learner_steps": i, "seconds": 1.0, "eval/success": score}
    row |= {"eval/success_low": score, "eval/success_high": score, "eval/return": score}
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(row | {"best_success": score, "mean_success": score}) + "\\n")
        file.write(json.dumps({"env_steps": 100 * (i + 1) + 1}) + "\\n")
    while name in held and i == 2 and not caught:
        time.sleep(0.01)
    if caught:
        saved.write_text(str(i + 1))
        sys.exit(143)
(folder / "result.json").write_text(json.dumps({"ends_at": [int(config["total_env_steps"]), None]}))
"""
_GRID = """
method: grid
metric: {name: best_success, goal: maximize}
parameters:
  learner: {parameters: {n_step: {values: [1, 2, 3]}}}
  seed: {values: [1, 2]}
  learner.learning_rate: {value: 0.002}
"""


def _score(n_step, seed, rows=4):
    return pytest.approx(rows / 4 - abs(n_step - 3) / 10 - seed / 100)


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """A function that runs the command by the small program; exit code, what was printed, the folder."""
    (tmp_path / "program.py").write_text(_STAND_IN)
    program = [sys.executable, "-I", "-S", str(tmp_path / "program.py")]
    monkeypatch.setattr(sweep, "Pool", functools.partial(jobs.Pool, program=program))
    monkeypatch.setattr(jobs, "_POLL_SECONDS", 0.02)
    for name in ("WANDB_RUN_GROUP", "WANDB_JOB_TYPE"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)

    def run(content, *arguments, jobs=2):
        file = content
        if not isinstance(content, Path):
            file = tmp_path / "file.yaml"
            file.write_text(content)
        folder = tmp_path / "out"
        argv = ["sweep", str(file), "--out", str(folder), "--runs-dir", str(tmp_path / "runs")]
        code = cli.main([*argv, "--jobs", str(jobs), *arguments])
        printed = capsys.readouterr()
        return code, printed.out + printed.err, folder

    run.folder = tmp_path
    return run


def _record(folder):
    return json.loads((folder / "sweep.json").read_text())["runs"]


def _argv(path, parameters):
    """The command of W&B's agent for a configuration: `Agent._command_run`, without a server."""
    from wandb.sdk.launch.sweeps import utils

    content = utils.load_sweep_config(str(path))
    command = {"args": {name: {"value": value} for name, value in parameters.items()}}
    macros = utils.create_sweep_command_args(command)
    macros |= {"interpreter": ["python"], "program": [content["program"]], "env": ["/usr/bin/env"]}
    parts = map(str, utils.create_sweep_command(content["command"]))
    return [
        word
        for part in parts
        for word in (macros[part[2:-1]] if part.startswith("${") and part.endswith("}") else [part])
    ]


@pytest.mark.parametrize("path", _SHIPPED, ids=lambda path: path.stem)
def test_the_command_of_wandbs_agent_is_accepted(path, capsys):
    file, trials = read_file(path), []
    for number in range(1, 9):
        parameters = propose(file.engine, trials, (0, number))
        trials.append(Trial(number, parameters))
        argv = _argv(path, parameters)
        assert argv[:3] == ["/usr/bin/env", "python", "run.py"]
        assert "--resume=auto" in argv
        assert cli.main([*argv[3:], "--print-config"]) == 0
        config = yaml.safe_load(capsys.readouterr().out)
        for name, value in parameters.items():
            group, _, leaf = name.rpartition(".")
            assert (config[group] if group else config)[leaf] == value


@pytest.mark.parametrize("path", _SHIPPED, ids=lambda path: path.stem)
def test_shipped_files_keep_the_engines_schema(path):
    import sweeps

    content = yaml.safe_load(path.read_text())
    run_cap = content.pop("run_cap", None)
    assert sweeps.schema_violations_from_proposed_config(content) == []
    assert (run_cap is None) == (content["method"] == "grid")
    assert content["metric"]["name"] in ("best_success", "mean_success")


def test_shipped_files_are_those_that_are_promised():
    methods = {path.stem: yaml.safe_load(path.read_text()) for path in _SHIPPED}
    assert {name: content["method"] for name, content in methods.items()} == {
        "learning-rate": "bayes",
        "memory-length": "grid",
        "everything": "random",
    }
    assert methods["everything"]["early_terminate"]["type"] == "hyperband"


@pytest.mark.parametrize("path", _SHIPPED, ids=lambda path: path.stem)
def test_shipped_files_run_here(run, path):
    code, printed, folder = run(path, "--run-cap", "5", "--total-env-steps", "401")
    assert code == 0, printed
    records = _record(folder)
    assert len(records) == 5
    assert {record["state"] for record in records} <= {"finished", "stopped"}
    assert len({json.dumps(record["parameters"]) for record in records}) == 5
    names = {"sweep.json", "leaderboard.csv", "best.yaml", "by_parameter.png"}
    assert names <= {file.name for file in folder.iterdir()}
    best = resolve(folder / "best.yaml", {}, {})
    assert best.total_env_steps == 401
    assert printed.rstrip().endswith(f"all in {folder}")
    assert re.search(r"\nreport   python -m dtqn report \S+seed\S+\n", printed)


def test_a_grid_is_covered_once_and_averaged_over_seeds(run):
    code, printed, folder = run(_GRID, "--learner.double-q", "false", "--learner.learning-rate", "0.004")
    assert code == 0, printed
    found = [(r["parameters"]["learner.n_step"], r["parameters"]["seed"]) for r in _record(folder)]
    assert sorted(found) == list(itertools.product([1, 2, 3], [1, 2]))
    assert sorted((run.folder / "begun").read_text().split("\n")[:-1]) == sorted(f"{n} {s}" for n, s in found)
    rows = list(csv.DictReader((folder / "leaderboard.csv").open()))
    assert [row["rank"] for row in rows] == ["1", "1", "2", "2", "3", "3"]
    assert [row["learner.n_step"] for row in rows] == ["3", "3", "2", "2", "1", "1"]
    for row in rows:
        assert float(row["best_success"]) == _score(int(row["learner.n_step"]), int(row["seed"]))
    (top,) = (line for line in printed.split("best: ")[0].rpartition("run ")[2].splitlines() if "1." in line)
    assert re.fullmatch(r"1\.  0\.9850 {8}(5, 6|6, 5)  3", top), "the mean of 0.99 and 0.98"
    best = resolve(folder / "best.yaml", {}, {})
    assert (best.learner.n_step, best.learner.learning_rate, best.learner.double_q) == (3, 0.004, False)


_HELD = {"learner.n_step": 2, "seed": 1, "learner.learning_rate": 0}
_KILLED = """
import functools, sys
from dtqn import cli
from dtqn.experiments import jobs, sweep
sweep.Pool = functools.partial(jobs.Pool, program=[sys.executable, "-I", sys.argv[1]])
jobs._POLL_SECONDS = 0.02
sys.exit(cli.main(sys.argv[2:]))
"""


def test_a_grid_is_covered_once_also_after_a_kill(run):
    """SIGKILL to the sweep while one run is held and others have ended; the same command goes on."""
    here = run.folder
    (here / "held").write_text("2 1")
    (here / "file.yaml").write_text(_GRID)
    argv = ["sweep", here / "file.yaml", "--out", here / "out", "--runs-dir", here / "runs", "--jobs", "2"]
    command = [sys.executable, "-c", _KILLED, here / "program.py", *argv]
    environment = os.environ | {"PYTHONPATH": str(_ROOT)}
    process = subprocess.Popen(
        list(map(str, command)), env=environment, stdout=subprocess.PIPE, start_new_session=True
    )
    begun = here / "begun"
    while not begun.exists() or len(begun.read_text().splitlines()) < 6:
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.communicate()
    left = [record for record in _record(here / "out") if record["state"] == "open"]
    assert "2 1" in [f"{r['parameters']['learner.n_step']} {r['parameters']['seed']}" for r in left]
    for record in left:  # its trainings live on; the held one is ended here
        if record["parameters"] | {"learner.learning_rate": 0} == _HELD:  # the small program has no eye on it
            os.kill(int((Path(record["run_dir"]) / "pid").read_text()), signal.SIGTERM)
            ended = Path(record["run_dir"]) / "saved"
        else:
            ended = Path(record["run_dir"]) / "result.json"
        while not ended.exists():
            time.sleep(0.01)
    (here / "held").write_text("")
    code, printed, folder = run(_GRID)
    assert code == 0, printed
    records = _record(folder)
    found = [(r["parameters"]["learner.n_step"], r["parameters"]["seed"]) for r in records]
    assert sorted(found) == list(itertools.product([1, 2, 3], [1, 2]))
    for record in records:
        rows = [row for row in read_rows(Path(record["run_dir"]) / "metrics.jsonl") if "eval/success" in row]
        assert [row["env_steps"] for row in rows] == [100, 200, 300, 400], "gone on with, not begun anew"


def test_a_signal_interrupts_and_the_same_command_goes_on(run, monkeypatch):
    (run.folder / "held").write_text("1 2")
    real = sweep.open_runs_view

    def watched(out, runs):
        view = real(out, runs)
        update, sent = view.update, []

        def signalling(changed):
            update(changed)
            held = [job for job in runs if job.name == "run 2"]  # it waits after its third evaluation
            if not sent and any(len(job.rows) == 6 and job.state == "running" for job in held):
                sent.append(True)
                os.kill(os.getpid(), signal.SIGTERM)

        view.update = signalling
        return view

    monkeypatch.setattr(sweep, "open_runs_view", watched)
    code, printed, folder = run(_GRID, jobs=1)
    assert code == 143
    assert "interrupted, 1 runs have ended; the same command goes on" in printed
    assert [record["state"] for record in _record(folder)] == ["finished", "open"]
    monkeypatch.setattr(sweep, "open_runs_view", real)
    assert run(_GRID, jobs=1)[0] == 0
    assert [record["state"] for record in _record(folder)] == ["finished"] * 6
    assert (run.folder / "begun").read_text().splitlines().count("1 2") == 2


_HYPERBAND = """
method: grid
metric: {name: mean_success, goal: maximize}
early_terminate: {type: hyperband, min_iter: 2, eta: 4}
parameters: {learner.n_step: {values: [3, 9]}}
"""


@pytest.mark.timeout(60)
def test_hyperband_ends_what_lags_behind(run):
    """Run 2 waits after its third evaluation, the first bracket, and would wait for ever."""
    (run.folder / "held").write_text("9 1")
    code, printed, folder = run(_HYPERBAND, jobs=1)
    assert code == 0, printed
    assert [(r["state"], r["env_steps"]) for r in _record(folder)] == [("finished", 401), ("stopped", 301)]
    rows = list(csv.DictReader((folder / "leaderboard.csv").open()))
    assert [float(row["mean_success"]) for row in rows] == [_score(3, 1), _score(9, 1, rows=3)]
    (run.folder / "held").write_text("")
    assert run(_HYPERBAND, jobs=1)[0] == 0, "and stays ended"
    assert (run.folder / "begun").read_text().splitlines() == ["3 1", "9 1"]


def test_brackets_by_hand():
    """min_iter 2, eta 2: at the third evaluation all but the upper half are ended; seven runs, one done."""
    engine = read_file(_ROOT / "configs/sweeps/everything.yaml").engine
    engine |= {"early_terminate": {"type": "hyperband", "min_iter": 2, "eta": 2}}
    thirds = [0.9, 0.1, 0.3, 0.5, 0.7, 0.2, None]
    trials = [Trial(number, {}, "finished" if number == 1 else "open") for number in range(1, 8)]
    for trial, third in zip(trials, thirds, strict=True):
        values = [0.05, 0.05] + ([] if third is None else [third])
        trial.rows = [{"env_steps": i, "mean_success": value} for i, value in enumerate(values)]
    # Sorted 0.9 0.7 0.5 0.3 0.2 0.1: the threshold is number 6 / 2 = 3 from 0, which is 0.3.
    assert [trial.number for trial in sweep_engine.hopeless(engine, trials)] == [2, 6]


def test_a_failed_run_is_told_and_tried_again(run):
    (run.folder / "broken").write_text("2 1")
    code, printed, folder = run(_GRID)
    assert code == 1
    assert "failed: exit code 1: error: the loss is not finite" in printed
    assert "best: best_success 0.9850" in printed
    assert [r["state"] for r in _record(folder)].count("failed") == 1
    (run.folder / "broken").unlink()
    assert run(_GRID)[0] == 0
    assert [record["state"] for record in _record(folder)] == ["finished"] * 6
    assert len((run.folder / "begun").read_text().splitlines()) == 7


def test_a_sweep_whose_first_runs_all_fail_is_ended(run):
    (run.folder / "broken").write_text("all")
    code, printed, folder = run(_GRID, jobs=1)
    assert code == 1
    assert "no configuration has a result" in printed
    assert [record["state"] for record in _record(folder)] == ["failed"] * 3


def test_settings_that_do_not_fit_are_no_run_and_end_nothing(run):
    code, printed, folder = run(
        "{method: grid, metric: {name: mean_success}, "
        "parameters: {network.num_heads: {values: [3, 5, 6, 2]}}}"
    )
    assert code == 0
    source = f"network.num_heads from {run.folder / 'file.yaml'}"
    assert (
        f"run 1 refused: network.width is 64, not a multiple of network.num_heads 3; try 66 ({source})"
        in printed
    )
    assert [record["state"] for record in _record(folder)] == ["refused"] * 3 + ["finished"]


def test_a_directory_that_cannot_be_used_costs_no_point(run):
    (run.folder / "runs").write_text("a file")
    code, printed, folder = run(_GRID)
    assert code == 2
    assert re.fullmatch(r"error: --runs-dir .* cannot be written: File exists\n", printed)
    (run.folder / "runs").unlink()
    assert run(_GRID)[0] == 0
    assert [record["state"] for record in _record(folder)] == ["finished"] * 6


def test_as_many_jobs_as_there_are_cpus_for_their_threads(tmp_path, monkeypatch):
    asked, file = [], tmp_path / "file.yaml"
    file.write_text(_GRID)
    monkeypatch.setattr(sweep, "run", lambda _, parallel, launcher: asked.append(parallel) or 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    for threads in ("1", "3", "16"):
        cli.main(["sweep", str(file), "--threads", threads, "--out", str(tmp_path / "out")])
    cli.main(["sweep", str(file), "--out", str(tmp_path / "out")])
    assert asked == [8, 2, 1, 8]


def test_the_leaderboard_fits_the_terminal(tmp_path, monkeypatch):
    """The parameters that vary are shown, as many of the fourteen as there is room for."""
    file = read_file(_ROOT / "configs/sweeps/everything.yaml")
    trials = [Trial(n, propose(file.engine, [], (0, n)), "finished") for n in range(1, 8)]
    for trial in trials:
        trial.rows = [{"env_steps": 9, "mean_success": trial.number / 8}]
        trial.parameters |= {"learner.learning_rate": 0.00123456, "learner.q_lambda": trial.number}
    board = sweep.Sweep(file, tmp_path, tmp_path, lambda _: None, None, 0)
    board.trials = trials
    monkeypatch.setenv("COLUMNS", "60")
    header, *lines, more = board.table()
    assert header == "    mean_success  run  q_lambda  batch_size  gamma"
    assert [line.split()[:4] for line in lines] == [
        [f"{rank}.", f"{n / 8:.4f}", str(n), str(n)] for rank, n in enumerate([7, 6, 5, 4, 3], 1)
    ]
    assert more == f"10 more parameters in {tmp_path / 'leaderboard.csv'}", "one of the 14 is the same"
    monkeypatch.setenv("COLUMNS", "400")
    names = [name.rpartition(".")[2] for name in file.searched if name != "learner.learning_rate"]
    assert board.table()[0].split() == ["mean_success", "run", *names]
    board.save()
    (first, *_) = csv.DictReader((tmp_path / "leaderboard.csv").open())
    assert {name: first[name] for name in file.searched} == {
        name: str(trials[-1].parameters[name]) for name in file.searched
    }


def test_settings_that_are_wrong_together_end_nothing(run, monkeypatch):
    """Too little memory at one point of the grid, say, where each value by itself has passed."""

    def check(config, here):
        if (config.learner.n_step, config.seed) == (2, 2):
            raise ConfigError("replay.capacity is 1: the run would take more")

    monkeypatch.setattr("dtqn.training.preflight.check", check)
    code, printed, folder = run(_GRID)
    assert code == 0, printed
    assert "run 4 refused: replay.capacity is 1: the run would take more" in printed
    assert [record["state"] for record in _record(folder)].count("finished") == 5


def test_a_target_ends_the_search(run):
    grid = _GRID.replace("goal: maximize", "goal: maximize, target: 0.75")
    assert run(grid, jobs=1)[0] == 0
    assert [r["parameters"]["learner.n_step"] for r in _record(run.folder / "out")] == [1]


def test_what_is_drawn_twice_is_drawn_again_until_nothing_is_left(run):
    _, printed, folder = run(
        "{method: random, run_cap: 9, metric: {name: mean_success}, "
        "parameters: {learner.n_step: {values: [1, 2]}}}"
    )
    assert sorted(r["parameters"]["learner.n_step"] for r in _record(folder)) == [1, 2]
    assert "best: mean_success 0.7900 with learner.n_step 1" in printed, "the goal is minimize by default"


def test_random_search_draws_what_it_says_whatever_was_drawn_before():
    engine = read_file(_ROOT / "configs/sweeps/everything.yaml").engine
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    before = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    found = propose(engine, [], (7, 3, 0))
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # noqa: NPY002
    assert found != propose(engine, [], (7, 4, 0))
    draws = random.Random(np.random.SeedSequence([7, 3, 0]).generate_state(4).tobytes())
    for name, spec in sorted(engine["parameters"].items()):
        draw = draws.uniform(0, 1)
        if "value" in spec:
            assert found[name] == spec["value"]
        elif "values" in spec:
            assert found[name] == spec["values"][math.ceil(draw * len(spec["values"])) - 1]
        elif spec["distribution"] == "uniform":
            assert found[name] == pytest.approx(draw)
        else:
            assert found[name] == pytest.approx(spec["min"] * (spec["max"] / spec["min"]) ** draw)


def test_bayes_learns_from_results_and_repeats_itself():
    """The result is best at a learning rate of 10^-3: choices come closer to it than random ones do."""
    engine = {
        "method": "bayes",
        "metric": {"name": "m", "goal": "maximize"},
        "parameters": {
            "learner.learning_rate": {"distribution": "log_uniform_values", "min": 1e-5, "max": 1e-1}
        },
    }
    trials = []
    for number in range(1, 16):
        parameters = propose(engine, trials, (0, number, 0))
        assert parameters == propose(engine, trials, (0, number, 0))
        off = math.log10(parameters["learner.learning_rate"]) + 3
        rows = [{"env_steps": 1, "m": -(off**2)}]
        trials.append(Trial(number, parameters, "finished", rows=rows))
    last = [abs(math.log10(t.parameters["learner.learning_rate"]) + 3) for t in trials[-5:]]
    assert np.median(last) < 0.25, "at random the median is 1"


def test_bayes_learns_from_the_best_value_of_a_runs_history():
    engine = {
        "method": "bayes",
        "metric": {"name": "m", "goal": "maximize"},
        "parameters": {"learner.gamma": {"min": 0.0, "max": 1.0}},
    }

    def choice(*history):
        trials = [
            Trial(
                n, {"learner.gamma": n / 6}, "finished", rows=[{"env_steps": 1, "m": -((n / 6 - 0.3) ** 2)}]
            )
            for n in range(6)
        ]
        rows = [{"env_steps": 1, "m": value} for value in history]
        return propose(engine, [*trials, Trial(6, {"learner.gamma": 0.95}, "finished", rows=rows)], (0, 1))

    assert choice(-0.2, -0.4) == choice(-0.4, -0.2) == choice(-0.2) != choice(-0.4)


def _axis(name, positions, ordered=True):
    return Axis(name, list(map(float, positions)), [(0.0, "a"), (1.0, "b")], ordered)


def test_importance_finds_what_matters():
    generator = np.random.default_rng(0)
    a, b = generator.random(40), generator.random(40)
    kind, constant = generator.integers(3, size=40), np.ones(40)
    values = [float(-3 * x + 2 * (k == 1)) for x, k in zip(a, kind, strict=True)]
    axes = [_axis("b", b), _axis("constant", constant), _axis("kind", kind, ordered=False), _axis("a", a)]
    found = dependence(axes, values)
    assert (found.runs, found.found) == (40, True) and 0.4 < found.r2 < 1
    assert [share.name for share in found.shares] == ["a", "kind", "b"]
    first, second, third = found.shares
    assert first.importance > second.importance > 0.1 > 0.05 > abs(third.importance)
    assert second.correlation is None
    ranks = [np.argsort(np.argsort(x)) for x in (a, values)]
    assert first.correlation == pytest.approx(np.corrcoef(*ranks)[0, 1])
    assert found == dependence(axes, values)
    assert dependence([_axis("a", a[:19])], values[:19]) is None
    assert dependence([_axis("a", a)], [1.0] * 40) is None


def test_noise_depends_on_nothing(monkeypatch):
    """A forest that is asked of the runs that it was fitted to says 0.6 and more here."""
    monkeypatch.setattr("dtqn.experiments.importance._TREES", 10)
    found = []
    for seed in range(10):
        generator = np.random.default_rng(seed)
        axes = [_axis(str(i), generator.random(30)) for i in range(4)]
        found.append(dependence(axes, generator.random(30).tolist()))
    assert sum(not one.found for one in found) >= 9
    assert all(one.found or one.shares == [] for one in found)


def test_held_out_figures_by_hand(monkeypatch):
    """The mean of the other folds in place of a forest: R^2 from plain sums, and no parameter matters."""

    class Mean:
        def __init__(self, **_):
            pass

        def fit(self, table, values):
            self.mean = values.mean()
            return self

        def predict(self, table):
            return np.full(len(table), self.mean)

    from dtqn.experiments import importance

    monkeypatch.setattr(importance, "RandomForestRegressor", Mean)
    values, lowest = np.arange(20.0) ** 2, np.inf
    for split in range(importance._SPLITS):
        folds = importance.KFold(5, shuffle=True, random_state=split).split(np.zeros((20, 1)))
        errors = sum(((values[held] - np.delete(values, held).mean()) ** 2).sum() for _, held in folds)
        lowest = min(lowest, 1 - errors / ((values - values.mean()) ** 2).sum())
    found = dependence([_axis("a", range(20))], values.tolist())
    assert (found.r2, found.shares) == (pytest.approx(lowest), []) and lowest < 0


def test_a_sweep_says_that_it_found_no_dependence(tmp_path):
    """The value is noise; what is drawn and written says so too."""
    board = _board(tmp_path, np.random.default_rng(0).random(24))
    told = board.finish()
    written = json.loads((tmp_path / "importance.json").read_text())
    assert (written["runs"], written["dependence_found"], written["parameters"]) == (24, False, [])
    assert written["held_out_r2"] <= 0
    sentence = (
        f"no dependence of best_success on the parameters found (held-out R² {written['held_out_r2']:.2f})"
    )
    assert sentence in told
    assert (tmp_path / "importance.png").exists()


def _board(folder, values):
    """A sweep of two parameters with a finished run for each value."""
    (folder / "file.yaml").write_text(
        "{method: random, metric: {name: best_success, goal: maximize}, "
        "parameters: {learner.gamma: {min: 0.5, max: 0.9}, learner.n_step: {values: [1, 2, 3]}}}"
    )
    config = resolve(None, {}, {})
    directory = RunDir.of_config(config, folder)
    board = sweep.Sweep(read_file(folder / "file.yaml"), folder, folder, lambda _: config, None, 0)
    draw = np.random.default_rng(1)
    for number, value in enumerate(values, 1):
        parameters = {
            "learner.gamma": float(draw.uniform(0.5, 0.9)),
            "learner.n_step": int(draw.integers(1, 4)),
        }
        rows = [{"env_steps": 9, "best_success": float(value)}]
        board.trials.append(Trial(number, parameters, "finished", str(directory.path), rows=rows))
    directory.prepare(config)
    return board


def test_a_sweep_does_not_go_on_with_runs_of_another_task(tmp_path, monkeypatch):
    board = _board(tmp_path, [0.5, 1.0])
    board.save()
    row = json.dumps({"env_steps": 9, "best_success": 0.5})
    RunDir(Path(board.trials[0].run_dir)).metrics_file.write_text(row + "\n")

    def again():
        return sweep.Sweep(board.file, tmp_path, tmp_path, lambda _: resolve(None, {}, {}), None, 0)

    assert [trial.state for trial in again().trials] == ["finished", "finished"]
    monkeypatch.setattr(envs.identity, "DYNAMICS_VERSION", envs.identity.DYNAMICS_VERSION + 1)
    with pytest.raises(ConfigError, match=r"seed1-\w+: the task .* has changed .* give another --out"):
        again()


def test_a_sweep_does_not_rank_runs_of_other_settings(run):
    """A settings file that has been edited: the runs of before are not mixed with those of now."""
    settings = run.folder / "settings.yaml"
    settings.write_text("learner: {gamma: 0.9}\n")
    arguments = ("--config", str(settings))
    assert run(_GRID, *arguments, "--run-cap", "2")[0] == 0
    record = run.folder / "out" / "sweep.json"
    text = record.read_text()
    settings.write_text("learner: {gamma: 0.8}\n")
    code, printed, _ = run(_GRID, *arguments)
    assert code == 2
    name = Path(_record(run.folder / "out")[0]["run_dir"]).name
    first = f"error: {re.escape(str(record))}: run 1 was made with other settings"
    first += rf" \({name}, now seed1-\w+\)"
    assert re.fullmatch(rf"{first}: .* give another --out\n", printed), printed
    assert record.read_text() == text
    settings.write_text("learner: {gamma: 0.9}\n")
    assert run(_GRID, *arguments)[0] == 0
    assert len(_record(run.folder / "out")) == 6


def test_values_that_are_taken_out_of_a_search_are_told(run):
    assert run(_GRID)[0] == 0
    code, printed, folder = run(_GRID.replace("[1, 2, 3]", "[2, 3]"))
    message = "is of a sweep with learner.n_step 1, which is none of 2, 3; give another --out"
    assert (code, printed) == (2, f"error: {folder / 'sweep.json'}: {message}\n")
    assert run(_GRID.replace("[1, 2, 3]", "[1, 2, 3, 4]"))[0] == 0, "more of them go on"
    assert len(_record(folder)) == 8


def test_what_is_no_longer_searched_is_told(run):
    """Its runs would count as those of one configuration, which differ in their seed alone."""
    more = _GRID.replace("  seed: {values: [1, 2]}", "  learner.gamma: {values: [0.9, 0.99]}")
    assert run(more)[0] == 0
    record, searched = (
        run.folder / "out" / "sweep.json",
        "learner: {parameters: {n_step: {values: [1, 2, 3]}}}",
    )
    text = record.read_text()
    for content, message in (
        (more.replace(searched, "learner.n_step: {value: 3}"), "with learner.n_step 1, which is none of 3"),
        (more.replace(searched, ""), "with learner.n_step 1, which this one does not set"),
        (more + "  learner.batch_size: {value: 8}\n", "without learner.batch_size"),
    ):
        code, printed, _ = run(content)
        assert (code, printed) == (2, f"error: {record}: is of a sweep {message}; give another --out\n")
    assert record.read_text() == text


def test_runs_that_have_moved_are_found_and_those_that_are_gone_made_again(run):
    """The results of a sweep are those of its runs, wherever these lie; the record alone has none."""
    assert run(_GRID)[0] == 0
    before = (run.folder / "out" / "leaderboard.csv").read_text()
    (run.folder / "runs").rename(run.folder / "elsewhere")
    moved = ("--runs-dir", str(run.folder / "elsewhere"))
    code, printed, folder = run(_GRID, *moved)
    assert code == 0 and "best: best_success 0.9850" in printed
    assert (folder / "leaderboard.csv").read_text() == before.replace("/runs/", "/elsewhere/")
    assert len((run.folder / "begun").read_text().splitlines()) == 6, "nothing is trained again"
    shutil.rmtree(_record(folder)[2]["run_dir"])
    code, printed, _ = run(_GRID, *moved)
    assert code == 0 and "best: best_success 0.9850" in printed
    assert (folder / "leaderboard.csv").read_text() == before.replace("/runs/", "/elsewhere/")
    assert (run.folder / "begun").read_text().splitlines()[6:] == ["2 1"]


def test_zero_of_a_quantised_logarithmic_distribution_has_a_place():
    spec = {"distribution": "q_log_uniform_values", "min": 1, "max": 32, "q": 4}
    axis = axis_of("replay.burn_in_length", spec, [0, 4, 32])
    assert axis.positions == [0, 4, 32] and [text for _, text in axis.ticks] == ["0", "16", "32"]
    assert axis_of("replay.burn_in_length", spec, [4, 40]).positions == pytest.approx(
        [0.602, 1.602], abs=1e-3
    )


def test_settings_that_an_agent_fixes_are_run_once(run):
    """One run under several values would rank chance."""
    content = _GRID.replace("seed: {values: [1, 2]}", "agent: {value: two=gtrxl+learner.n_step=2}")
    code, printed, folder = run(content)
    assert code == 0
    assert [entry["state"] for entry in _record(folder)] == ["finished", "refused", "refused"]
    assert "run 3 refused: its settings are those of run 1" in printed


def test_ties_share_a_rank(tmp_path):
    board = _board(tmp_path, [0.5, 1.0, 0.25, 1.0, 0.5, 0.75])
    assert [(line.rank, line.trials[0].number) for line in board.leaderboard()] == [
        (1, 2), (1, 4), (3, 6), (4, 1), (4, 5), (6, 3),
    ]  # fmt: skip
    assert [line.split()[0] for line in board.table()[1:]] == ["1.", "1.", "3.", "4.", "4."]
    board.save()
    rows = list(csv.DictReader((tmp_path / "leaderboard.csv").open()))
    assert [(row["rank"], row["number"]) for row in rows] == [
        ("1", "2"), ("1", "4"), ("3", "6"), ("4", "1"), ("4", "5"), ("6", "3"),
    ]  # fmt: skip
    assert "1 other came to the same" in board.finish()


def test_pictures(tmp_path, monkeypatch):
    """A panel a parameter, in the given order, with every run at its place and the best one ringed."""
    shares = [
        Importance("learner.n_step", 0.8, 0.1, -0.5),
        Importance("network.gate", 0.1, 0.0, None),
    ]
    axes = [_axis("learner.n_step", [0, 1, 0.5]), _axis("network.gate", [1, 1, 0], ordered=False)]
    for name in ("a.png", "b.png"):
        plots.by_parameter(axes, [0.1, 0.9, 0.5], tmp_path / name, "mean_success", 1)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    plots.importance(shares, tmp_path / "importance.png", "mean_success", 0.4, 25)
    assert Image.open(tmp_path / "importance.png").size[0] > 500
    figures = []
    monkeypatch.setattr(plots, "save", lambda figure, path: figures.append(figure))
    plots.by_parameter(axes, [0.1, 0.9, 0.5], tmp_path, "mean_success", 1)
    plots.importance(shares, tmp_path, "mean_success", 0.4, 25)
    plots.importance([], tmp_path, "mean_success", -0.2, 25)
    panels = [panel for panel in figures[0].axes if panel.get_visible()]
    assert [panel.get_title() for panel in panels] == ["learner.n_step", "network.gate"]
    dots, ring = panels[0].collections
    assert dots.get_offsets().tolist() == [[0, 0.1], [1, 0.9], [0.5, 0.5]]
    assert ring.get_offsets().tolist() == [[1, 0.9]]
    assert figures[1].get_suptitle() == "Dependence of mean_success on settings: held-out R² = 0.40, 25 runs"
    (text,) = figures[2].texts
    assert text.get_text() == "no dependence of mean_success found: held-out R² = -0.20, 25 runs"


_SEARCH = "method: random\nmetric: {name: mean_success}\nrun_cap: 2\n"
_ONE = _SEARCH + "parameters: {seed: {values: [1]}}"


def _one(key, text):
    """A sweep file with this text under a key."""
    return yaml.safe_dump(yaml.safe_load(_ONE) | {key: yaml.safe_load(text)})


@pytest.mark.parametrize(
    ("spec", "right"),
    [
        ("3", "must be {value: X}, {values: [X, Y]} or {min: X, max: Y}"),
        ("{}", "must be {value: X}, {values: [X, Y]} or {min: X, max: Y}"),
        ("{values: 3}", "values is 3: must be a list"),
        ("{values: []}", "values is []: must hold at least 1 item"),
        ("{value: 1, values: [1]}", "value is no key of categorical; did you mean values?"),
        ("{min: 1}", "max is missing"),
        ("{min: 1, max: many}", "max is many: must be a number"),
        ("{values: [1], probabilities: [-1]}", "probabilities.0 is -1: must be at least 0"),
        ("{distribution: log_uniform_values, min: 0, max: 1}", "min is 0: must be above 0"),
        ("{distribution: normal, sigma: -1}", "sigma is -1: must be at least 0"),
        ("{distribution: constant}", "value is missing"),
        ("{distribution: int_unifrm, min: 0, max: 1}", "q_log_uniform_values; did you mean int_uniform?"),
        ("{distribution: [1]}", "inv_log_uniform_values, log_uniform_values, q_log_uniform_values"),
    ],
)
def test_a_malformed_parameter_is_told_the_form_that_is_meant(tmp_path, spec, right):
    file = tmp_path / "file.yaml"
    file.write_text(_SEARCH + f"parameters: {{seed: {spec}}}")
    with pytest.raises(ConfigError) as error:
        read_file(file)
    told = str(error.value)
    start = f"{file}: parameters.seed is {yaml.safe_load(spec)}: no distribution of W&B's; "
    assert told.startswith(start) and told.endswith(right) and "\n" not in told


def test_the_forms_of_a_parameter_are_those_of_the_engine():
    """What is told is of a schema that the engine itself draws by."""
    known = sweep_engine.distributions()
    assert {"constant", "categorical", "categorical_w_probabilities", "uniform"} <= set(known)
    whole = {"value": 1, "values": [1], "probabilities": [1], "min": 1, "max": 2}
    for name, schema in known.items():
        spec = {key: value for key, value in whole.items() if key in schema["properties"]}
        assert sweep_engine.has_distribution("seed", {**spec, "distribution": name}), name
        assert list(sweep_engine.parameter_violations(spec, name)) == [], name


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("method: grid", [], "parameters is None; must hold settings to search"),
        (
            _SEARCH + "parameters: {learner.n_stp: {values: [1]}}",
            [],
            "parameters.learner.n_stp is no setting; did you mean learner.n_step?",
        ),
        (
            _SEARCH + "parameters: {learner.learning_rate: {min: 1e-5, max: 1.0e-2}}",
            [],
            "parameters.learner.learning_rate is {'min': '1e-5', 'max': 0.01}: no distribution of W&B's; "
            "write 1.0e-05 for 1e-5",
        ),
        (_SEARCH + "parameters: {learner.n_step: {min: 5, max: 2}}", [], "min 5 is not less than max 2"),
        (
            _SEARCH + "parameters: {learner.gamma: {min: 0.1, most: 0.9}}",
            [],
            "parameters.learner.gamma is {'min': 0.1, 'most': 0.9}: no distribution of W&B's; "
            "most is no key of uniform; known: distribution, max, min\n",
        ),
        ("method: grid\nparameters: {seed: {values: [1]}}", [], "metric is None; must have a name"),
        (
            _one("method", "rand"),
            [],
            "method is rand: must be one of bayes, grid, random; did you mean random?",
        ),
        (_one("method", "custom"), [], "method is custom: must be one of bayes, grid, random"),
        (
            "parameters: {seed: {values: [1]}}\nmetric: {name: mean_success}",
            [],
            "method is None: must be one",
        ),
        (
            _one("metric", "{name: mean_success, goal: maximise}"),
            [],
            "metric.goal is maximise: must be one of minimize, maximize; did you mean maximize?",
        ),
        (
            _one("metric", "{name: mean_success, gaol: maximize}"),
            [],
            "metric.gaol is no key of a sweep file; did you mean goal?",
        ),
        (_one("metric", "{name: 3}"), [], "metric.name is 3: must be text"),
        (
            _one("metric", "{name: mean_sucess}"),
            [],
            "metric.name is mean_sucess: there is no such metric; did you mean mean_success?",
        ),
        (
            _one("metric", "{name: m}"),
            [],
            "metric.name is m: there is no such metric; try mean_success or mean_return",
        ),
        (
            _one("metric", "{name: best/eval_success}"),
            [],
            "metric.name is best/eval_success: there is no such",
        ),
        (
            _ONE,
            ["--env", "CartPole-v1"],
            "file.yaml: metric.name is mean_success, but CartPole-v1 defines no success; try mean_return",
        ),
        (
            _one("metric", "{name: eval/success_low}"),
            ["--env", "CartPole-v1"],
            "metric.name is eval/success_low, but CartPole-v1 defines no success; try eval/return",
        ),
        (
            _one("parameters", "{env: {values: [gridverse-memory-5x5, CartPole-v1]}}"),
            [],
            "metric.name is mean_success, but CartPole-v1 defines no success; try mean_return",
        ),
        (
            _one("parameters", "{env: {value: CartPole-v1}}"),
            [],
            "file.yaml: metric.name is mean_success, but CartPole-v1 defines no success; try mean_return",
        ),
        (_ONE, ["--device", "cuda"], "error: device is cuda, but torch finds none; try cpu"),
        (
            _one("parameters", "{device: {values: [cpu, cuda]}}"),
            [],
            "error: device is cuda, but torch finds none; try cpu",
        ),
        (_one("early_terminate", "3"), [], "early_terminate is 3: must be a mapping"),
        (_one("early_terminate", "{type: hyperband}"), [], "early_terminate.min_iter is missing"),
        (
            _one("early_terminate", "{type: median, min_iter: 3}"),
            [],
            "early_terminate.type is median: must be one of hyperband",
        ),
        (
            _one("early_terminate", "{type: hyperband, min_iter: 0}"),
            [],
            "early_terminate.min_iter is 0: must be at least 1",
        ),
        (
            _one("early_terminate", "{type: hyperband, max_iter: 2, s: 2}"),
            [],
            "file.yaml: early_terminate: Bands must be an array of length at least 1",
        ),
        (
            "method: bayes\nrun_cap: 2\nmetric: {name: mean_success}\nparameters: {seed: {value: 1}}",
            [],
            "file.yaml: parameters: Need at least one searchable parameter",
        ),
        (_one("command", "3"), [], "command is 3: must be a list"),
        (
            _one("command", "[python, run.py, '${args}']"),
            [],
            "command is python run.py ${args}; must hold ${program}, with the program's flags after it",
        ),
        (
            _one("command", "['${program}', eval, '${args}']"),
            [],
            "file.yaml: command: unrecognized arguments: eval",
        ),
        (
            _one("command", "[python, '${program}', --agent=gru]"),
            [],
            "command is python ${program} --agent=gru; must hold ${args} after ${program}: without it W&B",
        ),
        (
            _one("program", "train.py"),
            [],
            "file.yaml: program is train.py: W&B would run that; must be run.py",
        ),
        (_one("program", "my_run.py"), [], "program is my_run.py: W&B would run that; must be run.py"),
        (_one("name", "3"), [], "file.yaml: name is 3: must be text"),
        (_SEARCH.replace("2", "0") + "parameters: {seed: {values: [1]}}", [], "run_cap is 0; must be"),
        (_one("mode", "x"), [], "mode is no key of a sweep file; did you mean method?"),
        (_one("run_cp", "3"), [], "run_cp is no key of a sweep file; did you mean run_cap?"),
        (
            _SEARCH.replace("run_cap: 2", "") + "parameters: {seed: {values: [1]}}",
            [],
            "method random has no end; give --run-cap N",
        ),
        (_ONE, ["--seed", "4"], "--seed is 4, but .* searches it"),
        (_one("command", "['${program}', '${args}', --lr=3]"), [], "file.yaml: command: --lr is no option"),
        ("[1", [], "is not a YAML file"),
        (_ONE, ["--learner.gama", "0.9"], "--learner.gama is no option; did you mean --learner.gamma?"),
        (
            _ONE,
            ["--learner.gamma", "2"],
            r"learner.gamma is 2 \(from --learner.gamma\): must be a number .* at most 1",
        ),
        (_ONE, ["--env", "car-flat"], "env is car-flat: unknown task 'car-flat'; did you mean car-flag"),
        (_ONE, ["--env", "car-flag-continuous"], "env is car-flag-continuous: its actions are"),
        (
            _ONE,
            ["--agent", "gtrx"],
            "agent is gtrx (from --agent): gtrx is no agent; did you mean gtrxl?",
        ),
        (
            _ONE,
            ["--network.num_heads", "3"],
            r"no configuration fits, the first one as network.width is 64, not a multiple of "
            r"network.num_heads 3; try 66 \(network.num_heads from --network.num_heads\)",
        ),
        (
            _SEARCH + "parameters: {network.num_heads: {values: [3]}, learner.gamma: {value: 2}}",
            [],
            r"learner.gamma is 2 \(from .*file.yaml\): must be a number",
        ),
        (
            _SEARCH + "parameters: {seed: {values: [1]}, learner.gamma: {values: [0.9, 2]}}",
            [],
            r"learner.gamma is 2 \(from .*file.yaml\): must be a number",
        ),
        (
            _SEARCH + "parameters: {learner.gamma: {min: 0.5, max: 2.0}}",
            [],
            r"learner.gamma is 1.9985 \(from .*file.yaml\): must be a number",
        ),
        (
            "{method: grid, metric: {name: mean_success}, parameters: {learner.gamma: {min: 0.5, max: 0.9}}}",
            [],
            r"file.yaml: parameters: .*learner.gamma",
        ),
    ],
)
def test_a_mistake_is_one_line_that_names_it(run, content, arguments, message, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    code, printed, folder = run(content, *arguments)
    assert code == 2
    assert printed.startswith("error: ")
    assert printed.count("\n") == 1
    assert message in printed or re.search(message, printed), printed
    assert not folder.exists()
    assert not (run.folder / "runs").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "",
            r"is no record of a sweep \(JSONDecodeError: Expecting value: line 1 column 1 .*\); move it away",
        ),
        ('{"runs": [{"number": 1', r"is no record of a sweep \(JSONDecodeError: .*"),
        ("[]", r"is no record of a sweep \(TypeError: .*"),
        ('{"runs": [{"number": 1}]}', r"is no record of a sweep \(KeyError: 'parameters'\)"),
        (None, "is of a sweep without network.width; give another --out"),
    ],
)
def test_a_record_that_cannot_be_read_is_one_line(run, text, message):
    content, record = _GRID, run.folder / "out" / "sweep.json"
    if text is None:
        assert run(_GRID)[0] == 0
        text = record.read_text()
        content = _GRID.replace("learner: {parameters: {n_step", "network: {parameters: {width")
        content = content.replace("[1, 2, 3]", "[16, 32]")
    record.parent.mkdir(exist_ok=True)
    record.write_text(text)
    before = {*run.folder.rglob("*"), run.folder / "file.yaml"}
    code, printed, _ = run(content)
    assert code == 2
    assert re.fullmatch(rf"error: {re.escape(str(record))}: {message}.*\n", printed), printed
    assert record.read_text() == text
    assert set(run.folder.rglob("*")) == before


def test_flags_of_the_command_count_and_wandb_is_told_the_sweep(run):
    content = (
        _GRID.replace("[1, 2, 3]", "[2]")
        + "name: try\ncommand: [python, -u, '${program}', train, '${args}', --agent=gru]\n"
    )
    assert run(content)[0] == 0
    (folder,) = {Path(record["run_dir"]).parent.name for record in _record(run.folder / "out")}
    assert folder == "gru"
    assert (os.environ["WANDB_RUN_GROUP"], os.environ["WANDB_JOB_TYPE"]) == ("try", "sweep")


def test_without_the_engine_one_line_says_how_to_get_it(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "sweeps", None)
    for name in ("dtqn.experiments.sweep_engine", "dtqn.experiments.sweep_file", "dtqn.experiments.sweep"):
        monkeypatch.delitem(sys.modules, name)
        monkeypatch.delattr(name)
    assert cli.main(["sweep", str(_SHIPPED[0])]) == 2
    command = 'pip install "dtqn[sweep]"'
    assert capsys.readouterr().err == f"error: sweep needs sweeps, which is not installed: {command}\n"
    assert shlex.split(command)[-1] == "dtqn[sweep]"
