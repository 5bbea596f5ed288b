"""The command line: `main` hands the arguments to one of the commands (`dtqn/commands`).

A call that only reads text (`--help`, `--version`, `envs`, `--print-config`, mistakes) never imports torch.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from dtqn.settings import named_code, trust
from dtqn.settings.config import ConfigError
from dtqn.settings.values import nearest
from dtqn.text import gpu_is_full, one_line
from envs.errors import ANY_FAULT, TaskError

_COMMANDS = {
    "train": ("train", "train"),
    "runs": ("trained", "list_runs"),
    "eval": ("trained", "evaluate"),
    "debug": ("trained", "debug"),
    "maps": ("trained", "maps"),
    "report": ("trained", "report"),
    "export": ("trained", "export"),
    "verify": ("trained", "verify"),
    "watch": ("trained", "watch"),
    "compare": ("experiments", "compare"),
    "records": ("experiments", "records"),
    "sweep": ("experiments", "sweep"),
    "envs": ("tasks", "list_tasks"),
    "settings": ("settings", "settings"),
}
"""The module of `dtqn.commands` and the function of each; only the one that is called is imported."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code: 0, 1 where a run or a check fails, 2 for a mistake of the user's,
    128 + n for signal n."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        with trust.given(trust.OPTION in arguments):
            return _run(arguments)
    except ANY_FAULT as error:
        if (fault := named_code.fault(error)) is None:
            raise
        print(f"error: {fault}", file=sys.stderr)
        return 2


def _run(arguments: list[str]) -> int:
    try:
        command = arguments.pop(0) if arguments and not arguments[0].startswith("-") else "train"
        if command not in _COMMANDS:
            raise ConfigError(f"{command} is not a command{nearest(command, _COMMANDS)}")
        module, function = _COMMANDS[command]
        return getattr(importlib.import_module(f"dtqn.commands.{module}"), function)(arguments)
    except (ConfigError, TaskError) as error:
        print(f"error: {one_line(str(error), 2000)}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # whoever read the output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:  # a name that is too long, say
        if error.filename is None:
            raise
        print(f"error: {one_line(error.filename, 60)}: {error.strerror}", file=sys.stderr)
        return 2
    except RuntimeError as error:
        if type(error).__name__ != "OutOfMemoryError":  # torch's, which is not imported for every command
            raise
        print(f"error: {gpu_is_full(error)}; set CUDA_VISIBLE_DEVICES= to use the CPU", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
