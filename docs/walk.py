"""The code of docs/walk.md, taken from the files that it is about.

    python -m docs.walk    # writes it anew

A marker of the page, a comment of its own, says what stands below it: `<!-- FILE SYMBOL -->` the whole
symbol, `<!-- FILE SYMBOL | FIRST | LAST -->` its lines from the first one that has the text FIRST to the next
one that has LAST.
"""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "walk.md"
_MARKED: Final = re.compile(
    r"^(?P<marker><!-- (?P<file>\S+) (?P<symbol>\S+)(?: \| (?P<first>.+?) \| (?P<last>.+?))? -->)\n"
    r"(?:\[`[^\n]*:\n\n```python\n.*?\n```\n)?",
    re.MULTILINE | re.DOTALL,
)


def code_of(file: str, symbol: str, first: str | None = None, last: str | None = None) -> str:
    """The lines of a function, a method or a class in a file of the repository, or some of them, dedented.

    Raises:
        ValueError: there is no such symbol, or no such line in it.
    """
    text = (ROOT / file).read_text(encoding="utf-8")
    lines = text.splitlines()[_span(ast.parse(text), symbol, file)]
    if first is not None and last is not None:
        start = _line_with(lines, first, 0, f"{file} {symbol}")
        lines = lines[start : _line_with(lines, last, start, f"{file} {symbol}") + 1]
    return textwrap.dedent("\n".join(lines))


def _span(tree: ast.Module, symbol: str, file: str) -> slice:
    node: ast.AST = tree
    for name in symbol.split("."):
        found = [x for x in ast.iter_child_nodes(node) if getattr(x, "name", None) == name]
        if not found:
            raise ValueError(f"{file} has no {symbol}")
        node = found[0]
    assert isinstance(node, ast.FunctionDef | ast.ClassDef) and node.end_lineno is not None
    starts = [node.lineno, *(decorator.lineno for decorator in node.decorator_list)]
    return slice(min(starts) - 1, node.end_lineno)


def _line_with(lines: list[str], text: str, start: int, where: str) -> int:
    for number in range(start, len(lines)):
        if text in lines[number]:
            return number
    raise ValueError(f"{where} has no line with {text!r}")


def _block(match: re.Match[str]) -> str:
    file, symbol = match["file"], match["symbol"]
    code = code_of(file, symbol, match["first"], match["last"])
    source = f"{'from ' if match['first'] else ''}`{symbol}`"
    return f"{match['marker']}\n[`{file}`](../{file}), {source}:\n\n```python\n{code}\n```\n"


def rendered(page: str) -> str:
    """The page with the code that its markers name."""
    return _MARKED.sub(_block, page)


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
