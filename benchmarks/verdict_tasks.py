"""Two tasks that differ in one thing: whether the cue is shown again where it is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Discrete
from numpy.typing import NDArray

from envs.fields import Field, FieldDynamics
from envs.vector import Arrays, EnvIds, Flags, Rewards, Rng


class Lamp(FieldDynamics):
    """Wait for `delay` steps in the dark, then name the lamp that was lit at the start.

    A name that is given before it is asked for ends the episode, so that no agent can hold the lamp in its
    actions, where one that is told its previous action would read it.
    """

    observation_space = Discrete(4)
    """Lamp 0 or 1 is lit; dark; the question, asked in the dark."""
    action_space = Discrete(3)
    """Name lamp 0 or 1; wait."""
    lamp: NDArray[np.int64]
    elapsed: NDArray[np.int64]

    def __init__(self, delay: int = 6, shown_again: bool = False) -> None:
        """
        Args:
            delay: steps before the one at which the lamp is to be named.
            shown_again: the lamp is lit there too, so that nothing has to be remembered.
        """
        self.delay, self.shown_again = delay, shown_again
        self.fields = (Field("lamp", (), np.int64, 0, 1), Field("elapsed", (), np.int64, 0, delay + 1))

    def restart(self, env_ids: EnvIds, rng: Rng) -> None:
        self.lamp[env_ids] = rng.integers(2, size=len(env_ids))
        self.elapsed[env_ids] = 0

    def step(self, action: NDArray[Any], rng: Rng) -> tuple[Rewards, Flags]:
        asked = self.elapsed >= self.delay
        over = asked | (action != 2)
        self.elapsed += 1
        return np.where(over, np.where(asked & (action == self.lamp), 1.0, -1.0), 0.0), over

    def observe(self, rng: Rng) -> NDArray[np.int64]:
        asked = self.elapsed == self.delay
        lit = (self.elapsed == 0) | (asked & self.shown_again)
        return np.where(lit, self.lamp, np.where(asked, 3, 2))

    def success(self, reward: Rewards, episode_return: Rewards, terminated: Flags) -> Flags:
        """The right lamp is named."""
        right: Flags = terminated & (episode_return > 0)
        return right

    def other(self, state: Arrays) -> Arrays:
        """The other lamp was lit."""
        return state | {"lamp": 1 - state["lamp"]}
