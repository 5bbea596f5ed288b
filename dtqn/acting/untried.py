"""Actions that were never taken at an observation. They affect the choice of actions alone.

Random actions find what is one step off the greedy path only if they leave the rest of the path alone. In a
long task where one wrong step loses the episode they hardly ever do, whatever epsilon is. So some of the
environments take each action once at each observation: where actions are untried there, the one of them with
the largest Q-value, else the greedy one.

What was taken is in a table, as a count in OPIQ (Rashid et al. 2020, arXiv 2002.12174); a bonus that falls
with the count goes on to disturb what has been tried. If two observations share a place in it, the later one
starts anew. Observations are looked up, since a memory task has no other states that come twice.

Legend: N environments, n that try, A actions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtqn.acting.novelty import Arrays, fingerprints
from dtqn.types import map_tree

_NUMBERS = 2**16
"""Numbers in an environment's table, about: an observation has a tag and a flag for each action."""
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""An odd factor that spreads what it multiplies over all 64 bits."""


def _places(num_actions: int) -> int:
    return max(1, _NUMBERS // (1 + num_actions))


def table_bytes(num_actions: int) -> int:
    """The bytes of one environment's table."""
    return _places(num_actions) * (4 + num_actions)


def who_tries(num_envs: int, share: float) -> NDArray[np.bool_]:
    """[N] bool: `share` of the environments, evenly spread; with one half 1, 3, 5 and so on."""
    passed = np.floor(np.arange(num_envs + 1) * share)
    return passed[1:] > passed[:-1]


class Untried:
    """What was done where in the n of N environments that try.

    An observation whose place another one has got is new again: all its actions are untried then.
    """

    def __init__(self, tries: NDArray[np.bool_], num_actions: int) -> None:
        """`tries` [N] says which environments take what is untried, at least one."""
        self.env_ids = np.flatnonzero(tries)
        count, self._places = len(self.env_ids), _places(num_actions)
        self._rows = np.arange(count)
        self._tags = np.zeros((count, self._places), np.uint32)
        """Whose place it is; 0: nobody's."""
        self._taken = np.zeros((count, self._places, num_actions), bool)

    def best(self, observation: Arrays, q: NDArray[Any]) -> NDArray[np.int64]:
        """[N] of the untried actions at the observations [N, ...] the one with the largest of q [N, A].

        The largest of all where no action is untried, and in environments that do not try.
        """
        best: NDArray[np.int64] = q.argmax(axis=1)
        here = map_tree(lambda x: x[self.env_ids], observation)
        best[self.env_ids] = self._best(fingerprints(here).view(np.uint64), q[self.env_ids])
        return best

    def _best(self, numbers: NDArray[np.uint64], q: NDArray[Any]) -> NDArray[np.int64]:
        """[n] in those that try."""
        self._at = ((numbers * _SPREAD >> np.uint64(32)) % np.uint64(self._places)).astype(np.int64)
        self._tag = (numbers ^ numbers >> np.uint64(32)).astype(np.uint32) | np.uint32(1)
        known = self._tags[self._rows, self._at] == self._tag
        taken = self._taken[self._rows, self._at] & known[:, None]
        passed_over = taken & ~taken.all(axis=1, keepdims=True)
        return np.where(passed_over, -np.inf, q).argmax(axis=1)

    def acted(self, action: NDArray[Any], first: NDArray[np.bool_]) -> None:
        """Keep actions [N] at the observations of the last `best`; none led to a `first` [N] timestep."""
        rows = self._rows[~first[self.env_ids]]
        at, tag = self._at[rows], self._tag[rows]
        new = self._tags[rows, at] != tag
        self._taken[rows[new], at[new]] = False
        self._tags[rows, at] = tag
        self._taken[rows, at, action[self.env_ids[rows]]] = True

    def get_state(self) -> dict[str, Any]:
        return {"taken": self._taken, "tags": self._tags}

    def set_state(self, state: dict[str, Any]) -> None:
        has_all = len(state["tags"]) > len(self.env_ids)  # earlier checkpoints: those of all environments
        rows = self.env_ids if has_all else self._rows
        self._taken, self._tags = np.array(state["taken"])[rows], np.array(state["tags"])[rows]
