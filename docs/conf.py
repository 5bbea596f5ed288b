"""The site: `python -m sphinx -W docs build/site` writes it, as static files.

Docstrings are read as they are written: `names` in backticks, equations as indented lines. A public class or
function without a docstring is a warning, which `-W` makes an error, and so is a docstring that names
something that there is not.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging

_ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(_ROOT))

project = "dtqn"
author = "the dtqn developers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 4
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
autodoc_typehints = "description"
html_theme = "furo"
html_show_copyright = False
html_title = "dtqn"
# Tables of results are reached from the pages that are about them, and begin with a heading of a task.
suppress_warnings = ["toc.not_included", "myst.header", "ref.python"]

PACKAGES = ("dtqn", "envs", "replay")
_NAME = re.compile(r"(?<!`)`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)(?:\(\))?`(?!`)")
"""A dotted name in single backticks."""
_PAGE = re.compile(r"\bdocs/[\w/-]+\.md")
_SECTIONS = ("Args:", "Returns:", "Raises:")
_DOCUMENTED = ("module", "class", "exception", "function", "method")


def problems(name: str, text: str) -> Iterator[str]:
    """A line for each name in the docstring of `name` that leads nowhere."""
    for found in _NAME.findall(text):
        if not _leads_somewhere(found, _module_of(name)):
            yield f"names `{found}`, which there is not"
    for page in _PAGE.findall(text):
        if not (_ROOT / page).is_file():
            yield f"names {page}, which there is not"


def _module_of(name: str) -> ModuleType:
    """The module that holds a thing."""
    parts = name.split(".")
    while ".".join(parts) not in sys.modules:
        parts.pop()
    return sys.modules[".".join(parts)]


def _leads_somewhere(name: str, module: ModuleType) -> bool:
    """False where the name begins with one of our packages, or with a class of the module, and goes wrong.

    Any other name is not one that could be checked: a field of an argument, say, or a file.
    """
    from dtqn.settings.config import fields_of

    first, *rest = name.split(".")
    if name in fields_of():  # a setting
        return True
    if first in PACKAGES:
        found: Any = importlib.import_module(first)
    elif inspect.isclass(found := getattr(module, first, None)):
        pass
    else:
        return True
    for part in rest:
        if not hasattr(found, part) and inspect.ismodule(found):
            try:
                found = importlib.import_module(f"{found.__name__}.{part}")
            except ImportError:
                return False
        elif hasattr(found, part):
            found = getattr(found, part)
        else:  # a field that is declared and has no default
            return part in inspect.get_annotations(found) if inspect.isclass(found) else False
    return True


def as_rst(lines: Sequence[str]) -> list[str]:
    """A docstring's lines with indented ones as they stand, and no markup but backticks in the others."""
    found: list[str] = []
    in_section = in_block = False
    for before, line in zip(["", *lines], lines, strict=False):
        in_section = (in_section and line[:1] in ("", " ")) or line.strip() in _SECTIONS
        begins = line.startswith("    ") and not before.strip() and not in_section
        if begins and not in_block:
            found += ["::", ""]
        in_block = (in_block and line[:1] in ("", " ")) or begins
        found.append(line if in_block else re.sub(r"`[^`]*`|([*|\\])", _escaped, line))
    return found


def _escaped(match: re.Match[str]) -> str:
    return f"\\{match[1]}" if match[1] else match[0]


def _read(app: Sphinx, what: str, name: str, of: Any, options: Any, lines: list[str]) -> None:
    own = vars(of).get("__doc__") or "" if inspect.isclass(of) else "\n".join(lines)
    made_up = inspect.isclass(of) and own.startswith(f"{of.__name__}(")  # by Python, of a tuple's fields
    is_here = name.startswith(getattr(of, "__module__", name))  # and not imported from another module
    if what in _DOCUMENTED and is_here and (made_up or not own.strip()):
        _warn(f"{name}: has no docstring")
    for problem in problems(name, "\n".join(lines)):
        _warn(f"{name}: {problem}")
    lines[:] = as_rst(lines)


def _warn(text: str) -> None:
    logging.getLogger(__name__).warning(text, type="docstring")


def _is_skipped(app: Sphinx, what: str, name: str, of: Any, skip: bool, options: Any) -> bool | None:
    """Shows what is public and has no docstring, so that it is found."""
    is_ours = getattr(of, "__module__", "").partition(".")[0] in PACKAGES
    is_whole = inspect.isroutine(of) or inspect.isclass(of)
    return False if skip and is_ours and is_whole and not name.startswith("_") else None


def setup(app: Sphinx) -> None:
    """The hooks; the docstring's comes before the one that reads sections."""
    app.connect("autodoc-process-docstring", _read, priority=100)
    app.connect("autodoc-skip-member", _is_skipped)
