"""A run's rows once more, from its settings."""

from __future__ import annotations

import json
from pathlib import Path

from dtqn.export import rerun
from dtqn.training.directory import RunDir
from dtqn.training.metrics import CLOCK_KEYS


def test_a_rerun_writes_the_rows_of_the_run_to_its_end(run_dir: Path) -> None:
    """Evaluations, and the figures of the whole run so far, among them."""
    rows = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    plain = [{key: value for key, value in row.items() if key not in CLOCK_KEYS} for row in rows]
    assert list(rerun.rows(RunDir(run_dir).read_config())) == plain
    assert "eval/success" in plain[-1] and "mean_success" in plain[-1]
