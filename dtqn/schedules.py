"""Numbers that change over a run: exploration rates and step sizes."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

Numbers = TypeVar("Numbers", float, np.ndarray)


def linear(start: float, final: Numbers, fraction: float) -> Numbers:
    """On the straight line from `start` at fraction 0 to `final` at 1 and after."""
    return start + (final - start) * min(1.0, max(0.0, fraction))


def exponential(start: float, final: Numbers, steps: float, duration: float) -> Numbers:
    """From `start` towards `final`: each step takes 1/duration of what is left.

    After `duration` steps a share of 1/e is left. DTQN's public code calls this schedule linear.
    """
    return final + (start - final) * (1 - 1 / duration) ** steps
