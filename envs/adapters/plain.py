"""One environment of another package, with plain spaces and endings that exclude each other."""

from __future__ import annotations

import contextlib
import functools
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import gymnasium
import numpy as np

from envs.adapters.spaces import Actions, Observations, each, part_name, parts
from envs.checks import NUMBERS, is_reward, picture_problem, reward_problem, tuple_problem
from envs.entry_points import located, place_of
from envs.errors import ANY_FAULT, TaskError
from envs.vector import FirstStep, brief

_GYMNASIUM: Final = str(Path(gymnasium.__file__).parent)
_VALUES: Final = {
    "reset": ("observation", "info"),
    "step": ("observation", "reward", "terminated", "truncated", "info"),
}
ROUNDING: Final = 1e-9
"""By how much of the sum of its rewards' sizes an episode's return may be off."""
_TRUTHS: Final = (bool, int, float, np.bool_, np.number, np.ndarray)


class SuccessRule(NamedTuple):
    """A rule of success, judged on an episode's last timestep."""

    key: str | None = None
    """The value of this key in its info is true; None: the return decides."""
    bound: float = 0.0
    """The undiscounted return that is to be exceeded, or reached."""
    may_equal: bool = False
    """Whether reaching the bound is enough."""

    @classmethod
    def read(cls, text: str) -> SuccessRule:
        """A rule from `info:KEY`, `return>X` or `return>=X`.

        Raises:
            ValueError: for any other text.
        """
        if match := re.fullmatch(r"\s*info:(\S+)\s*", text):
            return cls(key=match[1])
        number = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
        if match := re.fullmatch(rf"\s*return\s*(>=?)\s*({number})\s*", text):
            return cls(bound=float(match[2]), may_equal=match[1] == ">=")
        raise ValueError(f"task.success is {text!r}; it must be info:KEY, return>X or return>=X")

    @property
    def text(self) -> str:
        """The rule in words."""
        if self.key is not None:
            return f'info["{self.key}"] of the environment on its last timestep'
        return f"undiscounted return {'>=' if self.may_equal else '>'} {self.bound:g}"

    def holds(self, episode_return: float, info: Mapping[str, Any], rounding: float = 0.0) -> bool:
        """Whether an episode that ended with this return and this info is a success.

        Args:
            rounding: by how much the return may be off, as a sum of floats: closer to the bound it is equal.

        Raises:
            ValueError: the rest of a sentence, where the info has something else than true or false.
        """
        if self.key is not None:
            value = info.get(self.key, False)
            # Text is true, whatever it says, and so is NaN.
            if not isinstance(value, _TRUTHS) or np.ndim(value) or value not in (0, 1):
                raise ValueError(
                    f"the last info of an episode has {self.key!r}: {brief(value)}, which decides on "
                    "success; it must be True or False, or 1 or 0"
                )
            return bool(value)
        above = episode_return - self.bound
        return above > rounding or (self.may_equal and above >= -rounding)


class PlainEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """If both flags are set, `terminated` wins; `info` holds `is_success`, if there is such, and no more.

    Whatever the environment does wrong, or raises, becomes a `TaskError`.

    Args:
        env: this wrapper is its only user.
        name: the task's id.
        observations: how its observations are read.
        actions: how to act in it.
        success: the rule; None where the task defines no success.
        time_limit: steps after which an episode that has not ended is truncated.
        draws: whether `env` was made to draw pictures.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        name: str,
        observations: Observations,
        actions: Actions,
        success: SuccessRule | None,
        time_limit: int,
        draws: bool = False,
    ) -> None:
        super().__init__(env)
        self._draws = draws
        self.observation_space = observations.space
        self.action_space = actions.space
        self._attempt = functools.partial(attempt, name)
        self._name, self._read, self._act, self._success = name, observations.read, actions.act, success
        self._parts = dict(parts(self.observation_space))
        self._time_limit, self._elapsed = time_limit, 0
        self._return = self._size = 0.0  # sums of rewards and of their sizes

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> FirstStep:
        observation, _ = self.timestep("reset", lambda: self.env.reset(seed=seed, options=options))
        self._return = self._size = 0.0
        self._elapsed = 0
        return self._seen(observation), self._info(False)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        timestep = self.timestep("step", lambda: self.env.step(self._act(action)))
        observation, reward, terminated, truncated, info = timestep
        number = float_or_nan(reward)
        if not is_reward(number):
            raise self.error(reward_problem(brief(reward)))
        terminated = self._attempt("terminated", lambda: bool(terminated))
        self._elapsed += 1
        late = self._elapsed >= self._time_limit
        truncated = (self._attempt("truncated", lambda: bool(truncated)) or late) and not terminated
        self._return += number
        self._size += abs(number)
        success = False
        if self._success is not None and (terminated or truncated):
            if terminated and self._success.key not in (None, *info):
                raise self.error(
                    f"the last info of an episode has no {self._success.key!r}, which decides on success; "
                    f"it has {', '.join(map(repr, info)) or 'nothing'}"
                )
            try:
                success = self._success.holds(self._return, info, ROUNDING * self._size)
            except ValueError as problem:
                raise self.error(str(problem)) from None
        return self._seen(observation), number, terminated, truncated, self._info(success)

    def render(self) -> Any:
        """An RGB picture, uint8 [height, width, 3]; None where it was not made to draw."""
        if not self._draws:
            return None
        with kept():
            picture = self._attempt("render", lambda: _rgb(self.env.render()))
        if problem := picture_problem(picture):
            raise self.error(problem)
        return picture

    def close(self) -> None:
        with kept():
            self._attempt("close", self.env.close)

    def error(self, problem: str) -> TaskError:
        return TaskError(self._name, problem)

    def _info(self, success: bool) -> dict[str, Any]:
        return {} if self._success is None else {"is_success": success}

    def _seen(self, observation: Any) -> Any:
        """An observation of the environment as an array, or a flat dict of arrays."""
        seen = self._attempt("observation", lambda: self._read(observation))
        for key, part in parts(seen):
            shape, dtype, found = self._parts[key].shape, self._parts[key].dtype, np.asarray(part)
            if found.shape != shape:
                raise self.error(f"its {part_name(key)} has the shape {found.shape}; its space has {shape}")
            if found.dtype != dtype and found.dtype.kind in "iu" and dtype.kind in "iu":  # a cast may wrap
                wrong = found[found != found.astype(dtype)]
                if wrong.size:
                    raise self.error(f"its {part_name(key)} holds {wrong.flat[0]}; its space is {dtype}")
        return each(np.array, seen)  # a copy, as environments may share the array that they fill

    def timestep(self, what: str, call: Callable[[], Any]) -> Any:
        """The values that `reset` or `step` returns: as many as it must be, the last of them a dict."""
        with kept():
            values = self._attempt(what, call)
        if problem := tuple_problem(what, values, _VALUES[what]):
            raise self.error(problem)
        if not isinstance(values[-1], Mapping):
            raise self.error(f"its {what} gave the info {brief(values[-1])}; it must be a dict")
        return values


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """A block after which NumPy's handling of errors and torch's dtype, device and threads are as before.

    They are the run's: with another default dtype it would compute other digits, and an environment that lets
    NumPy raise at an underflow, as guides to NaN recommend, would end the run's own arithmetic.
    """
    errors = np.geterr()
    torch: Any = sys.modules.get("torch")  # most of what reads tasks does not load it
    before = None if torch is None else _settings(torch)
    try:
        yield
    finally:
        if np.geterr() != errors:
            np.seterr(**errors)
        torch = sys.modules.get("torch")
        if torch is not None and _settings(torch) != before:
            dtype, device, threads = before or (torch.float32, torch.device("cpu"), torch.get_num_threads())
            torch.set_default_dtype(dtype)
            if torch.get_default_device() != device:  # else torch would look at it at every call
                torch.set_default_device(device)
            torch.set_num_threads(threads)


def _settings(torch: Any) -> tuple[Any, Any, int]:
    return torch.get_default_dtype(), torch.get_default_device(), torch.get_num_threads()


def attempt(task: str, what: str, call: Callable[[], Any]) -> Any:
    """What `call`, of the method `what` of a task's environment, returns; a TaskError for its fault."""
    try:
        return call()
    except TaskError:
        raise
    except ANY_FAULT as error:  # whatever another package raises
        if "unpack" in str(error) and place_of(error).filename.startswith(_GYMNASIUM) and what in _VALUES:
            names = _VALUES[what]  # a wrapper of Gymnasium's could not read it
            problem = f"its {what} does not return {NUMBERS[len(names)]} values: {', '.join(names)}"
        else:
            problem = f"its {what} failed: {located(error)}"
        raise TaskError(task, problem) from error


def float_or_nan(value: Any) -> float:
    """A reward as a number; NaN where it is none, and where it is text."""
    try:
        return math.nan if np.asarray(value).dtype.kind in "SU" else float(value)
    except ANY_FAULT:  # of a type of its own
        return math.nan


def _rgb(picture: Any) -> Any:
    """Whole numbers from 0 to 255 as a picture uint8 [height, width, 3], grey ones and those with an alpha
    channel too; anything else as it is."""
    array = np.asarray(picture)
    if array.dtype.kind not in "iu" or ((array < 0) | (array > 255)).any():
        return picture
    if array.ndim == 2:
        array = np.repeat(array[..., None], 3, axis=2)
    if array.ndim == 3 and array.shape[-1] == 4:
        array = array[..., :3]
    return array.astype(np.uint8)
