"""Kinds of arguments: each reads a text, and says what would be right where it is something else."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dtqn.settings.values import Number, legal
from dtqn.training.directory import trained_at


def path(text: str) -> Path:
    if not text:  # an unset variable of the shell; Path would take it for the present folder
        raise argparse.ArgumentTypeError("the name is empty; must be a path")
    return Path(text)


def trained(text: str) -> Path:
    """The folder of a trained agent."""
    return trained_at(path(text))


def _kind(number: type[int] | type[float], **limits: Any) -> Any:
    """The kind of numbers within the limits."""
    wanted = Number(number, **limits)

    def kind(text: str) -> float:
        try:
            return wanted.read(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text} must be {legal(wanted.field, text)}") from None

    return kind


natural = _kind(int, ge=0)
positive = _kind(int, ge=1)
several = _kind(int, ge=2)
probability = _kind(float, ge=0, le=1)
seconds = _kind(float, ge=0, le=3600)
above_zero = _kind(float, gt=0)
