"""Where a break is: the syntax tree of the source in place of file names and lines.

A symbol is the qualified name of a function, class or named value (`Learner._step`, `MOVED`), looked for
in all packages; where several files have it, the module's name goes before it (`checkpoint:save`). Moving it
to another place loses no break. A test is a file without its ending (`test_buffer`, or `replay/test_buffer`
where several have the name), a function that one file has (`test_ten_in_a_row_raise`), or both
(`test_learner::test_twin`).
"""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from tests.mutate.table import Break

_T = TypeVar("_T")
PACKAGES = ("dtqn", "envs", "replay")


class Place(NamedTuple):
    file: str
    """Relative to the tree."""
    broken: str
    """The file's text with the break in it."""


class NotFound(Exception):
    """What a break names is not there exactly once."""


def find(tree: Path, row: Break) -> Place:
    """The one place of the break; NotFound where there is none or more than one."""
    file, symbol = _one(list(_symbols(tree, row.symbol)), f"symbol {row.symbol}")
    old, new = _parsed(row.old), _parsed(row.new)
    if isinstance(old, ast.Expr) and isinstance(new, ast.Expr):
        found = _equal(symbol, old.value, ast.expr)
        place, instead = _one(found, f"{row.old!r} in {row.symbol}"), new.value
    else:
        place, instead = _one(_equal(symbol, old, ast.stmt), f"{row.old!r} in {row.symbol}"), new
    broken = copy.deepcopy(_modules(tree)[file], {id(place): instead})  # `instead` counts as its copy
    return Place(file, ast.unparse(broken))


def _equal(symbol: ast.AST, wanted: ast.AST, kind: type[ast.AST]) -> list[ast.AST]:
    """The nodes of a symbol that read the same."""
    text = ast.unparse(wanted)
    return [node for node in ast.walk(symbol) if isinstance(node, kind) and ast.unparse(node) == text]


def _one(found: list[_T], what: str) -> _T:
    if len(found) != 1:
        raise NotFound(f"{what} is there {len(found)} times")
    return found[0]


def _parsed(text: str) -> ast.stmt:
    return ast.parse(text).body[0]


def _symbols(tree: Path, name: str) -> Iterator[tuple[str, ast.AST]]:
    """(File, node) of what has the name in the packages."""
    module, _, symbol = name.rpartition(":")
    for file, node in _named(tree).get(symbol, []):
        if module in ("", Path(file).stem):
            yield file, node


@functools.cache
def _modules(tree: Path) -> dict[str, ast.Module]:
    """The source files, as they were when a break was first looked for in this tree."""
    files = sorted(path for package in PACKAGES for path in (tree / package).rglob("*.py"))
    return {path.relative_to(tree).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in files}


@functools.cache
def _named(tree: Path) -> dict[str, list[tuple[str, ast.AST]]]:
    """(File, node) of every qualified name."""
    found: dict[str, list[tuple[str, ast.AST]]] = {}
    for file, module in _modules(tree).items():
        for name, node in _walk(module, ""):
            found.setdefault(name, []).append((file, node))
    return found


def _walk(parent: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    """Named nodes below a module, class or function."""
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and not isinstance(parent, ast.FunctionDef):
                yield prefix + target.id, node
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield prefix + node.name, node
            yield from _walk(node, f"{prefix}{node.name}.")


def find_test(tree: Path, name: str) -> str:
    """File or node id for pytest; NotFound where the name fits none or more than one."""
    if files := [test for test in _tests(tree) if f"/{test}".endswith(f"/{name}.py")]:
        return _one(files, f"file {name}")
    file, _, function = name.rpartition("::")
    fits = [
        test
        for test, functions in _tests(tree).items()
        if function in functions and (not file or test.endswith(f"/{file}.py"))
    ]
    return f"{_one(fits, f'test {name}')}::{function}"


@functools.cache
def _tests(tree: Path) -> dict[str, set[str]]:
    """Names of the test functions of each file."""
    return {
        path.relative_to(tree).as_posix(): {
            node.name
            for node in ast.parse(path.read_text(encoding="utf-8")).body
            if isinstance(node, ast.FunctionDef)
        }
        for path in sorted((tree / "tests").rglob("test_*.py"))
    }
