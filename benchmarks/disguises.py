"""One task in four disguises: what an agent earns in them should be what it earns in the task.

Rewards of another size, many actions that are alike, a time limit that no episode needs: nothing that has to
be learned differs.
"""

from __future__ import annotations

from typing import Any, ClassVar

from gymnasium.spaces import Discrete
from numpy.typing import NDArray

from envs.gridverse.dynamics import TableDynamics
from envs.gridverse.worlds import world
from envs.vector import Flags, Rewards, Rng

TASK = "gridverse-memory-7x7"
TIME_LIMIT = 250


class Disguised(TableDynamics):
    """`TASK`: rewards times `factor`, each action `alike` times over, its time limit `times` over."""

    factor: ClassVar[float] = 1.0
    alike: ClassVar[int] = 1
    times: ClassVar[int] = 1

    def __init__(self) -> None:
        task = world(TASK)
        super().__init__(task, task.facts["observation"])
        names = self.action_names
        self.action_space = Discrete(len(names) * self.alike)
        self.action_names = tuple(f"{name} {number}" for number in range(self.alike) for name in names)
        self.time_limit = TIME_LIMIT * self.times

    def step(self, action: NDArray[Any], rng: Rng) -> tuple[Rewards, Flags]:
        reward, terminated = super().step(action % self._num_actions, rng)
        return reward * self.factor, terminated

    def success(self, reward: Rewards, episode_return: Rewards, terminated: Flags) -> Flags | None:
        """The task's own: the good exit, before the rewards of the way eat up its own."""
        return super().success(reward / self.factor, episode_return / self.factor, terminated)


class SmallRewards(Disguised):
    """The memory task of 7 x 7 cells with rewards times 0.01."""

    factor = 0.01


class LargeRewards(Disguised):
    """The memory task of 7 x 7 cells with rewards times 1 000."""

    factor = 1000.0


class ManyActions(Disguised):
    """The memory task of 7 x 7 cells with each of its 6 actions eight times over."""

    alike = 8


class LongLimit(Disguised):
    """The memory task of 7 x 7 cells with ten times its time limit."""

    times = 10
