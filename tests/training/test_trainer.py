"""The trainer: when it learns, how far the step size has fallen, and what the shortest run owes."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from dtqn.acting.timesteps import Episodes
from dtqn.training.preflight import planned_updates
from dtqn.training.trainer import Trainer
from tests.cases import config_from

SMALL: dict[str, Any] = {
    "env": "gridverse-memory-5x5",
    "network": {"width": 8, "num_layers": 1, "mlp_width": 8, "memory_length": 4, "head_width": 8},
    "replay": {"capacity": 2_000, "learn_length": 6, "burn_in_length": 2},
    "actor": {"num_envs": 4},
    "evaluation": {"episodes": 4, "num_envs": 4, "period": 10**6},
    "task": {"time_limit": 20},
}


def make_trainer(total: int, learner: dict[str, Any] | None = None, **settings: Any) -> Trainer:
    merged = SMALL | {"total_env_steps": total, "learner": {"batch_size": 4} | (learner or {})} | settings
    return Trainer(config_from(merged))


def run(trainer: Trainer) -> list[dict[str, Any]]:
    rows = []
    while not trainer.finished:
        rows.append(evaluated(trainer, trainer.advance()))
    return [row for row in rows if row] + [evaluated(trainer, row) for row in trainer.finish()]


def evaluated(trainer: Trainer, row: dict[str, Any] | None) -> dict[str, Any] | None:
    """The row with the evaluation that belongs to it."""
    over = trainer.evaluator.evaluated()
    return row if row is None or over is None else row | over.metrics


@pytest.mark.parametrize("total", [1, 5, 40])
def test_the_shortest_run_owes_an_update_an_evaluation_and_a_row(total: int) -> None:
    trainer = make_trainer(total)
    last = run(trainer)[-1]
    assert trainer.learner_steps >= 1
    assert last["learner_steps"] == trainer.learner_steps
    assert last["env_steps"] == trainer.env_steps
    assert np.isfinite(last["learner/loss"])
    assert 0.0 <= last["eval/success_low"] <= last["eval/success"] <= last["eval/success_high"] <= 1.0
    assert 1 <= last["eval/length"] <= 20
    assert last["eval/return"] < 5.0


@pytest.mark.parametrize("period", [52, 101])
def test_the_last_evaluation_is_of_the_end_and_played_once(period: int) -> None:
    """The evaluation at 102 env steps is of the weights that the run ends with, after 105."""
    evaluation = SMALL["evaluation"] | {"period": period}
    trainer = make_trainer(104, {"env_steps_per_update": 64.0}, warmup_env_steps=16, evaluation=evaluation)
    rows = [row for row in run(trainer) if "eval/stage" in row]
    assert [row["env_steps"] == trainer.env_steps for row in rows] == [False, True]


def test_a_run_that_ended_before_any_sequence_can_be_made_longer() -> None:
    """Its only update is from episodes that were cut; the replay takes no more timesteps of these."""
    short = make_trainer(8)
    run(short)
    assert short.learner_steps == 1
    longer = make_trainer(400)
    longer.set_state(short.get_state())
    while not longer.finished:
        longer.advance()
    assert longer.learner_steps > 1


def test_training_is_the_same_however_often_it_is_logged() -> None:
    trainers = [
        make_trainer(500, {"env_steps_per_update": 8.0}, warmup_env_steps=50, metrics_every=every)
        for every in (20, 10**6)
    ]
    rows = [run(trainer) for trainer in trainers]
    assert len(rows[0]) > 20 and len(rows[1]) == 1
    assert sum("replay/delta_q_first" in row for row in rows[0]) > 5
    for one, other in zip(*(trainer.network.parameters() for trainer in trainers), strict=True):
        assert torch.equal(one, other)
    np.testing.assert_equal(trainers[0].replay.get_state(), trainers[1].replay.get_state())


def test_a_run_that_goes_on_at_any_vector_step_logs_the_same_rows() -> None:
    """With an update for every second vector step and a row at each, rows without an update among them."""
    learner = {"env_steps_per_update": 8.0}
    trainer, other = (make_trainer(300, learner, warmup_env_steps=50, metrics_every=1) for _ in range(2))
    without = 0
    while not trainer.finished:
        other.set_state(copy.deepcopy(trainer.get_state()))
        before = trainer.learner_steps
        row = evaluated(trainer, trainer.advance())
        np.testing.assert_equal(evaluated(other, other.advance()), row)
        without += trainer.learner_steps == before > 0
    assert without > 10


@pytest.mark.parametrize("warmup, per_update", [(100, 8.0), (100, 300.0), (60, 2.5)])
def test_the_price_of_a_run_is_known(warmup: int, per_update: float) -> None:
    trainer = make_trainer(300, {"env_steps_per_update": per_update}, warmup_env_steps=warmup)
    run(trainer)
    beyond = (trainer.env_steps - 300) / per_update
    assert 0 <= trainer.learner_steps - planned_updates(trainer.config) <= 1 + beyond
    assert planned_updates(trainer.config) == max(1, int((300 - warmup) / per_update))


def test_figures_of_training_begin_when_every_environment_has_ended_an_episode() -> None:
    """Success takes 1 step and failure 4; environments 0 to 3 of 4 begin with S S F, F, S F, F.

    Until vector step 4, which ends the first failures, the first episodes alone count: half are successes.
    Of all that have ended by then 3 of 5 are.
    """
    trainer, shown = make_trainer(1_000), []
    steps = [{0: 1, 2: 1}, {0: 1}, {}, {1: 0, 3: 0}, {0: 0, 2: 0}, {1: 1}]
    for step in steps:
        trainer.actor.ended = np.isin(np.arange(4), list(step))
        success = np.array(list(step.values()), bool)
        trainer._remember(Episodes(success * 1.0, np.where(success, 1, 4), success))
        row = trainer._training_metrics()
        shown.append((row.get("train/success"), row.get("train/length"), row["train/episodes"]))
    assert shown[:3] == [(None, None, 2), (None, None, 3), (None, None, 3)]
    assert shown[3:] == [(1 / 2, 2.5, 5), (2 / 6, 3.0, 7), (3 / 7, 19 / 7, 8)]


def test_the_window_holds_the_first_episode_of_many_environments() -> None:
    """The last 100 to end would be the longest of them."""
    trainer = make_trainer(1_000, actor={"num_envs": 120})
    for ended in range(120):
        trainer.actor.ended = np.arange(120) == ended
        trainer._remember(Episodes(np.zeros(1), np.array([ended]), np.zeros(1, bool)))
    assert trainer._training_metrics()["train/length"] == np.mean(range(120))
