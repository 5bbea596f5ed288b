"""The runs of a comparison that fit into some minutes, by times that are known or measured."""

import io
import re

import pytest

from dtqn.experiments import budget, compare
from dtqn.experiments.budget import Pace
from dtqn.text import duration
from dtqn.training.preflight import planned_updates
from tests.experiments import suite_program
from tests.experiments.suite_program import MAZE, begun_runs, suite_of, table_of

run = suite_program.run


def test_a_run_longer_than_the_minutes_fits_into_no_number_of_places(tmp_path, monkeypatch):
    monkeypatch.setattr(budget, "trial", lambda config: Pace(0.01, 0.0))
    monkeypatch.setattr(budget, "START_SECONDS", 0.0)
    configs = compare.plan(["mingru"], [1], None, {"env": MAZE, "total_env_steps": "1000"})
    seconds = budget.trial(configs[0]).run_seconds(configs[0])
    for minutes, fits in ((seconds / 60 + 1e-9, True), (seconds / 60 - 1e-9, False)):
        assert budget.fitting(configs, tmp_path, 5, minutes, io.StringIO()) == [fits]


def test_what_fits_into_the_minutes_is_said_and_trained(run, tmp_path, monkeypatch):
    """An env step takes a hundredth of a second and an update a second: times by hand."""
    measured = []
    monkeypatch.setattr(budget, "trial", lambda config: measured.append(config) or Pace(0.01, 1.0))
    monkeypatch.setattr(budget, "START_SECONDS", 0.0)
    configs = compare.plan(["mingru", "dqn"], [1, 2], None, {}, suite_of(tmp_path))
    seconds = [0.01 * config.total_env_steps * 1.5 + planned_updates(config) for config in configs]
    # All but the second run of dqn on T-Maze, with three at a time.
    ends = [0.0] * 3
    for time in seconds[:-1]:  # each begins where the first of the three places is free
        ends = sorted([ends[0] + time, *ends[1:]])
    assert ends[0] + seconds[-1] > ends[-1]
    minutes = ends[-1] / 60 + 1e-9
    code, printed = run(agents=["mingru", "dqn"], seeds=[1, 2], budget_minutes=minutes, parallel=3)
    assert code == 0 and len(measured) == 6, "one trial a task and agent"
    assert len(begun_runs(tmp_path)) == 11 and f"{MAZE} dqn 2" not in begun_runs(tmp_path)
    assert f"Not trained, as it does not fit: {MAZE} dqn seed 2." in printed
    for agent, time in (("mingru", seconds[8]), ("dqn", seconds[10])):
        assert f"{MAZE} {agent}: {duration(time)} a run\n" in printed
    assert re.search(
        r"NOT TRAINED, in no figure: t-maze-passive-10 dqn seed 2, does not fit --budget-minutes", printed
    )
    lines = {(line["env"], line["agent"]): line for line in table_of(tmp_path)["table"]}
    assert (lines[MAZE, "dqn"]["finished"], lines[MAZE, "dqn"]["runs"]) == (1, 2)
    assert lines["all tasks", "dqn"]["minimum"] is None, "not every task has as many runs"
    measured.clear()
    code, printed = run(agents=["mingru", "dqn"], seeds=[1, 2], budget_minutes=1000)
    assert code == 0 and [config.env for config in measured] == [MAZE], "finished runs need no trial"
    assert len(begun_runs(tmp_path)) == 12 and "Not trained" not in printed


def test_a_trial_times_a_real_trainer_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (config,) = compare.plan(
        ["mingru"],
        [1],
        None,
        {"replay.capacity": "5000"},
        suite_of(tmp_path)._replace(tasks=suite_of(tmp_path).tasks[-1:]),
    )
    found = budget.trial(config)
    assert found.per_env_step > 0 and found.per_update > 0
    expected = 1000 * 1.5 * found.per_env_step + planned_updates(config) * found.per_update
    assert found.run_seconds(config) == pytest.approx(expected)
    assert [path.name for path in tmp_path.iterdir()] == ["own.yaml"]
