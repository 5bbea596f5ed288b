"""The names of tasks of other packages: a Gymnasium id, `CartPole-v1`, or `package.module:Class`.

Packages whose ids are known are imported when one is asked for; another package's ids can be had as
`package:Id-v0`, which imports it first (Gymnasium's own notation).
"""

from __future__ import annotations

import difflib
import re
from typing import Any, NamedTuple

import gymnasium

from envs import entry_points


class Package(NamedTuple):
    """A package with tasks."""

    prefix: str
    """The beginning of its ids, a regular expression for letters of either case."""
    module: str
    """The module to import so that Gymnasium knows them."""


PACKAGES = (
    Package("MiniGrid-", "minigrid"),
    Package("BabyAI-", "minigrid"),
    Package("popgym-(?!(?-i:[a-z]))", "popgym"),  # in lower case they are native
    Package("ALE/", "ale_py"),
)


def modules(id: str) -> tuple[str, ...]:
    """The modules that define a task of `find`: the one in its name, and its entry point's.

    Empty for a native task's id. Errors as `find`, except errors in making the environment.
    """
    package, parts = _package(id), entry_points.split(id)
    if package is not None:
        _import(package, id)
    if parts is not None:
        entry_points.load(parts[0], id)
    names = [] if parts is None else [parts[0]]
    registered = gymnasium.registry.get(id) or gymnasium.registry.get(id.rpartition(":")[2])
    if registered is not None and not _is_native(registered) and registered.entry_point is not None:
        entry = registered.entry_point
        names.append(
            entry.partition(":")[0] if isinstance(entry, str) else str(getattr(entry, "__module__", ""))
        )
    return tuple(dict.fromkeys(names))


def _package(id: str) -> Package | None:
    return next((package for package in PACKAGES if re.match(package.prefix, id, re.IGNORECASE)), None)


def is_known(id: str) -> bool:
    """Whether the name is a task of another package; a ValueError where it is nearly one."""
    package = _package(id)
    if package is not None:
        _import(package, id)
    if id in gymnasium.registry:
        return True
    parts = entry_points.split(id)
    if parts is not None:
        module, name = entry_points.load(parts[0], id), parts[1]
        if hasattr(module, name) or name in gymnasium.registry:
            return True
        raise ValueError(
            f"unknown task {id!r}: {parts[0]} has neither a class nor a registered task {name!r} "
            f"(it is {getattr(module, '__file__', 'built in')})"
        )
    known = [key for key, spec in gymnasium.registry.items() if not _is_native(spec)]
    near = difflib.get_close_matches(id, known, n=2, cutoff=0.85)
    if near or package is not None:
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ValueError(f"unknown task {id!r}{hint}")
    return False


def _is_native(spec: Any) -> bool:
    return spec.entry_point == "envs.registry:gymnasium_env"


def _import(package: Package, id: str) -> None:
    module = entry_points.load(package.module, id, f"; python -m pip install {package.module} installs it")
    if package.module == "ale_py":  # no greeting from every environment
        module.ALEInterface.setLoggerMode(module.LoggerMode.Error)
