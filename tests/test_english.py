"""No page, docstring or message has the words and turns that give a translation away."""

from __future__ import annotations

import ast
import re
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_PAGES = [*_ROOT.glob("*.md"), *_ROOT.glob("docs/*.md"), *_ROOT.glob("docs/tasks/*.md")]
_SOURCES = [file for name in ("dtqn", "envs", "replay") for file in _ROOT.glob(f"{name}/**/*.py")]
_TURNS = re.compile(
    r"\b(hangs? on|trainings|whoever|that of|those of|beside|alike in|be it|by itself|of which)\b", re.I
)
_CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)


def _found(text: str) -> list[str]:
    """Those in a text of several words: one alone is a name."""
    return _TURNS.findall(" ".join(_CODE.sub("", text).split())) if " " in text else []


def test_pages() -> None:
    assert {page.name: found for page in _PAGES if (found := _found(page.read_text(encoding="utf-8")))} == {}


def test_docstrings_and_messages() -> None:
    found = {}
    for file in _SOURCES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and (turns := _found(node.value))
            ):
                found[f"{file.relative_to(_ROOT)}:{node.lineno}"] = turns
    assert found == {}
