"""The native vector environment: N environments of a task, stepped as one array program.

A task is a `Dynamics`: the states that it starts from, how they change, what is seen of them. All that tasks
have in common is here: episodes and their limits, autoreset, success, seeds, saving, checks of what is given.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from envs.errors import NoPictureError, meant

Seed = int | np.random.SeedSequence | None
Rng = np.random.Generator
Arrays = dict[str, NDArray[Any]]
EnvIds = NDArray[np.intp]
"""Numbers of environments in a vector, from 0."""
Rewards = NDArray[np.float64]
Flags = NDArray[np.bool_]
FirstStep = tuple[Any, dict[str, Any]]
"""What a reset returns."""
Timestep = tuple[Any, Rewards, Flags, Flags, dict[str, Any]]
"""What a step of all environments returns."""
AnyVectorEnv = VectorEnv[Any, Any, Any]
if TYPE_CHECKING:
    AnyWrapper = VectorWrapper[Any, Any, Any, Any, Any]
else:  # before Gymnasium 1.4 it takes no types
    AnyWrapper = VectorWrapper


class Dynamics(ABC):
    """The states of N environments of a task. Arrays that are returned are the caller's own.

    Every random number comes from the `rng` that is passed in.
    """

    observation_space: gymnasium.Space[Any]
    """One environment's, with the shape and dtype that `observe` gives for each."""
    action_space: gymnasium.Space[Any]
    """One environment's: Discrete from 0, or a Box of floats."""
    action_names: tuple[str, ...] = ()
    """Names of the actions, in their order, for those who look at episodes; empty: their numbers say it."""
    time_limit: int | None = None
    """For a task of a user's own: steps after which an episode is truncated, unless another limit is asked
    for; None: never. This project's tasks say it in their `TaskSpec`."""

    @abstractmethod
    def start(self, num: int, rng: Rng) -> None:
        """Puts `num` environments into independent initial states."""

    @abstractmethod
    def restart(self, env_ids: EnvIds, rng: Rng) -> None:
        """Puts the environments at `env_ids` into new independent initial states."""

    @abstractmethod
    def step(self, action: NDArray[Any], rng: Rng) -> tuple[Rewards, Flags]:
        """Steps all environments: reward float64 [N] and terminated bool [N].

        Environments whose episode is over are stepped too, with any legal action; `restart` follows for them.
        `action` stays as it is, as do the arguments of the other methods: they are the caller's.
        """

    @abstractmethod
    def observe(self, rng: Rng) -> NDArray[Any]:
        """Observations of all environments, [N, ...]; called once after each start or step."""

    @abstractmethod
    def get(self) -> Arrays:
        """The complete states of all environments: name -> [N, ...]."""

    @abstractmethod
    def put(self, state: Arrays) -> None:
        """Puts all into the states that `read` or `get` returned, and leaves these arrays as they are."""

    @abstractmethod
    def read(self, state: Mapping[str, Any], num: int) -> Arrays:
        """The `num` states that a user asks for: each field given once or with a leading axis.

        Raises:
            ValueError: one line that names the field, the value and what would be right.
        """

    def success(self, reward: Rewards, episode_return: Rewards, terminated: Flags) -> Flags | None:
        """Whether an episode that ends with this step is a success, bool [N]; None: the task defines none.

        `episode_return` is undiscounted, summed in double precision in the order of the steps.
        """
        return None

    def other(self, state: Arrays) -> Arrays | None:
        """The same states with another secret: the one thing that has to be seen and remembered.

        All else stays, so what an agent sees changes where it is shown the secret and nowhere else. None: the
        task names no secret.
        """
        return None

    def picture(self, env_id: int) -> NDArray[np.uint8]:
        """The state of one as an RGB picture, uint8 [height, width, 3] in pixels; a task may have none."""
        raise NotImplementedError


class NativeVectorEnv(VectorEnv[NDArray[Any], NDArray[Any], NDArray[Any]]):
    """N environments of a task. A step emits one timestep of each; rewards are undiscounted doubles.

    Autoreset is NEXT_STEP. The timestep that ends an episode has `terminated` or `truncated` set; at the next
    step the action given for that environment is ignored (it may be anything) and its next episode begins: it
    emits the first timestep, with reward 0 and both flags False:

        step        ...    t         t+1        t+2
        timestep    ...    LAST      FIRST      second
        action           a_{t-1}   (ignored)    a_{t+1}

    Where the task defines success, `infos["is_success"]`, bool [N], is True on a success's last timestep.

    All environments draw from one `numpy.random.Generator`. No array that is returned is changed later.

    Args:
        dynamics: the task; this environment is its only user.
        num_envs: number of environments N.
        seed: of the generator; None takes entropy from the system.
        time_limit: an episode that has not terminated is truncated after this many steps; None: never.
        render_mode: "rgb_array" or None.

    Raises:
        ValueError: for a number of environments or a time limit below 1, or an unknown render mode.
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
        dynamics: Dynamics,
        num_envs: int,
        seed: Seed = None,
        *,
        time_limit: int | None,
        render_mode: str | None = None,
    ) -> None:
        self.num_envs = positive_int("num_envs", num_envs)
        self.time_limit = None if time_limit is None else positive_int("time_limit", time_limit)
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode is {render_mode!r}; it must be 'rgb_array' or None")
        self._dynamics = dynamics
        self._shown_other: Dynamics | None = None
        self.draws = type(dynamics).picture is not Dynamics.picture
        """Whether the task has pictures."""
        if render_mode is not None and not self.draws:
            raise NoPictureError(
                f"render_mode is {render_mode!r}, but {type(dynamics).__name__} draws no picture"
            )
        self.render_mode = render_mode
        self.single_observation_space = dynamics.observation_space
        self.single_action_space = dynamics.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
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
        self._restarting = np.zeros(0, np.intp)  # the environments that emit a FIRST timestep next

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> FirstStep:
        """Starts a new episode in every environment.

        Args:
            seed: where it is not None, an int or a SeedSequence that the generator is made anew from.
            options: `{"state": {field: value, ...}}` starts every environment in that state, each field once
                or with a leading axis of N; the fields are the task's own. Later episodes start as usual.

        Raises:
            ValueError: for a seed or state that is not valid; then nothing has changed.
        """
        state = self._state_from(options)
        if seed is not None:
            self._seed(seed)
        if state is None:
            self._dynamics.start(self.num_envs, self.np_random)
        else:
            self._dynamics.put(state)
        self._clear_episodes()
        self._started = True
        return self._dynamics.observe(self.np_random), {}

    def _state_from(self, options: Mapping[str, Any] | None) -> Arrays | None:
        if not options:
            return None
        for key in options:
            if key != "state":
                raise ValueError(f"options: unknown key {key!r}; the only one is 'state'")
        given = options["state"]
        if not isinstance(given, Mapping):
            raise ValueError(f"options['state'] is {brief(given)}; it must be a dict of the state's fields")
        return self._dynamics.read(given, self.num_envs)

    def step(self, actions: NDArray[Any]) -> Timestep:
        """Steps every environment; `actions` is an array [N, ...]. See the class for what a timestep holds.

        Raises:
            ValueError: for actions of another shape or kind or out of range, or before the first `reset`.
        """
        action = self._checked(actions)
        rng, first = self.np_random, self._restarting
        reward, terminated = self._dynamics.step(action, rng)
        self._elapsed += 1
        if first.size:
            self._dynamics.restart(first, rng)
            reward[first] = 0.0
            terminated[first] = False
            self._elapsed[first] = 0
            self._return[first] = 0.0
        self._return += reward
        if self.time_limit is None:
            truncated = np.zeros(self.num_envs, np.bool_)
        else:
            truncated = self._elapsed >= self.time_limit
            truncated &= ~terminated
        last = terminated | truncated
        self._last = last
        self._restarting = last.nonzero()[0]
        success = self._dynamics.success(reward, self._return, terminated)
        infos = {} if success is None else {"is_success": last & success}
        return self._dynamics.observe(rng), reward, terminated, truncated, infos

    def _checked(self, actions: Any) -> NDArray[Any]:
        """`actions` as an array of legal actions; environments that restart may be given any value."""
        if not self._started:
            raise ValueError("step() was called before the first reset()")
        action, space = np.asarray(actions), self.single_action_space
        shape = (self.num_envs, *(space.shape or ()))
        kind, kinds = ("integers", "iu") if isinstance(space, Discrete) else ("numbers", "iuf")
        if action.shape != shape or action.dtype.kind not in kinds:
            raise ValueError(
                f"actions are {action.dtype} of shape {action.shape}; they must be {kind} of shape {shape}"
            )
        bounds: Any = space
        low, high = (0, int(space.n) - 1) if isinstance(space, Discrete) else (bounds.low, bounds.high)
        if not ((action >= low) & (action <= high)).all():
            last = self._last.reshape(-1, *[1] * (action.ndim - 1))
            action = np.where(last, low, action)
            wrong = ~((action >= low) & (action <= high))
            if wrong.any():
                limits = f"from {low} to {high}" if isinstance(space, Discrete) else f"in {space}"
                raise ValueError(f"action {action[wrong][0]} must be {limits}")
        return action

    def get_state(self) -> dict[str, Any]:
        """All that `set_state` needs to go on bit for bit: nested dicts of arrays and JSON values."""
        if not self._started:
            raise ValueError("get_state() was called before the first reset()")
        return {
            "rng": self.np_random.bit_generator.state,
            "episode": {
                "elapsed": self._elapsed.copy(),
                "return": self._return.copy(),
                "last": self._last.copy(),
            },
            "state": self._dynamics.get(),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from what `get_state` returned, in a vector of as many environments of the same task.

        Raises:
            ValueError: for a state of another task, size or random generator; then nothing has changed.
        """
        for key, fields in {"rng": ("bit_generator",), "episode": self._EPISODE_FIELDS, "state": ()}.items():
            if key not in state or any(field not in state[key] for field in fields):
                raise ValueError(f"environment state has no {key!r}, or it lacks one of {tuple(fields)}")
        restored = self._read(state["state"])
        episode: Arrays = {}
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
        self._restarting = self._last.nonzero()[0]
        self._started = True

    def _read(self, state: Mapping[str, Any]) -> Arrays:
        """The states of all environments that `get_state` put into a checkpoint."""
        return self._dynamics.read(state, self.num_envs)

    def observe_other(self, env_ids: Sequence[int] | None = None) -> NDArray[Any] | None:
        """Observations [n, ...] of the present states with another secret, of all environments or of some.

        None where the task names none (`Dynamics.other`). Nothing changes by it.
        """
        chosen = list(range(self.num_envs) if env_ids is None else env_ids)
        other = self._dynamics.other({name: x[chosen] for name, x in self._dynamics.get().items()})
        if other is None:
            return None
        rng = copy.deepcopy(self.np_random)
        self._shown_other = self._shown_other or copy.deepcopy(self._dynamics)
        self._shown_other.start(len(chosen), rng)
        self._shown_other.put(other)
        return self._shown_other.observe(rng)

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """An RGB picture of each, uint8 [height, width, 3] in pixels; None without a render mode."""
        if self.render_mode is None:
            return None
        return tuple(self.picture(env_id) for env_id in range(self.num_envs))

    def picture(self, env_id: int) -> NDArray[np.uint8]:
        """The picture of one environment, for which `render` would draw all."""
        return self._dynamics.picture(env_id)


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


def brief(value: Any) -> str:
    """The beginning of a value's text, on one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def check_fields(state: Mapping[str, Any], required: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
    """ValueError unless a state that a user gives has the required fields and no unknown ones."""
    known = required + optional
    for key in state:
        if key not in known:
            raise ValueError(f"options['state']: unknown key {key!r}{meant(key, known)} (known: {known})")
    for key in required:
        if key not in state:
            more = f" ({', '.join(map(repr, optional))} optional)" if optional else ""
            raise ValueError(
                f"options['state'] has no {key!r}; it needs {', '.join(map(repr, required))}{more}"
            )


def read_field(
    name: str, value: Any, shape: tuple[int, ...], num: int, dtype: Any, low: float, high: float
) -> NDArray[Any]:
    """A field of a state that a user gives as `dtype` [num, *shape], repeated `num` times if given once.

    Raises:
        ValueError: unless it is numbers (integers for an integer dtype) of that shape from `low` to `high`.
    """
    try:
        array = np.asarray(value)
    except ValueError:  # ragged
        array = np.empty(0, object)
    dtype = np.dtype(dtype)
    nouns = {"b": ("b", "booleans"), "f": ("iuf", "numbers")}
    kinds, noun = nouns.get(dtype.kind, ("iu", "integers"))
    if array.dtype.kind not in kinds:
        raise ValueError(f"state {name!r} is {brief(value)}; it must be {noun} of shape {shape}")
    if array.shape not in (shape, (num, *shape)):
        raise ValueError(f"state {name!r} has shape {array.shape}; it must be {shape} or {(num, *shape)}")
    wrong = ~((array >= low) & (array <= high))
    if wrong.any():
        raise ValueError(f"state {name!r} holds {array[wrong][0]}; it must hold {noun} from {low} to {high}")
    return np.broadcast_to(array, (num, *shape)).astype(dtype)
