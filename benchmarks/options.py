"""What benchmarks share: settings on the command line, one-line errors, files, and facts about a run."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dtqn.files import write_whole
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


def one_line_errors(
    main: Callable[[Sequence[str] | None], None],
) -> Callable[[Sequence[str] | None], int]:
    """`main` with an exit code: 0, or 2 after one line about a wrong setting or a missing file."""

    @functools.wraps(main)
    def run(arguments: Sequence[str] | None = None) -> int:
        try:
            main(arguments)
        except (ConfigError, OSError) as error:
            print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
            return 2
        return 0

    return run


def write(file: Path | None, measured: Mapping[str, Any]) -> None:
    """Write what was measured, as JSON, where there is a file to write to; its folder is made."""
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps(measured, indent=2) + "\n")
