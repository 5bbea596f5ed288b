"""The API reference is built without a problem, and finds those that are planted."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from pdoc import doc

from docs import reference

_PLANTED = '''
"""See docs/debug.md and docs/missing.md, `envs.make_vector`, `envs.make_nothing` and `learner.gamma`."""

from typing import NamedTuple


class Lamp(NamedTuple):
    """See `Lamp.lit`, `Lamp.colour` and `other.thing`."""

    lit: bool
    """As `dtqn.types.StepInputs.first`, not `dtqn.types.Nothing`."""

    def switch(self) -> None:
        pass

    def _hidden(self) -> None:
        pass


class Pair(NamedTuple):
    left: Lamp
    """A lamp."""


def light() -> None:
    """By `Lamp.switch` and `replay.memory_dtype`."""


def dark() -> None:
    pass
'''


def test_planted_problems_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "planted_lamps.py").write_text(_PLANTED)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    try:
        found = list(reference.problems(doc.Module.from_name("planted_lamps")))
    finally:
        sys.modules.pop("planted_lamps", None)
    assert found == [
        "planted_lamps: names `envs.make_nothing`, which there is not",
        "planted_lamps: names docs/missing.md, which there is not",
        "planted_lamps.Lamp: names `Lamp.colour`, which there is not",
        "planted_lamps.Lamp.lit: names `dtqn.types.Nothing`, which there is not",
        "planted_lamps.Lamp.switch: has no docstring",
        "planted_lamps.Pair: has no docstring",
        "planted_lamps.dark: has no docstring",
    ]


def test_every_import_of_the_pages_for_developers_is_in_the_reference() -> None:
    pages = Path(__file__).parents[1] / "docs"
    lines = [line.split() for page in pages.glob("*.md") for line in page.read_text().splitlines()]
    named = {words[1] for words in lines if words[:1] == ["from"] and words[2:3] == ["import"]}
    ours = {name for name in named if name.partition(".")[0] in ("dtqn", "envs", "replay")}
    assert ours and ours <= set(reference.MODULES)


@pytest.mark.slow
def test_the_reference_is_built_without_a_problem(tmp_path: Path) -> None:
    assert reference.build(tmp_path) == []
    for name in reference.MODULES:
        assert (tmp_path / f"{name.replace('.', '/')}.html").is_file()
