"""The certificate of a short run: what it says, its digests, and damaged ones."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

import pytest
import yaml

from dtqn import cli
from dtqn.export import certificate
from dtqn.training.metrics import CLOCK_KEYS, CLOCKS
from tests.export.edits import set_value


def test_the_certificate_says_what_there_is(run_dir: Path, exported: Path) -> None:
    made = json.loads((exported / "certificate.json").read_text())
    for name, digest in made["files"].items():
        assert hashlib.sha256((exported / name).read_bytes()).hexdigest() == digest
    assert {"model.safetensors", "best.safetensors", "config.yaml", "task.json"} <= made["files"].keys()
    result = json.loads((run_dir / "result.json").read_text())
    for name in ("code", "machine", "env_steps", "learner_steps", "threads", "device", "program"):
        assert made["trained"][name] == result[name]
    assert made["trained"]["code"] == [made["exported"]["code"]]
    assert {"python", "torch", "numpy", "gymnasium"} <= made["exported"]["versions"].keys()
    settings = yaml.safe_load((exported / "config.yaml").read_text())
    assert made["settings"] == settings and made["seed"] == settings["seed"] == 1
    rows = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    plain = [{key: value for key, value in row.items() if key not in CLOCK_KEYS} for row in rows]
    assert all(set(CLOCKS) <= row.keys() for row in rows)
    text = "\n".join(json.dumps(row, sort_keys=True) for row in plain) + "\n"
    assert made["metrics"]["digest"] == hashlib.sha256(text.encode()).hexdigest()
    first = made["metrics"]["first_rows"]
    assert first == plain[: len(first)]
    assert [("learner/loss" in row) for row in first].count(True) == 2 and "learner/loss" in first[-1]
    assert made["scores"]["last"]["episodes"] == 40


def test_the_clocks_are_no_part_of_the_digest() -> None:
    row = {"env_steps": 1, "learner/loss": 0.1}
    digest = certificate.metrics_digest([row])
    assert certificate.metrics_digest([row | {"seconds": 1.0}]) == digest
    assert certificate.metrics_digest([row | {"learner/loss": math.nextafter(0.1, 1)}]) != digest
    assert certificate.metrics_digest([row, row]) != digest


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("metrics.first_rows", 5, "metrics.first_rows is 5; must be a valid array"),
        ("metrics.first_rows", [1], "metrics.first_rows.0 is 1; must be an object"),
        ("metrics.first_rows", [{}], "metrics.first_rows.0.env_steps is missing"),
        (
            "metrics.first_rows",
            [{"env_steps": 1, "learner_steps": 0, "x": "y"}],
            "first_rows.0.x is y; must ",
        ),
        ("trained.inexact_from", "x", "trained.inexact_from is x; must be a valid integer"),
        ("trained.ended", "x", "trained.ended is x; must be a valid array"),
        ("trained.ended", [0, None, 9], "trained.ended.0 is 0; must be greater than or equal to 1"),
        ("trained.program", "x", "trained.program is x; must be an object"),
        ("scores.last.success", "a", "scores.last.success is a; must be a valid number"),
        ("scores.last.success", 1.5, "scores.last.success is 1.5; must be less than or equal to 1"),
        ("scores.last.success_low", None, "must have success between success_low and success_high"),
        ("scores.last.success_low", 0.9, "must have success between success_low and success_high"),
        ("scores.last.seed", None, "scores.last.seed is None; must be a valid integer"),
        ("scores.last.seed", "x", "scores.last.seed is x; must be a valid integer"),
        ("scores.last.seed", ..., "scores.last.seed is missing"),
        ("scores.last.episodes", 0, "scores.last.episodes is 0; must be greater than or equal to 1"),
        ("scores.last.episodes", 10**12, "scores.last.episodes is 1000000000000; must be less than "),
        (
            "scores.last.episode_return",
            math.nan,
            "scores.last.episode_return is nan; must be a finite number",
        ),
        ("scores", {}, "scores.last is missing"),
        ("files", {}, "files is {}; must have at least 1 item"),
        ("files", {"../task.json": "0" * 64}, "must match pattern"),
        ("settings", ..., "settings is missing"),
        ("format", 2, "has format 2; this version reads format 1"),
    ],
)
def test_a_damaged_certificate_is_refused_in_one_line(
    copied: Path, capsys: pytest.CaptureFixture[str], name: str, value: object, told: str
) -> None:
    set_value(name, value)(copied)
    capsys.readouterr()
    assert cli.main(["verify", str(copied)]) == 2
    out, error = capsys.readouterr()
    start = f"error: {copied / 'certificate.json'}: is no certificate of this program, or damaged: "
    assert error.startswith(start) and told in error
    assert not out and error.count("\n") == 1
