"""The figures of agents in a comparison: tasks together, metrics, runs and agents that have none."""

import statistics

import pytest

import envs
from dtqn.experiments import comparison_notes, comparison_table
from dtqn.experiments.comparison_table import run_figures
from dtqn.experiments.records import of_finished
from dtqn.experiments.scores import RETURN, SUCCESS, Score, first_solved
from tests.experiments import comparison_program
from tests.experiments.comparison_program import (
    CHANCE,
    TASK,
    config_of,
    finished_run,
    lines_of,
    result_of,
    table_of,
    text_of,
)
from tests.reference import statistics_twin as twin

run = comparison_program.run


@pytest.mark.parametrize(
    ("evaluations", "total", "solved", "stayed"),
    [  # (success, episodes, stage) every 100 steps; of 500 episodes, 465 show 90 % and 462 do not
        ([(0.93, 500, 2), (0.95, 500, 2)], 200, 100, True),
        ([(0.93, 500, 2), (0.924, 500, 2), (0.95, 500, 2)], 300, None, False),  # twice, but not in a row
        ([(1.0, 500, 2), (0.2, 50, 1), (0.96, 500, 2), (0.97, 500, 2)], 400, 100, False),  # a mean of 78 %
        ([(0.95, 500, 2), (0.96, 500, 2), (0.89, 500, 2)], 300, 100, False),  # it fell again
        ([(1.0, 50, 1), (1.0, 50, 1), (0.97, 500, 2)], 300, None, False),  # one full one alone
        ([(0.5, 50, 1), (0.99, 500, 2)], 300, 200, None),  # it ended early, when it passed
        ([(0.5, 500, 2)] * 5 + [(0.92, 50, 1)] * 8 + [(0.95, 500, 2)] * 2, 1500, 1400, True),  # the last ten
    ],
)
def test_when_a_task_is_solved_and_whether_it_stays_so(evaluations, total, solved, stayed):
    rows = []
    for place, (success, episodes, stage) in enumerate(evaluations, 1):
        figures = {"eval/success": success, "eval/return": 1.0, "eval/length": 3.0, "eval/episodes": episodes}
        clocks = {"env_steps": 100 * place, "learner_steps": 20 * place, "seconds": 60.0 * place}
        rows.append({**clocks, **figures, "eval/stage": stage})
    config = config_of("gtrxl", 1).model_copy(update={"total_env_steps": total})
    result = result_of(rows[-1]) | {"seconds": 240.0}
    found = run_figures(of_finished(config, result, rows, "run"), [SUCCESS])
    assert (found["env_steps_to_solved"], found["stayed_solved"]) == (solved, stayed)
    assert found["minutes_to_solved"] == (None if solved is None else solved / 100)
    late = [success for success, *_ in evaluations[-10:]]
    assert found["success_of_last"] == pytest.approx(statistics.fmean(late))
    assert (found["solved"], found["success"]) == (solved is not None, evaluations[-1][0])
    assert (found["failed"], found["ended_early"]) == (found["success"] < 0.9, len(rows) * 100 < total)
    assert (found["minutes"], found["updates_per_second"]) == (4.0, 20 * len(rows) / 240), "the whole run's"
    assert first_solved(rows[:-1], RETURN, 0) is None, "no bar"


def test_a_return_is_solved_by_its_interval():
    """A bar of -1 + 0.5 * 2 = 0: 0.2 with a standard error of 0.1 shows it, 0.19 does not."""
    score = Score(of="return", random=-1.0, optimal=1.0, solved_above=0.5)
    full = {"eval/episodes": 500, "eval/stage": 2, "eval/return_error": 0.1, "seconds": 1.0}
    rows = [full | {"env_steps": i, "eval/return": value} for i, value in enumerate([0.2, 0.19, 0.2, 0.3])]
    assert score.bar == 0.0 and first_solved(rows, score, 3) is rows[2]
    assert first_solved(rows[:3], score, 3) is rows[2] and first_solved(rows[:3], score, 2) is None


def _with_metrics(run, metrics):
    return run._replace(record=run.record.model_copy(update={"metrics": metrics}))


def test_a_metric_has_a_column():
    """Of two agents: one run of the second has no such figure, so the agent has none."""
    name, metrics = "replay/delta_q_last", ["learner/loss", "replay/delta_q_last"]
    means = {"dqn": [{"learner/loss": 0.5}] * 2, "lstm": [{"learner/loss": 2.0, name: 0.25}, {name: 0.75}]}
    outcomes = [
        _with_metrics(finished_run(500, agent=agent, seed=str(seed)), found)
        for agent, each in means.items()
        for seed, found in enumerate(each, 1)
    ]
    outcomes.append(finished_run(500, agent="gru")._replace(record=None, error="it failed"))
    runs = [run_figures(outcome, [SUCCESS], metrics) for outcome in outcomes]
    dqn, lstm, gru, _ = lines = lines_of(runs, {TASK: CHANCE}, {TASK: [SUCCESS]})
    assert dqn["beside"] == {"learner/loss": 0.5, name: None}
    assert lstm["beside"] == {"learner/loss": None, name: 0.5}
    assert gru["beside"] == {"learner/loss": None, name: None}
    shown = [[comparison_table.cells(line, None)[metric] for metric in metrics] for line in lines]
    assert shown == [["0.5", "-"], ["-", "0.5"], ["-", "-"], ["-", "-"]]
    notes = comparison_notes.notes(outcomes, runs, {}, None, metrics)
    assert f"learner/loss, {name}: the mean over the second half of a run, then over runs." in notes


def test_an_agent_has_no_line_for_a_task_that_it_did_not_run():
    """Two runs on different tasks are no comparison, but have a report."""
    other = finished_run(500, env="t-maze-passive-20", agent="lstm")
    runs = [run_figures(run, [SUCCESS]) for run in (finished_run(500), other)]
    envs = [run["env"] for run in runs]
    lines = lines_of(runs, dict.fromkeys(envs, CHANCE), {env: [SUCCESS] for env in envs})
    named = [(line["env"], line["agent"]) for line in lines]
    assert named[:4] == [(TASK, "dqn"), (TASK, "random"), (envs[1], "lstm"), (envs[1], "random")]
    assert [agent for _, agent in named[4:]] == ["dqn", "lstm", "random"], "the table of all tasks"


_FIVE = {
    "gtrxl": [[0.9], [1.0], [0.8], [0.95], [0.7]],
    "dqn": [[0.2], [0.3], [0.25], [0.1], [0.8]],
}


def test_several_tasks_have_a_line_for_all(run, tmp_path):
    other = "gridverse-memory-four-rooms-7x7"
    tasks = {TASK: _FIVE, other: {"gtrxl": [[0.5], [0.6], [0.4], [0.5], [0.9]], "dqn": _FIVE["dqn"]}}
    run(tasks, baseline="dqn")
    line, _, floor = table_of(tmp_path)["table"][6:]
    scores = [[run[-1] for run in tasks[env]["gtrxl"]] for env in tasks]
    theirs = [[run[-1] for run in tasks[env]["dqn"]] for env in tasks]
    assert (line["env"], line["agent"], line["finished"], line["return"]) == ("all tasks", "gtrxl", 10, None)
    assert (floor["env"], floor["agent"], floor["success"], floor["return"]) == (
        "all tasks",
        "random",
        0.125,
        None,
    )
    assert line["success"] == pytest.approx(sum(map(sum, scores)) / 10)
    assert (line["minimum"], line["maximum"]) == (0.4, 1.0)
    assert line["iqm"]["value"] == pytest.approx(twin.iqm([*scores[0], *scores[1]]))
    cut = [[[min(score, 0.9) for score in task] for task in each] for each in (scores, theirs)]
    assert line["improvement"]["value"] == pytest.approx(twin.mean_improvement(*cut))
    ceiling = envs.spec(other).success_ceiling
    assert f"Ceiling: in {other} no agent can exceed {ceiling:.1%} success." in table_of(tmp_path)["notes"]
    assert "seeds" not in text_of(tmp_path).partition("all tasks")[2].partition("\n\n")[0]


def test_pooled_figures_need_five_runs_on_each_task(run, tmp_path):
    tasks = {TASK: _FIVE, "gridverse-memory-5x5": {agent: runs[:4] for agent, runs in _FIVE.items()}}
    tasks["gridverse-memory-four-rooms-7x7"] = _FIVE
    run(tasks, baseline="dqn")
    table = table_of(tmp_path)
    by_task = {env: [line for line in table["table"] if line["env"] == env] for env in [*tasks, "all tasks"]}
    for env, lines in by_task.items():
        enough = env in (TASK, "gridverse-memory-four-rooms-7x7")
        assert (lines[0]["iqm"] is not None, lines[0]["improvement"] is not None) == (enough, enough), env
    *_, few, uneven = table["under"]["all tasks"]
    assert few.startswith("Fewer than 5 runs on a task of gtrxl, dqn:")
    assert uneven == "No figures of gtrxl, dqn: more runs on some of these tasks than on others."


def test_returns_of_different_tasks_are_not_averaged(run, tmp_path):
    tasks = {"CartPole-v1": _FIVE, TASK: _FIVE}
    assert run(tasks, baseline="dqn")[0] == 0
    first, *_, both, _, floor = table_of(tmp_path)["table"]
    assert (first["score"], first["success"], first["solved"]) == ("return", None, None)
    assert first["return"] == pytest.approx(statistics.fmean([4.0, 5.0, 3.0, 4.5, 2.0]))
    assert first["iqm"]["value"] == pytest.approx(twin.iqm([4.0, 5.0, 3.0, 4.5, 2.0]))
    assert (both["env"], both["iqm"], both["minimum"]) == ("all tasks", None, None)
    assert both["improvement"]["value"] == pytest.approx(
        twin.improvement(*([r[0] for r in _FIVE[a]] for a in _FIVE))
    )
    assert (floor["success"], floor["return"]) == (None, None)
    assert "IQM of return [95 %]" in text_of(tmp_path)


def test_random_play_has_a_success_beside_the_return_that_a_suite_scores_by():
    scores = {TASK: [RETURN, SUCCESS]}
    line, random = lines_of([run_figures(finished_run(50), scores[TASK])], {TASK: CHANCE}, scores)
    assert (line["score"], line["success"]) == ("return", 0.5)
    assert (random["success"], random["return"]) == (CHANCE.success, CHANCE.episode_return)
