"""Suites: their files, and comparisons by a program that behaves like a training and by real runs."""

import json
import os
import shlex
import signal
from pathlib import Path

import numpy as np
import pytest

from dtqn import cli
from dtqn.experiments import compare, comparison_pictures, records, suites
from dtqn.experiments.scores import Score
from dtqn.settings import presets, record_files
from dtqn.settings.presets import resolve
from tests import tiny
from tests.experiments import comparison_program, suite_program
from tests.experiments.comparison_program import draw_nothing
from tests.experiments.suite_program import FIGURES, MAZE, SUITE, begun_runs, lines_of, suite_of, table_of
from tests.reference import statistics_twin as twin

_ROOT = Path(__file__).parents[2]


def _env_steps(task):
    return task.budget.values["total_env_steps"]


run = suite_program.run


@pytest.fixture(autouse=True)
def _outside_a_checkout(tmp_path, monkeypatch):
    """A checkout gets the records of what is trained in it, also by a test that fails."""
    monkeypatch.chdir(tmp_path)


# -- The files -----------------------------------------------------------------------------------------------


def test_length_has_the_experiments_of_bsuite_and_the_budgets_of_its_rules():
    suite = suites.read("length")
    memory = [task for task in suite.tasks if task.family == "bsuite-memory-len-n"]
    lengths = [*range(1, 11), 12, 14, 17, 20, 25, *range(30, 101, 10)]
    assert [(task.name, task.n) for task in memory] == [(f"bsuite-memory-len-{n}", n) for n in lengths]
    assert len(memory) == 23 and list(map(_env_steps, memory)) == [10_000 * (n + 1) for n in lengths]
    for task in memory:
        assert task.scores == (Score(of="success", random=0.5, optimal=1.0),)
    maze = [task for task in suite.tasks if task.family == "t-maze-passive-n"]
    assert [task.n for task in maze] == [10, 50, 100, 250, 500, 1000, 1500]
    limits = {50: 1e6, 100: 2e6, 250: 4e6, 500: 4e6, 1000: 8e6, 1500: 1e7}  # Ni et al. 2023, budget.py
    assert all(_env_steps(task) <= limits.get(task.n, 1e6) for task in maze)


def test_the_figure_of_pqns_public_code_is_that_of_its_five_runs():
    """Returns are 1 for a right answer and -1 for a wrong one."""
    found = json.loads((_ROOT / "docs" / "benchmarks" / "purejaxql.json").read_text(encoding="utf-8"))
    (row,) = suites.read("length").published
    last = [(returns[-1] + 1) / 2 for returns in found["greedy_return"].values()]
    assert len(last) == 5 and row.figure == pytest.approx(sum(last) / 5, abs=5e-4)
    assert row.env_steps == found["env_steps"][-1] and found["purejaxql"] in row.source
    assert row.spread == f"({100 * min(last):.0f} to {100 * max(last):.0f} %)"


def test_no_record_of_the_results_is_of_a_seed_that_settings_are_chosen_on():
    files = (_ROOT / "docs" / "results" / "records").glob("*.jsonl")
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    assert lines and min(json.loads(line)["seed"] for line in lines) > 30


@pytest.mark.parametrize("name", [name for name in suites.known() if name != "popgym-15"])
def test_every_agent_of_the_tables_fits_the_tasks_of_a_suite(name):
    if name == "minigrid-memory":
        pytest.importorskip("minigrid")
    suite = suites.read(name)
    for task in (suite.tasks[0], suite.tasks[-1]):
        agents = ["pqn", "gtrxl", "mingru", "lstm", "dqn", "dtqn", "gru", "lru", "gated-deltanet"]
        (_, *configs) = compare.plan(agents, [101], None, {}, suite._replace(tasks=(task,)))
        assert {each.total_env_steps for each in configs} == {_env_steps(task)}
        assert {each.learner.gamma for each in configs} == {presets.usual("learner.gamma")}


@pytest.mark.parametrize("agent", ["gtrxl", "lstm", "pqn"])
def test_an_agent_is_the_same_in_the_suite_of_popgym_and_outside(agent):
    suite = suites.read("popgym-15")
    configs = compare.plan([agent], [101], None, {}, suite)
    assert len(configs) == 15
    for config in configs:
        alone = resolve(None, {"env": config.env, "agent": agent}, {})
        for group in ("network", "learner", "replay", "actor"):
            assert getattr(config, group) == getattr(alone, group), config.env
    if agent == "pqn":  # as published everywhere
        assert {(c.learner.reward_scale, c.replay.burn_in_length) for c in configs} == {(1, 3)}


def test_the_returns_of_popgym_are_those_that_were_computed():
    computed = json.loads((_ROOT / "docs" / "benchmarks" / "popgym.json").read_text(encoding="utf-8"))
    for task in suites.read("popgym-15").tasks:
        score, exact = task.scores[0], computed[task.name]
        assert score.of == "return"
        assert (score.random, score.optimal) == pytest.approx((exact["random"], exact["best"]), abs=1e-5)
        if "concentration" in task.name:  # its player without memory is not known to be the best
            assert score.observation_alone is None
        else:
            assert score.observation_alone == pytest.approx(exact["without_memory"], abs=1e-5)
            assert f"at best {score.observation_alone:g} by the observation alone" in score.explained


def test_settings_are_the_suites_for_every_agent_with_its_horizons(tmp_path, monkeypatch):
    preset = tmp_path / "preset.yaml"
    preset.write_text("actor: {exploration: {base: 0.1}}")
    shared = presets.Shared.of_file(preset)
    monkeypatch.setattr(presets, "_env_presets", lambda env: [shared] if env == MAZE else [])
    suite = suite_of(tmp_path)
    configs = compare.plan(["mingru", "dqn"], [1], None, {"learner.batches.size": "5"}, suite)
    assert [(c.env, c.agent) for c in configs] == [
        (env, agent) for env in FIGURES for agent in ("mingru", "dqn")
    ]
    for config in configs:
        n = {"bsuite-memory-len-1": 1, "bsuite-memory-len-3": 3}.get(config.env)
        assert (config.network.width, config.learner.batches.size) == (16, 5)
        if n is None:
            memory = getattr(config.network.core, "memory_length", None)
            assert (config.total_env_steps, memory) == (1000, 12 if config.agent == "mingru" else None)
            assert config.actor.exploration.base == 0.1, "the task's own preset is there too"
        else:
            assert (config.total_env_steps, config.learner.gamma) == (100 * (n + 1), 0.9)
    *_, config = compare.plan(["mingru"], [1], None, {"task.time_limit": "7"}, suite)
    assert config.network.core.memory_length == 8, "the rows of the longest episode"


def test_a_tasks_settings_lie_over_those_of_all_tasks(tmp_path):
    text = SUITE.replace("{learner: {gamma: 0.9}", "{warmup_env_steps: 5")
    text = text.replace("settings:\n", "settings:\n  warmup_env_steps: 77\n", 1)
    configs = compare.plan(["lstm"], [1], None, {}, suite_of(tmp_path, text))
    assert [config.warmup_env_steps for config in configs] == [5, 5, 77]


def test_some_tasks_of_a_suite_are_trained_as_in_the_whole(tmp_path):
    whole = suite_of(tmp_path)
    memory, maze = whole.only("bsuite-*"), whole.only("*-3,t-maze-passive-10")
    assert [task.name for task in memory.tasks] == ["bsuite-memory-len-1", "bsuite-memory-len-3"]
    assert [task.name for task in maze.tasks] == ["bsuite-memory-len-3", "t-maze-passive-10"]
    assert (memory.published, maze.published) == ([], whole.published)
    configs = compare.plan(["dqn"], [1, 2], None, {}, whole)
    assert compare.plan(["dqn"], [1, 2], None, {}, memory) == configs[:4]
    assert compare.plan(["dqn"], [1, 2], None, {}, maze) == configs[2:]
    assert "PART OF THE SUITE: 2 of its 3 tasks." in maze.notes()
    assert not any(note.startswith("PART") for note in [*whole.notes(), *whole.only("*").notes()])
    (again,) = maze.only("t-maze*").tasks
    assert "PART OF THE SUITE: 1 of its 3 tasks." in maze.only("t-maze*").notes() and again == whole.tasks[2]


def test_a_share_of_the_budget_scales_all_that_depends_on_it(tmp_path):
    suite = suite_of(tmp_path, share=0.2)
    given = {"warmup_env_steps": "20", "learner.batches.env_steps_per_update": "2"}
    first, _, _ = compare.plan(["dqn"], [1], None, given, suite)
    assert (first.total_env_steps, first.warmup, first.actor.epsilon_anneal_env_steps) == (40, 4, 8000)
    assert first.learner.batches.env_steps_per_update == 2, "an update costs the same steps"
    _, _, maze = compare.plan(["dqn"], [1], None, {}, suite)
    assert (maze.total_env_steps, maze.warmup, maze.actor.epsilon_anneal_env_steps) == (200, 40, 8000)
    assert maze.evaluation_period == 200 // 12
    assert (suite.tasks[0].scores[0].epoch_env_steps, suite.tasks[2].scores[1].epoch_env_steps) == (40, 40)
    assert any(note.startswith("BUDGET SHARE 0.2:") for note in suite.notes())
    assert not any("BUDGET SHARE" in note for note in suite_of(tmp_path).notes())


_AXIS, _MAZE = "figure_axis: length", "name: t-maze-passive-10\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("env_steps: 1_000", "env_steps: many", "tasks.1.env_steps is many: must be an integer of"),
        ("env_steps: 1_000", "env_step: 9", "tasks.1.env_step is not a key of a suite; did you mean env_s"),
        ("    env_steps: 1_000\n", "", "tasks.1.env_steps is missing: must be an integer of at least 1"),
        (
            "of: mmer, random: -1",
            "of: mmr",
            "scores.1.of is mmr: must be one of success, return, mmer",
        ),
        ("random: 0.2, ", "", "tasks.1.scores.0.random is None, optimal 0.7: must be both numbers"),
        ("random: 0.2", "random: 0.7", "tasks.1.scores.0.optimal is 0.7, as random is: must be another"),
        ("of: mmer, random: -1", "of: success, random: -1", "tasks.1.scores has success twice: must be of"),
        ("n: [1, 3]", "n: [-1, 3]", "tasks.0.n.0 is -1: must be integers of at least 1, one a task"),
        ("    n: [1, 3]\n", "", "tasks.0.name is bsuite-memory-len-{n}: with {n} there must be a list n"),
        (f"task: {MAZE}", "task: t-maze", "published.0.task is t-maze: no task of the suite"),
        ("figure: 0.42", "figure: x", "published.0.figure is x: must be a number"),
        ("figure: 0.42", "figure: 42", "published.0.figure is 42: must be between 0 and 1 in the unit succ"),
        ("gamma: 0.9", "gama: 0.9", "learner.gama is not a setting (from "),
        ("gamma: 0.9", "gamma: 9", "learner.gamma is 9 (from "),
        ("settings: {learner", "settings: {seed: 3, learner", "tasks.0.settings.seed is 3: leave it out;"),
        (_AXIS, "needs: no_such_package", "it needs the package no_such_package, which is not"),
        (_MAZE, "name: bsuite-memory-len-3\n", "tasks: bsuite-memory-len-3 is given twice"),
        (_MAZE, "name: bsuite-memory-len-{n}\n    n: [5]\n", "tasks: bsuite-memory-len-{n} is given twice"),
        (_MAZE, "name: t-maze-pasive-10\n", "t-maze-pasive-10"),
    ],
)
def test_a_wrong_file_is_one_line_with_field_value_and_what_would_be_right(
    tmp_path, capsys, old, new, message
):
    assert SUITE.count(old) == 1
    text = SUITE.replace(old, new)
    if "name: t-maze-pas" in new or "name: bsuite" in new:
        text = text.partition("published:")[0]
    file = tmp_path / "own.yaml"
    file.write_text(text)
    argv = ["compare", "--suite", file, "--agents", "dqn", "--runs-dir", tmp_path / "runs"]
    assert message in tiny.refused(capsys, *argv)
    assert list(tmp_path.iterdir()) == [file]


def test_a_success_that_a_task_does_not_define_is_refused_before_anything_is_trained(tmp_path, capsys):
    text = SUITE.partition("published:")[0].replace("name: t-maze-passive-10", "name: CartPole-v1")
    file = tmp_path / "own.yaml"
    argv = ["compare", "--suite", file, "--agents", "dqn", "--seeds", "1", "--runs-dir", "runs"]
    file.write_text(text.replace("settings: {network: {memory_length: horizon}}", ""))
    said = "a score of CartPole-v1 is success, but the task defines no success; try return"
    assert tiny.refused(capsys, *argv) == f"{file}: {said}"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--suite", "lenght"], "--suite is lenght: it is not a suite; did you mean length?"),
        (["--suite", "absent.yaml"], "absent.yaml: there is no such file"),
        (["--suite", "length", "--env", "hallway"], "--env is hallway: leave it out with --suite"),
        (
            ["--suite", "length", "--total-env-steps", "9"],
            "--total-env-steps is 9: leave it out with --suite",
        ),
        (
            ["--suite", "dtqn", "--tasks", "hallway,gridverse-memory-6x6"],
            "gridverse-memory-6x6 fits no task of the suite; did you mean gridverse-memory-",
        ),
        (
            ["--suite", "length", "--tasks", "hallway,"],
            "hallway fits no task of the suite; known: bsuite-memory-len-n, t-maze-passive",
        ),
        (["--tasks", "hallway"], "--tasks is hallway: it chooses among the tasks of a suite"),
        (["--budget-share", "0.5"], "--budget-share is 0.5: it scales the budgets of a suite; give --suite"),
        (
            ["--records", __file__, "--env", "hallway"],
            f"--records is {__file__}: must be a file with the ending .jsonl",
        ),
    ],
)
def test_a_wrong_option_is_one_line(tmp_path, capsys, argv, message):
    command = ["compare", "--agents", "dqn", "--runs-dir", tmp_path / "runs", *argv]
    assert message in tiny.refused(capsys, *command)


def test_records_are_those_of_the_checkout_for_a_suite_with_its_full_budget(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(compare, "compare", lambda given: asked.append(given.own.records) or 0)
    suite_of(tmp_path)
    argv = ["compare", "--agents", "dqn", "--seeds", "1"]
    of_suite = [*argv, "--suite", "own.yaml"]
    assert cli.main(of_suite) == 0
    (tmp_path / "docs/results/records").mkdir(parents=True)
    for command in (
        of_suite,
        [*of_suite, "--budget-share", "0.5"],
        [*of_suite, "--records", "mine.jsonl"],
        argv,
        [*argv, "--records", "mine.jsonl"],
    ):
        assert cli.main(command) == 0
    own = Path("docs/results/records/own.jsonl")
    assert asked == [None, own, None, Path("mine.jsonl"), None, Path("mine.jsonl")]


# -- Comparisons ---------------------------------------------------------------------------------------------


def _normalised(env, agent):
    low, high, place = (0.2, 0.7, 1) if env == MAZE else (0.0, 1.0, 0)
    return [(figures[place] - low) / (high - low) for figures in FIGURES[env][agent]]


def test_the_tables_of_a_suite_by_hand(run, tmp_path):
    code, printed = run()
    assert code == 0
    table = table_of(tmp_path)
    lines = {(line["env"], line["agent"]): line for line in table["table"]}
    for env, agents in FIGURES.items():
        for agent, figures in agents.items():
            training, greedy = zip(*figures, strict=True)
            mmer = 2 * np.array(training) - 1
            line, score = lines[env, agent], greedy if env == MAZE else mmer
            assert line["success"] == pytest.approx(np.mean(greedy))
            assert (line["minimum"], line["maximum"]) == pytest.approx((min(score), max(score)))
            assert line["iqm"]["value"] == pytest.approx(twin.iqm(list(score)))
            assert line["beside"] == {"MMER": pytest.approx(np.mean(mmer))}
            assert line["score"] == ("success" if env == MAZE else "MMER")
    for agent in ("mingru", "dqn"):
        family, whole = lines["bsuite-memory-len-n", agent], lines["all tasks", agent]
        pooled = {env: _normalised(env, agent) for env in FIGURES}
        theirs = [_normalised(env, "dqn") for env in FIGURES]
        assert whole["score"] == family["score"] == "normalised score"
        assert whole["iqm"]["value"] == pytest.approx(
            twin.iqm([score for values in pooled.values() for score in values])
        )
        assert whole["beside"]["normalised score"] == pytest.approx(np.mean(list(pooled.values())))
        memory = [pooled[env] for env in FIGURES if env != MAZE]
        assert family["iqm"]["value"] == pytest.approx(
            twin.iqm([score for values in memory for score in values])
        )
        assert family["tasks_solved"] == sum(np.mean(values) > 0.6 for values in memory)
        assert (family["runs"], whole["runs"], whole["tasks_solved"]) == (10, 15, None)
        if agent == "mingru":
            bars = [(0.9 - 0.2) / (0.7 - 0.2) if env == MAZE else 0.6 for env in FIGURES]
            cut = (
                [np.minimum(values, bar) for values, bar in zip(each, bars, strict=True)]
                for each in (pooled.values(), theirs)
            )
            expected = twin.mean_improvement(*cut)
            assert whole["improvement"]["value"] == pytest.approx(expected)
    assert [lines["bsuite-memory-len-n", agent]["tasks_solved"] for agent in ("mingru", "dqn")] == [2, 1]
    assert "2 of 2" in printed
    random = lines["bsuite-memory-len-3", "random"]
    assert (random["success"], random["beside"]) == (0.5, {"MMER": -1.0}), "the suite knows both"
    for said in (
        "Suite own: A suite of a test.",
        "of 200 env steps of runs that used their whole budget, from -1 (random) to 1 (optimal)",
        "Code (digest of the sources): abc, for every agent.",
    ):
        assert any(said in note for note in table["notes"]), said


def test_figures_of_others_stand_in_rows_of_their_own_with_source_and_budget(run, tmp_path):
    run(agents=["dqn"], seeds=[1])
    table = table_of(tmp_path)
    (line,) = [line for line in table["table"] if line["agent"] == "Others (published)"]
    assert (line["env"], line["success"], line["return"], line["runs"]) == (MAZE, 0.42, None, 0)
    told = (
        "Others (published): success 42.0% ± 3 after 5 000 env steps; arXiv 0000.00000, Table 1; "
        "second-hand: not checked at its source."
    )
    assert told in table["under"][MAZE]
    assert all(told not in under for env, under in table["under"].items() if env != MAZE)
    assert not any("Others" in note for note in table["under"]["all tasks"])
    text = comparison_program.text_of(tmp_path / "a")
    (row,) = [row for row in text.splitlines() if row.startswith("Others (published) ")]
    assert row.split()[2:5] == ["-", "42.0%", "-"]
    below_five = [note for note in table["under"][MAZE] if note.startswith("Fewer than 5 runs of dqn:")]
    assert below_five and "[" not in row and "IQM" not in text.partition("Suite own")[0]


def test_what_an_interrupted_comparison_has_finished_is_not_trained_in_another_clone(
    run, tmp_path, monkeypatch
):
    """Each run leaves its record as soon as it has finished."""

    sent = []

    def interrupt(runs):
        if sum(run.state == "finished" for run in runs) >= 4 and not sent:
            sent.append(os.kill(os.getpid(), signal.SIGTERM))

    (tmp_path / "held").write_text(f"{MAZE} dqn 5")
    with monkeypatch.context() as patched:
        patched.setattr(compare, "RunsView", lambda _, runs: comparison_program.View(runs, interrupt))
        code, printed = run()
    assert code == 143 and "the same command continues" in printed
    (tmp_path / "held").unlink()
    kept = len(lines_of(tmp_path))
    assert kept >= 4
    assert run("b")[0] == 0
    begun, before = begun_runs(tmp_path), lines_of(tmp_path)
    assert len(set(begun)) == len(before) == 30 and len(begun) <= 30 + 4, "but for those that were amid it"
    assert len(list((tmp_path / "b/runs").glob("*/*/seed*"))) == 30 - kept
    assert run("c")[0] == 0 and begun_runs(tmp_path) == begun and not (tmp_path / "c/runs").exists()
    assert table_of(tmp_path, "b")["table"] == table_of(tmp_path, "c")["table"]
    run("d", records=False, agents=["dqn"], seeds=[1])
    assert len(begun_runs(tmp_path)) == len(begun) + 3 and lines_of(tmp_path) == before


def test_another_clone_trains_only_what_is_new(run, tmp_path):
    run(agents=["dqn"], seeds=[1])
    run("b", agents=["dqn", "mingru"], seeds=[1, 2])
    begun = begun_runs(tmp_path)
    assert len(begun) == len(set(begun)) == 12
    assert len(list((tmp_path / "b/runs").glob("*/*/seed*"))) == 9
    lines = {(line["env"], line["agent"]): line for line in table_of(tmp_path, "b")["table"]}
    assert lines[MAZE, "dqn"]["runs"] == lines[MAZE, "dqn"]["finished"] == 2


def test_of_records_alone_nothing_is_trained_and_what_is_missing_is_named(run, tmp_path):
    code, printed = run(clone="a", agents=["mingru"], seeds=[1])
    assert code == 0 and len(begun := begun_runs(tmp_path)) == 3
    for clone in ("a", "b"):  # where the runs lie, and where only their records are known
        code, printed = run(clone=clone, seeds=[1], records_only=True)
        assert code == 0 and begun_runs(tmp_path) == begun
        assert f"NOT TRAINED, in no figure: {MAZE} dqn seed 1, --records-only (no directory)" in printed
        assert not list((tmp_path / clone).glob("runs/*/dqn"))
    lines = {(line["env"], line["agent"]): line["finished"] for line in table_of(tmp_path, "b")["table"]}
    assert (lines[MAZE, "mingru"], lines[MAZE, "dqn"]) == (1, 0)


def test_different_code_is_said(run, tmp_path):
    run(agents=["dqn"], seeds=[1, 2])
    (tmp_path / "code").write_text("xyz")
    run("b", agents=["dqn"], seeds=[1, 2, 3])
    told = "Code (digest of the sources) DIFFER: abc (6 runs of dqn); xyz (3 runs of dqn)."
    assert told in table_of(tmp_path, "b")["notes"]


def test_a_damaged_record_is_named_and_its_run_trained_anew(run, tmp_path):
    run(agents=["dqn"], seeds=[1])
    file, lines = tmp_path / "records.jsonl", lines_of(tmp_path)
    place = next(place for place, line in enumerate(lines) if MAZE in line)
    lines[place] = "<<<<<<< HEAD"
    file.write_text("".join(f"{line}\n" for line in lines))
    code, printed = run("b", agents=["dqn"], seeds=[1])
    assert code == 0 and f"{file}, line {place + 1}: is no record of a run" in printed
    assert begun_runs(tmp_path).count(f"{MAZE} dqn 1") == 2
    assert lines_of(tmp_path)[:3] == lines and len(lines_of(tmp_path)) == 4
    assert table_of(tmp_path, "b")["table"][-2]["finished"] == 3


def test_a_suite_of_real_runs_in_two_clones(tmp_path, capsys):
    text = """
description: One tiny task.
tasks:
  - name: bsuite-memory-len-2
    env_steps: 900
    scores: [{of: mmer, random: 0.0, optimal: 1.0, epoch_env_steps: 900}, {of: success}]
    settings:
      network: {width: 8, head_width: 8}
      replay: {capacity: 2000, learn_length: 4, burn_in_length: 0}
      evaluation: {episodes: 8, first_episodes: 4, num_envs: 4, period: 450}
      actor: {num_envs: 10}
"""
    (tmp_path / "own.yaml").write_text(text)
    argv = ["compare", "--suite", tmp_path / "own.yaml", "--agents", "dqn", "--seeds", "1"]
    argv += ["--wandb", "disabled", "--records", tmp_path / "records.jsonl"]
    first = tiny.printed(capsys, *argv, "--runs-dir", tmp_path / "a")
    (line,) = lines_of(tmp_path)
    (metrics,) = (tmp_path / "a").glob("*/*/*/metrics.jsonl")
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    last = [row for row in rows if "train/episodes" in row][-1]
    assert last["train/episodes"] == 300, "in the budget, exactly"
    second = tiny.printed(capsys, *argv, "--runs-dir", tmp_path / "b")
    assert not list((tmp_path / "b").glob("*/*/*/metrics.jsonl"))
    table = [
        text.partition("\nbsuite-memory-len-2\n")[2].partition("table and curves")[0]
        for text in (first, second)
    ]
    assert table[0] == table[1] and f"{last['train/total_return'] / 300:.3g}" in table[0]
    record = json.loads(line)
    assert record["result"]["code"] and record["result"]["machine"]


def _published(name: str) -> tuple[list[str], list[str], Path]:
    """The lines of a published table, the words of the command below it, and the records that it reads."""
    lines = (_ROOT / f"docs/{name}/table.md").read_text(encoding="utf-8").splitlines()
    words = shlex.split(lines[-1].partition("`")[2].partition("`")[0])
    assert words[:3] == ["python", "run.py", "compare"]
    place = words.index("--records") + 1
    words[place] = str(_ROOT / words[place])
    return lines, words[2:], Path(words[place])


def _with_recorded_settings(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    """Below flags, variants and a suite's settings lie those of the record of each run.

    Presets and defaults were others when these runs were made.
    """
    laid, shelf = presets.resolve, records.Records(file)
    contents = [content for content in map(record_files.parsed, record_files.lines(file)) if content]

    def resolve(_, flags, *rest, below=(), **more):
        asked = (flags["env"], presets.find_agent(flags["agent"]).name, int(flags["seed"]))
        found = [each for each in contents if (each["env"], each["agent"], each["seed"]) == asked]
        files = [Path(f"{file}#{record_files.key_of(each)}") for each in found]
        configs = [laid(each, flags, *rest, **more) for each in files]
        return next((config for config in configs if shelf.find(config)), configs[0])

    monkeypatch.setattr(presets, "resolve", resolve)
    monkeypatch.setattr(suites.Suite, "scaled", lambda _, config: config)


_GIVEN = ("concentration-values", "popgym-reward-scale", "step-size", "pqn-popgym")
_GONE = ("results/memory-modes", "results/t-maze")
"""Tables of runs with OPIQ's bonus."""


@pytest.mark.parametrize("name", [f"benchmarks/{name}" for name in _GIVEN])
def test_the_commands_of_published_tables_agree_with_their_records(monkeypatch, name):
    """Those of the first seed."""
    _, words, file = _published(name)
    words[words.index("--seeds") + 1] = "1"
    _with_recorded_settings(monkeypatch, file)
    asked = []
    monkeypatch.setattr(compare, "compare", lambda given: asked.append(given) or 0)
    assert cli.main(words) == 0
    shelf = records.Records(asked[0].own.records)
    assert asked[0].configs and [each.agent for each in asked[0].configs if shelf.find(each) is None] == []


@pytest.mark.parametrize("name", ["dtqn", "popgym-easy", "gates-7x7"])
def test_the_results_are_made_of_their_records_to_the_digit(tmp_path, monkeypatch, name):
    """The command below a published table counts every record and trains nothing."""
    published, words, file = _published(f"results/{name}")
    _with_recorded_settings(monkeypatch, file)
    words[words.index("--out") + 1] = str(tmp_path / "out")
    monkeypatch.setattr(comparison_pictures.plots, "comparison", draw_nothing)
    monkeypatch.setattr(compare, "_job", lambda *_: pytest.fail("a run is to be trained"))
    assert cli.main(words) == 0
    written = (tmp_path / "out/table.md").read_text().splitlines()
    assert [line for line in written if "|" in line] == [line for line in published if "|" in line]


@pytest.mark.parametrize("name", _GONE)
def test_a_table_of_what_has_gone_is_refused_with_the_last_commit_that_makes_it(monkeypatch, capsys, name):
    _, words, file = _published(name)
    _with_recorded_settings(monkeypatch, file)
    assert "OPIQ's bonus was removed; commit fccff49 is the last to have it" in tiny.refused(capsys, *words)


def test_a_run_that_leaves_no_record_ends_a_comparison_with_1(tmp_path, run, monkeypatch):
    """The table is whole, and the same command writes the records once there is room."""

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(records, "append_line", full)
        code, printed = run(agents=["dqn"], seeds=[1])
    said = f"3 of these runs left no record in {tmp_path / 'records.jsonl'}, as said above\n"
    assert (code, printed.count("cannot be written: No space left on device")) == (1, 3)
    assert printed.endswith(said) and len(table_of(tmp_path)["runs"]) == 3
    again, printed = run(agents=["dqn"], seeds=[1])
    assert again == 0 and said not in printed and len(begun_runs(tmp_path)) == 3
    assert len(lines_of(tmp_path)) == 3


def test_the_example_of_the_page_is_a_suite(tmp_path):
    page = (_ROOT / "docs/suites.md").read_text(encoding="utf-8")
    suite = suite_of(tmp_path, page.partition("```yaml\n")[2].partition("```")[0])
    assert [task.name for task in suite.tasks] == ["bsuite-memory-len-5", "bsuite-memory-len-10", MAZE]
    configs = compare.plan(["mingru"], [1], None, {}, suite)
    assert [config.network.core.memory_length for config in configs] == [7, 12, 12]
    for name in suites.known():
        assert f"| `{name}` |" in page
