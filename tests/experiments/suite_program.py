"""A small suite, compared by a program that behaves like a training."""

import functools
import io
import json
import sys

import pytest

from dtqn.experiments import compare, comparison_pictures, jobs, suites
from dtqn.training import chance_level
from tests.experiments.comparison_program import CHANCE, draw_nothing

MAZE = "t-maze-passive-10"
SUITE = """
description: A suite of a test.
figure_axis: length
settings:
  network: {width: 16, head_width: 8}
tasks:
  - name: bsuite-memory-len-{n}
    n: [1, 3]
    env_steps: 100
    env_steps_per_n: 100
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
SEEDS = range(1, 6)
FIGURES = {  # (success in training, greedy success) of five seeds
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


def suite_of(tmp_path, text=SUITE, share=1.0):
    (tmp_path / "own.yaml").write_text(text)
    return suites.read(str(tmp_path / "own.yaml"), share)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A function that compares by the small program in one of several clones: exit code and output."""
    (tmp_path / "program.py").write_text(_STAND_IN)
    (tmp_path / "scores.json").write_text(json.dumps(FIGURES))
    program = [sys.executable, "-I", "-S", str(tmp_path / "program.py")]
    monkeypatch.setattr(compare, "RunQueue", functools.partial(jobs.RunQueue, program=program))
    monkeypatch.setattr(jobs, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(chance_level, "play", lambda config, episodes: CHANCE)
    draw = comparison_pictures.plots.comparison

    def run(
        clone="a",
        *,
        agents=("mingru", "dqn"),
        seeds=SEEDS,
        records=True,
        pictures=False,
        parallel=4,
        **given,
    ):
        monkeypatch.setattr(comparison_pictures.plots, "comparison", draw if pictures else draw_nothing)
        suite = suite_of(tmp_path, share=given.pop("share", 1.0))
        configs = compare.plan(list(agents), seeds, None, {}, suite)
        out, folder = io.StringIO(), tmp_path / clone
        given |= {"records": tmp_path / "records.jsonl" if records else None}
        code = compare.compare(
            configs, parallel, folder / "runs", folder / "out", "dqn", {}, out=out, suite=suite, **given
        )
        return code, out.getvalue()

    return run


def table_of(tmp_path, clone="a"):
    return json.loads((tmp_path / clone / "out/table.json").read_text())


def begun_runs(tmp_path):
    file = tmp_path / "begun"
    return file.read_text().splitlines() if file.exists() else []


def lines_of(tmp_path):
    """The lines of the records that comparisons have left."""
    return (tmp_path / "records.jsonl").read_text().splitlines()
