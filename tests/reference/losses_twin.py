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


def bootstrap_step(t: int, size: int, n: int) -> int:
    return min(t + n, size - 1)


def targets(
    reward: Sequence[float],
    discount: Sequence[float],
    value: Sequence[float],
    size: int,
    n: int,
    gamma: float,
    h: Transform = identity,
    h_inverse: Transform = identity,
) -> list[float]:
    """y_t for t = 0..size-2 of a sequence of so many real timesteps; timestep t holds what arrived at t."""
    ys = []
    for t in range(size - 1):
        end = bootstrap_step(t, size, n)
        y = 0.0
        for k in range(1, end - t + 1):
            y += gamma ** (k - 1) * reward[t + k]
        if discount[end] != 0:
            y += gamma ** (end - t) * h_inverse(value[end])
        ys.append(h(y))
    return ys


def batch_loss(deltas: Sequence[Sequence[float]], weights: Sequence[float]) -> float:
    """Mean over all learned steps of the batch; `deltas` holds the learned steps only."""
    total, count = 0.0, 0
    for sequence, weight in zip(deltas, weights, strict=True):
        for delta in sequence:
            total += weight * delta * delta / 2
            count += 1
    return total / count


def priority(deltas: Sequence[float], eta: float) -> float:
    sizes = [abs(delta) for delta in deltas]
    return max(eta * max(sizes) + (1 - eta) * sum(sizes) / len(sizes), 1e-6)


def lambda_target(
    t: int,
    reward: Sequence[float],
    discount: Sequence[float],
    value: Sequence[float],
    greedy: Sequence[bool],
    size: int,
    gamma: float,
    lambda_: float,
    watkins: bool,
    h_inverse: Transform = identity,
) -> float:
    """G_t as a sum over k of the k-step returns that the trace stops at, each with its weight."""
    total, weight, gain = 0.0, 1.0, 0.0
    for k in range(1, size - t):
        step = t + k
        gain += gamma ** (k - 1) * reward[step]
        k_step = gain + (gamma**k * h_inverse(value[step]) if discount[step] != 0 else 0.0)
        goes_on = lambda_ if not watkins or (step < size - 1 and greedy[step]) else 0.0
        if step == size - 1:
            goes_on = 0.0
        total += weight * (1 - goes_on) * k_step
        weight *= goes_on
    return total


def advantage_cost(q: Sequence[float], action: int, alpha: float) -> float:
    return alpha * max(q[action] - max(q), -1.0)


def project(pairs: Sequence[tuple[float, float]], atoms: Sequence[float]) -> list[float]:
    """Numbers with probabilities, shared out between the two atoms that each lies between."""
    mass = [0.0] * len(atoms)
    gap = (atoms[-1] - atoms[0]) / (len(atoms) - 1)
    for number, probability in pairs:
        number = min(max(number, atoms[0]), atoms[-1])
        for i, atom in enumerate(atoms):
            mass[i] += probability * max(0.0, 1 - abs(number - atom) / gap)
    return mass
