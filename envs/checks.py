"""Checks of what N environments of another's task return, cheap enough for every step."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from gymnasium import Space, spaces
from numpy.typing import NDArray

from envs.adapters.spaces import part_name, parts
from envs.errors import TaskError
from envs.vector import brief

_LARGEST = float(np.finfo(np.float32).max)


def categories(space: Space[Any]) -> tuple[Any, Any] | None:
    """The first and the last category of each component; None of a space that has none."""
    match space:
        case spaces.Discrete():
            return space.start, space.start + space.n - 1
        case spaces.MultiDiscrete():
            return space.start, space.start + space.nvec - 1
        case spaces.MultiBinary():
            return 0, 1
    return None


class ObservationCheck:
    """Looks for numbers that are not finite, and for categories that the space does not have.

    Args:
        task: the task's id, for errors.
        space: of one environment: one that holds arrays, or a flat Dict of such.
    """

    def __init__(self, task: str, space: Space[Any]) -> None:
        self._task = task
        self._categories = {
            key: found for key, part in parts(space) if (found := categories(part)) is not None
        }

    def __call__(self, observation: Any) -> None:
        """Looks at N observations: an array [N, ...] of the space's dtype, or one a key.

        Raises:
            TaskError: for the first number that is wrong, with its environment.
        """
        for key, part in parts(observation):
            if part.dtype.kind == "f" and not np.isfinite(part).all():
                env_id, number = _first(part, ~np.isfinite(part))
                problem = f"its {part_name(key)} holds {number}; must be finite in {part.dtype}"
                raise TaskError(self._task, problem, env_id)
            if key not in self._categories:
                continue
            # Networks embed them by number: one beyond its space would be another component's.
            low, high = self._categories[key]
            outside = (part < low) | (part > high)
            if outside.any():
                env_id, found = _first(part, outside)
                least, most = (
                    _first(np.broadcast_to(bound, part.shape), outside)[1] for bound in (low, high)
                )
                problem = f"its {part_name(key)} holds {found}; its space has {least} to {most} there"
                raise TaskError(self._task, problem, env_id)


def check_reward(task: str, reward: NDArray[np.float64]) -> None:
    """Looks at N rewards; a TaskError for the first one that `is_reward` refuses."""
    if not (right := is_reward(reward)).all():
        env_id, found = _first(reward, ~right)
        raise TaskError(task, reward_problem(found), env_id)


def is_reward(number: Any) -> Any:
    """Whether a number, or each of an array, is finite in float32, which learners compute with."""
    return np.abs(number) <= _LARGEST


def reward_problem(found: Any) -> str:
    """What is wrong with a reward that `is_reward` refuses."""
    return f"its step gave the reward {found}; it must be a finite number, of at most {_LARGEST:.1e} in size"


def misfit(array: Any, dtype: Any, shape: tuple[int, ...]) -> str | None:
    """How a value is no array of this dtype and shape, in the words of errors; None where it is one."""
    if isinstance(array, np.ndarray) and array.dtype == dtype and array.shape == shape:
        return None
    return f"{_form(array)}; it must be {np.dtype(dtype)} of the shape {shape}"


def _form(value: Any) -> str:
    """The type and shape of an array, or the type of what is none, in the words of errors."""
    is_array = isinstance(value, np.ndarray)
    return f"{value.dtype} of the shape {value.shape}" if is_array else f"one {type(value).__name__}"


NUMBERS: Final = {2: "two", 5: "five"}


def tuple_problem(what: str, answer: Any, names: tuple[str, ...]) -> str | None:
    """How what the method `what` returned is no tuple of the values `names`; None where it is one."""
    if isinstance(answer, tuple) and len(answer) == len(names):
        return None
    found = f"{len(answer)} values" if isinstance(answer, tuple) else f"one {type(answer).__name__}"
    return f"its {what} returns {found}; it must return {NUMBERS[len(names)]}: {', '.join(names)}"


def picture_problem(picture: Any) -> str | None:
    """How a value is no picture, as the rest of a sentence about its task; None where it is one."""
    fits = isinstance(picture, np.ndarray) and picture.dtype == np.uint8
    if fits and picture.ndim == 3 and picture.shape[-1] == 3:
        return None
    return f"its picture is {_form(picture)}; it must be uint8 [height, width, 3]"


def state_problem(state: Any, num: int) -> str | None:
    """How a value is no state of `num` environments that a checkpoint can hold; None where it is one."""
    if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
        return f"its get returned one {type(state).__name__}; it must return a dict: name -> array [N, ...]"
    for name, array in state.items():
        if not isinstance(array, np.ndarray) or array.shape[:1] != (num,):
            return f"its state {name!r} is {brief(array)}; it must be an array [N, ...]"
        if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
            return f"its state {name!r} is {array.dtype}, which a checkpoint cannot hold; it must be numbers"
    return None


def _first(array: NDArray[Any], wrong: NDArray[np.bool_]) -> tuple[int, Any]:
    """The environment of the first wrong number of an array [N, ...], and that number of the array."""
    place = tuple(np.argwhere(wrong)[0])
    return int(place[0]), array[place]
