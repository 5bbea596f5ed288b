"""A bonus for actions that were seldom taken at an observation. It affects the choice of actions alone.

Random actions find what is one step off the greedy path only if they leave the rest of the path alone. In a
long task where one wrong step loses the episode they hardly ever do, whatever epsilon is. Counts show the few
places where something is untried. As in OPIQ (Rashid et al. 2020, arXiv 2002.12174) with M = 1

    a_t = argmax_a Q(s_t, a) + C / (n(o_t, a) + 1)

where n counts how often action a was taken at observation o_t in that environment, over all its episodes.
The counts are in a table. If two observations share a place in it, the later one starts from zero. OPIQ adds
the bonus to its targets too; here values come from the task's own rewards alone. Observations are counted,
since a memory task has no other states that come twice.

Legend: N environments, A actions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtqn.acting.novelty import Arrays, fingerprints

_NUMBERS = 2**16
"""Numbers in an environment's table, about: an observation has a tag and a count for each action."""
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""An odd factor that spreads what it multiplies over all 64 bits."""


def _places(num_actions: int) -> int:
    return max(1, _NUMBERS // (1 + num_actions))


def table_bytes(num_actions: int) -> int:
    """The bytes of one environment's table."""
    return 4 * _places(num_actions) * (1 + num_actions)


class Optimism:
    """Counts of what was done where in each of N environments, and the bonus that follows from them.

    An observation whose place another one has got is new again: all its actions have the same bonus then.
    """

    def __init__(self, num_envs: int, num_actions: int, weight: float) -> None:
        """`weight` is C, in units of Q."""
        self.weight = weight
        self._places = _places(num_actions)
        self._env_ids = np.arange(num_envs)
        self._tags = np.zeros((num_envs, self._places), np.uint32)
        """Whose place it is; 0: nobody's."""
        self._counts = np.zeros((num_envs, self._places, num_actions), np.int32)
        self._at = np.zeros(num_envs, np.int64)
        self._tag = np.zeros(num_envs, np.uint32)

    def bonus(self, observation: Arrays) -> NDArray[np.float64]:
        """[N, A] of the actions at the observations [N, ...]."""
        numbers = fingerprints(observation).view(np.uint64)
        self._at = ((numbers * _SPREAD >> np.uint64(32)) % np.uint64(self._places)).astype(np.int64)
        self._tag = (numbers ^ numbers >> np.uint64(32)).astype(np.uint32) | np.uint32(1)
        known = self._tags[self._env_ids, self._at] == self._tag
        counts = np.where(known[:, None], self._counts[self._env_ids, self._at], 0)
        bonus: NDArray[np.float64] = self.weight / (counts + 1.0)
        return bonus

    def acted(self, action: NDArray[Any], first: NDArray[np.bool_]) -> None:
        """Count actions [N] at the observations of the last `bonus`; none led to a `first` [N] timestep."""
        env_ids = self._env_ids[~first]
        at, tag = self._at[env_ids], self._tag[env_ids]
        new = self._tags[env_ids, at] != tag
        self._counts[env_ids[new], at[new]] = 0
        self._tags[env_ids, at] = tag
        self._counts[env_ids, at, action[env_ids]] += 1

    def get_state(self) -> dict[str, Any]:
        return {"counts": self._counts, "tags": self._tags}

    def set_state(self, state: dict[str, Any]) -> None:
        self._counts, self._tags = np.array(state["counts"]), np.array(state["tags"])
