"""A small task for tests: episodes of 1 to 30 steps, terminated or truncated, all known beforehand."""

from __future__ import annotations

import functools
from typing import Any, ClassVar, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

NUM_ACTIONS = 3
MAX_LENGTH = 30
OBSERVATION_SPACE = gymnasium.spaces.MultiDiscrete([5, 3])
ACTION_SPACE = gymnasium.spaces.Discrete(NUM_ACTIONS)


class Episode(NamedTuple):
    length: int
    terminates: bool
    success: bool
    observations: np.ndarray
    """[length + 1, 2]"""


@functools.cache
def episode(seed: int, copy: int, number: int) -> Episode:
    """Episode `number` of an environment. Long ones succeed, so whoever counts the first to finish is
    biased."""
    generator = np.random.default_rng([seed, copy, number])
    length = int(generator.integers(1, MAX_LENGTH + 1))
    terminates = bool(generator.random() < 0.5)
    return Episode(length, terminates, length > 10, generator.integers([5, 3], size=(length + 1, 2)))


class ToyVectorEnv(VectorEnv):
    """N environments, NEXT_STEP autoreset. Rewards are eighths, which any float holds exactly."""

    metadata: ClassVar[dict[str, Any]] = {"autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, num_envs: int, seed: int = 0) -> None:
        self.num_envs, self.seed = num_envs, seed
        self.single_observation_space, self.single_action_space = OBSERVATION_SPACE, ACTION_SPACE
        self.number = np.zeros(num_envs, np.int64)
        self.elapsed = np.zeros(num_envs, np.int64)
        self.actions: list[np.ndarray] = []
        """The actions that `step` was given, vector step by vector step."""

    def episodes(self) -> list[Episode]:
        return [episode(self.seed, copy, int(number)) for copy, number in enumerate(self.number)]

    def observation(self) -> np.ndarray:
        return np.stack([e.observations[t] for e, t in zip(self.episodes(), self.elapsed, strict=True)])

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        return self.observation(), {}

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        self.actions.append(np.array(actions))
        over = self.elapsed == [e.length for e in self.episodes()]
        reward = np.where(over, 0.0, self.reward(np.asarray(actions)))
        self.number[over] += 1
        self.elapsed = np.where(over, 0, self.elapsed + 1)
        now = self.episodes()
        ended = self.elapsed == [e.length for e in now]
        terminated = ended & [e.terminates for e in now]
        success = ended & [e.success for e in now]
        return self.observation(), reward, terminated, ended & ~terminated, {"is_success": success}

    def reward(self, actions: np.ndarray) -> np.ndarray:
        return (self.observation()[:, 0] + actions - 2) / 8

    def get_state(self) -> dict[str, Any]:
        return {"number": self.number.copy(), "elapsed": self.elapsed.copy()}

    def set_state(self, state: dict[str, Any]) -> None:
        self.number, self.elapsed = state["number"].copy(), state["elapsed"].copy()


class DictTask(gymnasium.Env):
    """Two observations under their names; episodes of one step."""

    observation_space = gymnasium.spaces.Dict(
        {"a": gymnasium.spaces.Discrete(3), "b": gymnasium.spaces.Discrete(2)}
    )
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {"a": 0, "b": 0}, {}

    def step(self, action):
        return {"a": 1, "b": 1}, 0.0, True, False, {}


class Echo(gymnasium.Env):
    """Two numbers at each step; the nearer the action is to the number before, the better.

    So any two policies have different returns. Episodes of 1 to 12 steps, half of them truncated.
    """

    observation_space = OBSERVATION_SPACE
    action_space = ACTION_SPACE

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(1, 13))
        self.before = self.shown = 0
        return self._observe(), {}

    def step(self, action):
        self.left -= 1
        reward = -abs(self.before - int(action)) / 4
        terminates = bool(self.np_random.random() < 0.5)
        observation, over = self._observe(), self.left == 0
        return observation, reward, over and terminates, over and not terminates, {}

    def _observe(self):
        self.before, self.shown = self.shown, int(self.np_random.integers(3))
        return np.array([self.np_random.integers(5), self.shown])
