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


def dropped(values: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The settings of a run, by group, without those that have gone.

    Args:
        source: the file that holds them.

    Raises:
        ConfigError: one of these has another value than "off".
    """
    for name, gone in GONE.items():
        if (found := _in(values, name)) not in (None, gone.off):
            raise ConfigError(f"{source}: {name} is {found}{hint(name)}")
    return _without_gone(values)


def _in(values: Mapping[str, Any], name: str) -> Any:
    group, _, leaf = name.partition(".")
    inner = values.get(group)
    return inner.get(leaf) if isinstance(inner, Mapping) else None


def _without_gone(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    rest: dict[str, Any] = {}
    for key, value in values.items():
        if (name := prefix + key) in GONE:
            continue
        is_group = isinstance(value, Mapping) and not prefix
        left = _without_gone(value, f"{name}.") if is_group else value
        if left or not is_group:
            rest[key] = left
    return rest
