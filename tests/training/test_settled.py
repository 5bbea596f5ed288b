"""`threads`, `evaluator` and `precision` that are auto: what a run makes of them, and that it keeps it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from dtqn import cli
from dtqn.experiments import compare
from dtqn.settings.presets import resolve
from dtqn.training import machine
from dtqn.training.machine import free_cores  # before the tests' own takes its place
from tests import tiny

FLAGS = ["--checkpoint-every", "200", "--wandb", "disabled", "--evaluation.period", "100"]


@pytest.mark.parametrize(
    ("free", "given", "threads", "evaluator"),
    [
        (0, {}, 1, "inline"),
        (1, {}, 1, "inline"),
        (2, {}, 2, "process"),
        (3, {}, 2, "process"),
        (16, {}, 2, "process"),
        (1, {"threads": "2"}, 2, "inline"),
        (3, {"threads": "1"}, 1, "process"),
        (1, {"evaluator": "process"}, 1, "process"),
        (3, {"evaluator": "inline"}, 2, "inline"),
        (2, {"stop_at_success": "0.9"}, 2, "inline"),
        (2, {"total_env_steps": "25000"}, 2, "inline"),  # which is evaluated at its end only
        (2, {"total_env_steps": "25001"}, 2, "process"),
    ],
)
def test_what_is_made_of_free_cores(free: int, given: dict[str, str], threads: int, evaluator: str) -> None:
    config = resolve(None, given, {}).settled(free, has_bfloat16=False)
    assert (config.threads, config.evaluator) == (threads, evaluator)
    assert config.is_settled and not resolve(None, {}, {}).is_settled


@pytest.mark.parametrize(
    ("given", "has_bfloat16", "precision"),
    [
        ({"agent": "lstm"}, True, "bfloat16"),
        ({"agent": "lstm"}, False, "float32"),
        ({"agent": "mingru"}, True, "float32"),  # which is not computed in bfloat16
        ({"agent": "lstm", "learner.precision": "bfloat16"}, False, "bfloat16"),
    ],
)
def test_what_is_made_of_the_processor(given: dict[str, str], has_bfloat16: bool, precision: str) -> None:
    config = resolve(None, {"learner.precision": "auto"} | given, {}).settled(1, has_bfloat16)
    assert config.learner.precision == precision and config.is_settled


@pytest.mark.parametrize(
    ("device", "has_gpu", "made"),
    [
        ("auto", False, (2, "bfloat16")),
        ("auto", True, (1, "float32")),
        ("cuda", True, (1, "float32")),
        ("cpu", True, (2, "bfloat16")),
    ],
)
def test_what_is_made_of_a_gpu(
    monkeypatch: pytest.MonkeyPatch, device: str, has_gpu: bool, made: tuple[int, str]
) -> None:
    """It learns whole batches in float32; only cores share one out."""
    monkeypatch.setattr(machine, "has_bfloat16", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    given = {"agent": "lstm", "learner.precision": "auto", "device": device}
    config = machine.settled(resolve(None, given, {}), free=4)
    assert (config.threads, config.learner.precision) == made


@pytest.mark.parametrize(("flags", "has"), [("fpu amx_bf16 amx_int8", True), ("fpu avx512f", False)])
def test_linux_tells_whether_the_processor_multiplies_bfloat16(
    monkeypatch: pytest.MonkeyPatch, flags: str, has: bool
) -> None:
    monkeypatch.setattr(Path, "read_text", lambda path: f"model name\t: X\nflags\t\t: {flags}\n" * 2)
    assert machine.has_bfloat16.__wrapped__() is has


@pytest.mark.parametrize(
    ("idle", "count", "free"),
    [((10.0, 10.6), 2, 2), ((10.0, 10.31), 2, 1), ((10.0, 10.02), 2, 0), ((0.0, 9.6), 4, 4)],
)
def test_cores_are_free_that_were_idle_while_looked_at(
    monkeypatch: pytest.MonkeyPatch, idle: tuple[float, float], count: int, free: int
) -> None:
    """In 0.3 s. The host of a container may have more idle cores than the container has any."""
    seen, clock = list(idle), [0.0, 0.3]
    monkeypatch.setattr(machine, "_idle_seconds", lambda: seen.pop(0))
    monkeypatch.setattr(machine.time, "monotonic", lambda: clock.pop(0))
    monkeypatch.setattr(machine.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(machine, "cores", lambda: count)
    assert free_cores() == free


@pytest.mark.parametrize(("load", "free"), [(0.1, 4), (1.2, 3), (3.9, 0), (17.0, 0)])
def test_elsewhere_the_load_of_the_last_minute_says_it(
    monkeypatch: pytest.MonkeyPatch, load: float, free: int
) -> None:
    monkeypatch.setattr(machine, "_idle_seconds", lambda: None)
    monkeypatch.setattr(machine, "cores", lambda: 4)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 9.0, 9.0), raising=False)
    assert free_cores() == free


def test_the_machine_can_be_asked() -> None:
    assert 0 <= free_cores() <= machine.cores()


def test_a_run_keeps_what_it_has_settled(
    tmp_path: Path, trainer: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def settled(*arguments: str) -> tuple[int, str]:
        assert cli.main([*arguments]) == 0
        (file,) = tmp_path.rglob("config.yaml")
        config = yaml.safe_load(file.read_text())
        assert config["learner"]["precision"] == "bfloat16"
        return config["threads"], config["evaluator"]

    found = ["--resume", "auto", "--runs-dir", str(tmp_path), "--total-env-steps", "1000", *FLAGS]
    found += ["--learner.precision", "auto"]
    monkeypatch.setattr(machine, "free_cores", lambda: 3)
    monkeypatch.setattr(machine, "has_bfloat16", lambda: True)
    assert settled(*found) == (2, "process")
    assert "learning on 2 cores in bfloat16, evaluations in another process" in capsys.readouterr().out
    monkeypatch.setattr(machine, "free_cores", lambda: 1)
    monkeypatch.setattr(machine, "has_bfloat16", lambda: False)
    (run,) = (path.parent for path in tmp_path.rglob("config.yaml"))
    assert settled(*found) == (2, "process")
    assert settled("--resume", str(run), "--total-env-steps", "1200") == (2, "process")
    assert settled("--resume", str(run), "--total-env-steps", "1400", "--threads", "3") == (3, "process")
    assert settled("--resume", str(run), "--total-env-steps", "1600", "--threads", "auto") == (1, "process")
    told = tiny.refused(capsys, "--run-dir", tmp_path / "other", "--threads", "0", *FLAGS)
    assert told == "threads is 0 (from --threads): must be auto, or an integer of at least 1"


def test_what_is_not_started_is_printed_as_it_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    printed = yaml.safe_load(tiny.printed(capsys, "--print-config"))
    assert (printed["threads"], printed["evaluator"]) == ("auto", "auto")


def test_runs_of_a_comparison_have_a_core_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "free_cores", lambda: 8)
    (config,) = compare.plan(["dqn"], [1], None, {})
    assert (config.threads, config.evaluator) == (1, "inline")
    (config,) = compare.plan(["dqn"], [1], None, {"threads": "2", "evaluator": "process"})
    assert (config.threads, config.evaluator) == (2, "process")
