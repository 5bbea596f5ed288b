"""Rates of actions that take turns, so that other work on the machine slows all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Rate(NamedTuple):
    cpu: float
    """Calls per second of this process's own time."""
    wall: float
    """Calls per second of the clock."""


def rate(action: Callable[[], Any], seconds: float, per_call: float = 1.0) -> Rate:
    """Calls per CPU second and per wall-clock second, times `per_call`."""
    calls, cpu, wall = 0, time.process_time(), time.perf_counter()
    while time.perf_counter() - wall < seconds:
        action()
        calls += 1
    calls_of_one = per_call * calls
    return Rate(calls_of_one / (time.process_time() - cpu), calls_of_one / (time.perf_counter() - wall))


def in_turns(actions: Mapping[str, Callable[[], Any]], seconds: float, chunks: int) -> dict[str, list[Rate]]:
    """The rates of each action, chunk by chunk; each has about `seconds` in all."""
    taken: dict[str, list[Rate]] = {name: [] for name in actions}
    for _ in range(chunks):
        for name, action in actions.items():
            taken[name].append(rate(action, seconds / chunks))
    return taken


def median(taken: list[Rate], per_call: float = 1.0) -> dict[str, float]:
    """Medians over chunks, as the figures of a table."""
    return {
        "per_cpu_second": per_call * statistics.median(chunk.cpu for chunk in taken),
        "per_second": per_call * statistics.median(chunk.wall for chunk in taken),
    }


def median_ratio(over: list[Rate], under: list[Rate]) -> float:
    """The median of the chunks' ratios, by the clock."""
    return statistics.median(a.wall / b.wall for a, b in zip(over, under, strict=True))
