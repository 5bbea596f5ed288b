"""Classes and functions that a caller hands over and no other process finds by a name.

One is kept here as `this_process:Name`, so that all that reads `module:Name` finds it. A class of a
notebook's cell, a lambda and a closure are such; so is all of a script that is being run.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import importlib.util
import itertools
import pickle
import re
import sys
from collections.abc import Iterable
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

MODULE: Final = "this_process"
_PREFIX: Final = f"{MODULE}:"
_OF_PYTHON = {"__firstlineno__", "__static_attributes__", "__dict__", "__weakref__", "_abc_impl"}
_made: dict[str, str] = {}  # by name, what the object was made of when it was given
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
    word, made = re.sub(r"\W+", "", name.rpartition(".")[2]), repr(_made_of(thing, []))
    for number in itertools.count(1):
        own = word if number == 1 else f"{word}_{number}"
        if getattr(_module, own, None) is thing or _made.setdefault(own, made) == made:
            break
    keep(_PREFIX + own, thing)
    return _PREFIX + own


def _has_file(module: str) -> bool:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):  # ValueError: one that was made by hand, as `__main__` is
        return False
    return spec is not None and spec.has_location


def keep(name: str, thing: Any) -> None:
    """Keep an object under a name that a run has for it, in place of another one."""
    if getattr(_module, _own(name), None) is not thing:  # else what it holds may have changed since
        setattr(_module, _own(name), thing)
        _made[_own(name)] = repr(_made_of(thing, []))


def problem(name: str) -> str:
    """Why there is no such object here, as the rest of a sentence; empty where there is one."""
    if not holds(name) or hasattr(_module, _own(name)):
        return ""
    return "is an object of the Python process that began the run; hand it over again from Python"


def content(name: str) -> bytes:
    """What tells the object from another of its name: its code, and what that used when it was given."""
    return re.sub(r" at 0x[0-9A-Fa-f]+", "", _made.get(_own(name), "")).encode()


def _made_of(thing: Any, seen: list[Any]) -> object:
    """Code and values, without lines: a lambda's has more than itself. `seen` begins with the kept object."""
    thing = getattr(thing, "fget", getattr(thing, "__func__", thing))  # of a property, or a static method
    parts: Iterable[Any]
    if isinstance(thing, type | FunctionType):
        if thing in seen or (seen and thing.__module__ != getattr(seen[0], "__module__", None)):
            return f"{thing.__module__}.{thing.__qualname__}"
        seen.append(thing)
    match thing:
        case type():
            parts = (*thing.__bases__, {k: x for k, x in vars(thing).items() if k not in _OF_PYTHON})
        case FunctionType():
            held = tuple(cell.cell_contents for cell in thing.__closure__ or ())
            used = {x: thing.__globals__.get(x) for x in sorted(_globals(thing.__code__))}
            parts = (thing.__code__, thing.__defaults__, thing.__kwdefaults__, held, used)
        case functools.partial():
            parts = (thing.func, thing.args, thing.keywords)
        case CodeType():
            parts = (thing.co_code, thing.co_names, thing.co_consts)
        case tuple() | list() | dict():
            parts = (*thing, *(thing.values() if isinstance(thing, dict) else ()))
        case ModuleType():
            return thing.__name__
        case set() | frozenset():
            return sorted(map(repr, thing))
        case _:
            text = repr(thing)
            is_whole = " at 0x" not in text and "..." not in text
            return text if is_whole else _digest(thing) or text, _made_of(type(thing), seen)
    return [_made_of(part, seen) for part in parts]


def _globals(code: CodeType) -> set[str]:
    """The global names that code reads, and the functions within it."""
    names = {one.argval for one in dis.get_instructions(code) if one.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return names.union(*(_globals(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


def _digest(value: Any) -> str:
    """Of all that a value holds, whose text does not show it; empty where that is not known."""
    try:
        return hashlib.sha256(pickle.dumps(value)).hexdigest()
    except Exception:  # of whatever is in it
        return _digest(vars(value)) if hasattr(value, "__dict__") else ""


def _own(name: str) -> str:
    return name.removeprefix(_PREFIX)
