"""Timesteps: what N environments give at every vector step, and the episodes that end there."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

import gymnasium
import numpy as np
import torch

from dtqn.shapes import send
from dtqn.types import NonFiniteError, StepInputs, map_tree

Leaf = TypeVar("Leaf")

FACTS = {
    "novel": np.dtype(np.bool_),
    "q_max": np.dtype(np.float32),
    "q_min": np.dtype(np.float32),
    "q_taken": np.dtype(np.float32),
}
"""The fields of `Timesteps` that the learner reads and no network does, and the dtype of each in replay."""


class Timesteps(NamedTuple, Generic[Leaf]):
    """One timestep of each environment as it arrives, and what the actor adds to it: arrays [N, ...].

    The fields have the same names in replay (`dtqn.training.replay_fields`).
    """

    observation: Leaf | dict[str, Leaf]
    """An array, or one a key for a Dict space."""
    prev_action: Leaf
    """a_{t-1}; ignored where `first`."""
    reward: Leaf
    """r_t, as it arrives with the observation; 0 where `first`."""
    discount: Leaf
    """bool: False on the timestep that terminates."""
    first: Leaf
    """bool: the timestep begins an episode."""
    last: Leaf
    """bool: the timestep ends an episode, terminated or truncated."""
    novel: Leaf
    """bool: its episode had not shown this observation before; False everywhere where nobody asks."""
    q_max: Leaf
    """The largest Q-value that the actor saw."""
    q_min: Leaf
    """The smallest."""
    q_taken: Leaf
    """The Q-value of the action that it took."""
    version: Leaf
    """The learner step whose parameters acted."""
    memory: dict[str, Leaf]
    """The stored memory that the network left behind: field -> [N, ...]."""


class Episodes(NamedTuple):
    """Episodes that ended at a vector step, [n] each."""

    episode_return: np.ndarray
    length: np.ndarray
    success: np.ndarray


class VectorTimesteps:
    """The timesteps of N environments, one of each per vector step, as they arrive (NEXT_STEP autoreset).

    The observation is an array [N, ...], or one such array a key for a Dict space.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv) -> None:
        self.env = env
        self.num_actions = int(env.single_action_space.n)  # type: ignore[attr-defined]
        self._begins_with: np.random.Generator | None = None
        """Seeds new episodes in place of the next step, where the environments could not be saved."""
        self.begin()

    def begin(self, generator: np.random.Generator | None = None) -> None:
        """New episodes in all environments, seeded by `generator`; without one as these were made."""
        self._begins_with = None
        count = self.env.num_envs
        seed = None if generator is None else int(generator.integers(2**31))
        self.observation = map_tree(np.asarray, self.env.reset(seed=seed)[0])
        self.prev_action = np.zeros(count, np.int64)
        self.reward = np.zeros(count, np.float64)
        self.terminated = np.zeros(count, bool)
        self.first = np.ones(count, bool)
        self.last = np.zeros(count, bool)
        self.episode_return = np.zeros(count, np.float64)
        self.length = np.zeros(count, np.int64)

    def step(self, action: np.ndarray) -> Episodes:
        """Step every environment; an action at a last timestep is ignored and begins the next episode."""
        if self._begins_with is not None:
            self.begin(self._begins_with)
            return Episodes(np.zeros(0), np.zeros(0, np.int64), np.zeros(0, bool))
        observation, reward, terminated, truncated, infos = self.env.step(action)
        reward = np.asarray(reward, np.float64)
        if not np.isfinite(reward).all():
            wrong = reward[~np.isfinite(reward)][0]
            raise NonFiniteError(f"the task gave the reward {wrong}; every reward must be a finite number")
        self.first = self.last
        self.observation = map_tree(np.asarray, observation)
        self.prev_action, self.reward = action, reward
        self.terminated = np.asarray(terminated)
        self.last = self.terminated | truncated
        self.episode_return = np.where(self.first, 0.0, self.episode_return + self.reward)
        self.length = np.where(self.first, 0, self.length + 1)
        ended = np.flatnonzero(self.last)
        success = infos["is_success"][ended] if "is_success" in infos else np.zeros(len(ended), bool)
        return Episodes(self.episode_return[ended], self.length[ended], success)

    def inputs(self, device: torch.device, dtype: torch.dtype) -> StepInputs:
        """The network's inputs, [N, 1, ...]."""
        parts = (self.observation, self.prev_action, self.reward, self.first)
        observation, action, reward, first = (
            map_tree(lambda part: send(part, device)[:, None], part) for part in parts
        )
        return StepInputs(observation, action, reward.to(dtype), first)

    _ARRAYS = (
        "observation prev_action reward terminated first last episode_return length".split()  # noqa: SIM905
    )

    def get_state(self) -> dict[str, Any]:
        """`env` is None where the environments' state cannot be saved."""
        env = self.env.get_state()  # type: ignore[attr-defined]
        return {"env": env, **{name: getattr(self, name) for name in self._ARRAYS}}

    def set_state(self, state: dict[str, Any], generator: np.random.Generator) -> None:
        """Goes on from `state`; where the environments' is None, only with the timesteps that nobody has had.

        New episodes, seeded by `generator`, then begin with the next step: one that has ended keeps its last
        timestep.
        """
        for name in self._ARRAYS:
            setattr(self, name, map_tree(np.copy, state[name]))
        if state["env"] is None:
            self._begins_with = generator
        else:
            self.env.set_state(state["env"])  # type: ignore[attr-defined]
