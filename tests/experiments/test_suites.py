"""Suites: their files, their scores by hand, and comparisons of a program that behaves like a training."""

import functools
import io
import json
import os
import re
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from dtqn import cli
from dtqn.acting.evaluation import EvaluationResult
from dtqn.experiments import budget, compare, jobs, suite_pictures, suites
from dtqn.experiments.comparison_table import RunFigures
from dtqn.experiments.intervals import profile
from dtqn.experiments.scores import Score, best_epoch, first_episodes
from dtqn.experiments.suite_pictures import _against_n, _profile
from dtqn.settings.config import ConfigError
from dtqn.settings.presets import resolve
from dtqn.training import chance, pace
from dtqn.training.pace import Pace
from dtqn.training.preflight import planned_updates
from tests.reference import statistics_twin as twin

_ROOT = Path(__file__).parents[2]
_MEMORY, _MAZE = "bsuite-memory-len-{n}", "t-maze-passive-10"
_SUITE = """
description: A suite of a test.
figure_axis: length
settings:
  network: {width: 16, head_width: 8}
tasks:
  - name: bsuite-memory-len-{n}
    n: [1, 3]
    env_steps: 100 * (n + 1)
    scores:
      - {of: bsuite, random: 0.5, optimal: 1.0, episodes: 100, solved_above: 0.25}
      - {of: success, random: 0.5, optimal: 1.0}
    settings: {learner: {gamma: 0.9}, actor: {num_envs: 10}}
    shares_of_budget:
      {warmup_env_steps: 0.1, actor.epsilon_anneal_env_steps: 0.5, learner.env_steps_per_update: 0.01}
  - name: t-maze-passive-10
    env_steps: 1_000
    scores:
      - {of: success, random: 0.2, optimal: 0.7}
      - {of: mmer, random: -1, optimal: 1, epoch_env_steps: 200}
    settings: {network: {memory_length: horizon}}
published:
  - {task: t-maze-passive-10, label: Others, source: "arXiv 0000.00000, Table 1", env_steps: 5000,
     figure: 0.42, unit: success, spread: ± 3, second_hand: true}
"""
_STAND_IN = """
import json, pathlib, signal, sys, time
folder, here = pathlib.Path(sys.argv[2]), pathlib.Path(__file__).parent
config = dict(line.split(": ", 1) for line in (folder / "config.yaml").open() if ": " in line)
config = {name: value.strip() for name, value in config.items()}
env, agent, seed = config["env"], config["agent"], int(config["seed"])
training, greedy = json.loads((here / "scores.json").read_text())[env][agent][seed - 1]
caught = []
signal.signal(signal.SIGTERM, lambda number, frame: caught.append(number))
with (here / "begun").open("a") as file:
    file.write(f"{env} {agent} {seed}\\n")
while (here / "held").exists() and (here / "held").read_text() == f"{env} {agent} {seed}":
    time.sleep(0.01)
    if caught:
        sys.exit(128 + caught[0])
total = json.loads(config["total_env_steps"])
rows = []
for i in (1, 2):
    row = {"env_steps": i * total // 2, "learner_steps": 10 * i, "seconds": 6.0 * i * seed}
    row |= {"train/episodes": 50 * i, "train/total_success": 50 * i * training}
    row |= {"train/total_return": 50 * i * (2 * training - 1), "eval/return": 2 * greedy - 1}
    row |= {"eval/success_low": greedy * i / 2, "eval/success_high": greedy * i / 2}
    row |= {"eval/success": greedy * i / 2, "eval/length": 7.0, "eval/episodes": 50}
    rows.append(row)
(folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in rows))
result = {"ends_at": [total, None], "env_steps": total, "learner_steps": 20, "seconds": 12.0 * seed}
result |= {"parameters": 9, "threads": 1, "device": "cpu", "program": {"dtqn": "1.2"}, "machine": "M"}
result |= {"code": [(here / "code").read_text()] if (here / "code").exists() else ["abc"]}
(folder / "result.json").write_text(json.dumps(result))
"""
_CHANCE = EvaluationResult(0.125, 0.1, 0.15, -3.25, 9.0, 50)
_SEEDS = range(1, 6)
_FIGURES = {  # (success in training, greedy success) of five seeds
    "bsuite-memory-len-1": {
        "mingru": [(0.9, 1.0), (0.8, 1.0), (0.7, 0.9), (0.9, 1.0), (0.95, 1.0)],
        "dqn": [(0.9, 1.0), (0.8, 0.9), (0.8, 0.9), (0.85, 1.0), (0.9, 1.0)],
    },
    "bsuite-memory-len-3": {
        "mingru": [(0.5, 0.5), (0.8, 1.0), (0.6, 0.8), (0.7, 0.8), (0.65, 0.7)],
        "dqn": [(0.5, 0.4), (0.5, 0.5), (0.55, 0.6), (0.5, 0.5), (0.45, 0.5)],
    },
    "t-maze-passive-10": {
        "mingru": [(0.1, 0.7), (0.2, 0.6), (0.3, 0.5), (0.2, 0.7), (0.25, 0.7)],
        "dqn": [(0.1, 0.3), (0.0, 0.2), (0.1, 0.3), (0.1, 0.4), (0.2, 0.3)],
    },
}


def _suite(tmp_path, text=_SUITE, share=1.0):
    (tmp_path / "own.yaml").write_text(text)
    return suites.read(str(tmp_path / "own.yaml"), share)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A function that compares by the small program in one of several clones: exit code and output."""
    (tmp_path / "program.py").write_text(_STAND_IN)
    (tmp_path / "scores.json").write_text(json.dumps(_FIGURES))
    program = [sys.executable, "-I", "-S", str(tmp_path / "program.py")]
    monkeypatch.setattr(compare, "Pool", functools.partial(jobs.Pool, program=program))
    monkeypatch.setattr(jobs, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(chance, "play", lambda config, episodes: _CHANCE)
    draw = compare.plots.comparison

    def run(
        clone="a",
        *,
        agents=("mingru", "dqn"),
        seeds=_SEEDS,
        records=True,
        pictures=False,
        parallel=4,
        **given,
    ):
        monkeypatch.setattr(compare.plots, "comparison", draw if pictures else _draw_nothing)
        suite = _suite(tmp_path, share=given.pop("share", 1.0))
        configs = compare.plan(list(agents), seeds, None, {}, suite)
        out, folder = io.StringIO(), tmp_path / clone
        given |= {"records_dir": tmp_path / "records" if records else None}
        code = compare.compare(
            configs, parallel, folder / "runs", folder / "out", "dqn", {}, out=out, suite=suite, **given
        )
        return code, out.getvalue()

    return run


def _draw_nothing(panels, path, clock, note, log=False):
    path.write_bytes(b"a picture")


def _table(tmp_path, clone="a"):
    return json.loads((tmp_path / clone / "out/table.json").read_text())


def _begun(tmp_path):
    file = tmp_path / "begun"
    return file.read_text().splitlines() if file.exists() else []


# -- The files -----------------------------------------------------------------------------------------------


def test_length_has_the_experiments_of_bsuite_and_the_budgets_of_its_rules():
    suite = suites.read("length")
    memory = [task for task in suite.tasks if task.family == "bsuite-memory-len-n"]
    lengths = [*range(1, 11), 12, 14, 17, 20, 25, *range(30, 101, 10)]
    assert [(task.name, task.n) for task in memory] == [(f"bsuite-memory-len-{n}", n) for n in lengths]
    assert len(memory) == 23 and [task.env_steps for task in memory] == [10_000 * (n + 1) for n in lengths]
    for task in memory:
        first, beside = task.scores
        assert first[:4] == ("bsuite", 0.5, 1.0, 10_000) and (first.solved_above, beside.kind) == (
            0.25,
            "success",
        )
    maze = [task for task in suite.tasks if task.family == "t-maze-passive-n"]
    assert [task.n for task in maze] == [10, 50, 100, 250, 500, 1000, 1500]
    limits = {50: 1e6, 100: 2e6, 250: 4e6, 500: 4e6, 1000: 8e6, 1500: 1e7}  # Ni et al. 2023, budget.py
    assert all(task.env_steps <= limits.get(task.n, 1e6) for task in maze)


@pytest.mark.parametrize("name", [name for name in suites.known() if name != "popgym-15"])
def test_every_agent_of_the_tables_fits_the_tasks_of_a_suite(name):
    if name == "minigrid-memory":
        pytest.importorskip("minigrid")
    suite = suites.read(name)
    for task in (suite.tasks[0], suite.tasks[-1]):
        agents = ["gtrxl", "mingru", "lstm", "dqn", "dtqn", "gru", "lru", "gated-deltanet", "pqn"]
        (config, *others) = compare.plan(agents, [101], None, {}, suite._replace(tasks=(task,)))
        assert config.total_env_steps == task.env_steps
        assert len({each.learner.gamma for each in (config, *others)}) == 1, "gamma is the suite's"


@pytest.mark.parametrize("agent", ["gtrxl", "lstm"])
def test_the_preset_of_popgym_is_the_same_in_its_suite_and_outside(agent):
    """An answer is worth 1 in 51 of n - 1, and the reward scale is the number of rows, n."""
    suite = suites.read("popgym-15")
    configs = compare.plan([agent], [101], None, {}, suite)
    assert len(configs) == 15
    for config in configs:
        alone = resolve(None, {"env": config.env, "agent": agent}, {})
        for group in ("network", "learner", "replay", "actor"):
            assert getattr(config, group) == getattr(alone, group), config.env
    scales = {config.env: config.learner.reward_scale for config in configs}
    assert scales["popgym-repeat-first-easy"] == 52
    assert scales["popgym-repeat-first-hard"] == 832
    assert scales["popgym-autoencode-easy"] == 104
    assert scales["popgym-concentration-medium"] == 209


def test_the_returns_of_popgym_are_those_that_were_computed():
    computed = json.loads((_ROOT / "docs" / "benchmarks" / "popgym.json").read_text(encoding="utf-8"))
    for task in suites.read("popgym-15").tasks:
        score, exact = task.scores[0], computed[task.name]
        assert score.kind == "return"
        assert (score.random, score.optimal) == pytest.approx((exact["random"], exact["best"]), abs=1e-5)
        if "concentration" in task.name:  # its player without memory is not known to be the best
            assert score.observation_alone is None
        else:
            assert score.observation_alone == pytest.approx(exact["without_memory"], abs=1e-5)
            assert f"at best {score.observation_alone:g} by the observation alone" in score.explained


def test_settings_are_the_suites_for_every_agent_with_its_shares_and_horizons(tmp_path):
    suite = _suite(tmp_path)
    configs = compare.plan(["mingru", "dqn"], [1], None, {"learner.batch_size": "5"}, suite)
    assert [(c.env, c.agent) for c in configs] == [
        (env, agent) for env in _FIGURES for agent in ("mingru", "dqn")
    ]
    for config in configs:
        n = {"bsuite-memory-len-1": 1, "bsuite-memory-len-3": 3}.get(config.env)
        assert (config.network.width, config.learner.batch_size) == (16, 5)
        if n is None:
            assert (config.total_env_steps, config.network.memory_length) == (1000, 12)
            assert config.actor.ladder_base == 0.1, "the task's own preset is there too"
        else:
            assert (config.total_env_steps, config.warmup) == (100 * (n + 1), 10 * (n + 1))
            assert config.actor.epsilon_anneal_env_steps == 50 * (n + 1)
            assert (config.learner.env_steps_per_update, config.learner.gamma) == (n + 1, 0.9)
    *_, config = compare.plan(["dqn"], [1], None, {"task.time_limit": "7"}, suite)
    assert config.network.memory_length == 8, "the rows of the longest episode"
    text = _SUITE.replace("figure_axis: length", "task_presets: false")
    *_, config = compare.plan(["dqn"], [1], None, {}, _suite(tmp_path, text))
    assert config.actor.ladder_base == 0.4, "the default, not the task's preset"


def test_some_tasks_of_a_suite_are_trained_as_in_the_whole(tmp_path):
    whole = _suite(tmp_path)
    memory, maze = whole.only("bsuite-*"), whole.only("*-3,t-maze-passive-10")
    assert [task.name for task in memory.tasks] == ["bsuite-memory-len-1", "bsuite-memory-len-3"]
    assert [task.name for task in maze.tasks] == ["bsuite-memory-len-3", "t-maze-passive-10"]
    assert (memory.published, maze.published) == ((), whole.published)
    configs = compare.plan(["dqn"], [1, 2], None, {}, whole)
    assert compare.plan(["dqn"], [1, 2], None, {}, memory) == configs[:4]
    assert compare.plan(["dqn"], [1, 2], None, {}, maze) == configs[2:]
    assert "PART OF THE SUITE: 2 of its 3 tasks." in maze.notes()
    assert not any(note.startswith("PART") for note in [*whole.notes(), *whole.only("*").notes()])
    (again,) = maze.only("t-maze*").tasks
    assert "PART OF THE SUITE: 1 of its 3 tasks." in maze.only("t-maze*").notes() and again == whole.tasks[2]


def test_a_share_of_the_budget_scales_all_that_depends_on_it(tmp_path):
    suite = _suite(tmp_path, share=0.2)
    first, _, maze = compare.plan(["dqn"], [1], None, {}, suite)
    assert (first.total_env_steps, first.warmup, first.actor.epsilon_anneal_env_steps) == (40, 4, 20)
    assert first.learner.env_steps_per_update == 2, "of the whole budget: an update costs the same steps"
    assert (maze.total_env_steps, maze.warmup, maze.actor.epsilon_anneal_env_steps) == (200, 40, 8000)
    assert maze.evaluation.period == 5000, "25 000, which the budget is shorter than, scaled"
    assert [task.env_steps for task in suite.tasks] == [40, 80, 200]
    assert (suite.tasks[0].scores[0].episodes, suite.tasks[2].scores[1].epoch_env_steps) == (20, 40)
    assert any(note.startswith("BUDGET SHARE 0.2:") for note in suite.notes())
    assert any("for every agent, before the share of the budget: " in note for note in suite.notes())
    assert not any("BUDGET SHARE" in note or "before the" in note for note in _suite(tmp_path).notes())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "env_steps: 1_000",
            "env_steps: many",
            "tasks.1.env_steps is many: must be an integer of at least 1, or",
        ),
        (
            "100 * (n + 1)",
            "100 / (n - 3)",
            r"tasks.0.env_steps is '100 / (n - 3)' (with n = 1): must be an integ",
        ),
        (
            "100 * (n + 1)",
            "__import__('os')",
            "tasks.0.env_steps is \"__import__('os')\" (with n = 1): must be",
        ),
        (
            "env_steps: 1_000",
            "env_step: 1_000",
            "tasks.1.env_step is no key of a suite; did you mean env_steps?",
        ),
        (
            "    env_steps: 1_000\n",
            "",
            "tasks.1.env_steps is missing: must be an integer of at least 1, or a rule",
        ),
        ("of: mmer", "of: mmr", "tasks.1.scores.1.of is mmr: must be one of success, return, bsuite, mmer"),
        (
            "random: 0.2",
            "random: low",
            "tasks.1.scores.0.random is low: must be a number, the score of random",
        ),
        (
            "random: 0.2",
            "random: 0.7",
            "tasks.1.scores.0.optimal is 0.7, as random is: must be another number",
        ),
        ("n: [1, 3]", "n: [1, 1]", "tasks.0.n is [1, 1]: a number is there twice"),
        ("n: [1, 3]", "n: 3", "tasks.0.n is 3: must be integers, one a task"),
        ("    n: [1, 3]\n", "", "tasks.0.name is bsuite-memory-len-{n}: with {n} there must be a list n"),
        (
            "task: t-maze-passive-10",
            "task: t-maze-passive-1",
            "published.0.task is t-maze-passive-1: no task of the",
        ),
        ("figure: 0.42", "figure: x", "published.0.figure is x: must be a number"),
        ("gamma: 0.9", "gama: 0.9", "learner.gama is no setting (from "),
        ("gamma: 0.9", "gamma: 9", "learner.gamma is 9 (from "),
        (
            "settings: {learner",
            "settings: {seed: 3, learner",
            "tasks.0.settings.seed is 3: leave it out; it is no",
        ),
        (
            "warmup_env_steps: 0.1",
            "warmup_env_steps: 3",
            "tasks.0.shares_of_budget.warmup_env_steps is 3.0: must be a",
        ),
        (
            "warmup_env_steps: 0.1",
            "network.core: 0.1",
            "tasks.0.shares_of_budget.network.core is no setting with a",
        ),
        (
            "figure_axis: length",
            "needs: no_such_package",
            "it needs the package no_such_package, which is not",
        ),
        (
            "name: t-maze-passive-10\n",
            "name: bsuite-memory-len-3\n",
            "tasks: bsuite-memory-len-3 is there twice",
        ),
        (
            "name: t-maze-passive-10\n",
            "name: bsuite-memory-len-{n}\n    n: [5]\n",
            "tasks: bsuite-memory-len-{n} is there twice",
        ),
        ("name: t-maze-passive-10\n", "name: t-maze-pasive-10\n", "t-maze-pasive-10"),
    ],
)
def test_a_wrong_file_is_one_line_with_field_value_and_what_would_be_right(
    tmp_path, capsys, old, new, message
):
    assert _SUITE.count(old) == 1
    text = _SUITE.replace(old, new)
    if "name: t-maze-pas" in new or "name: bsuite" in new:
        text = text.partition("published:")[0]
    file = tmp_path / "own.yaml"
    file.write_text(text)
    argv = ["compare", "--suite", str(file), "--agents", "dqn", "--runs-dir", str(tmp_path / "runs")]
    assert cli.main(argv) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error, error
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--suite", "lenght"], "--suite is lenght: it is no suite; did you mean length?"),
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
        (["--budget-share", "2"], "argument --budget-share: 2 must be a number above 0 and at most 1"),
        (["--budget-minutes", "0"], "argument --budget-minutes: 0 must be a number above 0"),
        (["--records", __file__, "--env", "hallway"], f"--records is {__file__}: must be a folder"),
    ],
)
def test_a_wrong_option_is_one_line(tmp_path, capsys, argv, message):
    assert cli.main(["compare", "--agents", "dqn", "--runs-dir", str(tmp_path / "runs"), *argv]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error, error


def test_records_are_those_of_the_checkout_for_a_suite_with_its_full_budget(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(compare, "compare", lambda *_, **given: asked.append(given["records_dir"]) or 0)
    monkeypatch.chdir(tmp_path)
    _suite(tmp_path)
    argv = ["compare", "--agents", "dqn", "--seeds", "1"]
    of_suite = [*argv, "--suite", "own.yaml"]
    assert cli.main(of_suite) == 0
    (tmp_path / "docs/results/runs").mkdir(parents=True)
    for command in (
        of_suite,
        [*of_suite, "--budget-share", "0.5"],
        [*of_suite, "--records", "mine"],
        argv,
        [*argv, "--records", "mine"],
    ):
        assert cli.main(command) == 0
    own = Path("docs/results/runs")
    assert asked == [None, own, None, Path("mine"), None, Path("mine")]


# -- The scores ----------------------------------------------------------------------------------------------


def _log(ends, period=100):
    """Rows of tallies every `period` steps of episodes that end at (env step, return, success)."""
    rows, last = [], max(step for step, _, _ in ends)
    for step in range(period, last + period, period):
        before = [end for end in ends if end[0] <= step]
        rows.append(
            {
                "env_steps": step,
                "train/episodes": len(before),
                "train/total_return": float(sum(end[1] for end in before)),
                "train/total_success": sum(end[2] for end in before),
            }
        )
        rows.append({"env_steps": step + 1, "eval/return": 0.0})
    return rows


def test_bsuites_score_is_that_of_its_own_analysis():
    """One episode after the other, as its logging wrapper and `memory_len/analysis.py` count them."""
    rng = np.random.default_rng(0)
    for skill in (0.5, 0.6, 0.63, 0.7, 1.0):
        right = rng.random(400) < skill
        rows = _log([(10 * (i + 1), 2.0 * r - 1, int(r)) for i, r in enumerate(right)])
        total_perfect, regret = 0, None
        for episode, perfect in enumerate(right, 1):
            total_perfect += perfect
            if episode == 300:
                regret = (episode - total_perfect) / 0.5 / episode
        share = first_episodes(rows, 300)
        score = Score("bsuite", 0.5, 1.0, episodes=300, solved_above=0.25)
        assert score.of(rows, 0) == share == right[:300].mean()
        assert 1 - score.normalised(share) == pytest.approx(regret)
        assert (score.normalised(share) > 0.25) == (regret < 0.75)
    assert first_episodes(rows, 10_000) == 1.0, "a run with fewer episodes has those that it has"
    assert first_episodes(rows, 5) is None, "no row is as early"
    assert first_episodes([{"env_steps": 1, "eval/return": 0.0}], 5) is None


def test_mmer_is_the_best_mean_return_of_an_epoch():
    """Against every episode sorted into its epoch, with epochs without an end of an episode among them."""
    rng = np.random.default_rng(1)
    steps = np.cumsum(rng.integers(5, 900, size=60))
    ends = [(int(step), float(rng.normal() + step / 9000), 0) for step in steps]
    rows = _log(ends)
    by_epoch = {}
    for step, value, _ in ends:
        by_epoch.setdefault((step - 1) // 400, []).append(value)  # a row counts what has ended by its step
    whole = [np.mean(values) for epoch, values in by_epoch.items() if 400 * (epoch + 1) <= ends[-1][0]]
    assert best_epoch(rows, 400) == pytest.approx(max(whole))
    assert best_epoch(rows, 10**9) is None, "no whole epoch"
    assert best_epoch([], 400) is None
    falling = _log([(100, 5.0, 0), (200, -1.0, 0), (300, -1.0, 0)])
    assert best_epoch(falling, 100) == 5.0 and Score("mmer", epoch_env_steps=300).of(falling, 300) == 1.0
    rising = _log([(100, 1.0, 0), (200, 2.0, 0), (240, 9.0, 0)], period=50)
    assert best_epoch(rising, 100) == 2.0, "the third is cut short"
    score = Score("mmer", epoch_env_steps=100)
    assert score.of(rising, 240) == 2.0
    assert score.of(rising, 1000) is None, "it ended early, perhaps before its best epoch"
    assert score.of([], 240) is None


def test_greedy_scores_are_those_of_the_last_evaluation():
    rows = [
        {"eval/return": 3.0, "eval/success": 0.9},
        {"eval/return": -1.0, "eval/success": 0.25},
        {"env_steps": 9},
    ]
    assert (Score("success").of(rows, 0), Score("return").of(rows, 0)) == (0.25, -1.0)
    assert Score("return", -2.0, 2.0).normalised(-1.0) == 0.25
    assert Score("return").normalised(1.0) is None and Score("success").of([], 0) is None


def test_a_trainings_tally_counts_every_episode_and_goes_on(tmp_path):
    from dtqn.settings.presets import resolve
    from dtqn.training.trainer import Trainer

    flags = {"env": "bsuite-memory-len-2", "agent": "dqn", "actor.num_envs": "5", "replay.capacity": "3000"}
    flags |= {
        "total_env_steps": "330",
        "metrics_every": "60",
        "evaluation.episodes": "4",
        "learner.batch_size": "2",
    }
    config = resolve(None, flags, {})
    ended = []

    def watched():
        trainer = Trainer(config)
        tick = trainer.actor.tick

        def seen():
            rows, episodes = tick()
            ended.extend(zip(episodes.episode_return.tolist(), episodes.success.tolist(), strict=True))
            return rows, episodes

        trainer.actor.tick = seen
        return trainer

    trainer, rows = watched(), []
    while trainer.env_steps < 200:
        rows.append(trainer.advance())
    state = trainer.get_state()
    trainer = watched()
    trainer.set_state(state)
    while not trainer.finished:
        rows.append(trainer.advance())
        trainer.evaluator.evaluated()
    rows += trainer.finish()
    rows = [row for row in rows if row and "train/episodes" in row]
    last = rows[-1]
    assert len(rows) >= 5 and last["train/episodes"] == len(ended) == 110, "330 steps of episodes of 3"
    assert last["train/total_return"] == sum(value for value, _ in ended)
    assert last["train/total_success"] == sum(success for _, success in ended)
    counts = [row["train/episodes"] for row in rows]
    assert counts == sorted(counts) and first_episodes(rows, 10_000) == last["train/total_success"] / 110


# -- Comparisons ---------------------------------------------------------------------------------------------


def _normalised(env, agent):
    low, high, place = (0.2, 0.7, 1) if env == _MAZE else (0.5, 1.0, 0)
    return [(figures[place] - low) / (high - low) for figures in _FIGURES[env][agent]]


def test_the_tables_of_a_suite_by_hand(run, tmp_path):
    code, printed = run()
    assert code == 0
    table = _table(tmp_path)
    lines = {(line["env"], line["agent"]): line for line in table["table"]}
    for env, agents in _FIGURES.items():
        for agent, figures in agents.items():
            training, greedy = zip(*figures, strict=True)
            line, score = lines[env, agent], greedy if env == _MAZE else training
            assert line["success"] == pytest.approx(np.mean(greedy))
            assert (line["minimum"], line["maximum"]) == (min(score), max(score))
            assert line["iqm"]["value"] == pytest.approx(twin.iqm(list(score)))
            name = "MMER" if env == _MAZE else "training success"
            beside = np.mean(2 * np.array(training) - 1)
            assert line["beside"] == {name: pytest.approx(beside if env == _MAZE else np.mean(training))}
            assert line["score"] == ("success" if env == _MAZE else "training success")
    for agent in ("mingru", "dqn"):
        family, whole = lines["bsuite-memory-len-n", agent], lines["all tasks", agent]
        pooled = {env: _normalised(env, agent) for env in _FIGURES}
        theirs = [_normalised(env, "dqn") for env in _FIGURES]
        assert whole["score"] == family["score"] == "normalised score"
        assert whole["iqm"]["value"] == pytest.approx(
            twin.iqm([score for values in pooled.values() for score in values])
        )
        assert whole["beside"]["normalised score"] == pytest.approx(np.mean(list(pooled.values())))
        memory = [pooled[env] for env in _FIGURES if env != _MAZE]
        assert family["iqm"]["value"] == pytest.approx(
            twin.iqm([score for values in memory for score in values])
        )
        assert family["solved"] == sum(np.mean(values) > 0.25 for values in memory)
        assert (family["runs"], whole["runs"], whole["solved"]) == (10, 15, None)
        if agent == "mingru":
            expected = twin.mean_improvement(list(pooled.values()), theirs)
            assert whole["improvement"]["value"] == pytest.approx(expected)
    assert [lines["bsuite-memory-len-n", agent]["solved"] for agent in ("mingru", "dqn")] == [2, 1]
    assert "2 of 2" in printed
    random = lines["bsuite-memory-len-3", "random"]
    assert (random["success"], random["beside"]) == (0.125, {"training success": 0.5})
    for said in (
        "Suite own: A suite of a test.",
        "success of the first 100 training episodes, exploration included, from 0.5 (random) to 1 (optimal)",
        "learner.gamma 0.9",
        "Code: abc, for every agent.",
    ):
        assert any(said in note for note in table["notes"]), said


def test_figures_of_others_stand_in_rows_of_their_own_with_source_and_budget(run, tmp_path):
    run(agents=["dqn"], seeds=[1])
    table = _table(tmp_path)
    (line,) = [line for line in table["table"] if line["agent"] == "Others (published)"]
    assert (line["env"], line["success"], line["return"], line["runs"]) == (_MAZE, 0.42, None, 0)
    told = (
        "Others (published): success 42.0% ± 3 after 5 000 env steps; arXiv 0000.00000, Table 1; "
        "second-hand: not checked at its source."
    )
    assert told in table["under"][_MAZE]
    assert all(told not in under for env, under in table["under"].items() if env != _MAZE)
    assert not any("Others" in note for note in table["under"]["all tasks"])
    text = (tmp_path / "a/out/table.txt").read_text()
    (row,) = [row for row in text.splitlines() if row.startswith("Others (published) ")]
    assert row.split()[2:5] == ["-", "42.0%", "-"]
    below_five = [note for note in table["under"][_MAZE] if note.startswith("Fewer than 5 runs of dqn:")]
    assert below_five and "[" not in row and "IQM" not in text.partition("Suite own")[0]


def test_interrupted_twice_nothing_is_trained_twice_and_another_clone_trains_nothing(
    run, tmp_path, monkeypatch
):
    updates = []

    class View:
        def __init__(self, runs):
            self.runs = runs

        def update(self, changed):
            if updates and sum(run.state == "finished" for run in self.runs) >= updates[-1]:
                updates.clear()
                os.kill(os.getpid(), signal.SIGTERM)

        def say(self, text):
            pass

        def close(self):
            pass

    monkeypatch.setattr(compare, "open_runs_view", lambda out, runs: View(runs))
    for least, held in ((4, f"{_MAZE} dqn 5"), (9, f"{_MAZE} dqn 4")):
        updates.append(least)
        (tmp_path / "held").write_text(held)
        code, printed = run()
        assert code == 143 and "the same command goes on" in printed
        assert len(list((tmp_path / "records").rglob("*.json"))) >= least, "each as soon as it has finished"
    (tmp_path / "held").unlink()
    assert run()[0] == 0
    begun = _begun(tmp_path)
    assert len(set(begun)) == 30 and len(begun) <= 30 + 8, "once, but for those that were interrupted"
    files = sorted((tmp_path / "records").rglob("*.json"))
    assert len(files) == 30 and all(file.stat().st_size < 20_000 for file in files)
    before = {file: file.read_bytes() for file in files}
    code, _ = run("b")
    assert code == 0 and _begun(tmp_path) == begun, "nothing is trained in the other clone"
    for line, again in zip(_table(tmp_path)["table"], _table(tmp_path, "b")["table"], strict=True):
        assert line == again
    assert not (tmp_path / "b/runs").exists()
    run("c", records=False, agents=["dqn"], seeds=[1])
    assert len(_begun(tmp_path)) == len(begun) + 3
    assert {file: file.read_bytes() for file in files} == before


def test_another_clone_trains_only_what_is_new(run, tmp_path):
    run(agents=["dqn"], seeds=[1])
    run("b", agents=["dqn", "mingru"], seeds=[1, 2])
    begun = _begun(tmp_path)
    assert len(begun) == len(set(begun)) == 12
    assert len(list((tmp_path / "b/runs").glob("*/*/seed*"))) == 9
    lines = {(line["env"], line["agent"]): line for line in _table(tmp_path, "b")["table"]}
    assert lines[_MAZE, "dqn"]["runs"] == lines[_MAZE, "dqn"]["finished"] == 2


def test_different_code_is_said_below_each_table_that_has_it(run, tmp_path):
    run(agents=["dqn"], seeds=[1, 2])
    (tmp_path / "code").write_text("xyz")
    run("b", agents=["dqn"], seeds=[1, 2, 3])
    under = _table(tmp_path, "b")["under"]
    told = f"Runs of DIFFERENT CODE (digest of the sources): abc, but xyz: {_MAZE} dqn seed 3."
    assert told in under[_MAZE] and told in (tmp_path / "b/out/table.md").read_text()
    assert any("DIFFERENT CODE" in line and line.count("seed 3") == 3 for line in under["all tasks"])
    assert not any("DIFFERENT CODE" in line for lines in _table(tmp_path)["under"].values() for line in lines)


def test_a_damaged_record_is_named_and_its_run_trained_anew(run, tmp_path):
    run(agents=["dqn"], seeds=[1])
    file = next((tmp_path / "records").rglob("t-maze*/dqn/*.json"))
    file.write_text("<<<<<<< HEAD")
    code, printed = run("b", agents=["dqn"], seeds=[1])
    assert code == 0
    assert next(line for line in printed.splitlines() if str(file) in line).startswith(
        f"{file}: is no record of a"
    )
    assert _begun(tmp_path).count(f"{_MAZE} dqn 1") == 2 and file.read_text() == "<<<<<<< HEAD"
    assert _table(tmp_path, "b")["table"][-2]["finished"] == 3


def test_pictures_of_a_suite(run, tmp_path):
    code, _ = run(pictures=True, seeds=[1])
    assert code == 0
    folder = tmp_path / "a/out"
    for words in ("share of runs", "normalised score", "mingru (n = 1)", "dqn (n = 1)"):
        assert words in (folder / "profile.svg").read_text()
    picture = (folder / "against-n.svg").read_text()
    for words in (
        "bsuite-memory-len-n: training success",
        "bsuite-memory-len-n: success",
        "length",
        "random actions",
    ):
        assert words in picture, words
    assert (folder / "profile.png").stat().st_size and (folder / "against-n.png").stat().st_size


def test_tasks_that_stand_alone_have_no_picture_against_n(tmp_path):
    text = _SUITE.replace("{n}", "1").replace("    n: [1, 3]\n", "").replace("(n + 1)", "2")
    suite = _suite(tmp_path, text)
    assert suite.figure_axis == "length"
    runs = [RunFigures(task.name, "dqn", 1, "", score=0.5, normalised=0.5) for task in suite.tasks]
    suite_pictures.draw(suite, runs, tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*.png")) == ["profile.png"]


def test_the_curves_of_the_pictures_by_hand(tmp_path):
    suite = _suite(tmp_path)
    runs = [
        RunFigures(
            env,
            agent,
            seed,
            "",
            score=score,
            normalised=score,
            beside={"training success": score},
            success=0.3,
        )
        for env in ("bsuite-memory-len-1", "bsuite-memory-len-3")
        for agent, scores in {"mingru": [0.2, 0.8, 0.5], "dqn": [0.4]}.items()
        for seed, score in enumerate(scores)
        if (env, agent) != ("bsuite-memory-len-3", "dqn")
    ]
    names = ["bsuite-memory-len-1", "bsuite-memory-len-3"]
    tasks = suite.families["bsuite-memory-len-n"]
    panel = _against_n(suite, "memory", tasks, 0, ["mingru", "dqn"], runs)
    one, two = panel.curves
    assert (one.x, one.y, one.low, one.high, one.runs) == ([1, 3], [0.5, 0.5], [0.2, 0.2], [0.8, 0.8], 3)
    assert (two.x, two.y, two.low, panel.chance, panel.solved) == ([1], [0.4], None, 0.5, 0.625)
    curve = _profile("mingru", names, runs)
    assert _profile("dqn", names, runs) is None, "it has no run on a task"
    levels = np.array(curve.x)
    assert curve.y == [np.mean([(score > level) for score in (0.2, 0.8, 0.5)]) for level in levels]
    five = [np.array([0.1, 0.3, 0.5, 0.7, 0.9]), np.array([0.2, 0.2, 0.2, 0.9, 0.9])]
    found = profile(five, np.array([0.0, 0.25, 0.95]), np.random.default_rng(0))
    assert found.middle == pytest.approx([1.0, (4 / 5 + 2 / 5) / 2, 0.0])
    assert found.low[1] < found.middle[1] < found.high[1] and found.low[0] == 1.0 and found.high[2] == 0.0


def test_a_run_longer_than_the_minutes_fits_into_no_number_of_places(tmp_path, monkeypatch):
    monkeypatch.setattr(pace, "measured", lambda config: Pace(0.01, 0.0))
    monkeypatch.setattr(budget, "START_SECONDS", 0.0)
    configs = compare.plan(["mingru"], [1], None, {"env": _MAZE, "total_env_steps": "1000"})
    seconds = pace.measured(configs[0]).run_seconds(configs[0])
    for minutes, fits in ((seconds / 60 + 1e-9, True), (seconds / 60 - 1e-9, False)):
        assert budget.fitting(configs, tmp_path, 5, minutes, io.StringIO()) == [fits]


def test_what_fits_into_the_minutes_is_said_and_trained(run, tmp_path, monkeypatch):
    """An env step takes a hundredth of a second and an update a second: times by hand."""
    measured = []
    monkeypatch.setattr(pace, "measured", lambda config: measured.append(config) or Pace(0.01, 1.0))
    monkeypatch.setattr(budget, "START_SECONDS", 0.0)
    configs = compare.plan(["mingru", "dqn"], [1, 2], None, {}, _suite(tmp_path))
    seconds = [0.01 * config.total_env_steps * 1.5 + planned_updates(config) for config in configs]
    # All but the second run of dqn on T-Maze, with three at a time.
    ends = [0.0] * 3
    for time in seconds[:-1]:  # each begins where the first of the three places is free
        ends = sorted([ends[0] + time, *ends[1:]])
    assert ends[0] + seconds[-1] > ends[-1]
    minutes = ends[-1] / 60 + 1e-9
    code, printed = run(agents=["mingru", "dqn"], seeds=[1, 2], budget_minutes=minutes, parallel=3)
    assert code == 0 and len(measured) == 6, "one trial a task and agent"
    assert len(_begun(tmp_path)) == 11 and f"{_MAZE} dqn 2" not in _begun(tmp_path)
    assert f"Not trained, as it does not fit: {_MAZE} dqn seed 2." in printed
    rows = [line.split() for line in printed.splitlines() if line.startswith("bsuite-memory-len-1  ")]
    assert [row[:3] for row in rows] == [["bsuite-memory-len-1", agent, "200"] for agent in ("mingru", "dqn")]
    assert re.search(
        r"NOT TRAINED, in no figure: t-maze-passive-10 dqn seed 2, does not fit --budget-minutes", printed
    )
    lines = {(line["env"], line["agent"]): line for line in _table(tmp_path)["table"]}
    assert (lines[_MAZE, "dqn"]["finished"], lines[_MAZE, "dqn"]["runs"]) == (1, 2)
    assert lines["all tasks", "dqn"]["minimum"] is None, "not every task has as many runs"
    measured.clear()
    code, printed = run(agents=["mingru", "dqn"], seeds=[1, 2], budget_minutes=1000)
    assert code == 0 and [config.env for config in measured] == [_MAZE], "finished runs need no trial"
    assert len(_begun(tmp_path)) == 12 and "Not trained" not in printed


def test_a_trial_times_a_real_trainer_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (config,) = compare.plan(
        ["mingru"],
        [1],
        None,
        {"replay.capacity": "5000"},
        _suite(tmp_path)._replace(tasks=_suite(tmp_path).tasks[-1:]),
    )
    found = pace.measured(config)
    assert found.per_env_step > 0 and found.per_update > 0
    expected = 1000 * 1.5 * found.per_env_step + planned_updates(config) * found.per_update
    assert found.run_seconds(config) == pytest.approx(expected)
    assert [path.name for path in tmp_path.iterdir()] == ["own.yaml"]


def test_a_suite_of_real_trainings_in_two_clones(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("WANDB_JOB_TYPE", "compare")
    text = """
description: One tiny task.
tasks:
  - name: bsuite-memory-len-2
    env_steps: 300 * 3
    scores: [{of: bsuite, random: 0.5, optimal: 1.0, episodes: 300}, {of: success, random: 0.5, optimal: 1.0}]
    settings:
      network: {width: 8, head_width: 8}
      replay: {capacity: 2000, learn_length: 4, burn_in_length: 0}
      evaluation: {episodes: 8, first_episodes: 4, num_envs: 4, period: 450}
      actor: {num_envs: 10}
"""
    (tmp_path / "own.yaml").write_text(text)
    argv = ["compare", "--suite", str(tmp_path / "own.yaml"), "--agents", "dqn", "--seeds", "1"]
    argv += ["--wandb", "disabled", "--records", str(tmp_path / "records")]
    assert cli.main([*argv, "--runs-dir", str(tmp_path / "a")]) == 0
    first = capsys.readouterr().out
    (file,) = (tmp_path / "records").rglob("*.json")
    (metrics,) = (tmp_path / "a").glob("*/*/*/metrics.jsonl")
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    last = [row for row in rows if "train/episodes" in row][-1]
    assert last["train/episodes"] == 300, "in the budget, exactly"
    assert cli.main([*argv, "--runs-dir", str(tmp_path / "b")]) == 0
    second = capsys.readouterr().out
    assert not list((tmp_path / "b").glob("*/*/*/metrics.jsonl"))
    table = [
        text.partition("\nbsuite-memory-len-2\n")[2].partition("table and curves")[0]
        for text in (first, second)
    ]
    assert table[0] == table[1] and f"{last['train/total_success'] / 300:.1%}" in table[0]
    record = json.loads(file.read_text())
    assert record["result"]["code"] and record["result"]["machine"]


def test_the_example_of_the_page_is_a_suite(tmp_path):
    page = (_ROOT / "docs/suites.md").read_text(encoding="utf-8")
    suite = _suite(tmp_path, page.partition("```yaml\n")[2].partition("```")[0])
    assert [task.name for task in suite.tasks] == ["bsuite-memory-len-5", "bsuite-memory-len-10", _MAZE]
    configs = compare.plan(["mingru"], [1], None, {}, suite)
    assert [config.network.memory_length for config in configs] == [7, 12, 12]
    for name in suites.known():
        assert f"| `{name}` |" in page


def test_a_rule_is_arithmetic_and_nothing_else():
    assert suites.env_steps("10_000 * (n + 1)", 4) == 50_000
    assert suites.env_steps(" 7 ", None) == 7 and suites.env_steps("1e3 / 2", None) == 500
    for rule, n in (
        ("n", None),
        ("m", 3),
        ("n ** 9", 3),
        ("-1", 1),
        ("0.5", 1),
        ("1e400", 1),
        ("(" * 300, 1),
    ):
        with pytest.raises(ValueError, match="no such number"):
            suites.env_steps(rule, n)
    with pytest.raises(ConfigError):
        suites.read("nothing")
