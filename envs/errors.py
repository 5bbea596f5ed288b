"""Faults of a task that is not this project's own."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ANY_FAULT: Final = (Exception, SystemExit)
"""What another's code may raise: a `sys.exit` in it is a fault like any other, and not the run's end."""


def meant(name: object, known: Iterable[str]) -> str:
    """`; did you mean ...?` for the closest known name; empty where none is close."""
    text, names = str(name), sorted(known)
    # A bare field name is meant as the dotted name that ends in it, and `lr` as `learning_rate`.
    ends = [candidate for candidate in names if candidate.rpartition(".")[2] == text]
    ends = ends or [candidate for candidate in names if _initials(candidate) == text.rpartition(".")[2]]
    close = ends or difflib.get_close_matches(text[:100], names, n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""


def _initials(name: str) -> str:
    return "".join(word[:1] for word in name.rpartition(".")[2].split("_"))


def check_is_file(path: Path) -> None:
    """Refuse a pipe and a device, which may have no end or keep their reader waiting for ever: an OSError."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "is a pipe or a device; must be a file", str(path))


def unreadable(path: Path, error: OSError) -> str:
    """Why a file cannot be read, and where a name without a folder was looked for."""
    where = "" if path.is_absolute() else f" (looked for in {Path.cwd()})"
    return f"{path}: {error.strerror}{where}"


class NoPictureError(ValueError):
    """A picture is asked for of a task that draws none: one line."""


class TaskError(ValueError):
    """A task breaks the interface of a Gymnasium environment, fails, or is lost: one line, which names it.

    The vector environment that raised it is not to be stepped again.

    Args:
        task: the task's id.
        problem: what is wrong, as the rest of a sentence.
        env_id: the number of its environment in the vector, from 0, where it is known.
    """

    def __init__(self, task: str, problem: str, env_id: int | None = None) -> None:
        super().__init__(task, problem, env_id)  # as they are given: so it can go from process to process
        self.task, self.problem, self.env_id = task, problem, env_id

    def __str__(self) -> str:
        where = "" if self.env_id is None else f", environment {self.env_id}"
        return f"task {self.task}{where}: {self.problem}"
