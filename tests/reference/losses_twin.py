"""Targets, loss and priority of one sequence at a time, with Python's floats."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

Transform = Callable[[float], float]


def identity(x: float) -> float:
    return x


def rescale(x: float, eps: float = 1e-3) -> float:
    """h of the R2D2 paper, as it is written there."""
    return math.copysign(math.sqrt(abs(x) + 1) - 1, x) + eps * x


def unscale(y: float, eps: float = 1e-3) -> float:
    """h^-1 of the R2D2 paper, as it is written there (good to about 1e-10 in float64)."""
    return math.copysign(((math.sqrt(1 + 4 * eps * (abs(y) + 1 + eps)) - 1) / (2 * eps)) ** 2 - 1, y)


def argmax(values: Sequence[float]) -> int:
    best = 0
    for i, value in enumerate(values):
        if value > values[best]:
            best = i
    return best


def double_q(q_target: Sequence[float], q_selector: Sequence[float]) -> float:
    return q_target[argmax(q_selector)]


def bootstrap_row(t: int, rows: int, n: int) -> int:
    return min(t + n, rows - 1)


def targets(
    reward: Sequence[float],
    discount: Sequence[float],
    value: Sequence[float],
    rows: int,
    n: int,
    gamma: float,
    h: Transform = identity,
    h_inverse: Transform = identity,
) -> list[float]:
    """y_t for t = 0..rows-2 of a sequence of so many real rows; row t holds what arrived at t."""
    ys = []
    for t in range(rows - 1):
        end = bootstrap_row(t, rows, n)
        y = 0.0
        for k in range(1, end - t + 1):
            y += gamma ** (k - 1) * reward[t + k]
        if discount[end] != 0:
            y += gamma ** (end - t) * h_inverse(value[end])
        ys.append(h(y))
    return ys


def step_loss(delta: float, huber: bool) -> float:
    if huber and abs(delta) > 1:
        return abs(delta) - 0.5
    return delta * delta / 2


def batch_loss(deltas: Sequence[Sequence[float]], weights: Sequence[float], huber: bool) -> float:
    """Mean over all learned steps of the batch; `deltas` holds the learned steps only."""
    total, count = 0.0, 0
    for sequence, weight in zip(deltas, weights, strict=True):
        for delta in sequence:
            total += weight * step_loss(delta, huber)
            count += 1
    return total / count


def priority(deltas: Sequence[float], eta: float) -> float:
    sizes = [abs(delta) for delta in deltas]
    return max(eta * max(sizes) + (1 - eta) * sum(sizes) / len(sizes), 1e-6)
