"""The runs of a comparison that fit into some minutes, by times that are known or measured."""

import io

import pytest

from dtqn.experiments import budget, compare
from dtqn.text import duration
from dtqn.training.preflight import planned_updates
from dtqn.training.trainer import Trainer
from tests.experiments import suite_program
from tests.experiments.suite_program import MAZE, begun_runs, suite_of, table_of

run = suite_program.run


@pytest.mark.parametrize(("more", "fits"), [(1e-9, True), (-1e-9, False)])
def test_a_run_longer_than_the_minutes_fits_into_no_number_of_places(tmp_path, monkeypatch, more, fits):
    monkeypatch.setattr(budget, "run_seconds", lambda config: 15.0)
    configs = compare.plan(["mingru"], [1], None, {"env": MAZE, "total_env_steps": "1000"})
    assert budget.fitting(configs, tmp_path, 5, 0.25 + more, io.StringIO()) == [fits]


def test_what_fits_into_the_minutes_is_said_and_trained(run, tmp_path, monkeypatch):
    measured = []
    seconds = {"bsuite-memory-len-1": 3.0, "bsuite-memory-len-3": 6.0, MAZE: 15.0}
    monkeypatch.setattr(budget, "run_seconds", lambda config: measured.append(config) or seconds[config.env])
    # The three places are busy until 6, 3, 3, then until 12, 15, 9; the mazes end at 24, 27, 30 and 39.
    code, printed = run(agents=["mingru", "dqn"], seeds=[1, 2], budget_minutes=31 / 60, parallel=3)
    assert code == 0 and len(measured) == 6, "one trial a task and agent"
    assert len(begun_runs(tmp_path)) == 11 and f"{MAZE} dqn 2" not in begun_runs(tmp_path)
    for agent in ("mingru", "dqn"):
        assert f"{MAZE} {agent}: {duration(15.0)} a run\n" in printed
    assert f"In all {duration(39.0)} with 3 at a time; {duration(30.0)} of it within" in printed
    assert f"NOT TRAINED, in no figure: {MAZE} dqn seed 2, does not fit --budget-minutes" in printed
    lines = {(line["env"], line["agent"]): line for line in table_of(tmp_path)["table"]}
    assert (lines[MAZE, "dqn"]["finished"], lines[MAZE, "dqn"]["runs"]) == (1, 2)
    assert lines["all tasks", "dqn"]["minimum"] is None, "not every task has as many runs"
    measured.clear()
    code, printed = run(agents=["mingru", "dqn"], seeds=[1, 2], budget_minutes=1000)
    assert code == 0 and [config.env for config in measured] == [MAZE], "finished runs need no trial"
    assert len(begun_runs(tmp_path)) == 12 and "NOT TRAINED" not in printed


def test_a_trial_times_a_real_trainer_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    suite, timed, trial = suite_of(tmp_path), [], Trainer.trial
    monkeypatch.setattr(Trainer, "trial", lambda *given: timed.append(trial(*given)) or timed[-1])
    suite = suite._replace(tasks=suite.tasks[-1:])
    (config,) = compare.plan(["mingru"], [1], None, {"replay.capacity": "5000"}, suite)
    found = budget.run_seconds(config)
    [(per_env_step, per_update)] = timed
    assert per_env_step > 0 and per_update > 0
    expected = 5 + 1000 * 1.5 * per_env_step + planned_updates(config) * per_update
    assert found == pytest.approx(expected)
    assert [path.name for path in tmp_path.iterdir()] == ["own.yaml"]
