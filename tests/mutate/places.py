"""Where a break is: the syntax tree of the source in place of file names and lines.

A symbol is the qualified name of a function, class or named value (`Learner._step`, `GATE_BIAS`), looked for
in all packages; where several files have it, the module's name goes before it (`checkpoint:save`). Moving it
to another place loses no break. A test is a file under `tests` without its ending (`replay/test_buffer`), a
function that one file has (`test_ten_in_a_row_raise`), or both (`test_learner::test_twin`).
"""

from __future__ import annotations

import ast
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
    is_expression = isinstance(old, ast.Expr) and isinstance(new, ast.Expr)
    wanted = ast.unparse(old)
    kind = ast.expr if is_expression else ast.stmt
    found = [node for node in ast.walk(symbol) if isinstance(node, kind) and ast.unparse(node) == wanted]
    node = _one(found, f"{row.old!r} in {row.symbol}")
    module = ast.parse((tree / file).read_text(encoding="utf-8"))
    return Place(file, ast.unparse(_Exchange(node, new.value if is_expression else new).visit(module)))


class _Exchange(ast.NodeTransformer):
    """Puts one node in another's place; nodes are compared by where they stand in the file."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = _stand(old), new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if _stand(node) == self._old else self.generic_visit(node)


def _stand(node: ast.AST) -> tuple[object, ...]:
    names = ("lineno", "col_offset", "end_lineno", "end_col_offset")
    return (type(node), *(getattr(node, name, None) for name in names))


def _one(found: list[_T], what: str) -> _T:
    if len(found) != 1:
        raise NotFound(f"{what} is there {len(found)} times")
    return found[0]


def _parsed(text: str) -> ast.stmt:
    return ast.parse(text).body[0]


def _symbols(tree: Path, name: str) -> Iterator[tuple[str, ast.AST]]:
    """(File, node) of what has the name in the packages."""
    module, _, symbol = name.rpartition(":")
    for file, found in _sources(tree).items():
        if symbol in found and module in ("", Path(file).stem):
            for node in found[symbol]:
                yield file, node


@functools.cache
def _sources(tree: Path) -> dict[str, dict[str, list[ast.AST]]]:
    files = sorted(path for package in PACKAGES for path in (tree / package).rglob("*.py"))
    return {path.relative_to(tree).as_posix(): _named(path) for path in files}


def _named(path: Path) -> dict[str, list[ast.AST]]:
    found: dict[str, list[ast.AST]] = {}
    for name, node in _walk(ast.parse(path.read_text(encoding="utf-8")), ""):
        found.setdefault(name, []).append(node)
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
    file, _, function = name.rpartition("::")
    if (tree / "tests" / f"{name}.py").is_file():
        return f"tests/{name}.py"
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
