"""W&B's engine: what it chooses, from which results, and which runs it ends."""

import csv
import math
import random
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from dtqn import cli
from dtqn.experiments import sweep_engine
from dtqn.experiments.sweep_engine import Trial, propose
from dtqn.experiments.sweep_file import read_file
from tests.experiments import sweep_program
from tests.experiments.sweep_program import SHIPPED, recorded, score_of

_ROOT = Path(__file__).parents[2]

run = sweep_program.run

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
    assert [(r["state"], r["env_steps"]) for r in recorded(folder)] == [("finished", 401), ("stopped", 301)]
    rows = list(csv.DictReader((folder / "leaderboard.csv").open()))
    assert [float(row["mean_success"]) for row in rows] == [score_of(3, 1), score_of(9, 1, rows=3)]
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


def test_without_the_engine_one_line_says_how_to_get_it(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "sweeps", None)
    for name in ("dtqn.experiments.sweep_engine", "dtqn.experiments.sweep_file", "dtqn.experiments.sweep"):
        monkeypatch.delitem(sys.modules, name)
        monkeypatch.delattr(name)
    assert cli.main(["sweep", str(SHIPPED[0])]) == 2
    command = 'pip install "dtqn[sweep]"'
    assert capsys.readouterr().err == f"error: sweep needs sweeps, which is not installed: {command}\n"
    assert shlex.split(command)[-1] == "dtqn[sweep]"
