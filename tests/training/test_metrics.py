import json
import math
import re
from pathlib import Path

import pytest

from dtqn import cli
from dtqn.training.metrics import METRICS, MetricsFile, fault, late_means, outcome, read_rows


def _row(number):
    return {"env_steps": 100 * number, "eval/success": None, "learner/loss": 0.5 / (number + 1)}


def test_rows_come_back_in_order(tmp_path):
    file = MetricsFile(tmp_path / "m.jsonl")
    for number in range(3):
        file.append(_row(number))
    file.sync()
    file.close()
    assert file.rows == 3
    assert read_rows(tmp_path / "m.jsonl") == [_row(0), _row(1), _row(2)]


@pytest.mark.parametrize("tail", [b"", b'{"env_st', b'{"env_steps": 3}', b"\0\0\0\n", b"garbage\n"])
def test_reopening_keeps_the_first_rows_and_drops_a_half_written_line(tmp_path, tail):
    path = tmp_path / "m.jsonl"
    path.write_bytes(b"".join(json.dumps(_row(n)).encode() + b"\n" for n in range(4)) + tail)
    assert read_rows(path) == [_row(n) for n in range(4)]
    file = MetricsFile(path, 2)
    file.append(_row(9))
    file.close()
    assert read_rows(path) == [_row(0), _row(1), _row(9)]


def test_a_number_that_a_metric_cannot_have_is_told():
    assert fault(_row(1) | {"eval/success": 2.5}) == "eval/success is 2.5; must be a number from 0 to 1"
    assert fault(_row(1) | {"eval/return": math.nan}).startswith("eval/return is nan; must be a number from")
    assert fault(_row(1) | {"learner/loss": 10**400}).startswith("learner/loss is 1000")
    assert fault(_row(1) | {"learner/loss": math.inf, "eval/success": 1}) == ""
    assert outcome({"eval/success": 0.5, "eval/success_low": 0.25}) == "success 50.0%"


def test_a_file_that_is_not_there_has_no_rows(tmp_path):
    assert read_rows(tmp_path / "none.jsonl") == []


def test_the_means_of_the_second_half():
    """By hand: rows at 50 of 100 steps or later count, those without the metric do not."""
    values = [(10, 9.0), (49, 7.0), (50, 1.0), (80, None), (90, 2.0), (100, 6.0)]
    rows = [{"env_steps": step, "learner/loss": value, "train/return": 5.0} for step, value in values]
    rows += [{"env_steps": step, "eval/value_estimate": float(step)} for step in (40, 60, 90)]
    rows += [{"env_steps": 100, "eval/return": 3.0, "replay/delta_q_last": 0.5, "actor/lead": 4.0}]
    assert late_means(rows) == {
        "learner/loss": 3.0, "replay/delta_q_last": 0.5, "eval/value_estimate": 75.0,
    }  # fmt: skip
    assert late_means([]) == {}


def test_a_metric_is_a_column_of_a_run(tmp_path):
    """All columns that a run can have are known, and no other: this agent has the rarest ones too."""
    options = {
        "env": "gridverse-memory-5x5", "network.core.adaptive_span": "true",
        "learner.auxiliary-weight": "0.01",
        "total-env-steps": "600", "warmup-env-steps": "200", "metrics-every": "200", "actor.num-envs": "4",
        "replay.capacity": "2000", "replay.learn-length": "10", "evaluation.period": "300",
        "evaluation.episodes": "2", "task.time-limit": "40", "learner.batches.size": "4", "device": "cpu",
        "network.recall-weight": "0.1", "wandb": "disabled", "run-dir": str(tmp_path / "run"),
        "actor.pool": "process", "actor.pool.num_workers": "1", "learner.novelty-weight": "0.1",
    }  # fmt: skip
    assert cli.main([word for name, value in options.items() for word in (f"--{name}", value)]) == 0
    rows = read_rows(tmp_path / "run" / "metrics.jsonl")
    saturated = {"replay/saturated"}  # of float16, where a number was
    assert {name for row in rows for name in row} == set(METRICS) - saturated


def test_the_page_of_metrics_has_each_once():
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    tables = page.partition("## Rows and clocks")[2].partition("## Overestimation")[0]
    names = [line.split("|")[1] for line in tables.splitlines() if line.startswith("| `")]
    assert sorted(word for cell in names for word in re.findall(r"`([^`]+)`", cell)) == sorted(METRICS)
