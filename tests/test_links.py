"""Links of the pages lead somewhere: to a file that is there, and to a heading that it has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_PAGES = sorted([*_ROOT.glob("*.md"), *_ROOT.glob("docs/*.md"), *_ROOT.glob("docs/*/*.md")])
_BLOCK = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def _text(page: Path) -> str:
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


def _starts(page: Path) -> set[str]:
    """The names under which GitHub finds the headings of a page."""
    headings = re.findall(r"^#+ (.+?)\s*$", _text(page), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def _dead(page: Path, links: list[str]) -> list[str]:
    """Those of the relative links of a page that lead nowhere."""
    dead = []
    for link in links:
        name, _, start = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (start and start not in _starts(target)):
            dead.append(link)
    return dead


def _relative(text: str) -> list[str]:
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    return [link for link in links if not re.match(r"[a-z]+:", link)]


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(_ROOT)))
def test_no_link_is_dead(page: Path) -> None:
    assert _dead(page, _relative(_text(page))) == []


def test_dead_links_are_found(tmp_path: Path) -> None:
    page, other = tmp_path / "page.md", tmp_path / "other.md"
    other.write_text("# Of [memory](page.md), 7x7's\n\n```\n# no heading\n```\n")
    text = "[a](other.md) [b](gone.md) [c](other.md#of-memory-7x7s) [d](other.md#no-heading) [e](https://a.b)"
    page.write_text(text)
    assert _dead(page, _relative(text)) == ["gone.md", "other.md#no-heading"]
