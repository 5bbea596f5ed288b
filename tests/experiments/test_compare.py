"""Comparisons of a small program that behaves like a training, and one of real trainings."""

import csv
import functools
import io
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import envs
from dtqn import cli
from dtqn.acting.evaluation import EvaluationResult
from dtqn.experiments import compare, comparison_forms, comparison_notes, jobs
from dtqn.experiments.comparison_table import agent_figures, run_figures
from dtqn.experiments.records import Outcome
from dtqn.experiments.scores import SUCCESS, Score
from dtqn.settings.config import ConfigError
from dtqn.settings.presets import resolve, to_yaml
from dtqn.training import chance
from dtqn.training.directory import RunDir, resolved
from dtqn.training.metrics import read_rows
from tests.reference import statistics_twin as twin

_ROOT = Path(__file__).parents[2]
_TASK = "gridverse-memory-7x7"
_STAND_IN = """
import json, pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[2])
here = pathlib.Path(__file__).parent
config = dict(line.split(": ", 1) for line in (folder / "config.yaml").open() if ": " in line)
config = {name: value.strip() for name, value in config.items()}  # the names without a group are these
env, agent, seed = config["env"], config["agent"], int(config["seed"])
scores = json.loads((here / "scores.json").read_text())[env][agent][seed - 1]
caught = []
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: caught.append(number))
with (here / "begun").open("a") as file:
    file.write(f"{env} {agent} {seed}\\n")
if scores == "fails":
    sys.exit("error: the loss is not finite")
saved = folder / "saved"
done = int(saved.read_text()) if saved.exists() else 0
for i in range(done, len(scores)):
    success = scores[i] if env.startswith("gridverse") else None
    row = {"env_steps": 100 * (i + 1) + seed, "learner_steps": 10 * (i + 1), "seconds": 6.0 * (i + 1) * seed}
    row |= {"eval/success": success, "eval/success_low": success, "eval/success_high": success}
    row |= {"eval/return": 10 * scores[i] - 5, "eval/length": 7.0, "eval/episodes": 50}
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(row | {"learner/loss": 0.1}) + "\\n")
        file.write(json.dumps({"env_steps": row["env_steps"] + 1, "seconds": row["seconds"]}) + "\\n")
    time.sleep(0.01)
    held = (here / "held").exists() and (here / "held").read_text() == f"{agent} {seed}"
    while held and i == 1 and not caught:
        time.sleep(0.01)
    if caught and i + 1 < len(scores):
        saved.write_text(str(i + 1))
        sys.exit(128 + caught[0])
ends_at = [json.loads(config[name]) for name in ("total_env_steps", "stop_at_success", "stop_at_return")]
ends_at = ends_at[: 2 if ends_at[2] is None else 3]
result = {"ends_at": ends_at, "parameters": 100 + len(agent)}
result |= {"threads": int(config["threads"]), "device": "cpu", "program": {"dtqn": "1.2", "torch": "3.4"}}
(folder / "result.json").write_text(json.dumps(result))
"""
_CHANCE = EvaluationResult(0.125, 0.1, 0.15, -3.25, 9.0, 50)
_SCORES = {
    "gtrxl": [[0.1, 0.5, 0.92, 0.96], [0.2, 0.91, 0.85, 1.0], [0.1, 0.2, 0.3, 0.4]],
    "dtqn": [[0.0, 0.1, 0.8, 0.9], [0.0, 0.95, 1.0, 1.0], [0.1, 0.2, 0.9, 0.96]],
    "drqn": [[0.0, 0.1, 0.1, 0.4], [0.0, 0.3, 0.4, 0.4], [0.2, 0.6, 0.7, 0.8]],
}
_MORE = {
    "gtrxl": [[0.96], [1.0], [0.4], [0.9], [0.95]],
    "dtqn": [[0.9], [1.0], [0.96], [0.2], [0.5]],
    "drqn": [[0.4], [0.8]],
}


class _View:
    """Looks at every change, in place of the terminal."""

    def __init__(self, runs, at_change):
        self.runs, self._at_change = runs, at_change

    def update(self, changed):
        self._at_change(self.runs)

    def say(self, text):
        pass

    def close(self):
        pass


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A function that compares by the small program, and returns the exit code and what was printed."""
    (tmp_path / "program.py").write_text(_STAND_IN)
    program = [sys.executable, "-I", "-S", str(tmp_path / "program.py")]
    monkeypatch.setattr(compare, "Pool", functools.partial(jobs.Pool, program=program))
    monkeypatch.setattr(jobs, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(chance, "play", lambda config, episodes: _CHANCE)

    draw = compare.plots.comparison

    def run(scores, *, baseline=None, at_change=lambda runs: None, parallel=2, settings=None, pictures=False):
        monkeypatch.setattr(compare.plots, "comparison", draw if pictures else _draw_nothing)
        (tmp_path / "scores.json").write_text(json.dumps(scores))
        monkeypatch.setattr(compare, "open_runs_view", lambda out, runs: _View(runs, at_change))
        given = {"total_env_steps": "400"} | (settings or {})
        configs = [
            resolve(None, given | {"env": env, "agent": agent, "seed": str(seed)}, {}).settled(free_cores=1)
            for env, agents in scores.items()
            for agent, seeds in agents.items()
            for seed in range(1, len(seeds) + 1)
        ]
        out = io.StringIO()
        code = compare.compare(
            configs, parallel, tmp_path / "runs", tmp_path / "out", baseline, given, out=out
        )
        return code, out.getvalue()

    return run


def _kill_amid(tmp_path, agent, seed, number):
    """Let this run wait after its second evaluation, and send ourselves a signal when it is there."""
    (tmp_path / "held").write_text(f"{agent} {seed}")
    sent = []

    def at_change(runs):
        finished = sum(run.state == "finished" for run in runs)
        for run in runs:
            if (
                run.name == f"{_TASK} {agent} seed {seed}"
                and len(run.rows) == 4
                and not sent
                and finished >= 2
            ):
                sent.append(os.kill(os.getpid(), number))

    return at_change


def _draw_nothing(panels, path, clock, note):
    """Pictures take most of the time that a comparison takes."""
    path.write_bytes(b"a picture")


def _config(agent, seed):
    return resolve(None, {"total_env_steps": "400", "seed": str(seed), "env": _TASK, "agent": agent}, {})


def _table(tmp_path):
    return json.loads((tmp_path / "out/table.json").read_text())


def test_killed_twice_it_ends_with_the_right_table(run, tmp_path):
    scores = {_TASK: _SCORES}
    amid = _kill_amid(tmp_path, "gtrxl", 3, signal.SIGINT)
    code, printed = run(scores, baseline="drqn", at_change=amid)
    assert code == 130
    assert re.fullmatch(r"interrupted, [2-9] of 9 runs finished; the same command goes on\n", printed)
    assert list((tmp_path / "out").iterdir()) == []
    amid = _kill_amid(tmp_path, "drqn", 2, signal.SIGTERM)
    assert run(scores, baseline="drqn", at_change=amid)[0] == 143
    assert run(scores, baseline="drqn")[0] == 0
    begun = (tmp_path / "begun").read_text().splitlines()
    for agent in _SCORES:
        for seed in (1, 2, 3):
            saved = RunDir.of_config(_config(agent, seed), tmp_path / "runs").path / "saved"
            assert begun.count(f"{_TASK} {agent} {seed}") == 1 + saved.exists(), (
                "once, but for what was saved"
            )
            assert saved.exists() or (agent, seed) not in [("gtrxl", 3), ("drqn", 2)]
    _check_table_by_hand(tmp_path)
    before = _files(tmp_path / "out")
    assert run(scores, baseline="drqn")[0] == 0
    assert len((tmp_path / "begun").read_text().splitlines()) == len(begun)
    assert _files(tmp_path / "out") == before
    names = {f"table.{kind}" for kind in ("txt", "md", "csv", "json")}
    pictures = {f"curves-{clock}.{kind}" for clock in ("env-steps", "minutes") for kind in ("png", "svg")}
    assert set(before) == names | pictures | {"random.json"}


def _files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _check_table_by_hand(tmp_path):
    """Every number of the table once more, from the metrics files alone."""
    table = _table(tmp_path)
    final, whole = {}, {}
    for path in (tmp_path / "runs").glob("*/*/*/metrics.jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        rows = [row for row in rows if "eval/return" in row]
        agent = path.parents[1].name
        whole.setdefault(agent, []).append(rows)
        final.setdefault(agent, []).append(rows[-1])
    *lines, floor = table["table"]
    assert [line["agent"] for line in lines] == list(_SCORES)
    assert (floor["agent"], floor["success"], floor["return"]) == ("random", 0.125, -3.25)
    for line in lines:
        rows = final[line["agent"]]
        successes = [row["eval/success"] for row in rows]
        assert sorted(successes) == sorted(scores[-1] for scores in _SCORES[line["agent"]])
        assert (line["env"], line["finished"], line["runs"], line["score"]) == (_TASK, 3, 3, "success")
        assert line["success"] == pytest.approx(sum(successes) / 3)
        assert line["return"] == pytest.approx(sum(row["eval/return"] for row in rows) / 3)
        assert (line["minimum"], line["maximum"]) == (min(successes), max(successes))
        assert (line["iqm"], line["improvement"]) == (None, None), "three runs"
        steps, minutes = [], []
        for run_rows in whole[line["agent"]]:
            solved = [row for row in run_rows if row["eval/success"] >= 0.9]
            steps.append(solved[0]["env_steps"] if solved else float("inf"))
            minutes.append(solved[0]["seconds"] / 60 if solved else float("inf"))
        reached = sum(value < float("inf") for value in steps)
        assert line["reached_90"] == reached
        expected = (sorted(steps)[1], sorted(minutes)[1]) if reached > 1 else (None, None)
        assert (line["env_steps_to_90"], line["minutes_to_90"]) == expected
        assert line["parameters"] == 100 + len(line["agent"])
        rates = [row["learner_steps"] / row["seconds"] for row in rows]
        assert line["updates_per_second"] == pytest.approx(sum(rates) / 3)


def test_a_first_stage_solves_nothing():
    """Fifty good episodes, of which the other 450 were not played, are no evaluation at 90 %."""
    result = {"parameters": 5, "threads": 1, "device": "cpu", "program": {}}
    rows = []
    for steps, success, stage in ((100, 0.96, 1), (200, 0.95, 2), (300, 0.8, 2)):
        figures = {"eval/success": success, "eval/return": 1.0, "eval/length": 3.0, "eval/episodes": 50}
        clocks = {"env_steps": steps, "learner_steps": steps, "seconds": 0.6 * steps}
        rows.append({**clocks, **figures, "eval/stage": stage})
    found = run_figures(Outcome(_config("gtrxl", 1), "finished", rows, result, "run", ""), [SUCCESS])
    assert (found.env_steps_to_90, found.minutes_to_90, found.success) == (200, 2.0, 0.8)


def _near(found, interval):
    assert (found["low"], found["high"]) == pytest.approx(interval, abs=0.02)


def test_the_same_figures_in_every_form(run, tmp_path):
    """Two agents with five runs each, and one with two."""
    code, printed = run({_TASK: _MORE}, baseline="dtqn")
    assert code == 0
    lines = {line["agent"]: line for line in _table(tmp_path)["table"]}
    text = (tmp_path / "out/table.txt").read_text()
    assert text in printed
    assert printed.rstrip().endswith(f"report   python -m dtqn report {tmp_path / 'out'}")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out/table.csv").read_text())))
    assert [row["agent"] for row in rows] == [*_MORE, "random"]
    markdown = [
        line.split("|")[1:-1] for line in (tmp_path / "out/table.md").read_text().splitlines() if "|" in line
    ]
    header = [cell.strip() for cell in markdown[0]]
    for row, cells in zip(rows, markdown[2:], strict=True):
        line, cell = lines[row["agent"]], dict(zip(header, map(str.strip, cells), strict=True))
        assert float(row["success"]) == line["success"]
        assert cell["success"] == f"{line['success']:.1%}"
        for value in cell.values():
            assert value in text
        iqm, better = line["iqm"], line["improvement"]
        assert (iqm is None, better is None) == (row["agent"] in ("drqn", "random"), row["agent"] != "gtrxl")
        scores = [scores[-1] for scores in _MORE.get(row["agent"], [])]
        if iqm is None:
            assert (row["iqm"], row["iqm_low"], cell["IQM of success [95 %]"]) == ("", "", "-")
        else:
            assert iqm["value"] == pytest.approx(twin.iqm(scores))
            _near(iqm, twin.interval(lambda drawn: twin.iqm(drawn), [scores]))
            assert float(row["iqm_low"]) == iqm["low"]
            shown = f"{iqm['value']:.1%} [{iqm['low']:.1%}, {iqm['high']:.1%}]"
            assert cell["IQM of success [95 %]"] == shown
        if better is None:
            assert (row["improvement"], cell["P(better than dtqn) [95 %]"]) == ("", "-")
        else:
            others = [scores[-1] for scores in _MORE["dtqn"]]
            assert better["value"] == pytest.approx(twin.improvement(scores, others))
        if row["agent"] == "random":
            assert (cell["runs"], cell["success, min to max"], row["minimum"]) == ("-", "-", "")
        else:
            assert (float(row["minimum"]), float(row["maximum"])) == (min(scores), max(scores))
            assert cell["success, min to max"] == f"{min(scores):.1%} to {max(scores):.1%}"
    few = "Fewer than 5 runs of drqn: minimum and maximum, no interval, no P(better). These figures do not "
    some = "Fewer than 10 runs of gtrxl, dtqn: intervals are narrower than they say."
    _, _, _, _, _, *under = text.splitlines()[1:]
    under = under[: under.index("")]
    assert _table(tmp_path)["under"] == {_TASK: under}, "right below the table"
    assert any(note.startswith(few) for note in under) and any(note.startswith(some) for note in under)
    for note in under:
        assert f"\n{note}\n" in (tmp_path / "out/table.md").read_text()


def test_three_runs_show_no_interval_anywhere(run, tmp_path):
    run({_TASK: _SCORES}, baseline="dtqn", pictures=True)
    for name in ("table.txt", "table.md"):
        text = (tmp_path / "out" / name).read_text()
        assert "95 %" not in text and "IQM" not in text and "[" not in text, name
        assert text.count("P(better)") == 1, "in the note that says why there is none"
    assert "Fewer than 5 runs of gtrxl, dtqn, drqn" in text
    for row in csv.DictReader(io.StringIO((tmp_path / "out/table.csv").read_text())):
        assert not any(value for name, value in row.items() if name.startswith(("iqm", "improvement")))
    for clock in ("env-steps", "minutes"):
        picture = (tmp_path / f"out/curves-{clock}.svg").read_text()
        assert "line and band: mean, minimum and maximum of runs" in picture and "95 %" not in picture
        assert "gtrxl (n = 3)" in picture and "random actions" in picture


def test_agents_that_differ_in_more_than_memory_are_told_below_the_table(run, tmp_path):
    scores = {agent: [[0.5]] for agent in ("gtrxl", "gru", "drqn", "adrqn")}
    run({_TASK: scores})
    under = _table(tmp_path)["under"][_TASK]
    assert under[:2] == [
        "Not alike in more than memory: gtrxl, gru, adrqn with the previous action, drqn without.",
        "Not alike in more than memory: gtrxl, gru with a dueling head, drqn, adrqn without.",
    ]
    run({_TASK: {agent: [[0.5]] for agent in ("gtrxl", "lstm", "gru", "dtqn")}})
    assert not any("Not alike" in note for note in _table(tmp_path)["under"][_TASK])


def test_random_actions_are_played_once(tmp_path, monkeypatch):
    """On the seeds of a first evaluation, the number of episodes that one has, counted by hand."""
    from dtqn.training import setup
    from dtqn.training.trainer import Trainer

    flags = {"env": "t-maze-passive-10", "agent": "dqn", "evaluation.episodes": "9"}
    flags |= {"evaluation.num_envs": "4", "actor.num_envs": "2", "replay.capacity": "2000"}
    config, again = (resolve(None, flags | {"seed": seed}, {}) for seed in ("5", "6"))
    seeds, make = [], setup.make_env

    def make_env(config, copies, seed):
        seeds.append((copies, seed.entropy, seed.spawn_key))
        return make(config, copies, seed)

    monkeypatch.setattr(chance, "make_env", make_env)
    found = chance.measured([config, again], tmp_path / "random.json")
    assert list(found) == ["t-maze-passive-10"]
    assert chance.measured([config, again], tmp_path / "random.json") == found and len(seeds) == 1
    monkeypatch.setattr(setup, "make_env", make_env)
    trainer = Trainer(config)
    trainer.evaluator.ask(trainer.network, 0, 0, None, at_end=True)
    assert trainer.evaluator.evaluated() is not None
    assert seeds[0] == seeds[-1]
    # Once more with plain loops: copy i plays every 4th episode.
    env, draws = make(config, 4, setup.seed_of(config, setup.Stream.EVALUATION, 0)), np.random.default_rng(5)
    env.reset()
    returns, current, begins = [[], [], [], []], np.zeros(4), np.zeros(4, bool)
    while any(len(played) < quota for played, quota in zip(returns, (3, 2, 2, 2), strict=True)):
        _, reward, terminated, truncated, _ = env.step(draws.integers(env.single_action_space.n, size=4))
        for i in range(4):
            current[i] = 0 if begins[i] else current[i] + reward[i]
            begins[i] = terminated[i] or truncated[i]
            if begins[i]:
                returns[i].append(current[i])
    counted = [*returns[0][:3], *(value for played in returns[1:] for value in played[:2])]
    result = found["t-maze-passive-10"]
    assert (result.episodes, result.episode_return) == (9, pytest.approx(sum(counted) / 9))
    longer = resolve(None, flags | {"seed": "5", "evaluation.episodes": "11"}, {})
    assert chance.measured([longer], tmp_path / "random.json")["t-maze-passive-10"].episodes == 11
    (tmp_path / "random.json").write_text("[{")
    assert chance.measured([config], tmp_path / "random.json") == found, "what cannot be read is measured"


def test_the_table_says_what_is_the_same_for_all(run, tmp_path):
    run({_TASK: _SCORES}, settings={"learner.n_step": "5"})
    notes = _table(tmp_path)["notes"]
    for said in (
        "Budget: 400 env steps, for every agent.",
        "settings given for all alike: total_env_steps 400, learner.n_step 5.",
        "Episodes in a full evaluation: 500, for every agent.",
        "Evaluations: 4, for every agent.",
        "Evaluation seeds: evaluation i of the runs with seed k has the same for every agent.",
    ):
        assert any(said in note for note in notes), said
    assert (tmp_path / "out/table.txt").read_text().endswith("\n".join(notes) + "\n")
    assert "P(better" not in (tmp_path / "out/table.txt").read_text()


def test_an_evaluation_has_the_same_seeds_for_every_agent(monkeypatch):
    from dtqn.training import setup
    from dtqn.training.trainer import Trainer

    seen, make = {}, setup.make_env
    tiny = {"actor.num_envs": "2", "replay.capacity": "2000", "evaluation.episodes": "3"}
    for agent in ("dqn", "gru"):

        def make_env(config, copies, seed):
            seen.setdefault(config.agent, []).append((copies, seed.entropy, seed.spawn_key))
            return make(config, copies, seed)

        monkeypatch.setattr(setup, "make_env", make_env)
        trainer = Trainer(resolve(None, tiny | {"agent": agent, "task.time_limit": "5"}, {}))
        for _ in range(2):
            trainer.evaluator.ask(trainer.network, 0, 0, None, at_end=False)
            assert trainer.evaluator.evaluated() is not None
    assert seen["dqn"] == seen["gru"]
    assert len(set(seen["dqn"])) == 3, "training and either evaluation have seeds of their own"


def test_a_file_that_makes_two_agents_one_is_refused(tmp_path):
    """Such as the configuration of a run, or the best one of a sweep: it holds every setting."""
    file = tmp_path / "full.yaml"
    file.write_text(to_yaml(resolved(_config("gtrxl", 1))))
    for agents in (["gtrxl", "dqn"], ["dqn"], ["gtrxl", "my=dqn+network.width=8"], ["my=dqn"]):
        with pytest.raises(ConfigError, match=r"^agent is .*full.yaml holds every setting of gtrxl"):
            compare.plan(agents, [1, 2], file, {})
    assert len(compare.plan(["gtrxl"], [1, 2], file, {})) == 2
    mine = compare.plan(["gtrxl", "my=gtrxl+network.width=16"], [1, 2], file, {})
    assert [config.network.width for config in mine] == [64, 64, 16, 16]
    file.write_text("network: {core: gru}")
    with pytest.raises(ConfigError, match=r"full.yaml: with it lstm and gru are one agent, alike in every"):
        compare.plan(["lstm", "gru"], [1, 2], file, {"env": _TASK})
    file.write_text("network: {width: 16}")
    assert len(compare.plan(["gtrxl", "dqn"], [1, 2], file, {"env": _TASK})) == 4


def test_agents_with_other_options_of_the_task_are_told_of():
    def told(*agents):
        outcomes = [
            Outcome(resolve(None, {"env": _TASK, "agent": agent}, {}), "waiting", [], None, "", "not yet")
            for agent in agents
        ]
        runs = [run_figures(outcome, [SUCCESS]) for outcome in outcomes]
        notes = comparison_notes.notes(outcomes, runs, None, {}, None)
        return [note for note in notes if note.startswith("Task options")]

    assert told("gtrxl", "wide=gtrxl+network.width=16") == []
    assert told("gtrxl", "easy=gtrxl+task.time_limit=30") == [
        f"Task options DIFFER: {_TASK} gtrxl seed 1: none; {_TASK} easy seed 1: time_limit 30. "
        "random is of the first of these."
    ]


def test_a_published_agent_with_other_settings_is_told_of():
    """Such as a suite's or those of flags, which lie over it; a task's preset does not."""

    def told(**flags):
        config = resolve(None, {"env": _TASK} | flags, {})
        outcome = Outcome(config, "waiting", [], None, "", "not yet")
        notes = comparison_notes.notes([outcome], [run_figures(outcome, [SUCCESS])], None, {}, None)
        return [note for note in notes if note.startswith("Not as published")]

    assert told(agent="dqn-paper") == [] == told(agent="gtrxl", **{"learner.n_step": "7"})
    changed = {"learner.n_step": "7", "actor.num_envs": "4"}
    assert told(agent="dqn-paper", **changed) == [
        "Not as published: dqn-paper has other learner.n_step, actor.num_envs here."
    ]


def _finished(episodes, **flags):
    """A run whose last evaluation has so many episodes, and whose first row has 40 of training."""
    config = resolve(None, {"env": _TASK, "agent": "dqn"} | flags, {})
    figures = {"eval/success": 0.5, "eval/return": 0.5, "eval/length": 3.0, "eval/episodes": episodes}
    row = {"env_steps": 9, "learner_steps": 1, "seconds": 1.0, "train/episodes": 40, "train/total_success": 9}
    result = {"parameters": 5, "threads": 1, "device": "cpu", "program": {}}
    return Outcome(config, "finished", [row | figures], result, "run", "")


def test_a_metric_has_a_column_and_who_lacks_it_is_named():
    """Of two agents: one run of the second has no such figure, so the agent has none."""
    name, metrics = "replay/delta_q_last", ["learner/loss", "replay/delta_q_last"]
    means = {"dqn": [{"learner/loss": 0.5}] * 2, "lstm": [{"learner/loss": 2.0, name: 0.25}, {name: 0.75}]}
    outcomes = [
        _finished(500, agent=agent, seed=str(seed))._replace(metrics=found)
        for agent, each in means.items()
        for seed, found in enumerate(each, 1)
    ]
    outcomes.append(_finished(500, agent="gru")._replace(result=None, error="it failed"))
    runs = [run_figures(outcome, [SUCCESS], metrics) for outcome in outcomes]
    floor = {_TASK: EvaluationResult(0.0, 0.0, 0.1, 0.0, 3.0, 9)}
    dqn, lstm, gru, _ = lines = agent_figures(runs, None, floor, {_TASK: [SUCCESS]})
    assert dqn.beside == {"learner/loss": 0.5, name: None}
    assert lstm.beside == {"learner/loss": None, name: 0.5}
    assert gru.beside == {"learner/loss": None, name: None}
    shown = [[comparison_forms.cells(line, None)[metric] for metric in metrics] for line in lines]
    assert shown == [["0.5", "-"], ["-", "0.5"], ["-", "-"], ["-", "-"]]
    assert comparison_notes.of_metrics(metrics, runs) == [
        f"learner/loss, {name}: the mean over the second half of a run, then over runs.",
        f"No learner/loss in: {_TASK} lstm seed 2.",
        f"No {name} in: {_TASK} dqn seeds 1, 2.",
    ]
    assert comparison_notes.of_metrics([], runs) == []


def test_a_last_evaluation_of_fewer_episodes_is_told_of():
    def told(*outcomes):
        runs = [run_figures(outcome, [SUCCESS]) for outcome in outcomes]
        notes = comparison_notes.notes(outcomes, runs, None, {}, None)
        return [note for note in notes if note.startswith("Episodes of the last")]

    assert told(_finished(500, seed="1"), _finished(500, seed="2")) == []
    assert told(_finished(500, seed="1"), _finished(50, seed="2")) == [
        f"Episodes of the last evaluation DIFFER: {_TASK} dqn seed 1: 500; {_TASK} dqn seed 2: 50."
    ]


def test_a_finished_run_without_the_score_is_named_and_in_no_figure():
    """Its first row of metrics has more training episodes than the score is of."""
    run, score = _finished(500), Score("bsuite", episodes=39)
    found = run_figures(run, [score, SUCCESS])
    why = "its first row of metrics has more than 39 training episodes; give a smaller metrics_every"
    assert comparison_notes.missing([run], [found]) == [
        f"FINISHED, in no figure: {_TASK} dqn seed 1, no training success: {why} (run)"
    ]
    assert run_figures(run, [Score("bsuite", episodes=40)]).score == 9 / 40
    lines = agent_figures(
        [
            run_figures(run, [SUCCESS, score]),
            run_figures(_finished(500, seed="2"), [SUCCESS, Score("bsuite")]),
        ],
        None,
        {_TASK: EvaluationResult(0.0, 0.0, 0.1, 0.0, 3.0, 9)},
        {_TASK: [SUCCESS, score]},
    )
    assert (lines[0].finished, lines[0].success, lines[0].beside) == (2, 0.5, {"training success": None})


def test_an_agent_has_no_line_for_a_task_that_it_did_not_run():
    """Two runs on different tasks are no comparison, but have a report."""
    other = _finished(500, env="t-maze-passive-20", agent="lstm")
    runs = [run_figures(run, [SUCCESS]) for run in (_finished(500), other)]
    floor = EvaluationResult(0.0, 0.0, 0.1, 0.0, 3.0, 9)
    envs = [run.env for run in runs]
    lines = agent_figures(runs, None, dict.fromkeys(envs, floor), {env: [SUCCESS] for env in envs})
    named = [(line.env, line.agent) for line in lines]
    assert named[:4] == [(_TASK, "dqn"), (_TASK, "random"), (envs[1], "lstm"), (envs[1], "random")]
    assert [agent for _, agent in named[4:]] == ["dqn", "lstm", "random"], "the table of all tasks"


@pytest.mark.parametrize("stops", [None, "success", "return"])
def test_what_is_not_the_same_for_all_is_said(run, tmp_path, stops):
    """Runs that end early have fewer evaluations, which is as it should be."""
    settings = {f"stop_at_{stops}": "0.9", "evaluation.period": "50"} if stops else {}
    run({_TASK: {"gtrxl": [[0.1, 0.2]], "drqn": [[0.1, 0.2, 0.3]]}}, settings=settings)
    notes = _table(tmp_path)["notes"]
    (note,) = [note for note in notes if note.startswith("Evaluations")]
    early = [note for note in notes if note.startswith("Runs end early")]
    assert early == ([f"Runs end early at {stops}: 0.9, for every agent."] if stops else [])
    if stops:
        assert note == "Evaluations: one for each 50 env steps, until a run ends, for every agent."
    else:
        assert note == f"Evaluations DIFFER: {_TASK} gtrxl seed 1: 2; {_TASK} drqn seed 1: 3."


def test_a_failed_run_is_named_and_the_table_is_of_the_others(run, tmp_path):
    scores = {_TASK: {"gtrxl": [[0.5], "fails", [0.7]], "dtqn": ["fails"], "drqn": [[0.3], [0.6]]}}
    code, printed = run(scores, baseline="drqn")
    assert code == 1
    first, second, third, _ = _table(tmp_path)["table"]
    assert (first["finished"], first["runs"], first["success"]) == (2, 3, pytest.approx(0.6))
    assert (second["finished"], second["success"], second["iqm"], second["improvement"]) == (
        0,
        None,
        None,
        None,
    )
    assert third["success"] == pytest.approx(0.45)
    failed = [line for line in printed.splitlines() if line.startswith("FAILED")]
    where = RunDir.of_config(_config("gtrxl", 2), tmp_path / "runs").path
    why = "exit code 1: error: the loss is not finite"
    assert failed[0] == f"FAILED, in no figure: {_TASK} gtrxl seed 2, {why} ({where})"
    assert f"{_TASK} dtqn seed 1" in failed[1] and len(failed) == 2
    assert "2 of 3" in printed
    scores[_TASK]["gtrxl"][1], scores[_TASK]["dtqn"][0] = [0.8], [0.1]
    assert run(scores, baseline="drqn")[0] == 0, "what failed is tried again"
    assert _table(tmp_path)["table"][0]["success"] == pytest.approx(2 / 3)


_FIVE = {
    "gtrxl": [[0.9], [1.0], [0.8], [0.95], [0.7]],
    "dqn": [[0.2], [0.3], [0.25], [0.1], [0.8]],
}


def test_several_tasks_have_a_line_for_all(run, tmp_path):
    other = "gridverse-memory-four-rooms-7x7"
    tasks = {_TASK: _FIVE, other: {"gtrxl": [[0.5], [0.6], [0.4], [0.5], [0.9]], "dqn": _FIVE["dqn"]}}
    run(tasks, baseline="dqn")
    line, _, floor = _table(tmp_path)["table"][6:]
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
    assert line["improvement"]["value"] == pytest.approx(twin.mean_improvement(scores, theirs))
    ceiling = envs.spec(other).success_ceiling
    assert f"Ceiling: in {other} no agent can exceed {ceiling:.1%} success." in _table(tmp_path)["notes"]
    assert (
        "seeds" not in (tmp_path / "out/table.txt").read_text().partition("all tasks")[2].partition("\n\n")[0]
    )


def test_pooled_figures_need_five_runs_on_each_task(run, tmp_path):
    tasks = {_TASK: _FIVE, "gridverse-memory-5x5": {agent: runs[:4] for agent, runs in _FIVE.items()}}
    tasks["gridverse-memory-four-rooms-7x7"] = _FIVE
    run(tasks, baseline="dqn")
    table = _table(tmp_path)
    by_task = {env: [line for line in table["table"] if line["env"] == env] for env in [*tasks, "all tasks"]}
    for env, lines in by_task.items():
        enough = env in (_TASK, "gridverse-memory-four-rooms-7x7")
        assert (lines[0]["iqm"] is not None, lines[0]["improvement"] is not None) == (enough, enough), env
    assert table["under"]["all tasks"][-1].startswith("Fewer than 5 runs on a task of gtrxl, dqn:")


def test_returns_of_different_tasks_are_not_averaged(run, tmp_path):
    tasks = {"CartPole-v1": _FIVE, _TASK: _FIVE}
    assert run(tasks, baseline="dqn")[0] == 0
    first, *_, both, _, floor = _table(tmp_path)["table"]
    assert (first["score"], first["success"], first["reached_90"]) == ("return", None, None)
    assert first["return"] == pytest.approx(statistics.fmean([4.0, 5.0, 3.0, 4.5, 2.0]))
    assert first["iqm"]["value"] == pytest.approx(twin.iqm([4.0, 5.0, 3.0, 4.5, 2.0]))
    assert (both["env"], both["iqm"], both["minimum"]) == ("all tasks", None, None)
    assert both["improvement"]["value"] == pytest.approx(
        twin.improvement(*([r[0] for r in _FIVE[a]] for a in _FIVE))
    )
    assert (floor["success"], floor["return"]) == (None, None)
    assert "IQM of return [95 %]" in (tmp_path / "out/table.txt").read_text()


def test_the_curves_are_means_over_runs_at_every_evaluation():
    def job(seed, *points):
        config = resolve(None, {"seed": str(seed)}, {})
        rows = [{"env_steps": x, "seconds": 60.0 * x / seed, "eval/success": y} for x, y in points]
        return type("Job", (), {"config": config, "state": "finished", "rows": [{"env_steps": 1}, *rows]})

    runs = [job(1, (100, 0.0), (200, 1.0)), job(2, (100, 0.5), (200, 0.5)), job(3, (150, 0.4), (300, 0.7))]
    steps, minutes = compare._CLOCKS["env-steps"], compare._CLOCKS["minutes"]
    floors, scores = {_TASK: _CHANCE}, {_TASK: [Score("mmer"), SUCCESS._replace(observation_alone=0.25)]}
    (panel,) = compare._panels(runs, steps, floors, scores)
    (curve,) = panel.curves
    assert (panel.title, panel.name, panel.ceiling, panel.chance) == (_TASK, "success", 1.0, 0.125)
    assert panel.observation_alone == 0.25
    assert curve.x == [150.0, 200.0, 300.0], "from where every run has been evaluated"
    at_150, at_200, at_300 = [0.5, 0.5, 0.4], [1.0, 0.5, 0.5], [1.0, 0.5, 0.7]
    assert curve.y == pytest.approx([sum(at) / 3 for at in (at_150, at_200, at_300)]), "three runs: the mean"
    assert (curve.low, curve.high) == (pytest.approx([0.4, 0.5, 0.5]), pytest.approx([0.5, 1.0, 1.0]))
    (panel,) = compare._panels(runs[:1], minutes, floors, scores)
    assert (panel.curves[0].x, panel.curves[0].low, panel.curves[0].runs) == ([100.0, 200.0], None, 1)
    failed = [*runs[:1], type("Job", (), {"config": runs[1].config, "state": "failed", "rows": []})]
    assert compare._panels(failed, steps, floors, scores)[0].curves[0].y == [0.0, 1.0]
    five = [job(seed, (100, score)) for seed, score in enumerate([0.2, 0.95, 0.4, 0.9, 0.7], 1)]
    (curve,) = compare._panels(five, steps, floors, scores)[0].curves
    assert curve.y == [pytest.approx(twin.iqm([0.2, 0.95, 0.4, 0.9, 0.7]))]
    exact = twin.interval(lambda drawn: twin.iqm(drawn), [[0.2, 0.95, 0.4, 0.9, 0.7]])
    assert (curve.low[0], curve.high[0]) == pytest.approx(exact, abs=0.03)


def test_the_pictures_of_a_comparison(run, tmp_path):
    run({_TASK: _SCORES}, pictures=True)
    with Image.open(tmp_path / "out/curves-minutes.png") as image:
        assert image.size == (816, 480)
        colours = {colour for _, colour in image.convert("RGB").getcolors(1 << 20)}
    assert {(0, 114, 178), (213, 94, 0), (0, 158, 115)} <= colours
    picture = (tmp_path / "out/curves-env-steps.svg").read_text()
    for words in ("environment steps", "success rate", *_SCORES, _TASK, "minimum and maximum of runs"):
        assert f"<!-- {words}" in picture or words in picture, words


def _fails(capsys, *argv):
    assert cli.main(["compare", *argv]) == 2
    return capsys.readouterr().err.removeprefix("error: ").strip()


def test_seeds_are_counted_from_the_first(monkeypatch):
    compared = []
    monkeypatch.setattr(compare, "compare", lambda configs, *_, **__: compared.extend(configs) or 0)
    argv = ["compare", "--agents", "gtrxl,drqn", "--env", _TASK, "--seeds", "2"]
    assert cli.main(argv) == 0
    assert cli.main([*argv, "--first-seed", "7"]) == 0
    assert [(c.agent, c.seed) for c in compared] == [
        (agent, seed) for seeds in ((1, 2), (7, 8)) for agent in ("gtrxl", "drqn") for seed in seeds
    ]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "the following arguments are required: --agents"),
        (["--agents", "gtrxl,drqm"], "--agents is gtrxl,drqm: drqm is no agent; did you mean drqn.*"),
        (["--agents", "gtrxl", "--out", __file__], f"--out {__file__} cannot be written: File exists"),
        (["--agents", "gtrxl,,drqn"], "--agents is gtrxl,,drqn: a name is empty; must be names .*"),
        (["--agents", "gtrxl,gtrxl"], "--agents is gtrxl,gtrxl: gtrxl is there twice; .*"),
        (["--agents", "gtrxl,dqn", "--baseline", "drqn"], "--baseline is drqn: it is none of --agents.*"),
        (
            ["--agents", "gtrxl", "--metrics", "learner/los"],
            "--metrics is learner/los: learner/los is no such metric; did you mean learner/loss?; must be .*",
        ),
        (["--agents", "absent.yaml"], "--agents is absent.yaml: absent.yaml: there is no such file"),
        (["--agents", "gtrxl,a/b=dqn"], "--agents is gtrxl,a/b=dqn: a/b is no name; .*: NAME=dqn"),
        (
            ["--agents", "a=gtrxl,a=dqn"],
            "--agents is a=gtrxl,a=dqn: a is the name of two agents; give another",
        ),
        (["--agents", "gtrxl,a=gtrxl+network.wdth=3"], "network.wdth is no setting .from agent a.; did .*"),
        (["--agents", "gtrxl", "--seeds", "0"], "argument --seeds: 0 must be an integer of at least 1"),
        (
            ["--agents", "gtrxl", "--first-seed", "-1"],
            "argument --first-seed: -1 must be an integer of at least 0",
        ),
        (["--agents", "gtrxl", "--jobs", "x"], "argument --jobs: x must be an integer of at least 1"),
        (["--agents", "gtrxl", "--seed", "2"], "--seed is no option; did you mean --seeds.*"),
        (["--agents", "gtrxl", "--env", "x"], "env is x: unknown task .*"),
        (["--agents", "gtrxl", "--learner.n_step", "0"], "learner.n_step is 0 .*: must be an integer .*"),
        (["--agents", "gtrxl", "--env", "car-flag-continuous"], "env is car-flag-continuous: its actions .*"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(capsys, tmp_path, argv, message):
    assert re.fullmatch(
        message.replace("?", r"\?"), _fails(capsys, *argv, "--runs-dir", str(tmp_path / "runs"))
    )
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_what_is_to_be_run(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(compare, "compare", lambda *given, **_: asked.append(given) or 0)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    argv = "compare --env gridverse-memory-5x5,gridverse-memory-7x7 --agents gtrxl,dqn --seeds 2 --jobs 3"
    argv += f" --baseline dqn --runs-dir {tmp_path} --total-env-steps 1e4 --learner.n-step 5"
    assert cli.main(argv.split()) == 0
    configs, parallel, runs_dir, folder, baseline, given, own_agents = asked[0]
    assert [(config.env[-3:], config.agent, config.seed) for config in configs] == [
        (env, agent, seed) for env in ("5x5", "7x7") for agent in ("gtrxl", "dqn") for seed in (1, 2)
    ]
    assert {(config.total_env_steps, config.learner.n_step) for config in configs} == {(10_000, 5)}
    assert (parallel, runs_dir, baseline) == (3, tmp_path, "dqn")
    assert (given, own_agents) == ({"total_env_steps": "1e4", "learner.n_step": "5"}, [])
    assert re.fullmatch(r"2-tasks-[0-9a-f]{8}", folder.name) and folder.parent == tmp_path / "compare"


def test_a_folder_of_runs_that_is_a_file_is_one_line_by_the_name_of_its_option(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for more in ((), ("--out", str(tmp_path / "out"))):
        assert cli.main(["compare", "--agents", "dqn", "--runs-dir", str(tmp_path / "file"), *more]) == 2
        said = f"error: --runs-dir {tmp_path / 'file'} cannot be written: File exists\n"
        assert capsys.readouterr().err == said


def test_agents_from_files_and_by_variants(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(compare, "compare", lambda *given, **_: asked.append(given) or 0)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.yaml").write_text("network: {core: lru}")
    agents = "gtrxl,my.yaml,long=gtrxl+network.memory_length=80,wide=my.yaml+network.width=128"
    argv = f"compare --env {_TASK} --agents {agents} --seeds 1 --network.memory_length 7 --baseline long"
    assert cli.main(argv.split()) == 0
    configs, *_, own_agents = asked[0]
    found = [(c.agent, c.network.core, c.network.memory_length, c.network.width) for c in configs]
    assert found == [
        ("gtrxl", "gtrxl", 7, 64),
        ("my", "lru", 7, 64),
        ("long", "gtrxl", 80, 64),
        ("wide", "lru", 7, 128),
    ]
    assert own_agents == agents.split(",")[1:]
    directory = RunDir.of_config(configs[2], tmp_path / "runs")
    assert directory.path.parent.name == "long"
    directory.prepare(configs[2])
    (tmp_path / "my.yaml").unlink()
    assert directory.read_config() == resolved(configs[2]), "a resume reads the variant's settings"


_TINY = (
    "--env gridverse-memory-5x5 --agents dqn --seeds 1 --total-env-steps 4000 --warmup-env-steps 100 "
    "--metrics-every 50 --actor.num-envs 4 --replay.capacity 5000 --evaluation.episodes 4 "
    "--evaluation.num-envs 4 --evaluation.period 1000 --task.time-limit 20 --wandb disabled "
    "--network.width 8 --network.head-width 8"
)


def test_real_trainings_killed_twice(tmp_path, capsys, monkeypatch):
    """By SIGTERM, and by SIGKILL, which leaves the training without its parent: it saves and ends too."""
    monkeypatch.setenv("WANDB_JOB_TYPE", "compare")  # or the command sets it for the tests after this one
    argv = ["compare", *_TINY.split(), "--runs-dir", str(tmp_path / "runs")]
    metrics = None

    def rows():
        nonlocal metrics
        metrics = metrics or next(tmp_path.glob("runs/*/*/*/metrics.jsonl"), None)
        return len(read_rows(metrics)) if metrics else 0

    def terminate():
        while not rows() and not given_up.is_set():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    given_up = threading.Event()
    killer = threading.Thread(target=terminate)
    before = signal.signal(signal.SIGTERM, lambda *_: pytest.fail("the comparison has ended by itself"))
    killer.start()
    try:
        assert cli.main(argv) == 143
    finally:
        given_up.set()
        killer.join()
        signal.signal(signal.SIGTERM, before)
    assert "interrupted" in capsys.readouterr().out
    least = rows() + 1  # written by the next start
    command = [sys.executable, "run.py", *argv]
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as program:
        while rows() < least:
            assert program.poll() is None
            time.sleep(0.02)
        program.kill()
        assert "interrupted" not in program.communicate(timeout=120)[0]
    directory = RunDir(metrics.parent)
    until = time.monotonic() + 120
    while directory.in_use:  # an orphan that trained on would end by itself, but without saying this:
        assert time.monotonic() < until
        time.sleep(0.02)
    assert directory.log.read_text().count("interrupted and saved") == 2
    assert cli.main(argv) == 0, "".join(capsys.readouterr())
    (path,) = tmp_path.glob("runs/compare/*/table.json")
    (run,) = json.loads(path.read_text())["runs"]
    last = [row for row in read_rows(metrics) if "eval/return" in row][-1]
    assert run["env_steps"] == last["env_steps"] >= 4000
    assert (run["success"], run["return"]) == (last["eval/success"], last["eval/return"])
    steps = [row["env_steps"] for row in read_rows(metrics)]
    assert steps == sorted(set(steps)) and run["evaluations"] == 4
    log = (metrics.parent / "output.log").read_text()
    assert "interrupted and saved" in log
    assert log.count("done in") == 1


def test_what_finished_runs_ran_on_is_told_whatever_is_asked_for_now(run):
    """Threads are not in the hash: the finished runs are kept, and were run with their own number."""
    scores = {_TASK: {"drqn": [[0.5]], "gtrxl": [[0.5]]}}
    _, text = run(scores)
    assert "Threads of a run: 1, for every agent.\n" in text
    assert "Device: cpu, for every agent.\nProgram: dtqn 1.2, torch 3.4, for every agent.\n" in text
    _, text = run(scores, settings={"threads": "2"})
    assert "Threads of a run: 1, for every agent.\n" in text
    _, text = run({_TASK: scores[_TASK] | {"dtqn": [[0.5]]}}, settings={"threads": "2"})
    assert (
        f"Threads of a run DIFFER: {_TASK} drqn seed 1: 1; {_TASK} gtrxl seed 1: 1; {_TASK} dtqn seed 1: 2."
        in text
    )
