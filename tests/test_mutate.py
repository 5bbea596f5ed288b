"""The table of breaks still fits the code: whether the tests notice them is for `python -m tests.mutate`."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest

from tests.mutate import __main__ as mutate
from tests.mutate.table import TABLE, Break

ROOT = Path(__file__).parents[1]


def test_names_are_of_one_break():
    names = [row.name for row in TABLE]
    assert len(set(names)) == len(names) >= 60


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_a_break_applies(row: Break):
    text = (ROOT / row.file).read_text(encoding="utf-8")
    assert text.count(row.old) == 1
    broken = mutate.apply(text, row)
    assert ast.dump(ast.parse(broken)) != _dumped(row.file)  # a comment would be no break
    assert row.tests
    for test in row.tests:
        file, *name = test.split("::")
        assert set(name) <= _functions(file)


@functools.cache
def _dumped(file: str) -> str:
    return ast.dump(ast.parse((ROOT / file).read_text(encoding="utf-8")))


@functools.cache
def _functions(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def _small_tree(folder: Path) -> None:
    (folder / "double.py").write_text("def double(x):\n    return 2 * x\n")
    (folder / "test_double.py").write_text(
        "from double import double\n\ndef test_of_two():\n    assert double(2) == 4\n\n"
        "def test_of_three():\n    assert double(3) == 6\n"
    )


@pytest.mark.parametrize(
    ("old", "new", "test", "word"),
    [
        ("2 * x", "x ** 2", "test_double.py", "noticed"),
        ("2 * x", "x ** 2", "test_double.py::test_of_two", "SURVIVED"),
        ("2 * x", "x ** 2", "test_double.py::test_of_four", "DOES NOT APPLY"),
        ("3 * x", "x ** 2", "test_double.py", "DOES NOT APPLY"),
        ("x", "y", "test_double.py", "DOES NOT APPLY"),
        ("2 * x", "__import__('os').abort()", "test_double.py", "noticed"),
    ],
)
def test_what_is_said_of_a_break(tmp_path, old, new, test, word):
    _small_tree(tmp_path)
    before = (tmp_path / "double.py").read_text()
    assert mutate.judge(tmp_path, Break("it", "double.py", old, new, (test,))).word == word
    assert (tmp_path / "double.py").read_text() == before
