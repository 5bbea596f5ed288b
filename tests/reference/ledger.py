"""Episodes written down timestep by timestep and copy by copy, the twin of whatever counts them."""

from __future__ import annotations

from typing import Any, NamedTuple


class Entry(NamedTuple):
    """An episode that has ended."""

    copy: int
    rewards: list[float]
    """One for each step; the FIRST timestep is no step."""
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
        """A timestep of every environment; the episodes that end with it, in the order of the
        environments."""
        ended = []
        for copy, rewards in enumerate(self.open):
            if self.over[copy]:
                assert reward[copy] == 0 and not terminated[copy] and not truncated[copy]
                self.open[copy] = []
            else:
                rewards.append(float(reward[copy]))
            self.over[copy] = bool(terminated[copy] or truncated[copy])
            if self.over[copy]:
                ended.append(Entry(copy, self.open[copy], bool(terminated[copy])))
        self.entries += ended
        return ended

    def returns(self) -> list[float]:
        """The returns of the episodes that are open or have just ended."""
        return [total(rewards) for rewards in self.open]

    def lengths(self) -> list[int]:
        """In steps."""
        return [len(rewards) for rewards in self.open]
