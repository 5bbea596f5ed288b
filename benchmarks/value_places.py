"""Places and cues of the tasks that `benchmarks.value_of_information` knows: 7x7 and T-Maze."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.optimum import Optimum
from dtqn.acting.rows import VectorRows
from dtqn.settings.config import Config, ConfigError
from envs import registry
from envs.vector import NativeVectorEnv

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]


class Watch(ABC):
    """The places of a task's copies, and how long ago each saw the cue."""

    places: Mapping[str, Sequence[int]]
    """Places that have a name."""
    cells: Mapping[int, str]
    """`row,column` of every place that is a cell; empty where none is."""
    random_steps: int
    """An episode's steps at random are from 0 to so many."""
    epsilon: float
    """Share of random actions after them."""
    ticks: int
    """Steps of each copy over which points are drawn."""
    time_limit: int | None
    """Steps of an episode over which they are, so that there are many episodes; None: the task's own."""
    num_kinds: int
    """Kinds of points, by place and cue."""

    cue_age: Integers

    def look(self, rows: VectorRows) -> None:
        """Note the rows as they have arrived."""
        state = rows.env.get_state()["state"]  # type: ignore[attr-defined]
        if rows.first.all():
            self.cue_age = np.full(len(rows.first), -1)
        self.cue_age = np.where(rows.first | (self.cue_age < 0), -1, self.cue_age + 1)
        self.cue_age[self._look(rows, state)] = 0

    @abstractmethod
    def _look(self, rows: VectorRows, state: dict[str, NDArray[Any]]) -> NDArray[np.bool_]:
        """Note the rows beside the environment's state; [N] whether the cue is in view."""

    @abstractmethod
    def place(self, copies: Integers) -> Integers:
        """The places of some copies."""

    def optimum(self, copies: Integers) -> Floats:
        """V* of some copies, none of them at its episode's end."""
        return np.full(len(copies), np.nan)


class GridWatch(Watch):
    """Gridverse memory: places are cells, numbered row by row."""

    random_steps, epsilon, ticks, time_limit = 40, 0.2, 400, 80

    def __init__(self, optimum: Optimum) -> None:
        self._optimum = optimum
        width, (row, column) = optimum.width, optimum.start[:2].tolist()
        beside = {
            name: [y * width + x + (1 if x < column else -1) for y, x in cells]
            for name, cells in optimum.cells.items()
        }
        self.places = {
            "before an exit": beside["exit"],
            "junction": [optimum.cells["exit"][0][0] * width + column],
            "start": [row * width + column],
            "cue in view": beside["beacon"],
        }
        self.cells = {y * width + x: f"{y},{x}" for y, x in optimum.free.tolist()}
        self.num_kinds = 2 * (len(self.cells) - len(optimum.cells["exit"]))

    def _look(self, rows: VectorRows, state: dict[str, NDArray[Any]]) -> NDArray[np.bool_]:
        self._agent = state["agent"]
        if rows.first.all():
            self._belief = self._optimum.ignorance(len(rows.first))
        belief = self._belief | rows.first[:, None]
        self._belief = self._optimum.updated(belief, self._agent, rows.observation)
        return self._optimum.cue_in_view(self._agent)

    def place(self, copies: Integers) -> Integers:
        y, x = self._agent[copies, :2].T.astype(np.intp)
        return y * self._optimum.width + x

    def optimum(self, copies: Integers) -> Floats:
        return self._optimum.values(self._agent[copies], self._belief[copies])


class CorridorWatch(Watch):
    """T-Maze: the start and what is behind it, the corridor's quarters, the junction.

    Few steps may be lost there before an episode is, so few are at random.
    """

    random_steps, time_limit, cells = 2, None, {}
    _names = ("start", "quarter 1", "quarter 2", "quarter 3", "quarter 4", "junction")
    places = {name: (place,) for place, name in enumerate(_names)}  # noqa: RUF012
    num_kinds = 2 * len(_names)

    def __init__(self, *, active: bool, length: int, horizon: int) -> None:
        self._start, self._length = int(active), length
        self.epsilon, self.ticks = min(0.2, 1 / length), max(100, horizon)

    def _look(self, rows: VectorRows, state: dict[str, NDArray[Any]]) -> NDArray[np.bool_]:
        self._x = state["position"][:, 0]
        return (self._x == 0) & ~state["visited"]

    def place(self, copies: Integers) -> Integers:
        steps = self._x[copies] - self._start
        quarter = 1 + 4 * (steps - 1) // max(1, self._length - 1)
        return np.where(steps <= 0, 0, np.where(steps == self._length, 5, quarter)).astype(np.intp)


def watch_of(config: Config) -> Watch:
    """The watch of a run's task; a ConfigError if it is another task, or its observations are changed."""
    maze = re.fullmatch(r"t-maze-(passive|active)-(\d+)", config.env)
    if config.env != "gridverse-memory-7x7" and not maze:
        raise ConfigError(
            f"env is {config.env}; it must be gridverse-memory-7x7 or t-maze-(passive|active)-N"
        )
    try:
        task = registry.task(config.env, **config.task.model_dump())
    except ValueError as error:  # a backend that is not installed, say
        raise ConfigError(str(error)) from None
    if not isinstance(task.make_vector(1, 0), NativeVectorEnv):
        raise ConfigError("task has options that change what is observed, or another backend; leave them out")
    if maze:
        assert task.spec.horizon is not None
        return CorridorWatch(active=maze[1] == "active", length=int(maze[2]), horizon=task.spec.horizon)
    return GridWatch(Optimum(task, config.learner.gamma, config.learner.reward_scale))
