"""The walk through the twins: its code is that of the files that it names."""

from __future__ import annotations

import re

import pytest

from docs import walk

_PAGE = walk.PAGE.read_text(encoding="utf-8")
_BLOCK = r"^\[`(\S+)`\]\(\.\./\S+\), (?:from )?`\S+`:\n\n```python\n(.*?)\n```$"
_BLOCKS = re.findall(_BLOCK, _PAGE, re.M | re.S)


def test_every_block_stands_in_its_file() -> None:
    assert len(_BLOCKS) == _PAGE.count("```python") > 30
    for file, code in _BLOCKS:
        lines = [line.strip() for line in (walk.ROOT / file).read_text(encoding="utf-8").splitlines()]
        wanted = [line.strip() for line in code.splitlines()]
        starts = range(len(lines) - len(wanted) + 1)
        assert any(lines[start : start + len(wanted)] == wanted for start in starts), (file, code)


def test_the_page_is_what_the_command_writes() -> None:
    assert walk.rendered(_PAGE) == _PAGE, "python -m docs.walk writes it anew"


def test_it_goes_through_all_five_twins() -> None:
    files = {file for file, _ in _BLOCKS}
    for name in ("trainer_twin", "learner_twin", "naive_replay", "gtrxl_twin", "losses_twin"):
        assert f"tests/reference/{name}.py" in files


def test_code_that_has_changed_is_written_anew() -> None:
    marker = "<!-- tests/reference/losses_twin.py priority -->\n"
    written = walk.rendered(f"Before.\n\n{marker}\nAfter.\n")
    assert "return max(eta * max(sizes)" in written and written.endswith("```\n\nAfter.\n")
    assert walk.rendered(written.replace("eta", "alpha")) == written


def test_a_part_and_what_is_not_there() -> None:
    file = "tests/reference/losses_twin.py"
    part = walk.code_of(file, "targets", "for k in range", "y +=")
    assert part == "for k in range(1, end - t + 1):\n    y += gamma ** (k - 1) * reward[t + k]"
    with pytest.raises(ValueError, match="has no nothing"):
        walk.code_of(file, "nothing")
    with pytest.raises(ValueError, match="has no line with 'gone'"):
        walk.code_of(file, "targets", "gone", "y +=")
