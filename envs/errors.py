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
    """`; did you mean 'x'?` for a known name that is near; nothing where there is none."""
    near = difflib.get_close_matches(str(name), list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def check_has_end(path: Path) -> None:
    """An OSError for a pipe or a device, which a stranger's settings may name: reading would never end."""
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
        copy: the number of the copy, from 0, where it is known.
    """

    def __init__(self, task: str, problem: str, copy: int | None = None) -> None:
        super().__init__(task, problem, copy)  # as they are given: so it can go from process to process
        self.task, self.problem, self.copy = task, problem, copy

    def __str__(self) -> str:
        where = "" if self.copy is None else f", copy {self.copy}"
        return f"task {self.task}{where}: {self.problem}"
