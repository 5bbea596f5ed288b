"""A memory task whose cue tells nothing: what an agent learns there cannot be to remember it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import envs
from envs.vector import Arrays, Dynamics, EnvIds, Flags, NativeVectorEnv, Rewards, Rng, read_field


class Shuffled(Dynamics):
    """A task of this suite that names its secret, with that or another one shown by chance at each step.

    Rewards are the task's own, so no decision is better for what the cue shows.
    """

    def __init__(self, env: str = "gridverse-memory-7x7") -> None:
        made = envs.make_vector(env, 1)
        if not isinstance(made, NativeVectorEnv) or made.reset() is None or made.observe_other() is None:
            raise ValueError(f"env is {env}; it must be a task that names its secret (docs/debug.md)")
        self._task = made._dynamics
        self._other = copy.deepcopy(self._task)
        self.observation_space, self.action_space = self._task.observation_space, self._task.action_space
        self.action_names, self.time_limit = envs.spec(env).action_names, made.time_limit

    def start(self, num: int, rng: Rng) -> None:
        self._task.start(num, rng)
        self.swapped = rng.random(num) < 0.5

    def restart(self, env_ids: EnvIds, rng: Rng) -> None:
        self._task.restart(env_ids, rng)

    def step(self, action: NDArray[Any], rng: Rng) -> tuple[Rewards, Flags]:
        self.swapped = rng.random(len(action)) < 0.5
        return self._task.step(action, rng)

    def observe(self, rng: Rng) -> NDArray[Any]:
        shown, env_ids = self._task.observe(rng), np.flatnonzero(self.swapped)
        if len(env_ids):
            other = self._task.other({name: x[env_ids] for name, x in self._task.get().items()})
            assert other is not None
            self._other.start(len(env_ids), rng)
            self._other.put(other)
            shown[env_ids] = self._other.observe(rng)
        return shown

    def get(self) -> Arrays:
        return self._task.get() | {"swapped": self.swapped.copy()}

    def put(self, state: Arrays) -> None:
        self.swapped = state["swapped"].copy()
        self._task.put({name: x for name, x in state.items() if name != "swapped"})

    def read(self, state: Mapping[str, Any], num: int) -> Arrays:
        own = {name: x for name, x in state.items() if name != "swapped"}
        swapped = read_field("swapped", state.get("swapped", False), (), num, np.bool_, 0, 1)
        return self._task.read(own, num) | {"swapped": swapped}

    def success(self, reward: Rewards, episode_return: Rewards, terminated: Flags) -> Flags | None:
        """The task's own."""
        return self._task.success(reward, episode_return, terminated)

    def other(self, state: Arrays) -> Arrays:
        """The other cue is shown, in the task as it is."""
        return state | {"swapped": ~state["swapped"]}

    def picture(self, env_id: int) -> NDArray[np.uint8]:
        """The task's own."""
        return self._task.picture(env_id)
