"""A gridverse world is data: the names and parameters of its functions. The engine runs it over N states.

spec = WorldSpec.from_data(data)             # what gym-gridverse's YAML files hold
engine = Engine(spec)
state = engine.reset(1024, rng)
state, reward, terminated = engine.step(state, action, rng)
view = engine.observe(state)                 # uint8 [h * w, 1024], bytes of cells
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from envs.errors import meant
from envs.gridverse import codes, values, views
from envs.gridverse.endings import ENDINGS
from envs.gridverse.resets import RESETS, layouts_memory
from envs.gridverse.rewards import NEEDS_ONE, REWARDS
from envs.gridverse.state import Area, Bytes, Geometry, State, Step, geometry
from envs.gridverse.transitions import MOVES_AGENT_ONLY, REMOVES, TRANSITIONS
from envs.vector import Flags, Rewards, Rng, brief

_Table = Mapping[str, Callable[..., Any]]

_TABLES: Final[dict[str, _Table]] = {
    "reset": RESETS,
    "transition": TRANSITIONS,
    "reward": REWARDS,
    "observation": views.OBSERVATIONS,
    "visibility": views.VISIBILITIES,
    "terminating": ENDINGS,
}


_IGNORED: Final = {("reset", "teleport", "random_agent")}
"""Parameters that the original's own files hold and that it drops in silence."""


# -- Specs ---------------------------------------------------------------------------------------------------


def _parameter(what: str, key: str, value: Any) -> Any:
    """The value of a parameter of the function `what`."""
    if key != _kind(key) in _TABLES:  # whose errors are whole lines
        return function_specs(value, key)
    return values.read(value, f"{what}: {key}", values.PARAMETERS.get(key, values.number))


def _facts(data: Any) -> dict[str, Any]:
    """A world's description of itself: the key `task` of its data, which gym-gridverse's own files lack.

    Raises:
        ValueError: one line that names the key and what would be right.
    """
    known = ", ".join(values.FACTS)
    if not isinstance(data, Mapping):
        raise ValueError(f"task is {brief(data)}; it must be a mapping with some of {known}")
    for key in data:
        if key not in values.FACTS:
            raise ValueError(f"task holds the unknown key {key!r}{meant(key, values.FACTS)} (known: {known})")
        values.read(data[key], f"task.{key}", values.FACTS[key])
    return dict(data)


@dataclass(frozen=True)
class FunctionSpec:
    """One function of a world: its kind, its name and its parameters as sorted (key, value) pairs.

    A value may be a function or several, too.
    """

    kind: str
    name: str
    params: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def from_data(cls, data: Any, kind: str) -> FunctionSpec:
        """Reads `{"name": ..., key: value, ...}`, the form of gym-gridverse's YAML files.

        Raises:
            ValueError: one line, for an unknown function, an unknown or missing parameter, or a bad value.
        """
        if not isinstance(data, Mapping) or not isinstance(data.get("name"), str):
            raise ValueError(f"{kind} function is {brief(data)}; it must be a mapping with a 'name'")
        name, table = data["name"], _TABLES[kind]
        if name not in table:
            hint = f"{meant(name, table)} (supported: {', '.join(table)})"
            raise ValueError(f"unknown {kind} function {name!r}{hint}")
        given = {key: data[key] for key in data if key != "name" and (kind, name, key) not in _IGNORED}
        what = f"{kind} function {name!r}"
        signature = inspect.getfullargspec(table[name])
        for key in given:
            if key not in signature.kwonlyargs:
                takes = ", ".join(signature.kwonlyargs) or "nothing"
                raise ValueError(f"{what} takes no {key!r} (it takes: {takes})")
        params = {key: _parameter(what, key, value) for key, value in given.items()}
        for key in signature.kwonlyargs:
            if key not in params and key not in (signature.kwonlydefaults or {}):
                raise ValueError(f"{what} has no {key!r}, which it needs")
        return cls(kind, name, tuple(sorted(params.items())))

    def __getitem__(self, key: str) -> Any:
        """The value of a parameter."""
        return dict(self.params)[key]

    def to_data(self) -> dict[str, Any]:
        """The inverse of `from_data`."""
        return {"name": self.name, **{key: _to_data(value) for key, value in self.params}}

    def all(self) -> Iterator[FunctionSpec]:
        """This function and those that are its parameters, at any depth."""
        yield self
        for _, value in self.params:
            for inner in value if isinstance(value, tuple) else (value,):
                if isinstance(inner, FunctionSpec):
                    yield from inner.all()

    def bind(self) -> Callable[..., Any]:
        """The function with its parameters filled in."""
        parameters = {key: _bound(value) for key, value in self.params}
        return functools.partial(_TABLES[self.kind][self.name], **parameters)


def _kind(key: str) -> str:
    """The kind of the functions of a key such as `reward_functions` or `reset_function`."""
    return key.partition("_function")[0]


def function_specs(data: Any, key: str) -> Any:
    """A function, where `key` is in the singular, or a list of one or more as a tuple."""
    kind = _kind(key)
    if key.endswith("_function"):
        return FunctionSpec.from_data(data, kind)
    if not isinstance(data, list | tuple) or not data:
        raise ValueError(f"{key} is {brief(data)}; it must be a list of functions")
    return tuple(FunctionSpec.from_data(item, kind) for item in data)


def _to_data(value: Any) -> Any:
    if isinstance(value, FunctionSpec):
        return value.to_data()
    return [_to_data(v) for v in value] if isinstance(value, tuple) else value


def _bound(value: Any) -> Any:
    if isinstance(value, FunctionSpec):
        return value.bind()
    return tuple(_bound(v) for v in value) if isinstance(value, tuple) else value


_SPACES: Final = ("state_space", "observation_space")
_FUNCTIONS: Final = {
    f"{field.rstrip('s')}_function{'s' if field.endswith('s') else ''}": field
    for field in ("reset", "transitions", "rewards", "observation", "terminating")
}
"""By a key of the data, the field of `WorldSpec` with its function or functions."""
_REQUIRED: Final = (*_SPACES, *_FUNCTIONS)
_KNOWN: Final = (*_REQUIRED, "action_space", "task")


@dataclass(frozen=True)
class WorldSpec:
    """All that defines a world, as gym-gridverse's YAML files do."""

    objects: tuple[str, ...]
    """Object types that its states may hold."""
    colors: tuple[str, ...]
    """Colours that its states may hold."""
    observation_objects: tuple[str, ...]
    """Object types that its observations may hold, apart from Hidden."""
    observation_colors: tuple[str, ...]
    """Colours that its observations may hold."""
    actions: tuple[str, ...]
    """Actions by name; an action number is a place in this tuple."""
    reset: FunctionSpec
    transitions: tuple[FunctionSpec, ...]
    """Applied in this order."""
    rewards: tuple[FunctionSpec, ...]
    """Summed from the left, starting from 0."""
    observation: FunctionSpec
    """Its `area` says which rows and columns are in view, its name or visibility function what is seen."""
    terminating: FunctionSpec
    facts: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The world's description of itself by the keys of `values.FACTS`, which changes nothing in it."""

    @classmethod
    def from_data(cls, data: Any) -> WorldSpec:
        """Reads a world in the layout of gym-gridverse's YAML files.

        Raises:
            ValueError: one line that says what is wrong and what would be right.
        """
        if not isinstance(data, Mapping):
            kind = type(data).__name__
            raise ValueError(f"the world is a {kind}; it must be a mapping with {', '.join(_REQUIRED)}")
        for key in data:
            if key not in _KNOWN:
                raise ValueError(f"unknown key {key!r} (known: {', '.join(_KNOWN)})")
        for key in _REQUIRED:
            if key not in data:
                raise ValueError(f"the world has no {key!r}")
        (objects, colors), (seen_objects, seen_colors) = (_read_space(data[key], key) for key in _SPACES)
        for noun, all_of, seen in (("objects", objects, seen_objects), ("colors", colors, seen_colors)):
            unseen = [name for name in all_of if name not in seen]
            if unseen:
                raise ValueError(
                    f"observation_space.{noun} lacks {unseen[0]}, which is in state_space.{noun}"
                )
        actions = data.get("action_space", codes.ACTIONS)
        spec = cls(
            objects=objects,
            colors=colors,
            observation_objects=seen_objects,
            observation_colors=seen_colors,
            actions=values.read(actions, "action_space", values.some_of(codes.ACTIONS)),
            **{field: function_specs(data[key], key) for key, field in _FUNCTIONS.items()},
            facts=_facts(data.get("task", {})),
        )
        spec._check()
        return spec

    def _check(self) -> None:
        """ValueError for parts that do not fit together."""
        if self.visibility == "partially_occluded" and self.area[0][1] != 0:
            raise ValueError(
                f"partially_occluded needs the agent on the bottom row of area {_to_data(self.area)}"
            )
        if self.visibility == "partially_occluded" and views.size(self.area)[1] > views.MAX_COLUMNS:
            raise ValueError(
                f"partially_occluded takes an area of at most {views.MAX_COLUMNS} columns; it is "
                f"{_to_data(self.area)}"
            )
        removed = {REMOVES[t.name]: t.name for t in self.all_transitions() if t.name in REMOVES}
        for reward in self.needs_one():
            kind = codes.OBJECTS.index(reward["object_type"])
            if kind in removed:
                raise ValueError(
                    f"reward function {reward.name!r} needs one {codes.OBJECTS[kind]} in the grid"
                    f" at all times, but {removed[kind]} can take it out"
                )

    def to_data(self) -> dict[str, Any]:
        """The inverse of `from_data`, without the facts: what the package reads."""
        return {
            "state_space": {"objects": list(self.objects), "colors": list(self.colors)},
            "action_space": list(self.actions),
            "observation_space": {
                "objects": list(self.observation_objects),
                "colors": list(self.observation_colors),
            },
            **{key: _to_data(getattr(self, field)) for key, field in _FUNCTIONS.items()},
        }

    @property
    def area(self) -> Area:
        """Rows and columns in view, relative to the agent."""
        area: Area = self.observation["area"]
        return area

    @property
    def visibility(self) -> str:
        """The name of the visibility function."""
        of = self.observation
        name: str = of["visibility_function"].name if of.name == "from_visibility" else of.name
        return name

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of the grid, in cells."""
        shape: tuple[int, int] = self.reset["shape"]
        return shape

    @property
    def geometry(self) -> Geometry:
        """The tables of that shape."""
        return geometry(*self.shape)

    @property
    def holdable(self) -> tuple[str, ...]:
        """Object types of its states that an agent can hold."""
        return tuple(name for name in self.objects if codes.CAN_BE_HELD[codes.OBJECTS.index(name)])

    @property
    def moves_agent_only(self) -> bool:
        """Whether nothing but the agent's pose ever changes and nothing random happens after a reset."""
        return all(t.name in MOVES_AGENT_ONLY for t in self.transitions)

    @property
    def has_good_exit(self) -> bool:
        """Whether it is a memory world, in which one of the exits is good."""
        return any(f.name == "reach_exit_memory" for reward in self.rewards for f in reward.all())

    @property
    def ends_on_exit(self) -> bool:
        """Whether reaching an exit is a way to end an episode."""
        return any(
            f.name == "reach_exit" or (f.name == "overlap" and f["object_type"] == "Exit")
            for f in self.terminating.all()
        )

    def all_transitions(self) -> list[FunctionSpec]:
        """The transitions, those within a chain too."""
        return [f for transition in self.transitions for f in transition.all()]

    def needs_one(self) -> list[FunctionSpec]:
        """Rewards that need exactly one object of their type in the grid."""
        return [f for reward in self.rewards for f in reward.all() if f.name in NEEDS_ONE]


def _read_space(data: Any, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Objects and colours."""
    if not isinstance(data, Mapping) or set(data) != {"objects", "colors"}:
        raise ValueError(f"{name} is {brief(data)}; it must be a mapping with 'objects' and 'colors'")
    return (
        values.read(data["objects"], f"{name}.objects", values.some_of(codes.OBJECTS)),
        values.read(data["colors"], f"{name}.colors", values.some_of(codes.COLOURS)),
    )


# -- The engine ----------------------------------------------------------------------------------------------


class Engine:
    """Runs any world over N states at once. It keeps no state: states go in and come out."""

    def __init__(self, spec: WorldSpec) -> None:
        self.spec = spec
        self.reset: Callable[[int, Rng], State] = spec.reset.bind()
        """So many independent initial states."""
        self.visible: Callable[[Bytes], Flags] = spec.observation.bind()
        """Which cells of a `view` are seen, bool [h * w, N]."""
        self._transitions = [t.bind() for t in spec.transitions]
        self._reward = FunctionSpec("reward", "reduce_sum", (("reward_functions", spec.rewards),)).bind()
        self._terminating = spec.terminating.bind()
        numbers = np.array([codes.ACTIONS.index(action) for action in spec.actions])
        self._action_numbers = None if (numbers == np.arange(len(numbers))).all() else numbers

    def layouts(self) -> State | None:
        """All equally likely initial states, or None where they are too many to list."""
        reset = self.spec.reset
        return layouts_memory(**dict(reset.params)) if reset.name == "memory" else None

    def step(self, state: State, action: NDArray[Any], rng: Rng) -> tuple[State, Rewards, Flags]:
        """Next states, rewards float64 [N] and whether the episode has ended, bool [N], for `action` [N]."""
        if self._action_numbers is not None:
            action = self._action_numbers.take(action)
        next_state = state
        for transition in self._transitions:
            next_state = transition(next_state, action, rng)
        taken = Step(state, action, next_state)
        return next_state, self._reward(taken), self._terminating(taken)

    def view(self, state: State) -> Bytes:
        """The cells in view of each agent, seen or not, uint8 [h * w, N], bytes of `codes`."""
        cell = state.geometry.window(self.spec.area).take(state.pose, axis=1)
        cell += state.geometry.starts(len(state.pose))
        return state.cells.ravel().take(cell)

    def observe(self, state: State) -> Bytes:
        """The cells in view of each agent, uint8 [h * w, N]; `codes.UNSEEN` where it cannot see."""
        view = self.view(state)
        view *= self.visible(view).view(np.uint8)
        return view
