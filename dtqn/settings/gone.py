"""Settings of earlier versions that have gone, and what a file of a run may still say of them.

A run's `config.yaml` and its record hold every setting. Those that have gone are passed over where they have
the value that meant "off": the run did without what has gone, so it is still the same run.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dtqn.settings.config import spelled

LAST_COMMIT = "c9b8378"
"""The last one that has them."""


class Gone(NamedTuple):
    """A setting that has gone."""

    off: Any
    """The value of a run that did without it."""
    what: str
    """What has gone with it."""


GONE = {
    "learner.ranks": Gone(1, "learning in several processes"),
    "network.bag_size": Gone(0, "DTQN's bag"),
    "network.dropout": Gone(0.0, "dropout"),
}


def hint(name: str) -> str:
    """The end of a line about a name that is no setting; empty where there never was such a one."""
    gone = GONE.get(spelled(name))
    return f"; {gone.what} has gone, and commit {LAST_COMMIT} is the last with it" if gone else ""
