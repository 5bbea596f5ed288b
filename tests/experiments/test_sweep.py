"""The runs of a sweep, made by a program that behaves like a training: order, states, records, ranks."""

import csv
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import envs
from dtqn import cli
from dtqn.experiments import sweep
from dtqn.experiments.sweep_file import read_file
from dtqn.settings.config import ConfigError
from dtqn.settings.presets import resolve
from dtqn.training.directory import RunDir
from dtqn.training.metrics import read_rows
from tests.experiments import sweep_program
from tests.experiments.sweep_program import GRID, recorded, results_of, score_of

_ROOT = Path(__file__).parents[2]

run = sweep_program.run


def test_a_grid_is_covered_once_and_averaged_over_seeds(run):
    code, printed, folder = run(GRID, "--learner.double-q", "false", "--learner.learning-rate", "0.004")
    assert code == 0, printed
    found = [(r["parameters"]["learner.n_step"], r["parameters"]["seed"]) for r in recorded(folder)]
    assert sorted(found) == list(itertools.product([1, 2, 3], [1, 2]))
    assert sorted((run.folder / "begun").read_text().split("\n")[:-1]) == sorted(f"{n} {s}" for n, s in found)
    rows = list(csv.DictReader((folder / "leaderboard.csv").open()))
    assert [row["rank"] for row in rows] == ["1", "1", "2", "2", "3", "3"]
    assert [row["learner.n_step"] for row in rows] == ["3", "3", "2", "2", "1", "1"]
    for row in rows:
        assert float(row["best_success"]) == score_of(int(row["learner.n_step"]), int(row["seed"]))
    (top,) = (line for line in printed.split("best: ")[0].rpartition("run ")[2].splitlines() if "1." in line)
    assert re.fullmatch(r"1\.  0\.9850 {8}(5, 6|6, 5)  3", top), "the mean of 0.99 and 0.98"
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
    (here / "file.yaml").write_text(GRID)
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
    left = [record for record in recorded(here / "out") if record["state"] == "open"]
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
    code, printed, folder = run(GRID)
    assert code == 0, printed
    records = recorded(folder)
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
    code, printed, folder = run(GRID, jobs=1)
    assert code == 143
    assert "interrupted after 1 run; the same command goes on" in printed
    assert [record["state"] for record in recorded(folder)] == ["finished", "open"]
    monkeypatch.setattr(sweep, "open_runs_view", real)
    assert run(GRID, jobs=1)[0] == 0
    assert [record["state"] for record in recorded(folder)] == ["finished"] * 6
    assert (run.folder / "begun").read_text().splitlines().count("1 2") == 2


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
    assert [record["state"] for record in recorded(folder)] == ["refused"] * 3 + ["finished"]


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
    code, printed, folder = run(GRID)
    assert code == 0, printed
    assert "run 4 refused: replay.capacity is 1: the run would take more" in printed
    assert [record["state"] for record in recorded(folder)].count("finished") == 5


def test_a_target_ends_the_search(run):
    grid = GRID.replace("goal: maximize", "goal: maximize, target: 0.75")
    assert run(grid, jobs=1)[0] == 0
    assert [r["parameters"]["learner.n_step"] for r in recorded(run.folder / "out")] == [1]


def test_what_is_drawn_twice_is_drawn_again_until_nothing_is_left(run):
    _, printed, folder = run(
        "{method: random, run_cap: 9, metric: {name: mean_success}, "
        "parameters: {learner.n_step: {values: [1, 2]}}}"
    )
    assert sorted(r["parameters"]["learner.n_step"] for r in recorded(folder)) == [1, 2]
    assert "best: mean_success 0.7900 with learner.n_step 1" in printed, "the goal is minimize by default"


def test_a_sweep_does_not_go_on_with_runs_of_another_task(tmp_path, monkeypatch):
    board = board_of(tmp_path, [0.5, 1.0])
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
    assert run(GRID, *arguments, "--run-cap", "2")[0] == 0
    record = run.folder / "out" / "sweep.json"
    text = record.read_text()
    settings.write_text("learner: {gamma: 0.8}\n")
    code, printed, _ = run(GRID, *arguments)
    assert code == 2
    told = f"error: {record}: run 1 was made with other settings (learner.gamma is 0.9, now 0.8); to search "
    assert printed == told + "with the settings as they are now, give another --out\n"
    assert record.read_text() == text
    settings.write_text("learner: {gamma: 0.9}\n")
    code, printed, _ = run(GRID, *arguments, "--learner.max_grad_norm", "3")
    assert code == 2 and "(learner.max_grad_norm is 10.0, now 3.0)" in printed, "nor those of another flag"
    assert run(GRID, *arguments)[0] == 0
    assert len(recorded(run.folder / "out")) == 6


def test_values_that_are_taken_out_of_a_search_are_told(run):
    assert run(GRID)[0] == 0
    code, printed, folder = run(GRID.replace("[1, 2, 3]", "[2, 3]"))
    message = "is of a sweep with learner.n_step 1, which is none of 2, 3; give another --out"
    assert (code, printed) == (2, f"error: {folder / 'sweep.json'}: {message}\n")
    assert run(GRID.replace("[1, 2, 3]", "[1, 2, 3, 4]"))[0] == 0, "more of them go on"
    assert len(recorded(folder)) == 8


def test_what_is_no_longer_searched_is_told(run):
    """Its runs would count as those of one configuration, which differ in their seed alone."""
    more = GRID.replace("  seed: {values: [1, 2]}", "  learner.gamma: {values: [0.9, 0.99]}")
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
    assert run(GRID)[0] == 0
    before = (run.folder / "out" / "leaderboard.csv").read_text()
    (run.folder / "runs").rename(run.folder / "elsewhere")
    moved = ("--runs-dir", str(run.folder / "elsewhere"))
    code, printed, folder = run(GRID, *moved)
    assert code == 0 and "best: best_success 0.9850" in printed
    assert (folder / "leaderboard.csv").read_text() == before.replace("/runs/", "/elsewhere/")
    assert len((run.folder / "begun").read_text().splitlines()) == 6, "nothing is trained again"
    shutil.rmtree(recorded(folder)[2]["run_dir"])
    code, printed, _ = run(GRID, *moved)
    assert code == 0 and "best: best_success 0.9850" in printed
    assert (folder / "leaderboard.csv").read_text() == before.replace("/runs/", "/elsewhere/")
    assert (run.folder / "begun").read_text().splitlines()[6:] == ["2 1"]


def test_settings_that_an_agent_fixes_are_run_once(run):
    """One run under several values would rank chance."""
    content = GRID.replace("seed: {values: [1, 2]}", "agent: {value: two=gtrxl+learner.n_step=2}")
    code, printed, folder = run(content)
    assert code == 0
    assert [entry["state"] for entry in recorded(folder)] == ["finished", "refused", "refused"]
    assert "run 3 refused: its settings are those of run 1" in printed


def test_ties_share_a_rank(tmp_path):
    board = board_of(tmp_path, [0.5, 1.0, 0.25, 1.0, 0.5, 0.75])
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


@pytest.mark.parametrize(("runs_of_others", "ranks"), [(5, True), (4, False), (1, False)])
def test_ranks_need_five_runs_of_every_line(tmp_path, runs_of_others, ranks):
    """Five runs of the best line alone do not tell that it is the best."""
    board = board_of(tmp_path, [1.0] * 5 + [0.5] * runs_of_others)
    for number, trial in enumerate(board.trials):
        trial.parameters["learner.gamma"], trial.parameters["learner.n_step"] = (
            (0.6, 1) if number < 5 else (0.7, 2)
        )
    assert [len(line.trials) for line in board.leaderboard()] == [5, runs_of_others]
    told = "fewer than 5 runs a line: these ranks do not tell which settings are better"
    assert (told in board.finish()) != ranks


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
    content, record = GRID, run.folder / "out" / "sweep.json"
    if text is None:
        assert run(GRID)[0] == 0
        text = record.read_text()
        content = GRID.replace("learner: {parameters: {n_step", "network: {parameters: {width")
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
        GRID.replace("[1, 2, 3]", "[2]")
        + "name: try\ncommand: [python, -u, '${program}', train, '${args}', --agent=gru]\n"
    )
    assert run(content)[0] == 0
    (folder,) = {Path(record["run_dir"]).parent.name for record in recorded(run.folder / "out")}
    assert folder == "gru"
    assert (os.environ["WANDB_RUN_GROUP"], os.environ["WANDB_JOB_TYPE"]) == ("try", "sweep")


def test_a_searchs_name_is_one_folder(tmp_path):
    path = tmp_path / "search.yaml"
    path.write_text(
        "{name: 'a/../../Grösse / 1', method: grid, metric: {name: best_success}, "
        "parameters: {seed: {values: [1]}}}"
    )
    folder = sweep.default_folder(read_file(path), {}, 1, tmp_path)
    assert folder.parent == tmp_path / "sweeps" and folder.name.startswith("a-..-..-Grösse-1-")
