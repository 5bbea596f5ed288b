"""Refreshed memory: replay keeps what the learner's forward pass left behind, and nothing else changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dtqn.training.trainer import Trainer
from tests.cases import randomise
from tests.training.test_trainer import make_trainer


def trainer_of(
    memory: str, network: dict[str, Any] | None = None, learning_rate: float = 1e-3, batch_size: int = 32
) -> Trainer:
    learner = {"batch_size": batch_size, "learning_rate": learning_rate, "env_steps_per_update": 20}
    replay = {"priority_exponent": 0.0, "memory": memory, "memory_dtype": "float32", "capacity": 1_200}
    sizes = {"width": 8, "num_layers": 2, "mlp_width": 8, "memory_length": 4, "head_width": 8}
    return make_trainer(
        4_000,
        learner,
        seed=2,
        device="cpu",
        warmup_env_steps=600,
        metrics_every=10**6,
        replay=replay | {"learn_length": 6, "burn_in_length": 2},
        network=sizes | (network or {}),
    )


def staleness(trainer: Trainer) -> dict[str, float]:
    """Means over some batches of the sequences whose episode's start is stored."""
    measured = [trainer.staleness.measure() for _ in range(6)]
    names = ["replay/delta_q_first", "replay/delta_q_last", "replay/memory_age", "replay/parameter_age"]
    return {
        name: float(np.mean([row[name] for row in measured if row.get(name) is not None])) for name in names
    }


@pytest.mark.parametrize("network", [{}, {"core": "lstm"}, {"core": "tests.own_cores:Averages"}], ids=str)
def test_it_forgets_the_parameters_that_it_was_made_with(network: dict[str, Any]) -> None:
    """Under parameters that have changed once, delta-Q goes to zero; what is only stored stays stale."""
    seen = {}
    for memory in ("stored", "refreshed"):
        trainer = trainer_of(memory, network, learning_rate=1e-12)
        while trainer.env_steps < 600:
            trainer.advance()
        randomise(trainer.network, seed=1, scale=0.2)
        before = staleness(trainer)
        for _ in range(40):
            trainer._learn(*trainer.updates.draw())
        seen[memory] = (before, staleness(trainer))
    for before, _ in seen.values():
        assert before["replay/delta_q_first"] > 0.01
    _, stored = seen["stored"]
    _, refreshed = seen["refreshed"]
    assert stored["replay/delta_q_first"] > 0.01
    assert refreshed["replay/delta_q_first"] < 1e-5 and refreshed["replay/delta_q_last"] < 1e-5
    # Both acted with the first parameters; the memory of one is of the last updates.
    assert stored["replay/parameter_age"] == refreshed["replay/parameter_age"] == 40
    assert stored["replay/memory_age"] == 40 and refreshed["replay/memory_age"] < 25


def test_rows_but_for_the_trace_stay_as_they_were() -> None:
    trainer = trainer_of("refreshed")
    while trainer.env_steps < 600:
        trainer.advance()
    before = trainer.replay.get_state()["rows"]
    for _ in range(5):
        trainer._learn(*trainer.updates.draw())
    after = trainer.replay.get_state()["rows"]
    changed = {name for name, timesteps in before.items() if not np.array_equal(timesteps, after[name])}
    assert changed == {"trace/memory", "trace_version"}
    # Stored memory is of the learner step that its version says; those never drawn are the actor's.
    touched = (before["trace/memory"] != after["trace/memory"]).any(axis=(1, 2))
    assert touched.any() and not touched.all()
    assert (after["trace_version"][~touched] == 0).all() and after["trace_version"].max() == 4
