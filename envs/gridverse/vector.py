"""The vector environment: N copies of a gridverse world with a time limit, stepped as one array program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from envs.gridverse.dynamics import Dynamics, make_dynamics
from envs.gridverse.functions import take
from envs.gridverse.render import render_state
from envs.gridverse.states import state_from_options
from envs.gridverse.world import Engine, WorldSpec, vector_representation_nvec

Seed = int | np.random.SeedSequence | None


class GridverseVectorEnv(VectorEnv[NDArray[np.uint8], NDArray[Any], NDArray[Any]]):
    """N copies of a world. Every tick each copy emits one row; rewards are undiscounted doubles.

    Autoreset is NEXT_STEP. The row that ends an episode has `terminated` or `truncated` set; at the next step
    the action given for that copy is ignored (it may be anything) and the copy emits the first row of its
    next episode, with reward 0 and both flags False:

        step        ...    t         t+1        t+2
        row         ...    LAST      FIRST      second row
        action           a_{t-1}   (ignored)    a_{t+1}

    `infos["is_success"]`, bool [N], is True on the last rows of successful episodes: those whose undiscounted
    return, summed in double precision in the order of the steps, is above zero (DTQN's measure).

    All copies draw from one `numpy.random.Generator`. No array that is returned is changed later.

    Args:
        world: the world that is run.
        num_envs: number of copies N.
        seed: of the generator; None takes entropy from the system.
        time_limit: an episode that has not terminated is truncated after this many steps.
        render_mode: "rgb_array" or None.
        dynamics: runs the world; by default the fastest that can.

    Raises:
        ValueError: for a number of copies or a time limit below 1, or an unknown render mode.
    """

    # Gymnasium declares it as an instance variable, which a ClassVar may not override.
    metadata: dict[str, Any] = {  # noqa: RUF012
        "autoreset_mode": AutoresetMode.NEXT_STEP,
        "render_modes": ["rgb_array"],
        "render_fps": 8,
    }
    _EPISODE_FIELDS: ClassVar = {"elapsed": np.int32, "return": np.float64, "last": np.bool_}

    def __init__(
        self,
        world: WorldSpec,
        num_envs: int,
        seed: Seed = None,
        *,
        time_limit: int,
        render_mode: str | None = None,
        dynamics: Dynamics | None = None,
    ) -> None:
        self.world = world
        self.num_envs = positive_int("num_envs", num_envs)
        self.time_limit = positive_int("time_limit", time_limit)
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode is {render_mode!r}; it must be 'rgb_array' or None")
        self.render_mode = render_mode
        self.single_observation_space = observation_space(world)
        self.single_action_space = action_space(world)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._num_actions = len(world.actions)
        self._dynamics = dynamics if dynamics is not None else make_dynamics(world)
        self._seed(seed)
        self._started = False
        self._clear_episodes()

    def _seed(self, seed: Any) -> None:
        self._np_random = generator(seed)
        # Gymnasium makes another generator where this is None; -1 is its mark for a seed that is not known.
        self._np_random_seed = int(seed) if isinstance(seed, int | np.integer) else -1

    def _clear_episodes(self) -> None:
        self._elapsed = np.zeros(self.num_envs, np.int32)
        self._return = np.zeros(self.num_envs, np.float64)
        self._last = np.zeros(self.num_envs, np.bool_)
        self._first_rows = np.zeros(0, np.intp)  # the copies that emit a FIRST row at the next step

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Starts a new episode in every copy.

        Args:
            seed: where it is not None, an int or a SeedSequence that the generator is made anew from.
            options: `{"state": {"grid": cells, "agent": pose, "item": cell}}` starts every copy in that
                state: integers [H, W, 3], [3] and [3], each optionally with a leading axis of N; without an
                item nothing is held. Later episodes start as usual.

        Raises:
            ValueError: for a seed or state that is not valid; then nothing has changed.
        """
        state = state_from_options(options, self.world, self.num_envs)
        if seed is not None:
            self._seed(seed)
        if state is None:
            self._dynamics.start(self.num_envs, self.np_random)
        else:
            self._dynamics.put(state)
        self._clear_episodes()
        self._started = True
        return self._dynamics.observe(self.np_random), {}

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[NDArray[np.uint8], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Steps every copy; `actions` is an integer array [N]. See the class for what a row holds.

        Raises:
            ValueError: for actions of another shape or kind or out of range, or before the first `reset`.
        """
        action = self._checked(actions)
        rng, first = self.np_random, self._first_rows
        reward, terminated = self._dynamics.step(action, rng)
        self._elapsed += 1
        if first.size:
            self._dynamics.restart(first, rng)
            reward[first] = 0.0
            terminated[first] = False
            self._elapsed[first] = 0
            self._return[first] = 0.0
        self._return += reward
        truncated = self._elapsed >= self.time_limit
        truncated &= ~terminated
        last = terminated | truncated
        self._last = last
        self._first_rows = last.nonzero()[0]
        infos = {"is_success": last & (self._return > 0.0)}
        return self._dynamics.observe(rng), reward, terminated, truncated, infos

    def _checked(self, actions: Any) -> NDArray[Any]:
        """`actions` as an array [N] of legal actions; those of copies that restart are not looked at."""
        if not self._started:
            raise ValueError("step() was called before the first reset()")
        action = np.asarray(actions)
        if action.shape != (self.num_envs,) or action.dtype.kind not in "iu":
            raise ValueError(
                f"actions are {action.dtype} of shape {action.shape};"
                f" they must be integers of shape {(self.num_envs,)}"
            )
        if action.min() < 0 or action.max() >= self._num_actions:
            action = np.where(self._last, 0, action)
            wrong = (action < 0) | (action >= self._num_actions)
            if wrong.any():
                raise ValueError(f"action {action[wrong][0]} must be from 0 to {self._num_actions - 1}")
        return action

    def get_state(self) -> dict[str, Any]:
        """What `set_state` needs to go on from here bit for bit: nested dicts of arrays and JSON values."""
        if not self._started:
            raise ValueError("get_state() was called before the first reset()")
        return {
            "rng": self.np_random.bit_generator.state,
            "episode": {
                "elapsed": self._elapsed.copy(),
                "return": self._return.copy(),
                "last": self._last.copy(),
            },
            "state": self._dynamics.get()._asdict(),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from what `get_state` returned, in an environment of the same world and number of copies.

        Raises:
            ValueError: for a state of another world, size or random generator; then nothing has changed.
        """
        for key, fields in {"rng": ("bit_generator",), "episode": self._EPISODE_FIELDS, "state": ()}.items():
            if key not in state or any(field not in state[key] for field in fields):
                raise ValueError(f"environment state has no {key!r}, or it lacks one of {tuple(fields)}")
        restored = state_from_options({"state": state["state"]}, self.world, self.num_envs)
        assert restored is not None
        episode: dict[str, NDArray[Any]] = {}
        for key, dtype in self._EPISODE_FIELDS.items():
            episode[key] = np.array(state["episode"][key], dtype)
            if episode[key].shape != (self.num_envs,):
                raise ValueError(
                    f"environment state {key!r} has shape {episode[key].shape}; it must be {(self.num_envs,)}"
                )
        rng = generator(0)
        expected = rng.bit_generator.state["bit_generator"]
        given = state["rng"]["bit_generator"]
        if given != expected:
            raise ValueError(f"environment state 'rng' is of {given!r}; it must be of {expected!r}")
        rng.bit_generator.state = state["rng"]
        self._np_random = rng
        self._dynamics.put(restored)
        self._elapsed, self._return, self._last = episode["elapsed"], episode["return"], episode["last"]
        self._first_rows = self._last.nonzero()[0]
        self._started = True

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """One RGB picture, uint8 [height, width, 3] in pixels, for each copy; None without a render mode."""
        if self.render_mode is None:
            return None
        engine, state = Engine(self.world), self._dynamics.get()
        return tuple(render_state(engine, take(state, np.array([i]))) for i in range(self.num_envs))


def observation_space(world: WorldSpec) -> gymnasium.spaces.MultiDiscrete[np.uint8]:
    """The space of one copy's observation."""
    return gymnasium.spaces.MultiDiscrete(vector_representation_nvec(world), dtype=np.uint8)


def action_space(world: WorldSpec) -> gymnasium.spaces.Discrete[np.int64]:
    """The space of one copy's action."""
    return gymnasium.spaces.Discrete(len(world.actions))


def positive_int(name: str, value: Any) -> int:
    """`value` as an int, or ValueError unless it is an integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} is {value!r}; it must be an integer of at least 1")
    return int(value)


def generator(seed: Any) -> np.random.Generator:
    """A new generator from an int of at least 0, a SeedSequence, or the system's entropy for None."""
    is_int = isinstance(seed, int | np.integer) and not isinstance(seed, bool) and seed >= 0
    if not (seed is None or isinstance(seed, np.random.SeedSequence) or is_int):
        raise ValueError(f"seed is {seed!r}; it must be an integer of at least 0, a SeedSequence or None")
    return np.random.Generator(np.random.PCG64(seed))
