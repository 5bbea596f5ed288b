"""A `Dynamics` of a user's own, each of whose answers is looked at: what is wrong with one is a `TaskError`.

This project's own tasks have no such guard, which costs a little at every step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from envs.checks import ObservationCheck, check_reward, misfit, picture_problem, state_problem, tuple_problem
from envs.entry_points import located
from envs.errors import ANY_FAULT, TaskError
from envs.vector import Arrays, Dynamics, EnvIds, Flags, NativeVectorEnv, Rewards, Rng, Seed, Timestep


class GuardedDynamics(Dynamics):
    """The same task; whatever it does wrong, or raises, becomes a `TaskError` that names the method.

    Only `read` may raise a ValueError: that is its answer to a state of a user's that is not valid.

    Args:
        task: its id.
        dynamics: the task; this guard is its only user.
    """

    def __init__(self, task: str, dynamics: Dynamics) -> None:
        self.observation_space, self.action_space = dynamics.observation_space, dynamics.action_space
        self.action_names, self.time_limit = dynamics.action_names, dynamics.time_limit
        self.has_failed = False
        """Whether it has done something wrong, so that its states mean nothing any more."""
        self._task, self._dynamics, self._num = task, dynamics, 0
        self._check = ObservationCheck(task, self.observation_space)

    def start(self, num: int, rng: Rng) -> None:
        self._num = num
        self.attempt("start", lambda: self._dynamics.start(num, rng))

    def restart(self, env_ids: EnvIds, rng: Rng) -> None:
        self._lend("restart", lambda ids: self._dynamics.restart(ids, rng), env_ids=env_ids)

    def step(self, action: NDArray[Any], rng: Rng) -> tuple[Rewards, Flags]:
        answer = self._lend("step", lambda action: self._dynamics.step(action, rng), action=action)
        if problem := tuple_problem("step", answer, ("rewards", "terminated")):
            raise self.error(problem)
        reward, terminated = answer
        self._fits("rewards", reward, np.float64)
        self._fits("terminated", terminated, np.bool_)
        return reward.copy(), terminated.copy()  # they are changed, and may be arrays that the task keeps

    def observe(self, rng: Rng) -> NDArray[Any]:
        observation: NDArray[Any] = self.attempt("observe", lambda: self._dynamics.observe(rng))
        space = self.observation_space
        self._fits("observations", observation, space.dtype, *(space.shape or ()))
        self.attempt("observe", lambda: self._check(observation))
        return observation

    def get(self) -> Arrays:
        state: Arrays = self.attempt("get", self._dynamics.get)
        if problem := state_problem(state, self._num):
            raise self.error(problem)
        return state

    def put(self, state: Arrays) -> None:
        self.attempt("put", lambda: self._dynamics.put(state))

    def read(self, state: Mapping[str, Any], num: int) -> Arrays:
        self._num = num
        read: Arrays = self.attempt("read", lambda: self._dynamics.read(state, num), ValueError)
        if problem := state_problem(read, num):
            raise self.error(problem.replace("its get", "its read"))
        return read

    def success(self, reward: Rewards, episode_return: Rewards, terminated: Flags) -> Flags | None:
        arrays = {"reward": reward, "episode_return": episode_return, "terminated": terminated}
        success: Flags | None = self._lend("success", self._dynamics.success, **arrays)
        if success is not None:
            self._fits("success", success, np.bool_)
        return success

    def other(self, state: Arrays) -> Arrays | None:
        num = len(next(iter(state.values()), ()))
        other: Arrays | None = self.attempt("other", lambda: self._dynamics.other(state))
        if other is not None and (problem := state_problem(other, num)):
            raise self.error(problem.replace("its get", "its other"))
        return other

    def picture(self, env_id: int) -> NDArray[np.uint8]:
        picture: NDArray[np.uint8] = self.attempt("picture", lambda: self._dynamics.picture(env_id))
        if problem := picture_problem(picture):
            raise self.error(problem)
        return picture

    def error(self, problem: str) -> TaskError:
        """The error of a task that is then not to be stepped again."""
        self.has_failed = True
        return TaskError(self._task, problem)

    def _fits(self, name: str, array: Any, dtype: Any, *shape: int) -> None:
        if problem := misfit(array, dtype, (self._num, *shape)):
            raise self.error(f"its {name}: {problem}")

    def _lend(self, what: str, call: Callable[..., Any], **arrays: NDArray[Any]) -> Any:
        """What `call` returns, given these arrays in their order; they are others' too, so it gets copies."""
        copies = [array.copy() for array in arrays.values()]
        result = self.attempt(what, lambda: call(*copies))
        for (name, array), copy in zip(arrays.items(), copies, strict=True):
            if copy.tobytes() != array.tobytes():
                raise self.error(f"its {what} writes to its argument `{name}`; it must leave that as it is")
        return result

    def attempt(self, what: str, call: Callable[[], Any], *answers: type[Exception]) -> Any:
        """What `call`, of the task's method `what`, returns; a TaskError for what it raises but `answers`."""
        try:
            return call()
        except answers:
            raise
        except TaskError:
            self.has_failed = True
            raise
        except ANY_FAULT as error:  # whatever a user's class raises
            raise self.error(f"its {what} failed: {located(error)}") from error


class GuardedVectorEnv(NativeVectorEnv):
    """N environments of a user's own task. Once it has failed it has no state that could be gone on from.

    Args:
        task: the task's id.
        dynamics: the task; this environment is its only user.
        num_envs, seed, options: as of `NativeVectorEnv`.

    Raises:
        TaskError: here, and by every method that asks the task: where that fails or breaks its interface.
        ValueError: as `NativeVectorEnv`.
    """

    def __init__(
        self, task: str, dynamics: Dynamics, num_envs: int, seed: Seed = None, **options: Any
    ) -> None:
        super().__init__(dynamics, num_envs, seed, **options)
        self._task = task
        self._dynamics = self._guard = GuardedDynamics(task, dynamics)

    def step(self, actions: NDArray[Any]) -> Timestep:
        timestep = super().step(actions)
        # Not within the task's own step: what it gives for an episode's first timestep nobody sees.
        self._guard.attempt("step", lambda: check_reward(self._task, timestep[1]))
        return timestep

    def get_state(self) -> dict[str, Any] | None:  # type: ignore[override]
        """As of `NativeVectorEnv`; None once the task has failed."""
        return None if self._guard.has_failed else super().get_state()

    def _read(self, state: Mapping[str, Any]) -> Arrays:
        try:
            return super()._read(state)
        except TaskError:
            raise
        except ValueError as error:
            raise self._guard.error(f"its read refuses what its get returned: {located(error)}") from error
