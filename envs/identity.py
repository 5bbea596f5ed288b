"""A task's identity as a digest: the same id may name another task once a file has been edited.

A task of this suite is its id, its options and `DYNAMICS_VERSION`. A task from a file adds the file's bytes.
A task of a module adds that module's source. Where the module is a user's own, it adds the source of all
modules imported there that are a user's own too; where it is installed, the name and the version of its
distribution. Other data that a task reads is not seen.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, NamedTuple

from envs import this_process
from envs.entry_points import FIND_IT, search_working_directory
from envs.errors import ANY_FAULT, check_is_file, unreadable
from envs.families import GRIDVERSE_FILE, OTHERS, OWN, POMDP_FILE, family_of
from envs.options import TaskOptions

DYNAMICS_VERSION: Final = 1
"""Raised by hand with every change after which a task of this suite, or an adapter, behaves otherwise."""
_SUITE: Final = ("envs", "dtqn", "replay")
"""This project's packages, whose versions `DYNAMICS_VERSION` tells."""
_SITES: Final = {"site-packages", "dist-packages"}


class Identity(NamedTuple):
    """A task's digest and what it is made of."""

    digest: str
    """12 hexadecimal digits."""
    made_of: str
    """For people: the names of the files and the packages that the digest covers."""
    is_native: bool
    """Whether the task is this suite's own, so that no file and no other package decides what it is."""


class _Part(NamedTuple):
    name: str
    content: bytes


def identify(id: str, **options: Any) -> Identity:
    """The identity of the task `id` with `options` (`TaskOptions`); the task is not made.

    Raises:
        ValueError: one line, for a file that cannot be read or a module that cannot be imported.
    """
    asked = TaskOptions.read(options)
    chosen = {o.name: getattr(asked, o.name) for o in fields(asked) if getattr(asked, o.name) != o.default}
    parts = list(_parts(id, asked))
    return Identity(
        _digest([id, chosen, DYNAMICS_VERSION], parts),
        _names(parts) or f"this suite's own, dynamics version {DYNAMICS_VERSION}",
        not parts,
    )


def with_modules(task: Identity, modules: Collection[str]) -> Identity:
    """The identity of a task with modules of a user's own that a run has besides; the task's without any.

    An object of this process is among them by its whole name (`envs.this_process`).

    Raises:
        ValueError: one line, for a module that is not there.
    """
    if not modules:
        return task
    search_working_directory()
    for module in modules:
        if not this_process.holds(module) and _file(module) is None:
            raise ValueError(f"{module} cannot be found{FIND_IT}")
    parts = [part for module in modules for part in _module(module)]
    return Identity(_digest([task.digest], parts), f"{task.made_of}, {_names(parts)}", False)


def _digest(first: list[Any], parts: Sequence[_Part]) -> str:
    whole = hashlib.sha256(json.dumps(first, sort_keys=True).encode())
    for part in sorted(set(parts)):
        whole.update(json.dumps([part.name, hashlib.sha256(part.content).hexdigest()]).encode())
    return whole.hexdigest()[:12]


def _names(parts: Sequence[_Part]) -> str:
    return ", ".join(dict.fromkeys(part.name for part in parts))


def _parts(id: str, options: TaskOptions) -> Iterator[_Part]:
    if options.backend == "gym-gridverse":
        yield from _module("gym_gridverse")
    for prefix in (GRIDVERSE_FILE, POMDP_FILE):
        if id.startswith(prefix):
            path = Path(id.removeprefix(prefix))
            yield _Part(path.name, _read(path))
            return
    if family_of(id) in (OWN, OTHERS):
        from envs.adapters.family import modules  # which a native task does not need

        for module in (id,) if this_process.holds(id) else modules(id):
            yield from _module(module)


def _read(path: Path) -> bytes:
    try:
        check_is_file(path)
        return path.read_bytes()
    except OSError as error:
        raise ValueError(unreadable(path, error)) from None


def own_files(name: str) -> set[str]:
    """The files of a module and of those modules of a user's own that it imports.

    Raises:
        ValueError: one line, for a file that cannot be read.
    """
    return {str(source.file) for source in _sources(name) if source.file is not None}


def _module(name: str) -> Iterator[_Part]:
    """A module's source, and its distribution or the modules of a user's own that it imports.

    An object of this process is told by its own content.
    """
    if this_process.holds(name):
        if missing := this_process.problem(name):
            raise ValueError(f"{name}, which {missing}")
        yield _Part(name, this_process.content(name))
        return
    for module, file, content in _sources(name):
        if module == name and _is_installed(file):
            # Gymnasium's version says little of its tasks; their source says all.
            distributions = _distributions().get(module.partition(".")[0], [])
            for distribution in sorted(set(distributions) - {"gymnasium"}):
                yield _Part(f"{distribution} {importlib.metadata.version(distribution)}", b"")
        yield _Part(f"module {module}", content)


class _Source(NamedTuple):
    module: str
    file: Path | None
    """None where there is none, or it is not to be found."""
    content: bytes


def _sources(name: str) -> Iterator[_Source]:
    """A module and, if it is a user's own, the user's own modules that it imports."""
    waiting, seen = [name], set()
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        file = _file(module)
        if module != name and (file is None or _is_installed(file)):
            continue
        content = b"" if file is None else _read(file)
        yield _Source(module, file, content)
        if file is not None and not _is_installed(file) and file.suffix == ".py":
            waiting += sorted(_imports(module, file, content))


def _is_installed(file: Path | None) -> bool:
    return file is not None and (bool(_SITES & set(file.parts)) or file in _installed_elsewhere())


@functools.cache
def _installed_elsewhere() -> frozenset[Path]:
    """Files of packages that were installed into a folder of another name, as by `pip install --target`."""
    return frozenset(
        Path(str(distribution.locate_file(file)))
        for distribution in importlib.metadata.distributions()
        if not _SITES & set(Path(str(distribution.locate_file(""))).parts)
        and distribution.read_text("RECORD")
        for file in distribution.files or ()
    )


_distributions = functools.cache(importlib.metadata.packages_distributions)


def _file(module: str) -> Path | None:
    """The file of a module; None where it has none, or is not to be found."""
    try:
        spec = importlib.util.find_spec(module)
    except ANY_FAULT:  # finding a module imports the packages that it is in, which may do anything
        return None
    return Path(spec.origin) if spec is not None and spec.has_location and spec.origin else None


def _imports(module: str, file: Path, source: bytes) -> set[str]:
    """Modules that a source names in its imports: neither Python's own nor this suite's."""
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    found = set(_ancestors(module))
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return found
    names = [name for node in ast.walk(tree) for name in _imported(node, package) if name]
    found |= {part for name in names for part in (name, *_ancestors(name))}
    return {name for name in found if name.partition(".")[0] not in (*sys.stdlib_module_names, *_SUITE)}


def _imported(node: ast.AST, package: str) -> list[str]:
    """Modules that a statement in a module of `package` may import."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
    base = ".".join([*above, *([node.module] if node.module else [])])
    # `from a import b` may name the module a.b.
    return [base, *(f"{base}.{alias.name}" for alias in node.names)]


def _ancestors(module: str) -> list[str]:
    """The packages around a module, whose `__init__` is run before it."""
    names = module.split(".")
    return [".".join(names[:count]) for count in range(1, len(names))]
