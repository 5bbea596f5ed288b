"""Code of a user's own, named by a setting of the form `module:name`."""

from __future__ import annotations

import contextlib
import importlib
import traceback
from collections.abc import Callable
from typing import Any

from dtqn.settings.config import wrong
from envs import this_process
from envs.entry_points import brief_error, in_words, not_imported, search_working_directory
from envs.entry_points import located as located
from envs.errors import ANY_FAULT as ANY_FAULT
from envs.errors import meant

_LOADED: dict[str, str] = {}
"""The files of modules that were loaded here and of the user's own modules that they import, each with the
setting that named it, `network.core is a:b`."""


def found(name: str) -> Any:
    """What the suite itself calls `module:name`."""
    module, _, within = name.partition(":")
    return getattr(importlib.import_module(module), within)


def load(setting: str, value: str) -> Callable[..., Any]:
    """The function or class that `value` names, for the setting of that name.

    A module is looked for where Python looks, and last in the working directory, like a task's module.

    Raises:
        ConfigError: the module cannot be imported, or has no such thing to call.
    """
    module_name, _, name = value.partition(":")
    if missing := this_process.problem(value):
        raise wrong(setting, value, f"it {missing}")
    search_working_directory()
    try:
        found: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise wrong(setting, value, f"{module_name} {not_imported(module_name, value, error)}") from None
    except ANY_FAULT as error:  # whatever the module does
        raise wrong(setting, value, f"importing {module_name} failed: {located(error)}") from None
    _remember(found, f"{setting} is {value}")
    for part in name.split("."):
        if not hasattr(found, part):
            hint = meant(part, [n for n in vars(found) if n[:1] != "_"]) or f"; define {part} there"
            raise wrong(setting, value, f"{module_name} has no {name}{hint}")
        found = getattr(found, part)
    if not callable(found):
        kind = type(found).__name__
        raise wrong(setting, value, f"it is of type {kind}; it must be a function or a class")
    return found


def _remember(module: Any, whose: str) -> None:
    from envs import identity  # only here, as it knows all tasks

    if file := getattr(module, "__file__", None):
        _LOADED[file] = whose
    with contextlib.suppress(ValueError):  # a file that cannot be read has been imported all the same
        for file in identity.own_files(module.__name__):
            _LOADED.setdefault(file, whose)


def fault(error: BaseException) -> str | None:
    """An error that came out of such a module, on one line with its last place there; None of any other."""
    for place in reversed(traceback.extract_tb(error.__traceback__)):
        if place.filename in _LOADED:
            return f"{_LOADED[place.filename]}, which failed: {brief_error(error)} ({in_words(place)})"
    return None
