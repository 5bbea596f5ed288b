"""Kinds of arguments: each reads a text, and says what would be right where it is something else."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path


def path(text: str) -> Path:
    if not text:  # an unset variable of the shell; Path would take it for the present folder
        raise argparse.ArgumentTypeError("the name is empty; must be a path")
    return Path(text)


def positive(text: str) -> int:
    return _at_least(text, 1)


def up_to(most: int) -> Callable[[str], int]:
    """The kind of integers from 1 to `most`."""

    def kind(text: str) -> int:
        number = positive(text)
        if number > most:
            raise argparse.ArgumentTypeError(f"{text} must be at most {most}")
        return number

    return kind


def several(text: str) -> int:
    return _at_least(text, 2)


def natural(text: str) -> int:
    return _at_least(text, 0)


def _at_least(text: str, low: int) -> int:
    number = _integer(text)
    if number is None or number < low:
        raise argparse.ArgumentTypeError(f"{text} must be an integer of at least {low}")
    return number


def _integer(text: str) -> int | None:
    """The exact one, however long, or that of a form such as 1e3; None where the text is none."""
    try:
        return int(text)
    except ValueError:
        number = _real(text)
        return int(number) if number.is_integer() else None


def gpus(text: str) -> float:
    number = _real(text)
    if not 0 <= number < float("inf") or (number > 1 and not number.is_integer()):
        raise argparse.ArgumentTypeError(f"{text} must be a whole number, or a share between 0 and 1")
    return number


def share(text: str) -> float:
    return _number(text, 1.0)


def probability(text: str) -> float:
    number = _real(text)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text} must be a number between 0 and 1")
    return number


def seconds(text: str) -> float:
    number = _real(text)
    if not 0 <= number <= 3600:
        raise argparse.ArgumentTypeError(f"{text} must be a number from 0 to 3600")
    return number


def above_zero(text: str) -> float:
    return _number(text, None)


def _number(text: str, most: float | None) -> float:
    number = _real(text)
    if not 0 < number < float("inf") or (most is not None and number > most):
        end = "" if most is None else f" and at most {most:g}"
        raise argparse.ArgumentTypeError(f"{text} must be a number above 0{end}")
    return number


def _real(text: str) -> float:
    """The number; nan, which no range holds, where the text is none."""
    return float(text) if is_number(text) else float("nan")


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
