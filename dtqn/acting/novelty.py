"""Which observations are new to their episode.

A search that finds nothing changes no reward. So the values of good and bad ways to search differ by little
more than a network's error, and a greedy policy walks in circles. A reward for what the episode has not
shown yet (`learner.novelty_weight`) tells them apart at each step. It is the episodic part of Never Give
Up's reward (Badia et al. 2020, arXiv 2002.06038, section 3) for observations that are equal or not: 1 for
the first and 0 for all others. Episodes know nothing of each other, so it does not wear off, which suits
tasks with a new layout in each episode (Henaff et al. 2023, arXiv 2306.03236).
"""

from __future__ import annotations

import functools
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Arrays: TypeAlias = NDArray[Any] | dict[str, NDArray[Any]]
"""The observations of N environments, [N, ...]."""


@functools.cache
def _factors(size: int) -> NDArray[np.uint64]:
    """[size] odd numbers, the same in every process."""
    return np.random.default_rng(0).integers(2**64, size=size, dtype=np.uint64) | np.uint64(1)


def fingerprints(observation: Arrays) -> NDArray[np.int64]:
    """A number for each environment's observation [N, ...], with different ones for different observations.

    It is a sum of bytes by random factors, modulo 2^64: two observations share one by chance in 2^56.
    """
    parts = observation.values() if isinstance(observation, dict) else [observation]
    each = [np.ascontiguousarray(part) for part in parts]
    sides = [part.reshape(len(part), -1).view(np.uint8) for part in each]
    numbers = np.concatenate(sides, axis=1).astype(np.uint64)
    return (numbers @ _factors(numbers.shape[1])).view(np.int64)


class Novelty:
    """The observations that the episodes of each of N environments have shown so far."""

    def __init__(self, num_envs: int) -> None:
        self._shown: list[set[int]] = [set() for _ in range(num_envs)]

    def look(self, observation: Arrays, first: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """[N] bool: the episode had not shown the observation [N, ...] before; `first` [N] begins one."""
        novel = np.zeros(len(first), bool)
        for i, (fingerprint, begins) in enumerate(
            zip(fingerprints(observation).tolist(), first.tolist(), strict=True)
        ):
            shown = self._shown[i]
            if begins:
                shown.clear()
            novel[i] = fingerprint not in shown
            shown.add(fingerprint)
        return novel

    def get_state(self) -> dict[str, Any]:
        counts = np.array([len(shown) for shown in self._shown], np.int64)
        return {
            "counts": counts,
            "shown": np.array([x for shown in self._shown for x in sorted(shown)], np.int64),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        ends = np.cumsum(np.asarray(state["counts"]))[:-1]
        self._shown = [set(part.tolist()) for part in np.split(np.asarray(state["shown"]), ends)]
