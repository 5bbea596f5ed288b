"""The pace of a run, timed in a short trial before it starts."""

from __future__ import annotations

from typing import NamedTuple

from dtqn.settings.config import Config
from dtqn.training import machine
from dtqn.training.preflight import planned_updates
from dtqn.training.trainer import Trainer

_LEAST_TICKS, _UPDATES = 50, 4


class Pace(NamedTuple):
    """Seconds on this machine at this moment."""

    per_env_step: float
    per_update: float

    def run_seconds(self, config: Config) -> float:
        """The seconds of a whole run, its evaluations counted with the most steps that they may take.

        These have more copies at a time, so they take less.
        """
        acting = config.total_env_steps * (1 + config.evaluation.max_step_share)
        return acting * self.per_env_step + planned_updates(config) * self.per_update


def measured(config: Config) -> Pace:
    """The pace of a run with these settings: some ticks and some updates of a trial, which leaves nothing."""
    machine.prepare()
    trainer = Trainer(config)
    try:
        return Pace(*trainer.trial(max(_LEAST_TICKS, _longest_sequence(config)), _UPDATES))
    finally:
        trainer.close()


def _longest_sequence(config: Config) -> int:
    """Rows of a whole sequence."""
    learner, replay = config.learner, config.replay
    if learner.rollout_length:
        return learner.rollout_length
    return replay.burn_in_length + replay.learn_length + learner.n_step
