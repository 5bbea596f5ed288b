"""The notes of a comparison: what is the same for all runs, what is not, and what is missing."""

import pytest

from dtqn.acting.evaluation import EvaluationResult
from dtqn.experiments import comparison_notes
from dtqn.experiments.comparison_table import run_figures
from dtqn.experiments.records import Outcome
from dtqn.experiments.scores import SUCCESS, Score
from dtqn.settings.presets import resolve
from tests.experiments import comparison_program
from tests.experiments.comparison_program import SCORES, TASK, finished_run, lines_of, table_of, text_of

run = comparison_program.run


def test_agents_that_differ_in_more_than_memory_are_told_below_the_table(run, tmp_path):
    scores = {agent: [[0.5]] for agent in ("gtrxl", "gru", "drqn", "adrqn")}
    run({TASK: scores})
    under = table_of(tmp_path)["under"][TASK]
    assert under[:2] == [
        "Not alike in more than memory: gtrxl, gru, adrqn with the previous action, drqn without.",
        "Not alike in more than memory: gtrxl, gru with a dueling head, drqn, adrqn without.",
    ]
    run({TASK: {agent: [[0.5]] for agent in ("gtrxl", "lstm", "gru", "dtqn")}})
    assert not any("Not alike" in note for note in table_of(tmp_path)["under"][TASK])


def test_the_table_says_what_is_the_same_for_all(run, tmp_path):
    run({TASK: SCORES}, settings={"learner.n_step": "5"})
    notes = table_of(tmp_path)["notes"]
    for said in (
        "Budget: 400 env steps, for every agent.",
        "Settings given for all alike: total_env_steps 400, learner.n_step 5.",
        "Episodes in a full evaluation: 500, for every agent.",
        "Actions in evaluations: greedy, for every agent.",
        "Evaluations: 4, for every agent.",
    ):
        assert any(said in note for note in notes), said
    assert text_of(tmp_path).endswith("\n".join(notes) + "\n")
    assert "P(better" not in text_of(tmp_path)


def test_agents_that_are_evaluated_by_other_policies_are_told_of():
    outcomes = [
        Outcome(resolve(None, {"env": TASK, "agent": agent}, {}), "waiting", [], None, "", "not yet")
        for agent in ("gtrxl", "dqn", "random-at-times=dqn+evaluation.epsilon=0.05")
    ]
    runs = [run_figures(outcome, [SUCCESS]) for outcome in outcomes]
    differ = "Actions in evaluations DIFFER: random-at-times: epsilon-greedy (0.05); gtrxl, dqn: greedy."
    assert differ in comparison_notes.notes(outcomes, runs, {}, None)


def test_agents_with_other_options_of_the_task_are_told_of():
    def told(*agents):
        outcomes = [
            Outcome(resolve(None, {"env": TASK, "agent": agent}, {}), "waiting", [], None, "", "not yet")
            for agent in agents
        ]
        runs = [run_figures(outcome, [SUCCESS]) for outcome in outcomes]
        notes = comparison_notes.notes(outcomes, runs, {}, None)
        return [note for note in notes if note.startswith("Task options")]

    assert told("gtrxl", "wide=gtrxl+network.width=16") == []
    assert told("gtrxl", "easy=gtrxl+task.time_limit=30") == [
        "Task options DIFFER: easy: time_limit 30; gtrxl: none. random has those of gtrxl."
    ]


def test_a_published_agent_with_other_settings_is_told_of():
    """Such as a suite's or those of flags, which lie over it; a task's preset does not."""

    def told(**flags):
        config = resolve(None, {"env": TASK} | flags, {})
        outcome = Outcome(config, "waiting", [], None, "", "not yet")
        notes = comparison_notes.notes([outcome], [run_figures(outcome, [SUCCESS])], {}, None)
        return [note for note in notes if note.startswith("Not as published")]

    assert told(agent="dqn-paper") == [] == told(agent="gtrxl", **{"learner.n_step": "7"})
    changed = {"learner.n_step": "7", "actor.num_envs": "4"}
    assert told(agent="dqn-paper", **changed) == [
        "Not as published: dqn-paper has other learner.n_step, actor.num_envs here."
    ]


def test_a_last_evaluation_of_fewer_episodes_is_told_of():
    def told(*outcomes):
        runs = [run_figures(outcome, [SUCCESS]) for outcome in outcomes]
        notes = comparison_notes.notes(outcomes, runs, {}, None)
        return [note for note in notes if note.startswith("Episodes of the last")]

    assert told(finished_run(500, seed="1"), finished_run(500, seed="2")) == []
    assert told(finished_run(500, seed="1"), finished_run(50, seed="2")) == [
        "Episodes of the last evaluation DIFFER: dqn seed 2: 50; dqn seed 1: 500."
    ]


def test_a_finished_run_without_the_score_is_named_and_in_no_figure():
    """Its first row of metrics has more training episodes than the score is of."""
    run, score = finished_run(500), Score("bsuite", episodes=39)
    found = run_figures(run, [score, SUCCESS])
    why = "its first row of metrics has more than 39 training episodes; give a smaller metrics_every"
    assert comparison_notes.missing([run], [found]) == [
        f"FINISHED, in no figure: {TASK} dqn seed 1, no training success: {why} (run)"
    ]
    assert run_figures(run, [Score("bsuite", episodes=40)]).score == 9 / 40
    lines = lines_of(
        [
            run_figures(run, [SUCCESS, score]),
            run_figures(finished_run(500, seed="2"), [SUCCESS, Score("bsuite")]),
        ],
        {TASK: EvaluationResult(0.0, 0.0, 0.1, 0.0, 3.0, 9)},
        {TASK: [SUCCESS, score]},
    )
    first = lines[0]
    assert (first["finished"], first["success"], first["beside"]) == (
        2,
        0.5,
        {"training success": None},
    )


@pytest.mark.parametrize("stops", [None, "success", "return"])
def test_what_is_not_the_same_for_all_is_said(run, tmp_path, stops):
    """Runs that end early have fewer evaluations, which is as it should be."""
    settings = {f"stop_at_{stops}": "0.9", "evaluation.period": "50"} if stops else {}
    run({TASK: {"gtrxl": [[0.1, 0.2]], "drqn": [[0.1, 0.2, 0.3]]}}, settings=settings)
    notes = table_of(tmp_path)["notes"]
    (note,) = [note for note in notes if note.startswith("Evaluations")]
    early = [note for note in notes if note.startswith("Runs end early")]
    assert early == ([f"Runs end early at {stops}: 0.9, for every agent."] if stops else [])
    if stops:
        assert (
            note == "Evaluations: one, full or not, for each 50 env steps, until a run ends, for every agent."
        )
    else:
        assert note == "Evaluations DIFFER: drqn: 3; gtrxl: 2."


def test_what_finished_runs_ran_on_is_told_whatever_is_asked_for_now(run):
    """Threads are not in the hash: the finished runs are kept, and were run with their own number."""
    scores = {TASK: {"drqn": [[0.5]], "gtrxl": [[0.5]]}}
    _, text = run(scores)
    assert "Threads of a run: 1, for every agent.\n" in text
    assert "Device: cpu, for every agent.\nProgram: dtqn 1.2, torch 3.4, for every agent.\n" in text
    _, text = run(scores, settings={"threads": "2"})
    assert "Threads of a run: 1, for every agent.\n" in text
    _, text = run({TASK: scores[TASK] | {"dtqn": [[0.5]]}}, settings={"threads": "2"})
    assert "Threads of a run DIFFER: dtqn: 2; drqn, gtrxl: 1." in text


def test_runs_that_differ_are_named_by_no_more_than_it_takes():
    def told(codes):
        run = run_figures(finished_run(500), [SUCCESS])
        runs = [run._replace(env=e, agent=a, seed=s, code=code) for (e, a, s), code in codes.items()]
        (line,) = comparison_notes.codes(runs)
        return line.removeprefix("Runs of DIFFERENT CODE (digest of the sources): ")

    agents, seeds = ("gtrxl", "dtqn", "lstm", "dqn"), (1, 2, 3)
    one = {("maze", agent, seed): "abc" for agent in agents for seed in seeds}
    both = one | {("hall", agent, seed): "abc" for agent in agents for seed in seeds}
    assert told(one | {("maze", "lstm", seed): "xyz" for seed in seeds}) == "lstm: xyz; all others: abc."
    assert told(one | {("maze", "lstm", 2): "xyz"}) == "lstm seed 2: xyz; all others: abc."
    assert (
        told(both | {("maze", "lstm", seed): "xyz" for seed in seeds}) == "maze lstm: xyz; all others: abc."
    )
    of_lstm = {(env, "lstm", seed): "xyz" for env in ("maze", "hall") for seed in seeds}
    assert told(both | of_lstm) == "lstm: xyz; all others: abc."
    three = both | of_lstm | {("hall", "dqn", 1): "", ("hall", "dqn", 3): ""}
    assert told(three) == "lstm: xyz; hall dqn seeds 1, 3: unknown; all others: abc."
    for first, other in (("dtqn", "dqn"), ("dqn", "dtqn")):
        two = {("maze", agent, seed): "abc" for agent in (first, other) for seed in seeds}
        assert told(two | {("maze", "dqn", 1): "xyz"}) == "dqn seed 1: xyz; dtqn, dqn seeds 2, 3: abc."


def test_the_step_size_of_each_agent_is_told():
    def told(*runs):
        outcomes = [
            Outcome(resolve(None, {"env": env, "agent": agent}, {}), "waiting", [], None, "", "not yet")
            for env, agent in runs
        ]
        figures = [run_figures(outcome, [SUCCESS]) for outcome in outcomes]
        notes = comparison_notes.notes(outcomes, figures, {}, None)
        return [note for note in notes if note.startswith("Step size")]

    low = "low=gtrxl+learner.learning_rate=0.0003"
    assert told((TASK, "gtrxl"), (TASK, "mingru")) == ["Step size: 0.001, for every agent."]
    assert told((TASK, "gtrxl"), (TASK, low), (TASK, "mingru")) == [
        "Step size DIFFER: low: 0.0003; gtrxl, mingru: 0.001."
    ]
    assert told((TASK, "gtrxl"), ("hallway", low)) == [
        f"Step size: 0.001 in {TASK}; 0.0003 in hallway, for every agent."
    ]


def test_settings_of_single_agents_and_code_that_changed_are_told(tmp_path):
    file = tmp_path / "tuned.yaml"
    file.write_text("agents: {dqn: {learner: {n_step: 5}, network.width: 32}, lstm: {learner: {n_step: 9}}}")
    run = finished_run(500, seed="1")
    run = run._replace(result={**run.result, "changed_at": [608, 1600]})
    told = comparison_notes.notes([run], [run_figures(run, [SUCCESS])], {"config": str(file)}, None)
    assert "Settings of single agents in tuned.yaml: dqn network.width 32, learner.n_step 5." in told
    assert any(
        line.endswith(f"(--accept-changed-code): {TASK} dqn seed 1 at 608, 1 600 env steps.") for line in told
    )
    drqn = Outcome(
        resolve(None, {"env": "gridverse-memory-7x7", "agent": "drqn"}, {}),
        "waiting",
        [],
        None,
        "",
        "not yet",
    )
    told = comparison_notes.notes([drqn], [run_figures(drqn, [SUCCESS])], {}, None)
    assert "Settings of single agents in gridverse-memory.yaml: drqn learner.learning_rate 0.003." in told
