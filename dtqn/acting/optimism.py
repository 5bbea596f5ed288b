"""A bonus for actions that were seldom taken where an observation is seen, in the choice of actions alone.

Random actions find what is one step off the greedy path only if they leave the rest of the path alone. In a
long task where one wrong step loses the episode they hardly ever do, whatever epsilon is. Counts tell the few
places where something is untried. As in OPIQ (Rashid et al. 2020, arXiv 2002.12174) with M = 1

    a_t = argmax_a Q(s_t, a) + C / (n(o_t, a) + 1)

where n counts how often the copy has taken action a at observation o_t, in all its episodes. OPIQ has the
bonus in its targets too; here values stay those of the task's own rewards. Counts are of observations, since
a memory task has no other states that come twice.

Legend: N copies, A actions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtqn.acting.novelty import Arrays, fingerprints

_BITS = 16
"""Each copy has 2^16 counters; pairs that share one by chance count as tried more often."""
BYTES = 4 * 2**_BITS
"""Of the counters of one copy."""
_OF_ACTION, _OF_PAIR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)
"""Odd factors that spread what they multiply over all 64 bits."""


class Optimism:
    """Counts of what each of N copies has done where, and the bonus that follows from them."""

    def __init__(self, num_envs: int, num_actions: int, weight: float) -> None:
        """`weight` is C, in units of Q."""
        self.weight = weight
        self._actions = np.arange(num_actions, dtype=np.uint64) * _OF_ACTION
        self._copies = np.arange(num_envs)
        self._counts = np.zeros((num_envs, 2**_BITS), np.int32)
        self._at = np.zeros((num_envs, num_actions), np.int64)

    def bonus(self, observation: Arrays) -> NDArray[np.float64]:
        """[N, A] of the actions at the observations [N, ...]."""
        pairs = fingerprints(observation).view(np.uint64)[:, None] + self._actions
        pairs ^= pairs >> np.uint64(32)  # so that equal distances do not stay equal
        self._at = (pairs * _OF_PAIR >> np.uint64(64 - _BITS)).astype(np.int64)
        bonus: NDArray[np.float64] = self.weight / (self._counts[self._copies[:, None], self._at] + 1.0)
        return bonus

    def acted(self, action: NDArray[Any], last: NDArray[np.bool_]) -> None:
        """Count actions [N] at the observations of the last `bonus`; none was taken at a `last` row [N]."""
        copies = self._copies[~last]
        self._counts[copies, self._at[copies, action[copies]]] += 1

    def get_state(self) -> dict[str, Any]:
        return {"counts": self._counts}

    def set_state(self, state: dict[str, Any]) -> None:
        self._counts = np.array(state["counts"])
