"""The notes of a comparison: what is the same for all runs, what is not, and what is missing."""

import pytest

from dtqn.experiments import comparison_notes
from dtqn.experiments.comparison_table import run_figures
from dtqn.experiments.records import Outcome
from dtqn.experiments.scores import SUCCESS, Score
from dtqn.settings import presets
from dtqn.settings.presets import resolve
from tests.experiments import comparison_program
from tests.experiments.comparison_program import SCORES, TASK, finished_run, lines_of, table_of, text_of

run = comparison_program.run


def _notes(*outcomes):
    runs = [run_figures(outcome, [SUCCESS]) for outcome in outcomes]
    return comparison_notes.notes(outcomes, runs, {}, None)


def _waiting(env, agent, **flags):
    config = resolve(None, {"env": env, "agent": agent} | flags, {})
    return Outcome(config, "waiting", "", "not yet")


def test_the_table_says_what_is_the_same_for_all(run, tmp_path):
    run({TASK: SCORES}, settings={"learner.n_step": "5", "stop_at_success": "0.99"})
    notes = table_of(tmp_path)["notes"]
    for said in (
        "Seeds: 1, 2, 3, for every agent.",
        "Settings given for all alike: total_env_steps 400, learner.n_step 5, stop_at_success 0.99.",
        "Budget: 400 env steps, for every agent.",
        "Runs end early at success: 0.99, for every agent.",
        "Env steps between evaluations: 33, for every agent.",
        "Episodes in a full evaluation: 500, for every agent.",
        "Actions in evaluations: greedy, for every agent.",
        "Device: cpu, for every agent.",
        "Program: dtqn 1.2, torch 3.4, for every agent.",
    ):
        assert said in notes
    assert not any(note.startswith(("Runs end early at return", "Code", "task.")) for note in notes)
    assert text_of(tmp_path).endswith("\n".join(notes) + "\n")
    assert "P(better" not in text_of(tmp_path)


_LOW = "low=gtrxl+learner.learning_rate=0.0007"
_USUAL = f"{presets.usual('learner.learning_rate'):g}"


@pytest.mark.parametrize(
    ("what", "runs", "told"),
    [
        ("Step size", [(TASK, "gtrxl"), (TASK, "mingru")], f": {_USUAL}, for every agent."),
        (
            "Step size",
            [(TASK, "gtrxl"), (TASK, _LOW), (TASK, "mingru")],
            f" DIFFER: {_USUAL} (2 runs of gtrxl, mingru); 0.0007 (1 run of low).",
        ),
        (
            "Step size",
            [(TASK, "gtrxl"), ("hallway", _LOW)],
            f": {_USUAL} in {TASK}; 0.0007 in hallway, for every agent.",
        ),
        (
            "Actions in evaluations",
            [(TASK, "dqn"), (TASK, "some=dqn+evaluation.epsilon=0.05")],
            " DIFFER: greedy (1 run of dqn); epsilon-greedy (0.05) (1 run of some).",
        ),
        (
            "network.width",
            [(TASK, "gtrxl"), (TASK, "wide=gtrxl+network.width=16")],
            " DIFFER: 64 (1 run of gtrxl); 16 (1 run of wide).",
        ),
        ("network.width", [(TASK, "gtrxl"), (TASK, "wide=lstm+network.width=16")], None),
        (
            "task.time_limit",
            [(TASK, "gtrxl"), (TASK, "easy=gtrxl+task.time_limit=30")],
            " DIFFER: none (1 run of gtrxl); 30 (1 run of easy).",
        ),
        # What does not come from an agent's memory.
        ("network.encoder.use_prev_action", [(TASK, "gtrxl"), (TASK, "lstm"), (TASK, "dtqn")], None),
        (
            "network.encoder.use_prev_action",
            [(TASK, "gtrxl"), (TASK, "drqn"), (TASK, "adrqn")],
            " DIFFER: True (2 runs of gtrxl, adrqn); False (1 run of drqn).",
        ),
        (
            "network.dueling",
            [(TASK, "gtrxl"), (TASK, "adrqn")],
            " DIFFER: True (1 run of gtrxl); False (1 run of adrqn).",
        ),
        (
            "replay.burn_in_length",
            [(TASK, "gtrxl"), (TASK, "lstm"), (TASK, "drqn-paper")],
            " DIFFER: 4 (1 run of gtrxl); 40 (1 run of lstm).",
        ),
        ("Settings as published", [(TASK, "gtrxl"), (TASK, "pqn")], ", not compared here: pqn."),
    ],
)
def test_what_is_not_the_same_for_all_is_told_with_who_has_it(what, runs, told):
    notes = _notes(*(_waiting(*run) for run in runs))
    assert [note for note in notes if note.startswith(what)] == ([] if told is None else [what + told])


def test_a_published_agent_with_other_settings_is_told_of():
    """Such as a suite's or those of flags, which lie over it; a task's preset does not."""

    def told(agent, **flags):
        return [note for note in _notes(_waiting(TASK, agent, **flags)) if note.startswith("Not as")]

    assert told("dqn-paper") == [] == told("gtrxl", **{"learner.n_step": "7"})
    changed = {"learner.n_step": "7", "actor.num_envs": "4"}
    expected = "Not as published: dqn-paper has other learner.n_step, actor.num_envs here."
    assert told("dqn-paper", **changed) == [expected]


def test_a_finished_run_without_the_score_is_named_and_in_no_figure():
    """It has no epoch as long."""
    budget = {"total_env_steps": "9", "warmup_env_steps": "0"}
    run, score = finished_run(500, **budget), Score(of="mmer", epoch_env_steps=10)
    found = run_figures(run, [score, SUCCESS])
    *_, missing = comparison_notes.notes([run], [found], {}, None)
    assert missing.startswith(f"FINISHED, in no figure: {TASK} dqn seed 1, it has no MMER, the")
    assert run_figures(run, [Score(of="mmer", epoch_env_steps=9)])["score"] == 9 / 40
    runs = [
        run_figures(run, [SUCCESS, score]),
        run_figures(finished_run(500, seed="2", **budget), [SUCCESS, Score(of="mmer", epoch_env_steps=9)]),
    ]
    first = lines_of(runs, {TASK: comparison_program.CHANCE}, {TASK: [SUCCESS, score]})[0]
    assert (first["finished"], first["success"], first["beside"]) == (2, 0.5, {"MMER": None})


def test_what_finished_runs_ran_on_is_told_whatever_is_asked_for_now(run):
    """Threads are not in the hash: the finished runs are kept, and were run with their own number."""
    scores = {TASK: {"drqn": [[0.5]], "gtrxl": [[0.5]]}}
    run(scores)
    _, text = run({TASK: scores[TASK] | {"dtqn": [[0.5]]}}, settings={"threads": "2"})
    assert "Threads of a run DIFFER: 1 (2 runs of drqn, gtrxl); 2 (1 run of dtqn).\n" in text


def test_code_that_changed_and_short_evaluations_are_told():
    run = finished_run(500, seed="1")
    result = run.record.result.model_copy(update={"changed_at": [608, 1600]})
    run = run._replace(record=run.record.model_copy(update={"result": result}))
    told = _notes(run, finished_run(50, seed="2"))
    changed = "Task or network CHANGED DURING TRAINING (--accept-changed-code)"
    assert f"{changed}: {TASK} dqn seed 1 at 608, 1 600 env steps." in told
    assert "Episodes of the last evaluation DIFFER: 500 (1 run of dqn); 50 (1 run of dqn)." in told
