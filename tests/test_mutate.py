"""The table of breaks still fits the code: whether the tests notice them is for `python -m tests.mutate`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutate import __main__ as mutate
from tests.mutate import places
from tests.mutate.table import TABLE, Break

ROOT = Path(__file__).parents[1]


def test_names_are_of_one_break():
    names = [row.name for row in TABLE]
    assert 100 <= len(set(names)) == len(names) <= 150


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_a_break_applies(row: Break):
    place = places.find(ROOT, row)
    assert place.broken != ast.unparse(ast.parse((ROOT / place.file).read_text(encoding="utf-8")))
    places.find_test(ROOT, row.test)


def _small_tree(folder: Path) -> None:
    for name, text in _FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


_FILES = {
    "dtqn/__init__.py": "",
    "dtqn/double.py": "def double(x):\n    if x:\n        x = x + 0\n    return 2 * x\n",
    "envs/double.py": "class Double:\n    of: int = 1 + 2\n    def double(self, x):\n        return 2 * x\n",
    "replay/other.py": "def same():\n    return 1\n",
    "dtqn/other.py": "def same():\n    return 1\n",
    "tests/test_double.py": (
        "from dtqn.double import double\n\ndef test_of_two():\n    assert double(2) == 4\n\n"
        "def test_of_three():\n    assert double(3) == 6\n"
    ),
}


@pytest.mark.parametrize(
    ("symbol", "old", "new", "test", "word"),
    [
        ("double", "2 * x", "x ** 2", "test_double", "noticed"),
        ("double", "2*x", "x ** 2", "test_of_three", "noticed"),
        ("double", "2*x", "x ** 2", "tests/test_double", "noticed"),
        ("double", "2 * x", "x ** 2", "test_double::test_of_two", "SURVIVED"),
        ("double", "x = x + 0", "pass", "test_double", "SURVIVED"),
        ("double", "2 * x", "x ** 2", "test_of_four", "DOES NOT APPLY"),
        ("double", "3 * x", "x ** 2", "test_double", "DOES NOT APPLY"),
        ("double", "x", "y", "test_double", "DOES NOT APPLY"),
        ("same", "1", "2", "test_double", "DOES NOT APPLY"),
        ("nothing", "1", "2", "test_double", "DOES NOT APPLY"),
        ("double", "2 * x", "__import__('os').abort()", "test_double", "noticed"),
    ],
)
def test_what_is_said_of_a_break(tmp_path, symbol, old, new, test, word):
    _small_tree(tmp_path)
    assert mutate.judge(tmp_path, Break("it", symbol, old, new, test)).word == word
    assert {name: (tmp_path / name).read_text() for name in _FILES} == _FILES


@pytest.mark.parametrize(
    ("symbol", "old", "new", "broken"),
    [
        ("Double.double", "2 * x", "x + 1", "return x + 1"),
        ("Double.of", "1 + 2", "4", "of: int = 4"),
        ("other:double", "1", "2", None),
        ("double:Double.double", "return 2 * x", "return x", "return x"),
    ],
)
def test_a_symbol_is_a_qualified_name_with_its_module_where_it_takes_one(tmp_path, symbol, old, new, broken):
    _small_tree(tmp_path)
    row = Break("it", symbol, old, new, "test_double")
    if broken is None:
        with pytest.raises(places.NotFound, match=symbol):
            places.find(tmp_path, row)
    else:
        place = places.find(tmp_path, row)
        assert place.file == "envs/double.py" and broken in place.broken
