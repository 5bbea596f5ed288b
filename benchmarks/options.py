"""Settings of a run on the command line of a benchmark."""

from __future__ import annotations

from collections.abc import Sequence

from dtqn.settings.config import ConfigError


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
