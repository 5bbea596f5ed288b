"""The options of a task: each with its type, default, limits and meaning, here and nowhere else.

Settings `--task.*` are made from this class. It is a module of its own so that it can be read without tasks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

_EVERY_TASK: Final = ("time_limit", "grayscale", "resize", "hide", "frame_stack")
"""Options that every task takes. A family names the others that its tasks take."""


def _option(default: Any, description: str, **limits: float) -> Any:
    """A field with its meaning and its limits, `ge`, `gt`, `le`, as metadata of these names."""
    return field(default=default, metadata={"description": description, **limits})


@dataclass(frozen=True)
class TaskOptions:
    """The options of a task, apart from its name; None leaves the choice to the task.

    `grayscale` and what follows it change what is observed (`envs.wrappers`).
    """

    time_limit: int | None = _option(
        None, "Timesteps after which an episode is truncated; none: the task's own limit.", ge=1
    )
    kwargs: Mapping[str, Any] | None = _option(
        None, "Constructor arguments by name, for another package's task or your own; none: defaults."
    )
    success: str | None = _option(
        None,
        "What counts as success in another package's task or your own: info:KEY of the last timestep, "
        "return>X or return>=X; none: what the task reports.",
    )
    observation: Literal["grid", "vector"] | None = _option(
        None,
        "Gridverse: (type, status, colour) per cell in view (grid), or DTQN's vector; none: the task's own.",
    )
    backend: Literal["native", "gym-gridverse"] = _option(
        "native", "Gridverse only: this project's own engine, or the installed package gym_gridverse."
    )
    grayscale: bool = _option(False, "Convert picture observations to greyscale.")
    resize: int | None = _option(
        None, "Pixels per side that pictures are scaled to, by area average; none: as is.", ge=1, le=10_000
    )
    hide: tuple[int, ...] | None = _option(
        None, "Components of a vector observation to leave out, counted from 0, such as 1,3."
    )
    frame_stack: int = _option(
        1, "Observations per stack, k: the present one and the k - 1 before it.", ge=1, le=1000
    )

    def __post_init__(self) -> None:
        if self.kwargs is not None and not (isinstance(self.kwargs, dict) and is_plain(self.kwargs)):
            raise ValueError(
                f"task.kwargs is {self.kwargs!r}; it must be a mapping from names to finite numbers, text, "
                "true, false, none, and lists and mappings of these"
            )

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> TaskOptions:
        """The options of these names and values; a ValueError of one line for a name that is none of them."""
        known = [option.name for option in fields(cls)]
        for name in options:
            if name not in known:
                raise ValueError(f"task.{name} is not an option of a task (known: {', '.join(known)})")
        return cls(**options)

    def refuse(self, id: str, *, but: tuple[str, ...] = ()) -> None:
        """ValueError where an option is asked for that neither every task takes nor `but` names."""
        for option in fields(self):
            value = getattr(self, option.name)
            if option.name not in (*_EVERY_TASK, *but) and value != option.default:
                raise ValueError(
                    f"task.{option.name} is {value!r}, but {id} has no such option; leave it out"
                )


def is_plain(value: Any) -> bool:
    """Whether a value is the same after it has been written as JSON."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_plain(part) for key, part in value.items())
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, bool | int | str)
