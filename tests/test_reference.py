"""The site is built without a problem, and what is wrong with docstrings is found."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs import conf

_DOCS = Path(__file__).parents[1] / "docs"

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


_SITE = """
import sys
sys.path[:0] = [{folder!r}, {root!r}]
from docs import conf
from docs.conf import *
conf.PACKAGES += ("planted_lamps",)
"""


def _build(source: Path, out: Path) -> list[str]:
    """The warnings of a site."""
    command = [sys.executable, "-m", "sphinx", "-q", "--no-color", "--keep-going", str(source), str(out)]
    built = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line.removeprefix("WARNING: ").removesuffix(" [docstring]") for line in built.stderr.splitlines()]


def test_planted_problems_are_found(tmp_path: Path) -> None:
    (tmp_path / "planted_lamps.py").write_text(_PLANTED)
    (tmp_path / "conf.py").write_text(_SITE.format(folder=str(tmp_path), root=str(_DOCS.parent)))
    page = "# Lamps\n\n```{eval-rst}\n.. automodule:: planted_lamps\n   :members:\n```\n"
    (tmp_path / "index.md").write_text(page)
    assert sorted(_build(tmp_path, tmp_path / "site")) == [
        "planted_lamps.Lamp.lit: names `dtqn.types.Nothing`, which there is not",
        "planted_lamps.Lamp.switch: has no docstring",
        "planted_lamps.Lamp: names `Lamp.colour`, which there is not",
        "planted_lamps.Pair: has no docstring",
        "planted_lamps.dark: has no docstring",
        "planted_lamps: names `envs.make_nothing`, which there is not",
        "planted_lamps: names docs/missing.md, which there is not",
    ]


def test_equations_stand_as_they_are_and_signs_are_no_markup() -> None:
    text = ["A |x| of `a*b`.", "", "    y = |x| * 2", "", "Args:", "    x: [B] * 3.", "", "        z"]
    rst = [
        "A \\|x\\| of `a*b`.",
        "",
        "::",
        "",
        "    y = |x| * 2",
        "",
        "Args:",
        "    x: [B] \\* 3.",
        "",
        "        z",
    ]
    assert conf.as_rst(text) == rst


def _pages() -> str:
    return "\n".join(page.read_text(encoding="utf-8") for page in _DOCS.glob("*.md"))


def test_every_import_of_the_pages_for_developers_is_in_the_reference() -> None:
    named = set(re.findall(r"^\s*from (\S+) import", _pages(), re.MULTILINE))
    ours = {name for name in named if name.partition(".")[0] in conf.PACKAGES} - {"dtqn"}  # its API's
    shown = re.findall(r"automodule:: (\S+)", (_DOCS / "api.md").read_text(encoding="utf-8"))
    assert ours and ours <= set(shown)


def test_every_page_is_in_the_contents() -> None:
    contents = (_DOCS / "index.md").read_text(encoding="utf-8").splitlines()
    pages = {str(page.relative_to(_DOCS).with_suffix("")) for page in _DOCS.glob("*.md")} - {"index"}
    assert pages <= set(contents)


@pytest.mark.slow
def test_the_site_is_built_without_a_problem(tmp_path: Path) -> None:
    assert _build(_DOCS, tmp_path) == []
    for name in ("index", "api", "tasks/gridverse", "results/t-maze/table"):
        assert (tmp_path / f"{name}.html").is_file()
