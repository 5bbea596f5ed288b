"""Classes and functions that a caller hands over and no other process finds by a name.

One is kept here as `this_process:Name`, so that all that reads `module:Name` finds it. A class of a
notebook's cell, a lambda and a closure are such; so is all of a script that is being run.
"""

from __future__ import annotations

import importlib.util
import itertools
import re
import sys
from types import CodeType, ModuleType
from typing import Any, Final

MODULE: Final = "this_process"
_PREFIX: Final = f"{MODULE}:"
_module = sys.modules.setdefault(MODULE, ModuleType(MODULE))


def holds(name: str) -> bool:
    """Whether the name is one of an object of the process that gave it."""
    return name.startswith(_PREFIX)


def name_of(thing: Any) -> str:
    """`module:Name` where other processes find it so, else the name by which it is kept here.

    Args:
        thing: a class or a function.
    """
    module = str(getattr(thing, "__module__", None))
    name: str = getattr(thing, "__qualname__", type(thing).__name__)
    if getattr(sys.modules.get(module), name, None) is thing and _has_file(module):
        return f"{module}:{name}"
    word = re.sub(r"\W+", "", name.rpartition(".")[2])
    for number in itertools.count(1):
        own = word if number == 1 else f"{word}_{number}"
        if vars(_module).setdefault(own, thing) is thing:
            break
    return _PREFIX + own


def _has_file(module: str) -> bool:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):  # ValueError: one that was made by hand, as `__main__` is
        return False
    return spec is not None and spec.has_location


def keep(name: str, thing: Any) -> None:
    """Keep an object under a name that a run has for it, in place of another one."""
    setattr(_module, _own(name), thing)


def problem(name: str) -> str:
    """Why there is no such object here, as the rest of a sentence; empty where there is one."""
    if not holds(name) or hasattr(_module, _own(name)):
        return ""
    return "is an object of the Python process that began the run; hand it over again from Python"


def content(name: str) -> bytes:
    """What tells the object from another of its name: its code, and its constants."""
    return repr(_made_of(getattr(_module, _own(name), None))).encode()


def _made_of(thing: Any) -> object:
    """The same in every process: no addresses, and no lines, of which a lambda's has more than itself."""
    if isinstance(thing, type):
        return _members(thing)
    thing = getattr(thing, "__func__", thing)  # of a static method
    thing = getattr(thing, "__code__", thing)
    if isinstance(thing, CodeType):
        return thing.co_code, thing.co_names, _made_of(thing.co_consts)
    if isinstance(thing, tuple):
        return [_made_of(part) for part in thing]
    return thing if isinstance(thing, str | bytes | int | float) else type(thing).__name__


def _members(kind: type) -> object:
    """What a class is made of, with those of its bases that stand beside it."""
    bases = [_made_of(base) for base in kind.__bases__ if base.__module__ == kind.__module__]
    members = {name: part for name, part in vars(kind).items() if not isinstance(part, type)}
    return bases, {name: _made_of(part) for name, part in members.items() if name != "__firstlineno__"}


def _own(name: str) -> str:
    return name.removeprefix(_PREFIX)
