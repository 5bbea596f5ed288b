"""Settings of earlier versions that have gone, and what a file of a run may still say of them.

A run's `config.yaml` and its record hold every setting. Those that have gone are passed over where they have
the value that meant "off": the run did without what has gone, so it is still the same run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from dtqn.settings.config import ConfigError, spelled

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


def without_off(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by group, without those that have gone and were off."""
    kept = {name: dict(value) if isinstance(value, Mapping) else value for name, value in settings.items()}
    for name, gone in GONE.items():
        group, _, leaf = name.partition(".")
        inner = kept.get(group)
        if isinstance(inner, dict) and inner.get(leaf) == gone.off:
            del inner[leaf]
    return {name: value for name, value in kept.items() if value != {} or not settings[name]}


def dropped(settings: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The settings of a run, by group, without those that have gone.

    Args:
        source: the file that holds them.

    Raises:
        ConfigError: one of these has another value than "off".
    """
    kept = without_off(settings)
    for name in GONE:
        group, _, leaf = name.partition(".")
        inner = kept.get(group)
        if isinstance(inner, dict) and leaf in inner:
            raise ConfigError(f"{source}: {name} is {inner[leaf]}{hint(name)}")
    return kept
