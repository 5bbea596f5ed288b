"""Staleness: which sequences are measured, and that long episodes are not dearer than learning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from dtqn.learning.discrepancy import Discrepancy, discrepancy
from dtqn.training import staleness
from dtqn.training.replay_fields import NAMES
from dtqn.training.trainer import Trainer
from dtqn.types import Sequences
from tests.training.test_trainer import make_trainer

LENGTH = 10_000


def with_one_long_episode(trainer: Trainer, length: int = LENGTH) -> None:
    """Fills replay with timesteps of zeros: one episode in each of the streams. Its timesteps' versions count
    them."""
    fields, streams = trainer.replay.fields, trainer.replay.num_streams
    timesteps = {name: np.zeros((streams, *field.shape), field.dtype) for name, field in fields.items()}
    timesteps[NAMES.discount][:] = 1
    for t in range(length + 1):
        timesteps[NAMES.first][:], timesteps[NAMES.last][:], timesteps[NAMES.version][:] = (
            t == 0,
            t == length,
            t,
        )
        trainer.replay.append(timesteps)


def rows_run(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """(sequences, timesteps) of every call of the network, filled as it is called."""
    calls: list[tuple[int, int]] = []
    forward = trainer.network.forward

    def counting(inputs: Any, *rest: Any) -> Any:
        calls.append(tuple(inputs.first.shape))
        return forward(inputs, *rest)

    monkeypatch.setattr(trainer.network, "forward", counting)
    return calls


@pytest.mark.parametrize("updates, measured", [(10, False), (4_000, True)])
def test_a_long_episode_costs_bounded_work(
    updates: int, measured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most the timesteps of the sequences learned between two rows of metrics, a chunk of them at a
    time."""
    learner = {"batch_size": 4, "env_steps_per_update": 1.0}
    replay = {"capacity": 10_100, "learn_length": 6, "burn_in_length": 2}
    trainer = make_trainer(
        10**6,
        learner,
        metrics_every=updates,
        actor={"num_envs": 1},
        replay=replay,
        network={"core": "lstm", "width": 4},
    )
    with_one_long_episode(trainer)
    calls = rows_run(trainer, monkeypatch)
    row = trainer.staleness.measure()
    assert row["replay/delta_q_share"] == 1.0
    assert ("replay/delta_q_first" in row) == measured
    assert sum(sequences * timesteps for sequences, timesteps in calls) <= updates * 4 * (6 + 2) + 8 * (
        2 + 6 + 3
    )
    assert max((timesteps for _, timesteps in calls), default=0) <= 128
    assert (len(calls) > 3) == measured


AVERAGES = {"core": "tests.own_cores:Averages"}


def ages(monkeypatch: pytest.MonkeyPatch, **network: Any) -> tuple[dict[str, Any], np.ndarray]:
    """Staleness at learner step 1 000 of timesteps whose versions are their numbers, and the drawn sequence
    starts."""
    replay = {"capacity": 10_100, "learn_length": 6, "burn_in_length": 2, "memory": "stored"}
    settings = {"actor": {"num_envs": 1}, "replay": replay, "network": {"width": 4} | network}
    trainer = make_trainer(10**6, {"n_step": 3}, **settings)
    with_one_long_episode(trainer, length=60)
    trainer.learner.learner_steps = 1_000
    sample, starts = trainer.replay.sample, []

    def noted(*given: Any) -> Any:
        sampled, info = sample(*given)
        starts.append(trainer.replay.prefix(info.ids, {NAMES.version}).starts)
        return sampled, info

    monkeypatch.setattr(trainer.replay, "sample", noted)
    measured = trainer.staleness.measure()
    return measured, np.concatenate(starts)


def test_parameter_age_is_of_the_learned_rows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of their burn-in nor of the timesteps of their n-step returns."""
    measured, starts = ages(monkeypatch, core="none")
    learned = starts[:, None] + np.arange(6)
    assert learned.max() < 60 and measured["replay/parameter_age"] == (1_000 - learned).mean()


def test_memory_age_is_of_the_longest_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core that reads its last 2 outputs and 5 features begins with 5 timesteps that can be old."""
    measured, starts = ages(monkeypatch, **AVERAGES)
    first = np.maximum(starts - 2, 0)  # timesteps of the sequences with their burn-in
    remembered = np.concatenate([np.arange(max(0, row - 5), row) for row in first])
    assert measured["replay/memory_age"] == pytest.approx((1_000 - remembered).mean())


def test_raw_rows_are_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    measured, _ = ages(monkeypatch, core="dtqn", context_length=8, head_width=4)
    assert measured["replay/memory_age"] is None


def test_delta_q_is_of_sequences_that_start_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those at an episode's start, which are exact, do not enter the mean; their share is told."""
    trainer = make_trainer(
        10**6, warmup_env_steps=400, replay={"capacity": 2_000, "learn_length": 6, "burn_in_length": 0}
    )
    while trainer.env_steps < 400:
        trainer.advance()
    measured: list[int] = []

    def fixed(network: Any, batch: Sequences, *rest: Any) -> Discrepancy:
        assert (batch.episode_step > 0).all() and batch.memory_valid.any(dim=1).all()
        measured.append(len(batch.episode_step))
        values = torch.arange(len(batch.episode_step), dtype=torch.float64)
        found = discrepancy(network, batch, *rest)
        monkeypatch.setattr(type(found), "delta_q", lambda *_: (values, values + 10))
        return found

    monkeypatch.setattr(staleness, "discrepancy", fixed)
    for _ in range(20):
        row = trainer.staleness.measure()
        if row["replay/delta_q_share"] == 0:
            assert "replay/delta_q_first" not in row
            continue
        assert row["replay/delta_q_share"] == measured[-1] / 8  # every episode's start is still stored
        assert row["replay/delta_q_first"] == (measured[-1] - 1) / 2
        assert row["replay/delta_q_last"] == (measured[-1] - 1) / 2 + 10
    assert measured and np.mean(measured) < 8


@pytest.mark.parametrize(
    "network, has_it",
    [({"core": "none"}, False), ({"core": "dtqn", "context_length": 6}, False), ({"core": "gru"}, True)],
    ids=str,
)
def test_a_network_without_memory_has_no_delta_q(network: dict[str, Any], has_it: bool) -> None:
    sizes = {"width": 8, "num_layers": 1, "head_width": 8, "mlp_width": 8}
    replay = {"capacity": 2_000, "learn_length": 4, "burn_in_length": 2}
    trainer = make_trainer(10**6, warmup_env_steps=300, network=sizes | network, replay=replay)
    while trainer.env_steps < 300:
        trainer.advance()
    row = trainer.staleness.measure()
    assert np.isfinite(row["replay/parameter_age"])
    assert ("replay/delta_q_share" in row) == has_it
