"""Settings that earlier versions had and this one has not: runs in which they were off are runs of today."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dtqn.settings.config import fields_of

OFF: Mapping[str, Any] = {
    "learner.ranks": 1,
    "network.bag_size": 0,
    "network.dropout": 0.0,
}
"""By dotted name, the value with which a setting did nothing. Names that are settings now do not count."""


def without_gone(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by group, without those that have gone and were off.

    One that has gone and was not off stays: whoever reads the settings refuses it by its name.
    """
    kept = {name: dict(value) if isinstance(value, Mapping) else value for name, value in settings.items()}
    for name, off in OFF.items():
        group, _, leaf = name.rpartition(".")
        within = kept.get(group, {}) if group else kept
        if name not in fields_of() and leaf in within and within[leaf] == off:
            del within[leaf]
    return kept
