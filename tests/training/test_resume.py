"""A run that is killed with SIGKILL and resumed ends bit for bit like one that was not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dtqn import cli
from dtqn.training.trainer import Trainer
from tests.training import fake

ROOT = Path(__file__).resolve().parents[2]
FLAGS = """
    --total-env-steps 2000 --warmup-env-steps 250 --checkpoint-every 500 --metrics-every 200
    --wandb disabled --threads 1 --evaluator inline --actor.num_envs 8 --actor.epsilon_anneal_env_steps 900
    --learner.batches.env_steps_per_update 16 --learner.batches.size 8 --network.width 16
    --network.core.num_heads 2 --network.core.mlp_width 16 --network.core.memory_length 7
    --replay.capacity 2400 --replay.learn_length 9
    --replay.sequence_period 6 --replay.burn_in_length 4 --evaluation.period 800 --evaluation.episodes 6
    --evaluation.num_envs 6 --task.time_limit 25 --actor.untried_share 0.5
    --learner.novelty_weight 0.2 --learner.weight_decay 0.1
"""
SMALL = FLAGS.split()


def kill_after_checkpoint(run_dir: Path, *arguments: str) -> None:
    """Start a run and kill it once it has written rows past its first checkpoint."""
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "run.py"), *arguments],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 200
    try:
        while time.monotonic() < deadline and process.poll() is None:
            if (run_dir / "checkpoint/latest").exists() and reached(run_dir) > 1000:
                break
            time.sleep(0.02)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def reached(run_dir: Path) -> int:
    """Env steps of the last row."""
    rows = fake.rows(run_dir)
    return rows[-1]["env_steps"] if rows else 0


def test_killed_and_resumed_run_ends_like_one_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its metrics, its last checkpoint and its best evaluation."""
    monkeypatch.setattr(Trainer, "film", lambda *_: None)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert cli.main([*SMALL, "--run-dir", str(whole)]) == 0
    kill_after_checkpoint(killed, *SMALL, "--run-dir", str(killed))
    assert 1000 < reached(killed) < 2000, "it was killed neither before its checkpoint nor after its end"
    assert cli.main(["--resume", str(killed)]) == 0
    rows, state, best = fake.tree(whole)
    assert rows[-1]["learner_steps"] > 100 and "priorities" in state
    assert fake.tree(killed) == (rows, state, best)
