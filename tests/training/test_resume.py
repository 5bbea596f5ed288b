"""A run that is killed with SIGKILL and resumed ends bit for bit like one that was not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from dtqn import cli
from dtqn.training import session
from dtqn.training.trainer import Trainer

ROOT = Path(__file__).resolve().parents[2]
SMALL = [
    *("--total-env-steps", "2000"),
    *("--warmup-env-steps", "250"),
    *("--checkpoint-every", "500"),
    *("--metrics-every", "200"),
    *("--wandb", "disabled"),
    *("--threads", "1"),
    *("--evaluator", "inline"),
    *("--actor.num_envs", "8"),
    *("--actor.epsilon_anneal_env_steps", "900"),
    *("--learner.env_steps_per_update", "16"),
    *("--learner.batch_size", "8"),
    *("--network.width", "16"),
    *("--network.num_heads", "2"),
    *("--network.mlp_width", "16"),
    *("--network.memory_length", "7"),
    *("--replay.capacity", "2400"),
    *("--replay.learn_length", "9"),
    *("--replay.sequence_period", "6"),
    *("--replay.burn_in_length", "4"),
    *("--evaluation.period", "800"),
    *("--evaluation.episodes", "6"),
    *("--evaluation.num_envs", "6"),
    *("--task.time_limit", "25"),
]
CLOCK = ("seconds", "speed/")


def command(*arguments: str) -> list[str]:
    return [sys.executable, str(ROOT / "run.py"), *arguments]


def finish(*arguments: str) -> None:
    assert cli.main(list(arguments)) == 0


def kill_after_checkpoint(run_dir: Path, *arguments: str) -> None:
    """Start a run and kill it once it has written rows past its first checkpoint."""
    process = subprocess.Popen(
        command(*arguments),
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 200
    try:
        while time.monotonic() < deadline and process.poll() is None:
            pointer = run_dir / "checkpoint" / "latest"
            if pointer.exists() and rows(run_dir) and rows(run_dir)[-1]["env_steps"] > 1000:
                break
            time.sleep(0.02)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def rows(run_dir: Path) -> list[dict[str, float]]:
    """Metrics without the clock; a line that is only half written does not count."""
    path = run_dir / "metrics.jsonl"
    if not path.exists():
        return []
    lines = path.read_text().split("\n")[:-1]
    return [
        {key: value for key, value in json.loads(line).items() if not key.startswith(CLOCK)} for line in lines
    ]


def checkpoint(run_dir: Path) -> dict[str, np.ndarray]:
    """Every array of the last checkpoint: parameters, target, optimiser, replay, priorities, environments."""
    folder = run_dir / "checkpoint" / (run_dir / "checkpoint" / "latest").read_text().strip()
    return {
        f"{path.name}:{key}": value
        for path in folder.glob("*.safetensors")
        for key, value in load_file(path).items()
    }


def test_killed_and_resumed_run_ends_like_one_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a checkpoint the actor has older parameters than the learner: every third update publishes."""
    monkeypatch.setattr(session, "learning_curve", lambda *_: None)  # a fifth of the time
    monkeypatch.setattr(Trainer, "film", lambda *_: None)
    more = {"actor.publish_period": 3, "actor.optimism": 0.2}
    more |= {"learner.novelty_weight": 0.2, "learner.novelty_centred": True, "learner.weight_decay": 0.1}
    flags = [*SMALL, *(x for name, value in more.items() for x in (f"--{name}", str(value)))]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finish(*flags, "--run-dir", str(whole))
    kill_after_checkpoint(killed, *flags, "--run-dir", str(killed))
    reached = rows(killed)[-1]["env_steps"]
    assert 1000 < reached < 2000, "the run was killed neither before its checkpoint nor after its end"
    finish("--resume", str(killed))

    assert rows(killed) == rows(whole)
    assert rows(whole)[-1]["learner_steps"] > 100
    expected, got = checkpoint(whole), checkpoint(killed)
    assert expected.keys() == got.keys()
    assert any("priorit" in key for key in expected)
    for key, value in expected.items():
        np.testing.assert_array_equal(got[key], value, err_msg=key)
