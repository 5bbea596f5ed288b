"""Copies of a single environment as one vector environment, stepped by Gymnasium's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from envs.adapters.plain import PlainEnv
from envs.checks import ObservationCheck
from envs.entry_points import brief_error, located
from envs.errors import ANY_FAULT, NoPictureError, TaskError
from envs.task import TaskSpec
from envs.vector import AnyWrapper, FirstRow, Row, Seed, generator, positive_int


class AdaptedVectorEnv(AnyWrapper):
    """N copies with NEXT_STEP autoreset: the rows are those of `envs.vector.NativeVectorEnv`.

    Rewards are doubles, a FIRST row has reward 0, and an episode ends either terminated or truncated.
    `infos["is_success"]`, bool [N], is there where the task defines success, and nothing else is.

    Each copy has a seed of its own, drawn from the generator that `seed` makes. The content of such
    environments cannot be saved as arrays: `get_state` returns None.

    Args:
        spec: what the task is, its time limit included, which the copies keep.
        make_env: makes one copy.
        num_envs: number of copies N.
        seed: of the generator; None takes entropy from the system.
    """

    def __init__(
        self, spec: TaskSpec, make_env: Callable[[], PlainEnv], num_envs: int, seed: Seed = None
    ) -> None:
        positive_int("num_envs", num_envs)
        self._own_generator = generator(seed)
        try:
            env = SyncVectorEnv([make_env] * num_envs, autoreset_mode=AutoresetMode.NEXT_STEP)
        except NoPictureError:
            raise
        except ANY_FAULT as error:  # of which one copy can be made, as has been seen, but not as many
            problem = f"{num_envs} copies of it cannot be made: {brief_error(error)}"
            raise TaskError(spec.id, problem) from error
        super().__init__(env)
        self.time_limit = spec.time_limit
        self._name = spec.id
        self._check = ObservationCheck(spec.id, self.single_observation_space)

    @property  # type: ignore[misc]
    def np_random(self) -> np.random.Generator:
        """The source of the copies' seeds."""
        return self._own_generator

    @property
    def np_random_seed(self) -> int:
        """-1, Gymnasium's mark for a seed that is not known: the copies have many."""
        return -1

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> FirstRow:
        """Starts a new episode in every copy, each with a new seed; `seed` makes the generator anew."""
        if seed is not None:
            self._own_generator = generator(seed)
        seeds = self._own_generator.integers(2**31, size=self.num_envs).tolist()
        return self._row(lambda: self.env.reset(seed=seeds, options=options))[0], {}

    def step(self, actions: Any) -> Row:
        """One row of every copy; the action of a copy whose last row was LAST is ignored.

        Raises:
            TaskError: where a copy breaks the interface, fails or is lost, or observes a number that is not
                finite or a category that its space does not have, or gives a reward that is not finite.
        """
        observation, reward, terminated, truncated, infos = self._row(lambda: self.env.step(actions))
        success = {"is_success": infos["is_success"]} if "is_success" in infos else {}
        return observation, np.asarray(reward, np.float64), terminated, truncated, success

    def _row(self, call: Callable[[], Any]) -> Any:
        """The values that `reset` or `step` of the copies returns, if the observation can be read."""
        try:
            row = call()
        except TaskError:
            raise
        except ANY_FAULT as error:  # an observation of another shape, say, that cannot join the others
            raise TaskError(self._name, f"a row of its copies cannot be read: {located(error)}") from error
        self._check(row[0])
        return row

    def get_state(self) -> None:
        """None: it cannot be saved."""
        return None

    def set_state(self, state: Mapping[str, Any]) -> None:
        raise ValueError("environment state: a task of another package has none that can be restored")
