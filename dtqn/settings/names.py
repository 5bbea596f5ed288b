"""What a run is called: its task and its agent, each with the settings that make it another one."""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from dtqn.settings import presets
from dtqn.settings.config import Config, ConfigError, fields_of, settings_of
from dtqn.settings.values import typed

_OF_AGENT = ("network.", "learner.", "replay.", "actor.")
_LONGEST = 100
"""Letters of a folder's name."""


class Name(NamedTuple):
    """`CartPole-v1+hide=1,3` and `gtrxl+network.core=mine:make`."""

    task: str
    agent: str


def name_of(config: Config) -> Name:
    """The run's name; an agent that is no shipped preset has what its own name says."""
    options = {name: value for name, value in settings_of(config).items() if name.startswith("task.")}
    task = _changes(config, _base(config.env, {}, None), ("task.",))
    agent = ""
    if config.agent in presets.agents():
        agent = _changes(config, _base(config.env, options, config.agent), _OF_AGENT)
    return Name(config.env + task.replace("+task.", "+"), config.agent + agent)


def _base(env: str, options: dict[str, object], agent: str | None) -> Config:
    """What the presets make of a task, and of an agent there."""
    try:
        if agent is None:
            return presets.resolve_task(env, {})
        return presets.resolve(None, {"env": env, "agent": agent, **options}, {})
    except ConfigError:  # a task that is not there, or not without its options
        return Config() if agent is None else presets.resolve(None, {"agent": agent}, {})


def _changes(config: Config, base: Config, groups: tuple[str, ...]) -> str:
    """The settings of these groups that differ: `+network.width=40+replay.capacity=2000`."""
    usual = {name: presets.usual(name) for name in fields_of()} | settings_of(base)
    values = {name: value for name, value in settings_of(config).items() if name.startswith(groups)}
    return "".join(f"+{name}={typed(value)}" for name, value in values.items() if value != usual[name])


def folder_of(name: str) -> str:
    """A task's or an agent's name as a folder's name; the end of a long one is a digest."""
    safe = re.sub(r"[^\w.+=,-]+", "-", name)
    if len(safe) <= _LONGEST:
        return safe
    return f"{safe[:_LONGEST]}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"
