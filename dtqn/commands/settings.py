"""`settings`: all about some settings."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from dtqn.commands.parser import Parser, listing, option, told
from dtqn.settings.config import fields_of, spelled, wrong
from dtqn.settings.values import nearest


def settings(arguments: Sequence[str]) -> int:
    """Explain the settings with WORD in their names; without WORD, list all settings, a line each."""
    parser = Parser("settings", arguments, "[WORD]", settings.__doc__)
    option(parser, "word WORD", "a part of a setting's name, such as core.memory", nargs="?")
    word = parser.read()["word"]
    print("\n".join(listing(list(fields_of())) if word is None else _about(word)))
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
