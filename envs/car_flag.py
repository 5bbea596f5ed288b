"""Car Flag: ask the priest which end of the road is heaven, then drive there (DTQN, arXiv 2206.01078).

Legend: N environments.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from envs.drawing import AGENT, FLOOR, GREEN, RED, VIEW, WALL
from envs.fields import Field, FieldDynamics, require
from envs.task import Native
from envs.vector import Arrays, EnvIds, Flags, Rewards, Rng

POWER: Final = 0.0015  # what a full force adds to the velocity
MAX_POSITION: Final = 1.1
MAX_VELOCITY: Final = 0.07
FLAG: Final = 1.0  # heaven and hell are at plus and minus this position
PRIEST: Final = (0.5 - 0.2, 0.5 + 0.2)  # from where to where the priest is heard
START: Final = (-0.2, 0.2)

_BOUND: Final = np.array([MAX_POSITION, MAX_VELOCITY, 1.0], np.float32)

PIXELS: Final = 240  # of a picture, per unit of position


class CarFlagDynamics(FieldDynamics):
    """The road. The fields of a state, doubles: `position`, `velocity`, and `heaven`, the side +1 or -1.

    Without a velocity the car is at rest. Observations are rounded to float32; the state is not.
    """

    observation_space = Box(-_BOUND, _BOUND, dtype=np.float32)
    fields = (
        Field("position", (), np.float64, -MAX_POSITION, MAX_POSITION),
        Field("velocity", (), np.float64, -MAX_VELOCITY, MAX_VELOCITY, 0.0),
        Field("heaven", (), np.float64, -1, 1),
    )
    position: NDArray[np.float64]
    velocity: NDArray[np.float64]
    heaven: NDArray[np.float64]

    def __init__(self, *, continuous: bool) -> None:
        self.action_space = Box(-1.0, 1.0, (1,), np.float32) if continuous else Discrete(3)
        self.action_names = () if continuous else ("push left", "no push", "push right")
        self._continuous = continuous

    def restart(self, env_ids: EnvIds, rng: Rng) -> None:
        self.heaven[env_ids] = 2.0 * rng.integers(2, size=len(env_ids)) - 1.0
        self.position[env_ids] = rng.uniform(*START, size=len(env_ids))
        self.velocity[env_ids] = 0.0

    def step(self, action: NDArray[Any], rng: Rng) -> tuple[Rewards, Flags]:
        force = action[:, 0].astype(np.float64) if self._continuous else action - 1.0
        self.velocity = (self.velocity + POWER * force).clip(-MAX_VELOCITY, MAX_VELOCITY)
        self.position = (self.position + self.velocity).clip(-MAX_POSITION, MAX_POSITION)
        terminated = abs(self.position) >= FLAG
        return np.where(terminated, np.sign(self.position) * self.heaven, 0.0), terminated

    def observe(self, rng: Rng) -> NDArray[np.float32]:
        heard = (self.position >= PRIEST[0]) & (self.position <= PRIEST[1])
        observation = np.empty((len(self.position), 3), np.float32)
        observation[:, 0] = self.position
        observation[:, 1] = self.velocity
        # A product with False would be -0.0 on one side, which tells it.
        observation[:, 2] = np.where(heard, self.heaven, 0.0)
        return observation

    def check(self, state: Arrays) -> None:
        require("heaven", state["heaven"], abs(state["heaven"]) == 1, "-1 or 1")

    def success(self, reward: Rewards, episode_return: Rewards, terminated: Flags) -> Flags:
        """The last step arrives in heaven."""
        return reward > 0.0

    def other(self, state: Arrays) -> Arrays:
        """Heaven is at the other end."""
        return state | {"heaven": -state["heaven"]}

    def picture(self, env_id: int) -> NDArray[np.uint8]:
        """The road from -1.1 to 1.1: heaven's flag is green, hell's red, the priest's stretch yellow.

        The stretch is filled while the priest is heard, with an arrow to heaven.
        """
        position, heaven = self.position[env_id], self.heaven[env_id]
        x = np.arange(-MAX_POSITION + 0.5 / PIXELS, MAX_POSITION, 1 / PIXELS)
        height, road = 96, 72
        y = np.arange(height)[:, None]
        picture = np.full((height, len(x), 3), FLOOR, np.uint8)
        picture[road:] = WALL
        heard = PRIEST[0] <= position <= PRIEST[1]
        picture[(abs(x - sum(PRIEST) / 2) <= 0.2) & (y >= (road if heard else road + 12))] = VIEW
        if heard:
            tip = sum(PRIEST) / 2 + 0.06 * heaven
            picture[(abs(y - 20) < PIXELS * 0.5 * (tip - x) * heaven) & (abs(x - tip) < 0.12)] = VIEW
        for side in (-FLAG, FLAG):
            colour = GREEN if side == heaven else RED
            picture[(abs(x - side) < 0.008) & (y >= 12) & (y < road)] = WALL
            picture[(x > side - 0.075) & (x < side) & (y >= 12) & (y < 34)] = colour
        picture[(abs(x - position) < 0.05) & (y >= road - 16) & (y < road - 3)] = AGENT
        for wheel in (-0.03, 0.03):
            picture[((x - position - wheel) * PIXELS) ** 2 + (y - road + 4) ** 2 < 16] = AGENT
        return picture


def find(id: str) -> Native | None:
    if id not in ("car-flag", "car-flag-continuous"):
        return None
    return functools.partial(CarFlagDynamics, continuous=id == "car-flag-continuous"), {
        "description": "Drive to the priest to learn which end of the road is heaven, then drive there.",
        "time_limit": 200,
        "success": "the last step arrives in heaven (reward > 0)",
        "best_return": 1.0,
        "source": "DTQN (arXiv 2206.01078)",
    }
