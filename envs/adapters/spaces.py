"""From any Gymnasium space to one that agents here read, and the values with it.

Observations: Discrete, MultiDiscrete, MultiBinary and Box stay what they are, and Dict and Tuple, however
nested, become one flat Dict with the path to each part as its key (`camera/left`, `0`). Text is left out. A
Dict or Tuple with one part left becomes that part. Three changes: float64 becomes float32, pictures whose
channels come first get them last, and pictures of depth become float32 in [0, 1] with one channel.

Actions: Discrete from any number becomes Discrete from 0, and MultiDiscrete and MultiBinary of at most 1024
combinations one Discrete over all of them, the last component changing fastest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from numpy.typing import NDArray

MIN_SIDE = 8
"""A smaller table of numbers is no picture of depth."""
MAX_COMBINATIONS = 1024
"""Combinations of an action's components; more are not made one Discrete."""

Space = gymnasium.Space[Any]


class Observations(NamedTuple):
    """How to read an environment's observations."""

    space: Space
    """The space of what `read` returns."""
    read: Callable[[Any], Any]
    """An observation of the environment -> an array, or a flat dict of arrays."""
    left_out: tuple[str, ...]
    """Keys of parts that are text."""


def observations(space: Space, replaced: Mapping[str, Space] | None = None) -> Observations:
    """
    Args:
        space: the environment's.
        replaced: by key, other spaces for parts whose values are also theirs: codes that the environment
            declares as a Box of bytes, say.

    Raises:
        ValueError: for a space that has no place here, naming it, and for two parts of one key.
    """
    made = [(key, path, *_part((replaced or {}).get(key, inner))) for key, path, inner in leaves(space)]
    left_out = tuple(key for key, _, inner in _all_leaves(space) if _is_text(inner))
    if not made:
        raise ValueError(f"its observations are {space}, which holds no numbers")
    keys = [key for key, *_ in made]
    if twice := next((key for key in keys if keys.count(key) > 1), None):
        raise ValueError(
            f"its observations have two parts whose path is {twice!r}; their keys, joined by /, must differ"
        )
    if len(made) == 1:
        _, path, inner, convert = made[0]
        return Observations(inner, lambda observation: convert(at(observation, path)), left_out)
    return Observations(
        Dict({key: inner for key, _, inner, _ in made}),
        lambda observation: {key: convert(at(observation, path)) for key, path, _, convert in made},
        left_out,
    )


def leaves(space: Space) -> list[tuple[str, tuple[Any, ...], Space]]:
    """(key, path, space) of all parts that are neither Dict nor Tuple nor text, in their order."""
    return [leaf for leaf in _all_leaves(space) if not _is_text(leaf[2])]


def _all_leaves(space: Space, path: tuple[Any, ...] = ()) -> list[tuple[str, tuple[Any, ...], Space]]:
    if not isinstance(space, Dict | Tuple):
        return [("/".join(map(str, path)), path, space)]
    inner = space.spaces.items() if isinstance(space, Dict) else enumerate(space.spaces)
    return [leaf for key, part in inner for leaf in _all_leaves(part, (*path, key))]


def _is_text(space: Space) -> bool:
    return space.dtype is not None and np.dtype(space.dtype).kind == "U"


def at(observation: Any, path: tuple[Any, ...]) -> Any:
    """The part of an observation that a path leads to."""
    for key in path:
        observation = observation[key]
    return observation


def parts(tree: Any) -> list[tuple[str, Any]]:
    """(key, part) of an observation that `Observations.read` returns, or of its space; of one alone ""."""
    return list(tree.items()) if isinstance(tree, dict | Dict) else [("", tree)]


def each(function: Callable[..., Any], *trees: Any) -> Any:
    """`function` on the arrays (or spaces) of observations of one shape: each key's, or the only one."""
    if isinstance(trees[0], dict):
        return {key: function(*(tree[key] for tree in trees)) for key in trees[0]}
    return function(*trees)


def part_name(key: str) -> str:
    """The name of a part in errors."""
    return f"observation {key!r}" if key else "observation"


def _part(space: Space) -> tuple[Space, Callable[[Any], Any]]:
    """The space of an array of an observation here, and how to make it from the environment's own."""
    match space:
        case Box() if channels_first(space):
            last = Box(np.moveaxis(space.low, 0, -1), np.moveaxis(space.high, 0, -1), dtype=space.dtype.type)
            inner, convert = _part(last)
            return inner, lambda value: convert(np.moveaxis(value, 0, -1))
        case Box() if is_depth(space):
            low, span = float(space.low.min()), float(space.high.max()) - float(space.low.min())
            shape = space.shape if len(space.shape) == 3 else (*space.shape, 1)
            return (
                Box(0.0, 1.0, shape),
                lambda value: np.reshape((np.asarray(value) - low) / span, shape).astype(np.float32),
            )
        case Box() if space.dtype == np.float64:
            return Box(_single(space.low), _single(space.high)), _single
        case Box() | Discrete() | MultiDiscrete() | MultiBinary():
            return space, lambda value: value
    raise ValueError(
        f"its observations hold {space}; Discrete, MultiDiscrete, MultiBinary, Box, and Dict and Tuple of "
        "these can be read"
    )


def _single(value: Any) -> NDArray[np.float32]:
    """In float32, where a number beyond it is infinite: the check of observations names it."""
    with np.errstate(over="ignore"):
        return np.asarray(value, np.float32)


def is_depth(space: Box) -> bool:
    """Whether a Box is a picture with bounds: of integers of more than a byte, or without channels."""
    if len(space.shape) not in (2, 3) or min(space.shape[:2]) < MIN_SIDE or space.dtype == np.uint8:
        return False
    bounded = space.is_bounded() and space.low.min() < space.high.max()
    return bounded and (space.dtype.kind in "iu" or len(space.shape) == 2)


def channels_first(space: Box) -> bool:
    """Whether a Box of three axes is a picture [C, H, W].

    The picture is square, or the channels are the fewest: [3, 64, 64] and [3, 210, 160] have their channels
    first; [7, 7, 12], [210, 160, 3] and what is undecided, [8, 8, 8], have them last.
    """
    if len(space.shape) != 3:
        return False
    first, middle, last = space.shape
    if (first == middle) != (middle == last):
        return middle == last
    return first < last


class Actions(NamedTuple):
    """How to act in an environment."""

    space: Space
    act: Callable[[Any], Any]
    """An action of `space` -> one of the environment."""
    number: Callable[[Any], int]
    """The inverse of `act`, where `space` is Discrete."""


def actions(space: Space) -> Actions:
    """The actions as one Discrete; a space that cannot be one stays as it is."""
    match space:
        case Discrete():
            start = int(space.start)
            return Actions(
                Discrete(space.n),
                lambda action: space.dtype.type(action + start),
                lambda action: int(action) - start,
            )
        case MultiDiscrete() | MultiBinary():
            nvec = space.nvec if isinstance(space, MultiDiscrete) else np.full(space.shape, 2)
            offset = space.start if isinstance(space, MultiDiscrete) else 0
            sizes = tuple(nvec.flatten().tolist())
            count = int(np.prod(sizes, dtype=object))
            if count <= MAX_COMBINATIONS:
                return Actions(
                    Discrete(count),
                    lambda action: (
                        np.reshape(np.unravel_index(int(action), sizes), nvec.shape) + offset
                    ).astype(space.dtype),
                    lambda action: int(np.ravel_multi_index((np.asarray(action) - offset).flatten(), sizes)),
                )
    return Actions(space, lambda action: action, int)
