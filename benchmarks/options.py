"""A benchmark's run: its settings on the command line, and its facts beside what was measured of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dtqn.settings.config import Config, ConfigError
from dtqn.training import machine


def settings_of(rest: Sequence[str]) -> dict[str, str]:
    """Settings by dotted name, given as `--name value` or `--name=value`.

    Raises:
        ConfigError: a word is no option, or the last option has no value.
    """
    words = [part for text in rest for part in (text.split("=", 1) if text.startswith("--") else [text])]
    names, values = words[::2], words[1::2]
    if wrong := [name for name in names if not name.startswith("--")]:
        raise ConfigError(f"{wrong[0]} is no option; settings are --name value")
    if len(names) > len(values):
        raise ConfigError(f"{names[-1]} has no value")
    return {name.removeprefix("--").replace("-", "_"): x for name, x in zip(names, values, strict=True)}


def origin(config: Config, about: Mapping[str, Any]) -> dict[str, Any]:
    """Which run and checkpoint (`about` it) a figure is of, and the machine that measured it."""
    facts = {"env": config.env, "agent": config.agent, "seed": config.seed, "machine": machine.name()}
    return facts | {name: about[name] for name in ("env_steps", "learner_steps", "code")}
