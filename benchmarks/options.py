"""What benchmarks share: options on the command line, one-line errors, runs alone, and files."""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dtqn.files import write_whole
from dtqn.settings.config import ConfigError


def parser_of(doc: str | None) -> argparse.ArgumentParser:
    """A parser that says the first line of a module's docstring and takes `--json FILE`."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    return parser


def settings_of(rest: Sequence[str]) -> dict[str, str]:
    """Settings by dotted name, given as `--name value` or `--name=value`.

    Raises:
        ConfigError: a word is not an option, or the last option has no value.
    """
    words = [part for text in rest for part in (text.split("=", 1) if text.startswith("--") else [text])]
    names, values = words[::2], words[1::2]
    if wrong := [name for name in names if not name.startswith("--")]:
        raise ConfigError(f"{wrong[0]} is not an option; settings are --name value")
    if len(names) > len(values):
        raise ConfigError(f"{names[-1]} has no value")
    return {name.removeprefix("--").replace("-", "_"): x for name, x in zip(names, values, strict=True)}


def chosen(option: str, text: str, among: Collection[str]) -> list[str]:
    """The names that an option gives, with commas between them; a ConfigError where one is unknown."""
    names = text.split(",")
    if unknown := [name for name in names if name not in among]:
        raise ConfigError(f"{option} is {unknown[0]}; there are {', '.join(among)}")
    return names


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


@contextlib.contextmanager
def run_alone(settings: Mapping[str, Any]) -> Iterator[Path]:
    """The folder of a run of ours, which has ended, on one core and with its evaluations inline."""
    alone = {**settings, "wandb": "disabled", "threads": 1, "evaluator": "inline"}
    words = [f"--{name}={value}" for name, value in alone.items()]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "dtqn", *words, f"--run-dir={folder}/run"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        yield Path(folder, "run")


def write(file: Path | None, measured: Mapping[str, Any]) -> None:
    """Write what was measured, as JSON, where there is a file to write to; its folder is made."""
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps(measured, indent=2) + "\n")
