"""`settings`: all about some settings; and a file of settings by today's names."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from dtqn.commands import argtypes
from dtqn.commands.parser import Parser, listing, option, told
from dtqn.files import write_whole
from dtqn.settings.config import ConfigError, fields_of, spelled, wrong
from dtqn.settings.layers import read_yaml, yaml_of
from dtqn.settings.update import updated
from dtqn.settings.values import nearest
from dtqn.training.directory import file_errors


def settings(arguments: Sequence[str]) -> int:
    """Explain the settings with WORD in their names; without WORD, list all settings, a line each. With
    --update, rewrite a YAML file of settings, a suite or a sweep with today's names of settings, and print
    what has changed; the file's comments are lost."""
    parser = Parser("settings", arguments, "[WORD]", settings.__doc__)
    option(parser, "word WORD", "a part of a setting's name, such as core.memory", nargs="?")
    option(parser, "--update FILE", "YAML file to update", argtypes.path)
    given = parser.read()
    if given["update"] is not None:
        if given["word"] is not None:
            raise wrong("WORD", given["word"], "leave it out with --update")
        return _update(given["update"])
    print("\n".join(listing(list(fields_of())) if given["word"] is None else _about(given["word"])))
    return 0


def _about(word: str) -> list[str]:
    names = [name for name in fields_of() if spelled(word) in name]
    if not names:
        raise wrong("WORD", word, f"no setting has it in its name{nearest(word, fields_of())}")
    indent = " " * 4
    return [
        line
        for name in names
        for line in (name, *textwrap.wrap(told(name), 80, initial_indent=indent, subsequent_indent=indent))
    ]


def _update(file: Path) -> int:
    try:
        content, moved = updated(read_yaml(file))
    except ConfigError as error:
        raise ConfigError(f"--update is {error}") from None
    for old, new in moved.items():
        print(f"{old} is {', '.join(new)}" if new else f"{old} says nothing now")
    if moved:
        with file_errors(file, "cannot be written"):
            write_whole(file, yaml_of(content))
    print(f"{file} is rewritten" if moved else f"{file} has no old names")
    return 0
