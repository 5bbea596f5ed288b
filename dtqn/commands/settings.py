"""`settings`: rewrite a file by today's names."""

from __future__ import annotations

from collections.abc import Sequence

from dtqn.commands import argtypes
from dtqn.commands.parser import Parser, option
from dtqn.files import write_whole
from dtqn.settings.config import ConfigError
from dtqn.settings.layers import read_yaml, yaml_of
from dtqn.settings.update import updated
from dtqn.training.directory import file_errors

_DESCRIPTION = """\
Rewrite a YAML file of settings, a suite or a sweep by today's names of settings, and say what has moved.
Its comments are lost."""


def settings(arguments: Sequence[str]) -> int:
    """Bring a file of settings up to date."""
    parser = Parser("settings", arguments, "--update FILE", _DESCRIPTION)
    option(parser, "--update FILE", "the file", argtypes.path)
    file = parser.read()["update"]
    if file is None:
        raise ConfigError("--update is missing: it is the file to rewrite")
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
