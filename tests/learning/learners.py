"""Learners of small networks, with what a run would give them where a test does not say otherwise."""

from __future__ import annotations

from typing import Any

from torch import nn

from dtqn.learning.learner import Learner
from dtqn.learning.predictions import StepErrors
from dtqn.settings.config import LearnerConfig
from dtqn.types import Sequences


def make_learner(network: nn.Module, config: LearnerConfig, *, whole: bool = False, **given: Any) -> Learner:
    """`whole`: learn the burn-in timesteps too; `given` are other arguments of the learner."""
    usual: dict[str, Any] = {
        "learn_burn_in": whole,
        "want_memory": False,
        "parts": 1,
        "seed": 0,
    }
    return Learner(network, config=config, **(usual | given))


def errors_of(learner: Learner, batch: Sequences) -> StepErrors:
    """delta_t = y_t - Q_online(s_t, a_t) and what belongs to it, with gradient in Q_online."""
    learner._refresh()
    return learner._errors(learner.learned(batch))[0]
