"""A memory task whose cue tells nothing: what an agent learns there cannot be to remember it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import envs
from envs.vector import Arrays, Dynamics, NativeVectorEnv, read_field


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

    def start(self, num: int, rng: np.random.Generator) -> None:
        self._task.start(num, rng)
        self.swapped = rng.random(num) < 0.5

    def restart(self, env_ids: NDArray[np.intp], rng: np.random.Generator) -> None:
        self._task.restart(env_ids, rng)

    def step(
        self, action: NDArray[Any], rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        self.swapped = rng.random(len(action)) < 0.5
        return self._task.step(action, rng)

    def observe(self, rng: np.random.Generator) -> NDArray[Any]:
        shown, rows = self._task.observe(rng), np.flatnonzero(self.swapped)
        if len(rows):
            other = self._task.other({name: x[rows] for name, x in self._task.get().items()})
            assert other is not None
            self._other.start(len(rows), rng)
            self._other.put(other)
            shown[rows] = self._other.observe(rng)
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

    def success(
        self, reward: NDArray[np.float64], episode_return: NDArray[np.float64], terminated: NDArray[np.bool_]
    ) -> NDArray[np.bool_] | None:
        """The task's own."""
        return self._task.success(reward, episode_return, terminated)

    def other(self, state: Arrays) -> Arrays:
        """The other cue is shown, in the task as it is."""
        return state | {"swapped": ~state["swapped"]}

    def picture(self, env_id: int) -> NDArray[np.uint8]:
        """The task's own."""
        return self._task.picture(env_id)
