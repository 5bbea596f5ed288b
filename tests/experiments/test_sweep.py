"""The runs of a sweep, made by a program that behaves like a training: order, states, records, ranks."""

import csv
import itertools
import os
import re
import shutil
import signal
import sys
from pathlib import Path

import pytest

import envs
from dtqn import cli
from dtqn.experiments import sweep
from dtqn.experiments.sweep_file import read_file
from dtqn.experiments.sweep_study import Trial, draws
from dtqn.settings.presets import resolve
from tests.experiments import sweep_program
from tests.experiments.sweep_program import GRID, SHIPPED, recorded, results_of, score_of
from tests.tiny import refused

_ROOT = Path(__file__).parents[2]

run = sweep_program.run


def test_a_grid_is_covered_once_and_averaged_over_seeds(run):
    code, printed, folder = run(GRID, "--learner.double-q", "false", "--learner.learning-rate", "0.004")
    assert code == 0, printed
    assert (run.folder / "wandb").read_text() == "file sweep\n" * 6 and "WANDB_JOB_TYPE" not in os.environ
    found = [(r["parameters"]["learner.n_step"], r["parameters"]["seed"]) for r in recorded(folder)]
    assert sorted(found) == list(itertools.product([1, 2, 3], [1, 2]))
    assert sorted((run.folder / "begun").read_text().split("\n")[:-1]) == sorted(f"{n} {s}" for n, s in found)
    rows = list(csv.DictReader((folder / "leaderboard.csv").open()))
    assert [row["rank"] for row in rows] == ["1", "1", "2", "2", "3", "3"]
    assert [row["learner.n_step"] for row in rows] == ["3", "3", "2", "2", "1", "1"]
    for row in rows:
        assert float(row["best_success"]) == score_of(int(row["learner.n_step"]), int(row["seed"]))
    (top,) = (line for line in printed.split("best: ")[0].rpartition("run ")[2].splitlines() if "1." in line)
    assert re.fullmatch(r"1\.  0\.9850 {8}\d, \d  3", top), "the mean of 0.99 and 0.98"
    best = resolve(folder / "best.yaml", {}, {})
    assert (best.learner.n_step, best.learner.learning_rate, best.learner.double_q) == (3, 0.004, False)


def test_settings_of_ones_own_core_are_searched_one_by_one(run):
    """They are laid over those that are given, and a flag fixes one that the file fixes too."""
    own = ["--network.core", "tests.own_cores:Averages", "--network.kwargs.other", "[1]"]
    searched = GRID.replace("seed: {", "network.kwargs.heads: {").replace(
        "learner.learning_rate: {",
        "network: {parameters: {kwargs.a-b: {value: 5}}}\n  learner.learning_rate: {",
    )
    code, printed, folder = run(searched, *own, "--network.kwargs.a-b=6")
    assert code == 0, printed
    configs = [resolve(Path(one["run_dir"]) / "config.yaml", {}, {}) for one in recorded(folder)]
    found = sorted((config.learner.n_step, config.network.kwargs["heads"]) for config in configs)
    assert found == list(itertools.product([1, 2, 3], [1, 2]))
    assert all(
        config.network.kwargs == {**config.network.kwargs, "a-b": 6, "other": [1]} for config in configs
    )
    assert next(csv.DictReader((folder / "leaderboard.csv").open()))["network.kwargs.heads"] in "12"


def test_a_signal_interrupts_and_the_same_command_goes_on(run, monkeypatch):
    (run.folder / "held").write_text("\n".join(f"{n} {seed}" for n in (1, 2, 3) for seed in (1, 2)))
    real = sweep.RunsView

    def watched(out, runs):
        view = real(out, runs)
        update, sent = view.update, []

        def signalling(changed):
            update(changed)
            # Each waits after its third evaluation.
            if not sent and any(len(job.rows) == 6 and job.state == "running" for job in runs):
                sent.append(True)
                os.kill(os.getpid(), signal.SIGTERM)

        view.update = signalling
        return view

    monkeypatch.setattr(sweep, "RunsView", watched)
    code, printed, folder = run(GRID, jobs=1)
    assert code == 143
    assert "interrupted after 0 runs; the same command continues" in printed
    (first,) = recorded(folder)
    assert first["state"] == "open"
    monkeypatch.setattr(sweep, "RunsView", real)
    (run.folder / "held").write_text("")
    assert run(GRID, jobs=1)[0] == 0
    records = recorded(folder)
    assert [record["state"] for record in records] == ["finished"] * 6
    assert records[0]["parameters"] == first["parameters"], "under its number"
    begun = (run.folder / "begun").read_text().splitlines()
    assert begun[0] == begun[1] and len(begun) == 7


def test_a_failed_run_is_told_and_tried_again(run):
    (run.folder / "broken").write_text("2 1")
    code, printed, folder = run(GRID)
    assert code == 1
    assert "failed: exit code 1: error: the loss is not finite" in printed
    assert "best: best_success 0.9850" in printed
    assert [r["state"] for r in recorded(folder)].count("failed") == 1
    (run.folder / "broken").unlink()
    assert run(GRID)[0] == 0
    assert [record["state"] for record in recorded(folder)] == ["finished"] * 6
    assert len((run.folder / "begun").read_text().splitlines()) == 7


def test_a_sweep_whose_first_runs_all_fail_is_ended(run):
    (run.folder / "broken").write_text("all")
    code, printed, folder = run(GRID, jobs=1)
    assert code == 1
    assert "no configuration has a result" in printed
    assert [record["state"] for record in recorded(folder)] == ["failed"] * 3


@pytest.mark.parametrize(
    ("searched", "message"),
    [
        (
            "network.core.num_heads: {values: [2, 3, 5, 6]}",
            "network.width is 64, not a multiple of network.core.num_heads 3; try 66 "
            "(network.core.num_heads from ",
        ),
        ("learner.gamma: {values: [2, 3, 0.9, 4]}", "learner.gamma is 3 (from "),
    ],
)
def test_settings_that_are_wrong_are_no_run_and_end_nothing(run, searched, message):
    code, printed, folder = run(
        f"{{method: grid, metric: {{name: mean_success}}, parameters: {{{searched}}}}}"
    )
    assert code == 0, printed
    assert f"refused: {message}{run.folder / 'file.yaml'}" in printed
    assert sorted(record["state"] for record in recorded(folder)) == ["finished"] + ["refused"] * 3


def test_a_directory_that_cannot_be_used_costs_no_point(run):
    (run.folder / "runs").write_text("a file")
    code, printed, folder = run(GRID)
    assert code == 2
    assert re.fullmatch(r"error: --runs-dir .* cannot be written: File exists\n", printed)
    (run.folder / "runs").unlink()
    assert run(GRID)[0] == 0
    assert [record["state"] for record in recorded(folder)] == ["finished"] * 6


def test_as_many_jobs_as_there_are_cpus_for_their_threads(tmp_path, monkeypatch):
    asked, file = [], tmp_path / "file.yaml"
    file.write_text(GRID)
    monkeypatch.setattr(sweep, "run", lambda _, at_once: asked.append(at_once) or (0, None))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    for threads in ("auto", "3", "16"):
        cli.main(["sweep", str(file), "--threads", threads, "--out", str(tmp_path / "out")])
    assert asked == [8, 2, 1]


def test_the_leaderboard_has_the_first_parameters_that_vary(tmp_path):
    """Its file has all fourteen."""
    file = read_file(_ROOT / "configs/sweeps/everything.yaml")
    trials = []
    for number, draw in enumerate(itertools.islice(draws(file, 0), 7), 1):
        parameters = draw.parameters | {
            "learner.learning_rate": 0.00123456,
            "learner.returns.q_lambda": number,
        }
        trials.append(Trial(number, parameters, "finished", value=number / 8))
    results = sweep.Results(file, tmp_path, trials)
    header, *lines = results.table()
    assert header.split() == ["mean_success", "run", *file.searched[1:6]]
    assert [line.split()[:4] for line in lines] == [
        [f"{rank}.", f"{n / 8:.4f}", str(n), str(n)] for rank, n in enumerate([7, 6, 5, 4, 3], 1)
    ]
    results.write_board()
    (first, *_) = csv.DictReader((tmp_path / "leaderboard.csv").open())
    expected = {name: str(trials[-1].parameters[name]) for name in file.searched}
    assert {name: first[name] for name in file.searched} == expected


def test_what_is_drawn_twice_is_drawn_again_until_nothing_is_left(run):
    _, printed, folder = run(
        "{method: random, run_cap: 9, metric: {name: mean_success}, "
        "parameters: {learner.n_step: {values: [1, 2]}}}"
    )
    assert sorted(r["parameters"]["learner.n_step"] for r in recorded(folder)) == [1, 2]
    assert "best: mean_success 0.7900 with learner.n_step 1" in printed, "the goal is minimize by default"


def test_a_folder_is_of_one_search_with_its_settings_and_its_task(run, monkeypatch):
    """Runs of another one would count as those of one configuration, or grids would get mixed up."""
    settings = run.folder / "settings.yaml"
    settings.write_text("learner: {gamma: 0.9}\n")
    arguments = ("--config", str(settings))
    assert run(GRID, *arguments, "--run-cap", "2")[0] == 0
    journal = run.folder / "out" / "journal.log"
    text = journal.read_text()

    def check_refused(content, *more):
        code, printed, folder = run(content, *arguments, *more)
        why = "is of another search (the sweep file, a setting or the task has changed since)"
        assert (code, printed) == (2, f"error: {folder}: {why}; give another --out\n")
        assert journal.read_text() == text

    check_refused(GRID.replace("[1, 2, 3]", "[2, 3]"))
    check_refused(GRID + "  learner.batches.size: {value: 8}\n")
    check_refused(GRID.replace("maximize", "minimize"))
    check_refused(GRID, "--search-seed", "3")
    check_refused(GRID, "--learner.max_grad_norm", "3")
    settings.write_text("learner: {gamma: 0.8}\n")
    check_refused(GRID)
    settings.write_text("learner: {gamma: 0.9}\n")
    with monkeypatch.context() as changed:
        changed.setattr(envs.identity, "DYNAMICS_VERSION", envs.identity.DYNAMICS_VERSION + 1)
        check_refused(GRID)
    assert run(GRID, *arguments, "--threads", "2")[0] == 0
    assert len(recorded(run.folder / "out")) == 6


def test_results_are_kept_where_runs_are_not(run):
    """The folder of runs has moved; an interrupted run is gone."""
    (run.folder / "broken").write_text("2 1")
    assert run(GRID)[0] == 1
    before = [record["value"] for record in recorded(run.folder / "out")]
    shutil.rmtree(run.folder / "runs")
    (run.folder / "broken").unlink()
    assert run(GRID)[0] == 0
    after = [record["value"] for record in recorded(run.folder / "out")]
    assert [new for new, old in zip(after, before, strict=True) if new != old] == [score_of(2, 1)]
    assert (run.folder / "begun").read_text().splitlines()[6:] == ["2 1"]


def test_settings_that_an_agent_fixes_are_run_once(run):
    """One run under several values would rank chance."""
    content = GRID.replace("seed: {values: [1, 2]}", "agent: {value: two=gtrxl+learner.n_step=2}")
    code, printed, folder = run(content)
    assert code == 0
    assert [entry["state"] for entry in recorded(folder)] == ["finished", "refused", "refused"]
    assert "run 3 refused: run 1 has the same settings" in printed
    assert len((run.folder / "begun").read_text().splitlines()) == 1


def test_ties_share_a_rank(tmp_path):
    results = results_of(tmp_path, [0.5, 1.0, 0.25, 1.0, 0.5, 0.75])
    expected = [(1, 2), (1, 4), (3, 6), (4, 1), (4, 5), (6, 3)]
    board = results.leaderboard()
    assert [(line.rank, line.trials[0].number) for line in board] == expected
    assert [line.split()[0] for line in results.table()[1:]] == ["1.", "1.", "3.", "4.", "4."]
    results.write_board()
    rows = list(csv.DictReader((tmp_path / "leaderboard.csv").open()))
    assert [(int(row["rank"]), int(row["number"])) for row in rows] == expected


@pytest.mark.parametrize(("runs_of_others", "ranks"), [(5, True), (4, False), (1, False)])
def test_ranks_need_five_runs_of_every_line(tmp_path, runs_of_others, ranks):
    """Five runs of the best line alone do not tell that it is the best."""
    results = results_of(tmp_path, [1.0] * 5 + [0.5] * runs_of_others)
    for number, trial in enumerate(results.trials):
        gamma, n_step = (0.6, 1) if number < 5 else (0.7, 2)
        trial.parameters.update({"learner.gamma": gamma, "learner.n_step": n_step})
    board = results.leaderboard()
    assert [len(line.trials) for line in board] == [5, runs_of_others]
    told = "fewer than 5 runs per line: these ranks do not tell which settings are better"
    assert (told in results.write_best(resolve(None, {}, {}))) != ranks


@pytest.mark.parametrize("text", ['{"op_code": 0}', "[]", "text\n{}"])
def test_a_journal_that_cannot_be_read_is_one_line(run, text):
    journal = run.folder / "out" / "journal.log"
    journal.parent.mkdir()
    journal.write_text(f"{text}\n")
    code, printed, _ = run(GRID)
    message = r"is no record of a sweep \(\w+\); move it away, what has been run is found again"
    assert code == 2 and re.fullmatch(rf"error: {re.escape(str(journal))}: {message}\n", printed), printed
    assert journal.read_text() == f"{text}\n"


def test_a_searchs_name_is_one_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sweep, "run", lambda sweep, at_once: (0, sweep.study.folder))
    file = tmp_path / "file.yaml"
    file.write_text(f"{GRID}name: a/../../Grösse / 1\n")
    _, folder = sweep.asked(file, {"runs_dir": str(tmp_path / "runs")})
    assert folder.parent == tmp_path / "runs" / "sweeps"
    assert re.fullmatch(r"a-\.\.-\.\.-Grösse-1-\w{8}", folder.name)


_HYPERBAND = """
method: grid
metric: {name: mean_success, goal: maximize}
early_terminate: {type: hyperband, min_iter: 3, eta: 4}
parameters: {learner.n_step: {values: [3, 5]}}
"""


@pytest.mark.timeout(60)
def test_hyperband_ends_what_lags_behind(run):
    """Run 2 waits after its third evaluation, the first rung, and would wait for ever."""
    (run.folder / "held").write_text("5 1")
    order = ("--search-seed", "1")  # that of the file
    code, printed, folder = run(_HYPERBAND, *order, jobs=1)
    assert code == 0, printed
    assert [(r["state"], r["env_steps"]) for r in recorded(folder)] == [("finished", 401), ("stopped", 301)]
    rows = list(csv.DictReader((folder / "leaderboard.csv").open()))
    assert [float(row["mean_success"]) for row in rows] == [score_of(3, 1), score_of(5, 1, rows=3)]
    (run.folder / "held").write_text("")
    assert run(_HYPERBAND, *order, jobs=1)[0] == 0, "and stays ended"
    assert (run.folder / "begun").read_text().splitlines() == ["3 1", "5 1"]


def test_without_the_engine_one_line_says_how_to_get_it(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    for name in ("sweep_study", "sweep"):
        monkeypatch.delitem(sys.modules, f"dtqn.experiments.{name}")
        monkeypatch.delattr(f"dtqn.experiments.{name}")
    told = "sweep needs optuna, which is not installed: python -m pip install optuna"
    assert refused(capsys, "sweep", SHIPPED[0]) == told
