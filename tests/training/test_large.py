"""A network of the size that GTrXL's paper trains: 12 layers of width 256 with a memory of 512 steps."""

from __future__ import annotations

import resource
from typing import Any

import numpy as np
import pytest

from benchmarks.gpu import PAPER_SIZE
from dtqn.settings.layers import CONFIGS
from dtqn.settings.presets import resolve
from dtqn.training.trainer import Trainer

LARGE = {**PAPER_SIZE, "learner.learning_rate": "0.0001"}
"""As in docs/scaling.md."""
SMALL_BATCHES = {
    "learner.batches.size": "2",
    "learner.batches.env_steps_per_update": "4",
    "replay.learn_length": "20",
    "replay.capacity": "3000",
    "actor.num_envs": "2",
    "warmup_env_steps": "1100",
    "total_env_steps": "1500",
    "evaluator": "inline",
}


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_hundred_updates_of_the_papers_size() -> None:
    """Some four minutes on a core and 1.3 GB; episodes are longer than the memory, which is full at last."""
    task = {"env": "t-maze-passive-1000", "agent": "gtrxl", "device": "cpu", "threads": "1"}
    file = CONFIGS / "families/t-maze.yaml"
    trainer = Trainer(resolve(file, {**task, **LARGE, **SMALL_BATCHES}, {}))
    assert sum(x.numel() for x in trainer.network.parameters()) > 19e6
    update, memories, losses = trainer.learner.update, [], []

    def seen(batch: Any, *rest: Any) -> Any:
        memories.append(int(batch.memory_valid.sum(dim=1).max()))
        done = update(batch, *rest)
        losses.append(done.metrics["learner/loss"])
        return done

    trainer.learner.update = seen  # type: ignore[method-assign]
    while not trainer.finished:
        trainer.advance()
    assert trainer.learner_steps == len(losses) >= 100 and trainer.learner.skipped_updates == 0
    assert max(memories) == 512
    assert np.mean(losses[-30:]) < 0.5 * np.mean(losses[:30])
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert used < 4e6, f"{used / 1e6} GB"
