"""Kinds of arguments: each reads a text, and says what would be right where it is something else."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from math import inf, nan
from pathlib import Path


def path(text: str) -> Path:
    if not text:  # an unset variable of the shell; Path would take it for the present folder
        raise argparse.ArgumentTypeError("the name is empty; must be a path")
    return Path(text)


def _at_least(low: int) -> Callable[[str], int]:
    """The kind of integers from `low` on."""

    def kind(text: str) -> int:
        number = _integer(text)
        if number is None or number < low:
            raise argparse.ArgumentTypeError(f"{text} must be an integer of at least {low}")
        return number

    return kind


natural, positive, several = _at_least(0), _at_least(1), _at_least(2)


def up_to(most: int) -> Callable[[str], int]:
    """The kind of integers from 1 to `most`."""

    def kind(text: str) -> int:
        number = positive(text)
        if number > most:
            raise argparse.ArgumentTypeError(f"{text} must be at most {most}")
        return number

    return kind


def _number(right: str, is_right: Callable[[float], bool]) -> Callable[[str], float]:
    """The kind of numbers that are `right`, in words; nan, which a text is that is no number, is not."""

    def kind(text: str) -> float:
        number = _real(text)
        if not is_right(number):
            raise argparse.ArgumentTypeError(f"{text} must be {right}")
        return number

    return kind


share = _number("a number above 0 and at most 1", lambda x: 0 < x <= 1)
probability = _number("a number between 0 and 1", lambda x: 0 <= x <= 1)
seconds = _number("a number from 0 to 3600", lambda x: 0 <= x <= 3600)
above_zero = _number("a number above 0", lambda x: 0 < x < inf)
gpus = _number(
    "a whole number, or a share between 0 and 1", lambda x: 0 <= x <= 1 or (x > 1 and x.is_integer())
)


def _integer(text: str) -> int | None:
    """The exact one, however long, or that of a form such as 1e3; None where the text is none."""
    try:
        return int(text)
    except ValueError:
        number = _real(text)
        return int(number) if number.is_integer() else None


def _real(text: str) -> float:
    return float(text) if is_number(text) else nan


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
