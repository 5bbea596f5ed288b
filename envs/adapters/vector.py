"""Copies of a single environment as one vector environment, stepped by Gymnasium's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv, VectorWrapper
from numpy.typing import NDArray

from envs.vector import Seed, generator, positive_int

Vectorization = Literal["sync", "async"]


class AdaptedVectorEnv(VectorWrapper[Any, Any, Any, Any, NDArray[Any]]):
    """N copies with NEXT_STEP autoreset: the rows are those of `envs.vector.NativeVectorEnv`.

    Rewards are doubles, a FIRST row has reward 0, and an episode ends either terminated or truncated.
    `infos["is_success"]`, bool [N], is there where the task defines success, and nothing else is.

    Each copy has a seed of its own, drawn from the generator that `seed` makes. What such environments hold
    cannot be saved as arrays: `get_state` returns None.

    Args:
        make_env: makes one copy: a `PlainEnv`.
        num_envs: number of copies N.
        seed: of the generator; None takes entropy from the system.
        vectorization: `sync` steps the copies one after the other, `async` each in a process of its own.
        time_limit: for information: the limit that the copies keep.
    """

    def __init__(
        self,
        make_env: Callable[[], gymnasium.Env[Any, Any]],
        num_envs: int,
        seed: Seed = None,
        *,
        vectorization: Vectorization = "sync",
        time_limit: int | None = None,
    ) -> None:
        makers = [make_env] * positive_int("num_envs", num_envs)
        self._own_generator = generator(seed)
        mode = AutoresetMode.NEXT_STEP
        env: VectorEnv[Any, Any, Any] = (
            AsyncVectorEnv(makers, autoreset_mode=mode)
            if vectorization == "async"
            else SyncVectorEnv(makers, autoreset_mode=mode)
        )
        super().__init__(env)
        self.time_limit = time_limit

    @property  # type: ignore[misc]
    def np_random(self) -> np.random.Generator:
        """What the copies' seeds are drawn from."""
        return self._own_generator

    @property
    def np_random_seed(self) -> int:
        """-1, Gymnasium's mark for a seed that is not known: the copies have many."""
        return -1

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts a new episode in every copy, each with a new seed; `seed` makes the generator anew."""
        if seed is not None:
            self._own_generator = generator(seed)
        seeds = self._own_generator.integers(2**31, size=self.num_envs).tolist()
        observation, _ = self.env.reset(seed=seeds, options=options)
        return observation, {}

    def step(
        self, actions: Any
    ) -> tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """One row of every copy; the action of a copy whose last row was LAST is ignored."""
        observation, reward, terminated, truncated, infos = self.env.step(actions)
        success = {"is_success": infos["is_success"]} if "is_success" in infos else {}
        return observation, np.asarray(reward, np.float64), terminated, truncated, success

    def get_state(self) -> None:
        """None: it cannot be saved."""
        return None

    def set_state(self, state: Mapping[str, Any]) -> None:
        raise ValueError("environment state: a task of another package has none that can be restored")
