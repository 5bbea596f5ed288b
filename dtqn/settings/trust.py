"""Code that settings name, and whether the user asked for it.

A file may be somebody else's, so code that it names is run where the user has typed the name, where they have
said `--trust-code`, or where a run of theirs has it, as a file of digests outside of all runs' folders says.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from dtqn.files import locked
from dtqn.settings.group import ConfigError
from dtqn.settings.values import is_own
from dtqn.text import one_line
from envs import entry_points, this_process
from envs.errors import check_is_file
from envs.families import GRIDVERSE_FILE, OWN, family_of

OPTION = "--trust-code"
"""Of every command."""
VARIABLE = "DTQN_TRUST_CODE"
"""In the environment of processes that a command starts for runs that it has looked at."""
_NAMES = ("env", "network.core", "network.encoder")
_ARGUMENTS = {name: "task.kwargs" if name == "env" else f"{name}.kwargs" for name in _NAMES}
SETTINGS = (*_NAMES, "task.backend", *_ARGUMENTS.values())
"""Settings that say which code is run, and with what."""
_trusts: ContextVar[bool] = ContextVar("trusts", default=False)
_of_this_process: set[str] = set()


@contextlib.contextmanager
def given(trust_code: bool) -> Iterator[None]:
    """A block in which any code may be run, if `trust_code` says so."""
    token = _trusts.set(_trusts.get() or trust_code)
    try:
        yield
    finally:
        _trusts.reset(token)


class UntrustedError(ConfigError):
    """Code that only a file names."""


def check(asked: Mapping[str, tuple[Any, str | None]]) -> None:
    """Refuse code that only a file names.

    Args:
        asked: by name, the value of a setting and the file that it is from; None: the user has typed it.

    Raises:
        UntrustedError: one line with the file, and the code that it wants to run.
    """
    values = {name: value for name, (value, _) in asked.items()}
    code = named(values)
    of_files = {name: asked[name][1] for name in _NAMES if name in code and asked[name][1] is not None}
    if not of_files or _trusts.get() or os.environ.get(VARIABLE) == "1" or _digest(code) in _known():
        return
    wanted = ", ".join(f"{name} is {one_line(values[name], 80)}" for name in of_files)
    raise UntrustedError(
        f"{next(iter(of_files.values()))}: {wanted}, which is code; "
        "give --trust-code to run it, if you know what it does (docs/security.md)"
    )


def named(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings among `values` that name code, with the arguments that it is called with."""
    code = {name: values[name] for name in _NAMES if name in values and _is_code(name, values)}
    arguments = sorted(_ARGUMENTS[name] for name in code)
    return code | {name: values.get(name) or {} for name in arguments}


def _is_code(name: str, values: Mapping[str, Any]) -> bool:
    value = str(values[name])
    if this_process.holds(value):  # which runs nothing: the user has handed it over, or it is not there
        return False
    if name != "env":
        return is_own(value)
    of_package = value.startswith(GRIDVERSE_FILE) and values.get("task.backend") == "gym-gridverse"
    return of_package or family_of(value) is OWN  # gym-gridverse's files name functions


def remember(values: Mapping[str, Any]) -> None:
    """Keep in mind that the user has a run with these settings; without a home, for this process alone."""
    code = named(values)
    if not code or (digest := _digest(code)) in _known():
        return
    _of_this_process.add(digest)
    with contextlib.suppress(OSError):
        file = known_file()
        file.parent.mkdir(parents=True, exist_ok=True)
        with locked(file) as stream:
            stream.write(f"{digest} {json.dumps(code, sort_keys=True, default=str)}\n".encode())


def known_file() -> Path:
    """The list of code that runs of the user's name, a line each. Who takes one out takes the trust back."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "dtqn" / "trusted-code.txt"


def _known() -> set[str]:
    with contextlib.suppress(OSError, ValueError):
        lines = known_file().read_text(encoding="utf-8").splitlines()
        return _of_this_process.union(line.partition(" ")[0] for line in lines)
    return _of_this_process


def _digest(code: Mapping[str, Any]) -> str:
    """Of names, arguments and the modules' places: a `task.py` in another folder is another one."""
    places = {name: _place(str(value)) for name, value in code.items() if name in _NAMES}
    content = json.dumps([dict(code), places], sort_keys=True, default=str)
    return hashlib.sha256(content.encode()).hexdigest()


def _place(value: str) -> str:
    """Where the package of a name lies, which is not imported; of a world's file, what it holds."""
    head, _, rest = value.partition(":")
    if value.startswith(GRIDVERSE_FILE):
        with contextlib.suppress(OSError):
            check_is_file(Path(rest))
            return hashlib.sha256(Path(rest).read_bytes()).hexdigest()
        return ""
    entry_points.search_working_directory()
    try:
        found = importlib.util.find_spec(head.partition(".")[0])
    except (ImportError, ValueError):
        return ""
    place = found and (found.origin or next(iter(found.submodule_search_locations or ()), None))
    return os.path.realpath(place) if place else ""
