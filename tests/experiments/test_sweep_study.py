"""The record of a sweep in Optuna's journal: what the search learns from, and which runs it ends."""

import math
import os

import numpy as np
import pytest

from dtqn.experiments.sweep_file import read_file
from dtqn.experiments.sweep_study import Study
from dtqn.settings.config import ConfigError

_GAMMA = "{learner.gamma: {min: 0.5, max: 0.9}, seed: {value: 3}}"
_RATE = "{learner.learning_rate: {distribution: log_uniform_values, min: 1.0e-5, max: 1.0e-1}}"


def _study(folder, more="", method="random", parameters=_GAMMA, goal="maximize", seed=0):
    path = folder / "file.yaml"
    path.write_text(
        f"method: {method}\nmetric: {{name: mean_success, goal: {goal}}}\nparameters: {parameters}\n{more}"
    )
    out = folder / "out"
    out.mkdir(exist_ok=True)
    return Study(read_file(path), out, seed, "digest")


def _run(study, result):
    """Draw a configuration, and say what its run came to."""
    trial = study.add(next(study.draws()), "a/b/c")
    study.end(trial.number, "finished", result(trial.parameters), 10)
    return trial.parameters


@pytest.mark.parametrize("goal", ["maximize", "minimize"])
def test_bayes_learns_from_results(tmp_path, goal):
    """The result is best at a learning rate of 10^-3: choices come closer to it than random ones do."""
    study = _study(tmp_path, method="bayes", parameters=_RATE, goal=goal)
    sign = 1 if goal == "maximize" else -1

    def off(parameters):
        return math.log10(parameters["learner.learning_rate"]) + 3

    found = [abs(off(_run(study, lambda parameters: -sign * off(parameters) ** 2))) for _ in range(30)]
    assert np.median(found[-10:]) < 0.5, "at random the median is 1"


def test_a_search_repeats_itself(tmp_path):
    def found(name, seed=0):
        (tmp_path / name).mkdir()
        study = _study(tmp_path / name, method="bayes", parameters=_RATE, seed=seed)
        return [_run(study, lambda parameters: parameters["learner.learning_rate"]) for _ in range(13)]

    assert found("one") == found("other") != found("third", seed=1)


def test_a_record_is_read_as_it_was_written(tmp_path):
    study = _study(tmp_path)
    draws = study.draws()
    for state, value in (("finished", 0.5), ("finished", None), ("failed", 0.1)):
        trial = study.add(next(draws), f"runs/{state}")
        study.end(trial.number, state, value, 7, "broken" if state == "failed" else "")
    study.add(next(draws), refused="odd")
    study.add(next(draws), "runs/open")
    before = study.trials()
    assert [(trial.number, trial.state, trial.value, trial.error) for trial in before] == [
        (1, "finished", 0.5, ""),
        (2, "finished", None, ""),
        (3, "failed", None, "broken"),
        (4, "refused", None, "odd"),
        (5, "open", None, ""),
    ]
    assert [study.is_left(trial) for trial in before] == [False] * 5, "they are this process's"
    assert before[0].env_steps == 7 and before[0].parameters["seed"] == 3
    study.close()
    again = _study(tmp_path)
    assert again.trials() == before
    assert [again.is_left(trial) for trial in before] == [False, False, True, False, True]
    taken = again.take(3, "runs/failed")
    assert (taken.number, taken.state, taken.error) == (3, "open", "") and not again.is_left(taken)


_HALVING = "early_terminate: {type: hyperband, min_iter: 2, eta: 2}"


@pytest.mark.filterwarnings("error")  # Optuna's, where an evaluation is reported twice
def test_rungs_by_hand(tmp_path):
    """min_iter 2, eta 2: after evaluations 2, 4, 8, ... a run goes on if it is in the upper half so far."""
    study = _study(tmp_path, _HALVING)
    draws = study.draws()
    histories = {
        (0.1, 0.5, 0.6, 0.3): False,  # the first one there is the best
        (0.9, 0.4): True,  # of 0.5 0.4
        (0.0, 0.45): True,  # of 0.5 0.45 0.4 one goes on
        (0.0, 0.6): False,
        (0.0, 0.55, 0.9, 0.9, 0.9): False,  # of 0.6 0.55 0.5 0.45 0.4 two go on; of rung 4, 0.9 0.3, one
        (0.0, 0.7, 0.9, 0.8, 0.9): True,  # of 0.9 0.8 0.3 one
    }
    for history, hopeless in histories.items():
        trial = study.add(next(draws), "")
        assert study.is_hopeless(trial.number, history) == hopeless, history
        if hopeless:
            assert study.is_hopeless(trial.number, (*history, 1.0)), "and it stays so"
        study.end(trial.number, "stopped" if hopeless else "finished", history[-1], 1)
    assert [trial.state for trial in study.trials()].count("stopped") == 3
    assert study.trials()[1].value == 1.0, "the last that was reported"
    study.close()


def test_a_verdict_outlives_its_process(tmp_path):
    """A run whose sweep was killed before it had ended the run."""
    study = _study(tmp_path, _HALVING)
    draws = study.draws()
    for history, hopeless in (([0.5, 0.5], False), ([0.1, 0.1], True)):
        assert study.is_hopeless(study.add(next(draws), "").number, history) == hopeless
    study.close()
    study = _study(tmp_path, _HALVING)
    study.take(2, "")
    assert study.is_hopeless(2, [0.1, 0.1])


def test_without_early_termination_nothing_is_reported(tmp_path):
    study = _study(tmp_path)
    trial = study.add(next(study.draws()), "")
    journal = (tmp_path / "out" / "journal.log").read_text()
    assert not study.is_hopeless(trial.number, [0.1] * 9)
    assert (tmp_path / "out" / "journal.log").read_text() == journal


def test_a_process_is_alive_as_long_as_it_holds_its_lock(tmp_path):
    """A number of a process may come again; the file of a dead one is of no account."""
    study = _study(tmp_path)
    trial = study.add(next(study.draws()), "")
    (file,) = (tmp_path / "out" / "processes").iterdir()
    assert trial.claim == file.name and file.name.split("-")[-2] == str(os.getpid())
    other = file.rename(file.with_name("elsewhere-1"))
    assert not study.is_left(trial._replace(number=9, claim=other.name))
    study.close()
    assert study.is_left(trial._replace(number=9, claim=other.name))
    assert study.is_left(trial._replace(number=9, claim="nobody-2"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"claim"', '"claims"'),
        ('"a/b/c"', "7"),
        ('"parameters"', '"parameter"'),
        ('"system_attrs":{', '"system_attrs":"x","y":{'),
        ('"datetime_complete"', '"datetime"'),
        ("}\n", "}\n{} x\n"),
    ],
)
def test_a_damaged_record_is_refused_when_it_is_opened(tmp_path, old, new):
    study = _study(tmp_path)
    _run(study, lambda _: 0.5)
    study.close()
    journal = tmp_path / "out/journal.log"
    head, found, rest = journal.read_text().rpartition(old)
    assert found
    journal.write_text(head + new + rest)
    with pytest.raises(ConfigError, match="is no record of a sweep"):
        _study(tmp_path)
