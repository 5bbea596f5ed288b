"""Episodes written down step by step and environment by environment, the twin of whatever counts them."""

from __future__ import annotations

from typing import Any, NamedTuple


class Entry(NamedTuple):
    """An episode that has ended."""

    env_id: int
    rewards: list[float]
    """One for each step; the first timestep is no step."""
    terminated: bool


def total(rewards: list[float]) -> float:
    """The sum in double precision in the order of the steps, which `sum` is not in every Python."""
    result = 0.0
    for reward in rewards:
        result += reward
    return result


class Ledger:
    """The open episode of each environment and all that have ended (NEXT_STEP autoreset)."""

    def __init__(self, num: int) -> None:
        self.open: list[list[float]] = [[] for _ in range(num)]
        self.over = [False] * num
        self.entries: list[Entry] = []

    def begin(self) -> None:
        """New episodes in all environments; those that were open never end."""
        self.open = [[] for _ in self.open]
        self.over = [False] * len(self.over)

    def write(self, reward: Any, terminated: Any, truncated: Any) -> list[Entry]:
        """A timestep of every environment; the episodes that end with it, in the environments' order."""
        ended = []
        for env_id, rewards in enumerate(self.open):
            if self.over[env_id]:
                assert reward[env_id] == 0 and not terminated[env_id] and not truncated[env_id]
                self.open[env_id] = []
            else:
                rewards.append(float(reward[env_id]))
            self.over[env_id] = bool(terminated[env_id] or truncated[env_id])
            if self.over[env_id]:
                ended.append(Entry(env_id, self.open[env_id], bool(terminated[env_id])))
        self.entries += ended
        return ended

    def returns(self) -> list[float]:
        """The returns of the episodes that are open or have just ended."""
        return [total(rewards) for rewards in self.open]

    def lengths(self) -> list[int]:
        """In steps."""
        return [len(rewards) for rewards in self.open]
