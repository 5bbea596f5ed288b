"""DTQN's bag with a loop over everything: an episode's steps, candidate bags, steps of the window, heads.

Features and their projections come as plain dictionaries (see `tests/networks/parameters.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def attend(x: Tensor, bag: list[Tensor], p: dict[str, Tensor], heads: int) -> Tensor:
    """The step x [D] attends to the features of a bag; it reads zeros from an empty one."""
    if not bag:
        return torch.zeros_like(x)
    d = len(x) // heads
    mixed = []
    for h in range(heads):
        of_head = slice(h * d, (h + 1) * d)
        q = (p["W_q"] @ x + p["b_q"])[of_head]
        keys = [(p["W_k"] @ e + p["b_k"])[of_head] for e in bag]
        values = [(p["W_v"] @ e + p["b_v"])[of_head] for e in bag]
        weights = [torch.exp(q.dot(k) / math.sqrt(d)) for k in keys]
        mixed.append(sum(w / sum(weights) * v for w, v in zip(weights, values, strict=True)))
    return p["W_O"] @ torch.cat(mixed) + p["b_O"]


def episode(
    features: Tensor,
    context_length: int,
    bag_size: int,
    decode: Callable[[Tensor], Tensor],
    head: Callable[[Tensor], Tensor],
    attention: dict[str, Any],
    heads: int,
) -> tuple[list[Tensor], list[list[int]]]:
    """Q-values [A] of each step of an episode [T, D], and the numbers of the steps in the bag after each."""

    def q_values(x: Tensor, bag: list[int]) -> Tensor:
        return head(torch.cat([x, attend(x, [features[i] for i in bag], attention, heads)]))

    def worth(window: Tensor, bag: list[int]) -> float:
        return sum(q_values(x, bag).max().item() for x in window) / len(window)

    q, bags = [], []
    bag: list[int] = []
    for t in range(len(features)):
        window = decode(features[max(0, t + 1 - context_length) : t + 1])
        leaving = t - context_length
        if leaving >= 0 and len(bag) < bag_size:
            bag = [*bag, leaving]
        elif leaving >= 0:
            candidates = [[*bag[:i], leaving, *bag[i + 1 :]] for i in range(bag_size)] + [bag]
            bag = max(candidates, key=lambda candidate: worth(window, candidate))
        q.append(q_values(window[-1], bag))
        bags.append(bag)
    return q, bags
