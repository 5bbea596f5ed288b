"""The API reference: pages from the docstrings of what others build on.

    python -m docs.reference [--out build/reference]

It fails where a public class or function has no docstring, where a docstring names something that there is
not, and at every warning of pdoc (of annotations that it cannot read, say).
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pdoc
from pdoc import doc

import dtqn
from dtqn.settings.config import fields_of

MODULES = (
    *("dtqn", "dtqn.policy", "dtqn.testing", "dtqn.types"),
    *("dtqn.settings.config", "dtqn.training.setup"),
    *("dtqn.networks.q_network", "dtqn.networks.recurrent_q_network", "dtqn.networks.windowed_q_network"),
    *("dtqn.learning.losses", "dtqn.learning.returns", "dtqn.learning.learner"),
    *("dtqn.acting.actor", "dtqn.acting.evaluation", "dtqn.acting.episode_intervals"),
    *("dtqn.inspection.recorder", "dtqn.inspection.dependence"),
    *("dtqn.inspection.attention", "dtqn.inspection.measures", "dtqn.inspection.trials"),
    *("envs", "envs.registry", "envs.task", "envs.options", "envs.vector", "envs.fields", "envs.testing"),
    *(
        "replay",
        "replay.storage",
        "replay.accumulator",
        "replay.buffer",
        "replay.samplers",
        "replay.sum_tree",
    ),
)
_PACKAGES = ("dtqn", "envs", "replay")
_NAME = re.compile(r"(?<!`)`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)(?:\(\))?`(?!`)")
"""A dotted name in single backticks."""
_PAGE = re.compile(r"\bdocs/[\w/-]+\.md")
_MADE_FIELDS = r"Cannot determine where dtqn\.settings\.config\.TaskConfig\."
"""Pydantic makes settings of a task's options, and these have no place in a source."""
_ROOT = Path(__file__).resolve().parents[1]


def problems(module: doc.Module) -> Iterator[str]:
    """A line for each thing without a docstring and each name that leads nowhere."""
    for of in [module, *_public(module, module.fullname)]:
        text = of.docstring
        own = _own_text(of) if isinstance(of, doc.Class) else text
        if not isinstance(of, doc.Variable) and not own.strip():
            yield f"{of.fullname}: has no docstring"
        for name in _NAME.findall(text):
            if not _leads_somewhere(name, module.obj):
                yield f"{of.fullname}: names `{name}`, which there is not"
        for page in _PAGE.findall(text):
            if not (_ROOT / page).is_file():
                yield f"{of.fullname}: names {page}, which there is not"


def _own_text(of: doc.Class) -> str:
    """The docstring that the class itself has: neither that of its base, nor one that Python makes up."""
    text = vars(of.obj).get("__doc__") or ""
    return "" if text.startswith(f"{of.name}(") else text


def _public(space: doc.Module | doc.Class, module: str) -> Iterator[doc.Doc[Any]]:
    """The members that the page of the module shows, and theirs."""
    for member in space.members.values():
        if member.name.startswith("_") or member.taken_from[0] != module:
            continue
        yield member
        if isinstance(member, doc.Class):
            yield from _public(member, module)


def _leads_somewhere(name: str, module: ModuleType) -> bool:
    """False where the name begins with one of our packages, or with a class of the module, and goes wrong.

    Any other name is not one that could be checked: a field of an argument, say, or a file.
    """
    first, *rest = name.split(".")
    if name in fields_of():  # a setting
        return True
    if first in _PACKAGES:
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


def build(out: Path, modules: tuple[str, ...] = MODULES) -> list[str]:
    """Write the pages to a folder; the problems."""
    # They are imported when they are asked for; pdoc does not ask.
    vars(dtqn).update({name: getattr(dtqn, name) for name in dtqn.__all__})
    for name in modules:
        for found in vars(importlib.import_module(name)).values():
            if inspect.isclass(found) and issubclass(found, tuple) and found.__module__ == name:
                found.__new__.__module__ = name  # else pdoc looks for its annotations in no module
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", UserWarning)
        warnings.filterwarnings("ignore", _MADE_FIELDS)
        pdoc.render.configure(docformat="google", show_source=False)
        pdoc.pdoc(*modules, output_directory=out)
        lines = [line for name in modules for line in problems(doc.Module.from_name(name))]
    return list(dict.fromkeys([*lines, *(" ".join(str(warning.message).split()) for warning in said)]))


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the API reference; the exit code is 1 for problems.")
    parser.add_argument("--out", type=Path, default=Path("build/reference"))
    out = parser.parse_args().out
    found = build(out)
    print("\n".join(found) or f"reference: {out}/index.html", file=sys.stderr if found else sys.stdout)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
