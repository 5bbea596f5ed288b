"""One environment of a finite POMDP in plain loops, the twin of `envs.pomdp.dynamics`."""

from __future__ import annotations

from typing import Any

import numpy as np


def draw(probabilities: Any, uniform: float) -> int:
    """The first outcome at which the running sum of `probabilities` exceeds `uniform`."""
    total = 0.0
    possible = [k for k, probability in enumerate(probabilities) if probability > 0]
    for outcome in possible:
        total += float(probabilities[outcome])
        if uniform < total:
            return outcome
    return possible[-1]


class TwinPomdp:
    def __init__(self, model: Any) -> None:
        self.model = model
        a, s, o = len(model.actions), len(model.states), len(model.observations)
        self.reward = np.broadcast_to(model.reward, (a, s, s, o))
        self.symbol_of_a_start = o

    def start(self, uniform: float) -> int:
        self.state = draw(self.model.start, uniform)
        return self.symbol_of_a_start

    def step(self, action: int, for_state: float, for_observation: float) -> tuple[int, float, bool]:
        """Observation, reward and whether the episode ends."""
        before = self.state
        self.state = draw(self.model.transition[action, before], for_state)
        observation = draw(self.model.observation[action, self.state], for_observation)
        reward = float(self.reward[action, before, self.state, observation])
        return observation, reward, bool(self.model.reset[action, before])
