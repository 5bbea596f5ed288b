"""The families of tasks: their names, and the module that is imported once one of them is asked for.

The module of a family has the function `find` (`envs.task`).
"""

from __future__ import annotations

import importlib
import re
from typing import Any, Final, NamedTuple

from envs.options import TaskOptions
from envs.task import Task, native_task


class Family(NamedTuple):
    """Tasks that one module makes."""

    module: str
    names: str
    """The beginning of its names, a regular expression; others may begin so, too."""
    listed: tuple[str, ...] = ()
    """The names that the command `envs` lists."""
    reads_options: bool = False
    """Whether what it finds depends on options that not every task takes."""

    def find(self, id: str, options: TaskOptions) -> Task | None:
        """The task `id`, or None where it is none of this family; errors as `find` of the module."""
        if not re.match(self.names, id):
            return None
        find: Any = importlib.import_module(self.module).find
        if self.reads_options:
            found: Task | None = find(id, options)
            return found
        if (native := find(id)) is None:
            return None
        make, facts = native
        return native_task(make(), make, options, id=id, **facts)


def _each(pattern: str, *values: object) -> tuple[str, ...]:
    return tuple(pattern.format(value) for value in values)


GRIDVERSE_FILE: Final = "gridverse:"
POMDP_FILE: Final = "pomdp:"
_LEVELS: Final = ("easy", "medium", "hard")
OWN: Final = Family("envs.own_dynamics", r"[A-Za-z_][\w.]*:", reads_options=True)
OTHERS: Final = Family("envs.adapters.foreign", "", reads_options=True)
FAMILIES: Final = (
    Family(
        "envs.gridverse.family",
        f"gridverse-|{GRIDVERSE_FILE}|GV-",
        (
            *_each("gridverse-memory-{0}x{0}", 5, 7, 9, 11, 13, 21),
            *_each("gridverse-memory-four-rooms-{0}x{0}", 7, 9),
            *_each("GV-Memory-{0}x{0}-v0", 5, 9),
            *_each("GV-MemoryFourRooms-{0}x{0}-v0", 7, 9),
            *_each("GV-MemoryNineRooms-{0}x{0}-v0", 10, 13),
            *_each("GV-FourRooms-{0}x{0}-v0", 7, 9),
            *_each("GV-NineRooms-{0}x{0}-v0", 10, 13),
            *_each("GV-Empty-{0}x{0}-v0", 4, 8),
            *_each("GV-Crossing-{0}x{0}-v0", 5, 7),
            *_each("GV-DynamicObstacles-{0}x{0}-v0", 5, 7),
            *_each("GV-Keydoor-{0}x{0}-v0", 5, 7, 9),
            *_each("GV-Teleport-{0}x{0}-v0", 5, 7),
        ),
        reads_options=True,
    ),
    Family("envs.pomdp.family", f"hallway|heavenhell|{POMDP_FILE}", ("hallway", "heavenhell")),
    Family("envs.car_flag", "car-flag", ("car-flag", "car-flag-continuous")),
    Family("envs.memory_cards", "memory-cards", ("memory-cards-2", "memory-cards", "memory-cards-10")),
    Family(
        "envs.t_maze",
        "t-maze-(passive|active)",
        (  # the lengths in the paper's figures
            *_each("t-maze-passive-{}", 50, 100, 250, 500, 750, 1000, 1250, 1500),
            *_each("t-maze-active-{}", 20, 50, 100, 250, 500),
        ),
    ),
    Family(
        "envs.endless_t_maze",
        "endless-t-maze-",
        ("endless-t-maze-3-5", "endless-t-maze-10-10", "endless-t-maze-uniform-5-10"),
    ),
    Family(
        "envs.bsuite",
        "bsuite-memory-(len|size)",
        (*_each("bsuite-memory-len-{}", 10, 100), "bsuite-memory-size-5"),
    ),
    Family(
        "envs.popgym",
        "popgym-[a-z]",
        (
            *_each("popgym-autoencode-{}", *_LEVELS),
            *_each("popgym-count-recall-{}", *_LEVELS),
            *_each("popgym-repeat-first-{}", *_LEVELS),
            *_each("popgym-repeat-previous-{}", *_LEVELS),
            *_each("popgym-concentration-{}", *_LEVELS),
        ),
    ),
    Family("envs.battleship", "battleship-", ("battleship-10",)),
    Family("envs.rock_sample", "rocksample-", ("rocksample-11-11", "rocksample-15-15")),
    Family("envs.numpad", "numpad-", _each("numpad-{0}x{0}", 2, 3, 4)),
    OWN,
    OTHERS,
)
"""In the order of the list of tasks, in which they are asked for a name."""


def family_of(id: str) -> Family:
    """The first family that may have the name."""
    return next(family for family in FAMILIES if re.match(family.names, id))


def ids() -> tuple[str, ...]:
    """Names of all listed tasks."""
    return tuple(id for family in FAMILIES for id in family.listed)
