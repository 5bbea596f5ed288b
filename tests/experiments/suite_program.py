"""A small suite, compared by a program that behaves like a training."""

import contextlib
import io
import json

import pytest

from dtqn.experiments import compare, comparison_pictures, options, suites
from tests.experiments.comparison_program import draw_nothing, folders, stand_in

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
      - {of: mmer, optimal: 1, random: -1, epoch_env_steps: 200, solved_above: 0.6}
      - {of: success, random: 0.5, optimal: 1.0}
    settings: {learner: {gamma: 0.9}, actor: {num_envs: 10}}
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
    stand_in(tmp_path, monkeypatch)
    scores = {
        env: {
            agent: [{"training": training, "greedy": greedy} for training, greedy in seeds]
            for agent, seeds in agents.items()
        }
        for env, agents in FIGURES.items()
    }
    (tmp_path / "scores.json").write_text(json.dumps(scores))
    (tmp_path / "code").write_text("abc")
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
        own = options.Comparison(agents="dqn", jobs=parallel, baseline="dqn", **folders(folder), **given)
        with contextlib.redirect_stdout(out):
            code = compare.compare(compare.Comparison(own, own.out, configs, {}, suite=suite))
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
