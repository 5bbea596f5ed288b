"""A gridverse world is data: the names and parameters of its functions. The engine runs it over N states.

spec = memory_world(7)                       # what gym-gridverse's YAML file says
engine = Engine(spec)
state = engine.reset(1024, rng)
state, reward, terminated = engine.step(state, action, rng)
window = engine.observe(state, rng)          # uint8 [1024, 2, 3, 3]
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from envs.gridverse import codes, functions
from envs.gridverse.functions import Area, State

_Result = TypeVar("_Result")


def _frozen(value: Any) -> Any:
    """`value` with lists turned into tuples, so that specs can be compared and hashed."""
    return tuple(_frozen(v) for v in value) if isinstance(value, list | tuple) else value


def _thawed(value: Any) -> Any:
    """`value` with tuples turned into lists, as JSON and YAML have them."""
    return [_thawed(v) for v in value] if isinstance(value, tuple) else value


@dataclass(frozen=True)
class FunctionSpec:
    """One function of a world: its name and its parameters as sorted (key, value) pairs."""

    name: str
    params: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def from_data(cls, data: str | Mapping[str, Any]) -> FunctionSpec:
        """Reads `"name"` or `{"name": ..., key: value, ...}`, the form of gym-gridverse's YAML files."""
        if isinstance(data, str):
            return cls(data)
        return cls(data["name"], tuple(sorted((k, _frozen(v)) for k, v in data.items() if k != "name")))

    def to_data(self) -> dict[str, Any]:
        """The inverse of `from_data`, always in its long form."""
        return {"name": self.name, **{key: _thawed(value) for key, value in self.params}}

    def bind(self, table: Mapping[str, Callable[..., _Result]], kind: str) -> Callable[..., _Result]:
        """The function of `table` with the parameters filled in.

        Raises:
            ValueError: for a name that is not in the table or a parameter that the function does not take.
        """
        if self.name not in table:
            near = difflib.get_close_matches(self.name, table, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"unknown {kind} function {self.name!r}{hint} (supported: {', '.join(table)})")
        function = table[self.name]
        keywords = inspect.getfullargspec(function).kwonlyargs
        for key, _ in self.params:
            if key not in keywords:
                raise ValueError(f"{kind} function {self.name!r} takes no {key!r} (it takes: {keywords})")
        return functools.partial(function, **dict(self.params))


@dataclass(frozen=True)
class WorldSpec:
    """All that defines a world, as gym-gridverse's YAML files do."""

    objects: tuple[str, ...]
    """Object types that its states may hold."""
    colors: tuple[str, ...]
    """Colours that its states may hold."""
    actions: tuple[str, ...]
    """Actions by name; an action number is a place in this tuple."""
    reset: FunctionSpec
    transitions: tuple[FunctionSpec, ...]
    """Applied in this order."""
    rewards: tuple[FunctionSpec, ...]
    """Summed from the left, starting from 0."""
    observation: FunctionSpec
    """Visibility function; its `area` says which rows and columns are seen."""
    terminating: FunctionSpec

    @property
    def area(self) -> Area:
        """Observed rows and columns, relative to the agent."""
        area: Area = dict(self.observation.params)["area"]
        return area

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of the grid, in cells."""
        shape: tuple[int, int] = dict(self.reset.params)["shape"]
        return shape

    @property
    def moves_agent_only(self) -> bool:
        """Whether grid and item never change and nothing random happens after a reset."""
        return all(t.name in functions.MOVES_AGENT_ONLY for t in self.transitions)


def memory_world(size: int) -> WorldSpec:
    """The memory world of `size` x `size` cells as DTQN's file `gv_memory.<size>x<size>.yaml` defines it."""
    return WorldSpec(
        objects=("Wall", "Floor", "Exit", "Beacon"),
        colors=("NONE", "RED", "GREEN", "BLUE", "YELLOW"),
        actions=codes.ACTIONS[:6],
        reset=FunctionSpec.from_data(
            {"name": "memory", "shape": [size, size], "colors": ["RED", "GREEN", "BLUE", "YELLOW"]}
        ),
        transitions=(FunctionSpec("move_agent"), FunctionSpec("turn_agent")),
        rewards=(
            FunctionSpec.from_data({"name": "reach_exit_memory", "reward_good": 5.0, "reward_bad": -5.0}),
            FunctionSpec.from_data({"name": "living_reward", "reward": -0.05}),
        ),
        observation=FunctionSpec.from_data({"name": "partially_occluded", "area": [[-1, 0], [-1, 1]]}),
        terminating=FunctionSpec("reach_exit"),
    )


class Engine:
    """Runs any world over N states at once. It keeps no state: states go in and come out.

    Raises:
        ValueError: at construction, for a world that names unknown functions or an impossible view.
    """

    def __init__(self, spec: WorldSpec) -> None:
        self.spec = spec
        self._reset = spec.reset.bind(functions.RESETS, "reset")
        self._transitions = [t.bind(functions.TRANSITIONS, "transition") for t in spec.transitions]
        self._rewards = [r.bind(functions.REWARDS, "reward") for r in spec.rewards]
        self._visibility = spec.observation.bind(functions.VISIBILITY, "observation")
        self._terminating = spec.terminating.bind(functions.TERMINATING, "terminating")
        if spec.actions != codes.ACTIONS[: len(spec.actions)]:
            raise ValueError(f"actions {spec.actions} must be the first of {codes.ACTIONS}, in this order")
        (_, y1), (x0, x1) = spec.area
        if (x1 - x0) % 2:
            raise ValueError(f"observation area {spec.area} must have an odd number of columns")
        if spec.observation.name == "partially_occluded" and y1 != 0:
            raise ValueError(f"partially_occluded needs the agent on the bottom row of area {spec.area}")

    def layouts(self) -> State | None:
        """All equally likely initial states, or None where they are too many to list."""
        if self.spec.reset.name not in functions.LAYOUTS:
            return None
        return self.spec.reset.bind(functions.LAYOUTS, "reset")()

    def reset(self, num: int, rng: np.random.Generator) -> State:
        """`num` independent initial states."""
        return self._reset(num, rng)

    def step(
        self, state: State, action: NDArray[Any], rng: np.random.Generator
    ) -> tuple[State, NDArray[np.float64], NDArray[np.bool_]]:
        """Next states, rewards float64 [N] and whether the episode has ended, bool [N], for `action` [N]."""
        next_state = state
        for transition in self._transitions:
            next_state = transition(next_state, action, rng)
        reward = np.zeros(len(action))
        # Left to right from zero, as the original sums: the doubles are then the same to the last bit.
        for term in self._rewards:
            reward = reward + term(state, action, next_state)
        return next_state, reward, self._terminating(state, action, next_state)

    def observe(self, state: State, rng: np.random.Generator | None = None) -> NDArray[np.uint8]:
        """The visible cells before each agent, uint8 [N, h, w, 3]; what it cannot see is Hidden."""
        window = functions.window(state, self.spec.area)
        visible = self.visible(window, rng)
        return np.where(visible[..., None], window, np.array([codes.HIDDEN, 0, codes.NO_COLOUR], np.uint8))

    def visible(self, window: NDArray[np.uint8], rng: np.random.Generator | None = None) -> NDArray[np.bool_]:
        """Which cells of `window` are seen, bool [N, h, w]."""
        return self._visibility(window, rng, area=self.spec.area)


def vector_representation(window: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """DTQN's observation: type + colour of each cell, row by row, uint8 [N, h * w] (`GridVerseWrapper`)."""
    return (window[..., 0] + window[..., 2]).reshape(len(window), -1)


def vector_representation_nvec(spec: WorldSpec) -> NDArray[np.int64]:
    """Bounds of `vector_representation` as DTQN states them: 2 * (highest type index) + 1 for every entry."""
    (y0, y1), (x0, x1) = spec.area
    highest = max(codes.OBJECTS.index(name) for name in (*spec.objects, "Hidden"))
    return np.full((y1 - y0 + 1) * (x1 - x0 + 1), 2 * highest + 1, np.int64)
