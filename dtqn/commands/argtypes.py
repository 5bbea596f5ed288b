"""Kinds of arguments: each reads a text, and says what would be right where it is something else."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from math import nan
from pathlib import Path
from typing import Any

from dtqn.training.directory import trained_at


def path(text: str) -> Path:
    if not text:  # an unset variable of the shell; Path would take it for the present folder
        raise argparse.ArgumentTypeError("the name is empty; must be a path")
    return Path(text)


def trained(text: str) -> Path:
    """The folder of a trained agent."""
    return trained_at(path(text))


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _real(text: str) -> float:
    return float(text) if is_number(text) else nan


def _integer(text: str) -> float:
    """The exact one, however long, or that of a form such as 1e3."""
    try:
        return int(text)
    except ValueError:
        number = _real(text)
        return int(number) if number.is_integer() else nan


def _kind(right: str, is_right: Callable[[float], bool], read: Callable[[str], float] = _real) -> Any:
    """The kind of numbers that are `right`, in words; nan, which `read` makes of other texts, is not."""

    def kind(text: str) -> float:
        number = read(text)
        if not is_right(number):
            raise argparse.ArgumentTypeError(f"{text} must be {right}")
        return number

    return kind


natural = _kind("an integer of at least 0", lambda x: x >= 0, _integer)
positive = _kind("an integer of at least 1", lambda x: x >= 1, _integer)
several = _kind("an integer of at least 2", lambda x: x >= 2, _integer)
probability = _kind("a number between 0 and 1", lambda x: 0 <= x <= 1)
seconds = _kind("a number from 0 to 3600", lambda x: 0 <= x <= 3600)
