"""This program: what people type, what starts processes of it, whether it is itself, and its digest."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_OF_NO_RUN = (
    *("dtqn/experiments", "dtqn/inspection", "dtqn/export"),
    *("dtqn/commands", "dtqn/plots.py", "dtqn/cli.py"),
)
"""Sources that no training reads: they compare, debug, report, export, show, draw and read flags."""


@functools.cache
def code_digest() -> str:
    """12 hexadecimal digits of the sources that a training runs: all packages' but those in `_OF_NO_RUN`."""
    whole = hashlib.sha256()
    for file in sorted(path for top in ("dtqn", "envs", "replay") for path in (_ROOT / top).rglob("*.py")):
        name = file.relative_to(_ROOT).as_posix()
        if not name.startswith(_OF_NO_RUN):
            whole.update(f"{name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return whole.hexdigest()[:12]


def versions(packages: Sequence[str]) -> dict[str, str]:
    """The version of Python, and of each of the packages that is installed."""
    found = {"python": platform.python_version()}
    for name in packages:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:  # our own sources, not installed
            continue
    return found


def program() -> str:
    """The command that the user really has: `python run.py`, `dtqn` or `python -m dtqn`."""
    started = Path(sys.argv[0] if sys.argv else "")
    if started.name == "run.py":
        return f"python {shlex.quote(str(started))}"
    return "dtqn" if started.stem == "dtqn" else "python -m dtqn"


WORKER = (sys.executable, "-P", "-m", "dtqn")
"""The command of another process of this program; it wants `worker_environment`."""


def worker_environment() -> dict[str, str]:
    """The environment in which a worker imports what this process imports, wherever it is started."""
    path = [os.path.abspath(entry) for entry in sys.path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


def shadowed() -> str | None:
    """One line about a package that stands in the place of our `envs` or `replay`; None where none does."""
    for name in ("envs", "replay"):
        spec = importlib.util.find_spec(name)
        places = [Path(place).resolve() for place in (spec and spec.submodule_search_locations) or []]
        if _ROOT / name in places:
            continue
        where = str(places[0]) if places else str(spec.origin) if spec else "missing"
        own = f"and not dtqn's own, {_ROOT / name}"
        return f"the package {name} is {where}, {own}; rename it or leave its folder"
    return None
