"""Readers of the values that a world's data holds: each takes a value, or says what would be right.

A reader's ValueError is the rest of "it must be ..."; `read` makes the whole line of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from envs.gridverse import codes
from envs.gridverse.state import Area
from envs.vector import brief

_MAX_SIDE: Final = 255  # rows and columns are uint8 in the states that users see

Reader = Callable[[Any], Any]
Result = TypeVar("Result")


def named(*functions: Callable[..., Result]) -> dict[str, Callable[..., Result]]:
    """Functions of one kind by the names that data has for them, which are their own."""
    return {function.__name__: function for function in functions}


def read(value: Any, name: str, reader: Reader) -> Any:
    """The value that `name` has; a ValueError of one line where it is not right."""
    try:
        return reader(value)
    except ValueError as error:
        raise ValueError(f"{name} is {brief(value)}; it must be {error}") from None


def _reader(is_right: Callable[[Any], bool], right: str, kind: Callable[[Any], Any] = lambda x: x) -> Reader:
    """A reader of values that are right, as values of `kind`; `right` says what they are."""

    def read(value: Any) -> Any:
        if not is_right(value):
            raise ValueError(right)
        return kind(value)

    return read


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return _is_int(value) or isinstance(value, float)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and len(value.splitlines()) == 1


integer: Final = _reader(_is_int, "an integer", int)
number: Final = _reader(_is_number, "a number", float)
boolean: Final = _reader(lambda value: isinstance(value, bool), "true or false")
line: Final = _reader(_is_line, "one line of text")
pair: Final = _reader(
    lambda value: _is_list(value) and len(value) == 2 and all(map(_is_int, value)),
    "a pair of integers",
    tuple,
)


def sizes(value: Any) -> tuple[int, int]:
    """Two numbers of cells."""
    found: tuple[int, int] = pair(value)
    if not 1 <= min(found) <= max(found) <= _MAX_SIDE:
        raise ValueError(f"a pair of integers from 1 to {_MAX_SIDE}")
    return found


def area(value: Any) -> Area:
    """Rows and columns in view."""
    if not _is_list(value) or len(value) != 2:
        raise ValueError("two pairs of integers [[y0, y1], [x0, x1]]")
    (y0, y1), (x0, x1) = map(pair, value)
    if not (y0 <= 0 <= y1 and x0 <= 0 <= x1):
        raise ValueError("[[y0, y1], [x0, x1]] with the agent's own cell (0, 0) inside")
    if (x1 - x0) % 2:
        raise ValueError("[[y0, y1], [x0, x1]] with an odd number of columns")
    return (y0, y1), (x0, x1)


def one_of(names: tuple[str, ...]) -> Reader:
    return _reader(lambda value: value in names, f"one of {', '.join(names)}", str)


def some_of(names: tuple[str, ...]) -> Reader:
    """A list of names as a tuple."""

    def is_right(value: Any) -> bool:
        is_list = _is_list(value) and len(value) > 0
        return is_list and all(name in names for name in value) and len(set(value)) == len(value)

    return _reader(is_right, f"a list of different names out of {', '.join(names)}", tuple)


FACTS: Final[dict[str, Reader]] = {
    "description": line,
    "source": line,
    "observation": _reader(lambda value: value in ("grid", "vector"), "grid or vector"),
    "time_limit": _reader(lambda value: type(value) is int and value >= 1, "an integer of at least 1"),
    "best_return": _reader(_is_number, "a number"),
    "success_ceiling": _reader(
        lambda value: _is_number(value) and 0 < value <= 1, "a number above 0, at most 1"
    ),
}
"""By the key of what a world says of itself: facts of a `TaskSpec`, and the `observation` that it has where
a user chooses none."""

PARAMETERS: Final[dict[str, Reader]] = {
    "shape": sizes,
    "layout": sizes,
    "area": area,
    "colors": some_of(codes.COLOURS),
    "object_type": one_of(codes.OBJECTS),
    "distance_function": one_of(("manhattan", "euclidean")),
    **dict.fromkeys(("random_agent", "random_exit"), boolean),
    **dict.fromkeys(("num_obstacles", "num_rivers", "num_beacons", "num_exits"), integer),
}
"""By the name of a parameter of a world's functions; all others are numbers."""
