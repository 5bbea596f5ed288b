"""Names of the form `module:Name`, and what the thing of that name can be called with.

A module is looked for where Python looks, and last in the working directory: a user's own file is found,
and cannot stand in the way of any other module.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from envs import errors, this_process
from envs.errors import ANY_FAULT
from envs.vector import brief


def split(id: str) -> tuple[str, str] | None:
    """Module and name of `module:Name`; None for a name of another form."""
    matched = re.fullmatch(r"([A-Za-z_][\w.]*):(.+)", id)
    return (matched[1], matched[2]) if matched else None


def own_form(name: str, default: str = "Class") -> str:
    """The form `module:Name` of what a name such as `folder/file.py:Name` or `file.Name` seems to mean.

    Empty for a name that has this form, and for one that is neither a path, nor a member of a module, nor a
    module in the working directory. `default` stands for a Name that is not given.
    """
    path, _, member = name.partition(":")
    is_path = path.endswith(".py") or "/" in path
    if path.lower().endswith((".yaml", ".yml", ".pomdp")) or (member and not is_path):
        return ""
    module = path.removesuffix(".py").removeprefix("./").replace("/", ".")
    if path.startswith(("/", "~", "..")):  # to be run from its folder
        module = Path(path).stem
    if not is_path and "." in module:
        module, _, member = module.rpartition(".")
    elif not is_path and not Path(f"{module}.py").is_file():
        return ""
    form = f"{module}:{member or default}"
    return form if split(form) else ""


FIND_IT = "; run from its folder, or put that on PYTHONPATH"
"""The end of an error about a module of a user's own."""


def load(module: str, id: str, hint: str = FIND_IT) -> ModuleType:
    """The module that the task `id` needs.

    Raises:
        ValueError: one line, which ends with `hint`, where it cannot be imported.
    """
    if missing := this_process.problem(id):
        raise ValueError(f"task {id} {missing}")
    search_working_directory()
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if hint == FIND_IT:
            raise ValueError(f"task {id} needs {module}, which {not_imported(module, id, error)}") from None
        raise ValueError(f"task {id} needs {module}, which cannot be imported ({error}){hint}") from None
    except ANY_FAULT as error:  # whatever the module does
        raise ValueError(f"task {id}: importing {module} failed: {located(error)}") from None


def not_imported(module: str, name: str, error: ImportError) -> str:
    """`cannot be imported: ...` with what to do: a module is not found, or one that it imports is not.

    Args:
        name: in the form `module:Name`, or meant to be so.
    """
    if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
        if (package := module.partition(".")[0]) in ("dtqn", "envs", "replay"):
            return f"cannot be imported: {package} is a package of this program; give your own another name"
        meant = own_form(name)
        return f"cannot be imported ({error}){f'; write {meant}' if meant else FIND_IT}"
    if isinstance(error, ModuleNotFoundError) and error.name:
        return (
            f"cannot be imported: it needs {error.name}, which is not installed ({in_words(place_of(error))})"
        )
    return f"cannot be imported: {located(error)}"


def search_working_directory() -> None:
    """Appends the working directory to Python's path; it stays there for what modules import later."""
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)


def brief_error(error: BaseException) -> str:
    """An exception on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def place_of(error: BaseException) -> traceback.FrameSummary:
    """The place where an exception was raised; of a `sys.exit`, which W&B hooks, where it was called."""
    places = traceback.extract_tb(error.__traceback__)
    while isinstance(error, SystemExit) and len(places) > 1 and places[-1].name == "exit":
        del places[-1]
    return places[-1]


def located(error: BaseException) -> str:
    """An exception on one line, with the place where it was raised."""
    return f"{brief_error(error)} ({in_words(place_of(error))})"


def in_words(place: traceback.FrameSummary) -> str:
    """A place in a file, without the folders."""
    return f"{Path(place.filename).name}, line {place.lineno}"


def source(id: str) -> str:
    """The module of a name whose module has been loaded, and its file."""
    module = id.partition(":")[0]
    file = getattr(sys.modules[module], "__file__", None)
    return f"{module} ({file})" if file else module


def first_line(thing: Any) -> str:
    """The first line of a class's or function's own docstring; empty where it has none."""
    text = (getattr(thing, "__doc__", None) or "").strip()
    return text.splitlines()[0].strip() if text else ""


def check_kwargs(
    id: str, target: Callable[..., Any], kwargs: Mapping[str, Any], preset: Mapping[str, Any] | None = None
) -> None:
    """ValueError unless `target`, which makes the task `id`, can be called with these keyword arguments.

    A user may not give `render_mode`: it is set where a picture is wanted. `preset` are further arguments of
    the call.
    """
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):  # a thing without a signature takes what it takes
        return
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    taken = [p.name for p in named if p.name != "render_mode"]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    unknown = [key for key in kwargs if key == "render_mode" or (key not in taken and not takes_any)]
    for key in unknown[:1]:
        raise ValueError(
            f"task.kwargs is {brief(dict(kwargs))}, but {id} takes no {key}{errors.meant(key, taken)} "
            f"(it takes: {', '.join(taken) or 'nothing'})"
        )
    given = {"render_mode", *kwargs, *(preset or {})}
    missing = [p.name for p in named if p.default is p.empty and p.name not in given]
    if missing:
        raise ValueError(f"task {id} needs {', '.join(missing)}; give it in task.kwargs")
