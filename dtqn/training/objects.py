"""Classes and functions that a caller hands over in place of names. Knows nothing of torch."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from dtqn.settings.config import Config, settings_of, wrong
from dtqn.training.directory import RunDir
from envs import this_process

SETTINGS = ("env", "network.core", "network.encoder")
"""Those that may be objects."""


def named(objects: Mapping[str, Any], directory: RunDir | None = None) -> dict[str, str]:
    """The names by which objects are found in this process from now on, by setting.

    A run in `directory` has names for them already. One that is no class and no function is a ConfigError.
    """
    stored = directory.read_config() if directory and objects else None
    return {name: _name(name, thing, stored) for name, thing in objects.items()}


def _name(setting: str, thing: Any, stored: Config | None) -> str:
    if not (hasattr(thing, "__qualname__") or isinstance(thing, functools.partial)):
        right = "it must be a name, a class, or a function that makes one anew at each call"
        raise wrong(setting, repr(thing), right)
    if stored is not None and this_process.holds(old := str(settings_of(stored)[setting])):
        from envs.adapters import foreign  # only here, as few runs need it

        this_process.keep(old, thing)
        foreign.forget()
        return old
    return this_process.name_of(thing)


def kept(config: Config) -> dict[str, str]:
    """The names of the run's objects that no other process finds, by setting."""
    here = settings_of(config)
    return {name: here[name] for name in SETTINGS if this_process.holds(here[name])}


def told(config: Config, then: str = "its runs are trained here, one after the other") -> str:
    """One line about a run that has such objects, which ends in what comes of it; empty for any other."""
    held = [f"{setting} is {name}" for setting, name in kept(config).items()]
    return f"{', '.join(held)}, found in this process alone; {then}" if held else ""


def settled(config: Config, jobs: int | None = None) -> Config:
    """The run with its evaluations in this process where it has such objects, which no other one finds.

    Raises:
        ConfigError: its environments are to be stepped, evaluations played or such runs trained elsewhere.
    """
    if not (held := kept(config)):
        return config
    asked = {"actor.pool": config.actor.pool.name, "evaluator": config.evaluator, "--jobs": jobs}
    for (name, value), right in zip(asked.items(), ("inline", "inline", 1), strict=True):
        if value not in (None, "auto", right):
            why = f"other processes cannot find {next(iter(held.values()))}"
            raise wrong(name, value, f"{why}; put it in a file, or try {right}")
    return config.model_copy(update={"evaluator": "inline"})
