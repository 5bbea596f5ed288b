"""Two tasks that differ in one thing: whether the cue is shown again where it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete
from numpy.typing import NDArray

from envs.vector import Arrays, Dynamics, read_field


class Lamp(Dynamics):
    """Wait for `delay` steps in the dark, then name the lamp that was lit at the start.

    A name that is given before it is asked for ends the episode, so that no agent can hold the lamp in its
    actions, where one that is told its previous action would read it.
    """

    observation_space = Discrete(4)
    """Lamp 0 or 1 is lit; dark; the question, asked in the dark."""
    action_space = Discrete(3)
    """Name lamp 0 or 1; wait."""

    def __init__(self, delay: int = 6, shown_again: bool = False) -> None:
        """
        Args:
            delay: steps before the one at which the lamp is to be named.
            shown_again: the lamp is lit there too, so that nothing has to be remembered.
        """
        self.delay, self.shown_again = delay, shown_again

    def start(self, num: int, rng: np.random.Generator) -> None:
        self.lamp, self.elapsed = np.zeros(num, np.int64), np.zeros(num, np.int64)
        self.restart(np.arange(num), rng)

    def restart(self, env_ids: NDArray[np.intp], rng: np.random.Generator) -> None:
        self.lamp[env_ids] = rng.integers(2, size=len(env_ids))
        self.elapsed[env_ids] = 0

    def step(
        self, action: NDArray[Any], rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        asked = self.elapsed >= self.delay
        over = asked | (action != 2)
        self.elapsed += 1
        return np.where(over, np.where(asked & (action == self.lamp), 1.0, -1.0), 0.0), over

    def observe(self, rng: np.random.Generator) -> NDArray[np.int64]:
        asked = self.elapsed == self.delay
        lit = (self.elapsed == 0) | (asked & self.shown_again)
        return np.where(lit, self.lamp, np.where(asked, 3, 2))

    def get(self) -> Arrays:
        return {"lamp": self.lamp.copy(), "elapsed": self.elapsed.copy()}

    def put(self, state: Arrays) -> None:
        self.lamp, self.elapsed = state["lamp"].copy(), state["elapsed"].copy()

    def read(self, state: Mapping[str, Any], num: int) -> Arrays:
        most = {"lamp": 1, "elapsed": self.delay}
        return {
            name: read_field(name, state[name], (), num, np.int64, 0, high) for name, high in most.items()
        }

    def success(
        self, reward: NDArray[np.float64], episode_return: NDArray[np.float64], terminated: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """The right lamp is named."""
        right: NDArray[np.bool_] = terminated & (episode_return > 0)
        return right

    def other(self, state: Arrays) -> Arrays:
        """The other lamp was lit."""
        return state | {"lamp": 1 - state["lamp"]}
