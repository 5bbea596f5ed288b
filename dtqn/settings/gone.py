"""Settings of earlier versions that have gone, and what a file of a run may still say of them.

A run's `config.yaml` and its record hold every setting. Those that have gone are passed over where they have
the value that meant "off": the run did without what has gone, so it is still the same run.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dtqn.settings.config import spelled


class Gone(NamedTuple):
    """A setting that has gone."""

    off: Any
    """The value of a run that did without it."""
    what: str
    """What has gone with it."""
    last_commit: str
    """The last one that has it."""


GONE = {
    "task.noise": Gone(0.0, "noise on observations", "5aeacee"),
    "task.flicker": Gone(0.0, "flicker", "5aeacee"),
    "learner.ranks": Gone(1, "learning in several processes", "c9b8378"),
    "network.bag_size": Gone(0, "DTQN's bag", "c9b8378"),
    "network.dropout": Gone(0.0, "dropout", "c9b8378"),
    "learner.policy": Gone("online", "a target network that acts", "5aeacee"),
    "learner.loss": Gone("squared", "Huber's loss", "5aeacee"),
    "learner.huber_threshold": Gone(1.0, "Huber's loss", "5aeacee"),
    "network.num_quantiles": Gone(32, "the distribution `quantile`", "5aeacee"),
    "learner.learning_rate_decay_start": Gone(0.6, "the choice of where the step size falls", "5aeacee"),
    "replay.max_priority_weight": Gone(0.9, "the choice of eta", "5aeacee"),
    "network.mask_share": Gone(0.15, "the choice of CoBERL's share of hidden features", "5aeacee"),
    "network.invariance_weight": Gone(1.0, "the choice of the weight of CoBERL's KL terms", "5aeacee"),
    "network.span_ramp": Gone(8, "the choice of the ramp of adaptive spans", "5aeacee"),
    "network.encoder_norm": Gone(True, "the encoder without LayerNorm", "5aeacee"),
    "actor.epsilon_start": Gone(1.0, "the choice of the first epsilon", "5aeacee"),
    "actor.publish_period": Gone(1, "publishing every few updates", "5aeacee"),
    "actor.burst_start": Gone(0.0, "the choice of a burst's start", "5aeacee"),
    "actor.burst_length": Gone(1.0, "the choice of a burst's length", "5aeacee"),
}


def hint(name: str) -> str:
    """The end of a line about a name that is no setting; empty where there never was such a one."""
    gone = GONE.get(spelled(name))
    return f"; {gone.what} has gone, and commit {gone.last_commit} is the last with it" if gone else ""
