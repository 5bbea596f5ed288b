"""A small stand-in for the gym_gridverse package: the inner API that the adapter uses, run by our engine.

Only what the adapter touches is there. Objects, grids, agents and states are plain classes with the package's
attributes; an inner environment turns a state into ours and back. A file may name one type of object and
functions of a user's own, as `module:name`: the object is a yellow key to our engine, and the functions are
called after the engine's.
"""

from __future__ import annotations

import copy
import enum
import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from envs.gridverse import codes, views
from envs.gridverse.representations import default_table, observed_codes
from envs.gridverse.state import from_arrays, to_arrays
from envs.gridverse.world import Engine, WorldSpec

Color = enum.Enum("Color", {name: number for number, name in enumerate(codes.COLOURS)})
NO_COLOR = Color(codes.NO_COLOUR)
Orientation = enum.Enum("Orientation", {"FORWARD": 0, "BACKWARD": 1, "LEFT": 2, "RIGHT": 3})
Action = enum.Enum("Action", {name: number for number, name in enumerate(codes.ACTIONS)})


class GridObject:
    kind = -1

    def __init__(self, color: Color = NO_COLOR) -> None:
        self.color = color
        self.state_index = 0

    def __init_subclass__(cls) -> None:
        if "kind" not in vars(cls):
            cls.kind = len(TYPES)
            TYPES.append(cls)

    @classmethod
    def type_index(cls) -> int:
        return cls.kind


class Door(GridObject):
    kind = codes.DOOR
    Status = enum.Enum("Status", {name: number for number, name in enumerate(codes.DOOR_STATUSES)})

    def __init__(self, state: Door.Status, color: Color) -> None:
        super().__init__(color)
        self.state_index = state.value


class Box(GridObject):
    kind = codes.BOX

    def __init__(self, content: GridObject) -> None:
        super().__init__()
        self.content = content


TYPES: list[type[GridObject]] = [
    {"Door": Door, "Box": Box}.get(name) or type(name, (GridObject,), {"kind": kind})
    for kind, name in enumerate(codes.OBJECTS)
]


@dataclass
class Position:
    y: int
    x: int

    @property
    def yx(self) -> tuple[int, int]:
        return self.y, self.x


class Grid:
    def __init__(self, objects: list[list[GridObject]]) -> None:
        self.objects = objects

    def __getitem__(self, position: Position) -> GridObject:
        return self.objects[position.y][position.x]

    def __setitem__(self, position: Position, thing: GridObject) -> None:
        self.objects[position.y][position.x] = thing


@dataclass
class Agent:
    position: Position
    orientation: Orientation
    grid_object: Any = None

    def __post_init__(self) -> None:
        self.grid_object = self.grid_object or TYPES[codes.NOTHING]()


@dataclass
class State:
    grid: Grid
    agent: Agent


@dataclass
class Observation:
    cells: NDArray[np.uint8]
    item: NDArray[np.uint8]
    agent: Agent


OWN = (codes.KEY, 0, codes.COLOURS.index("YELLOW"))
"""Our engine's cell for an object of a user's own."""


def cell(thing: GridObject) -> tuple[int, int, int]:
    if thing.type_index() >= len(codes.OBJECTS):
        return OWN
    return thing.type_index(), thing.state_index, thing.color.value


def thing(code: NDArray[np.uint8]) -> GridObject:
    kind, status, colour = (int(number) for number in code)
    if (kind, status, colour) == OWN and len(TYPES) > len(codes.OBJECTS):
        return TYPES[-1]()
    if kind == codes.DOOR:
        return Door(Door.Status(status), Color(colour))
    return Box(TYPES[codes.FLOOR]()) if kind == codes.BOX else TYPES[kind](Color(colour))


class ActionSpace:
    def __init__(self, actions: tuple[str, ...]) -> None:
        self.actions = [Action[name] for name in actions]

    def int_to_action(self, number: int) -> Action:
        return self.actions[number]


class InnerEnv:
    """Steps one state at a time; an unseeded draw is an error, for the adapter has to seed each."""

    def __init__(self, spec: WorldSpec) -> None:
        self._engine = Engine(spec)
        self.action_space = ActionSpace(spec.actions)
        self.observation_space = spec
        kinds = [SimpleNamespace(holdable=name in spec.holdable) for name in spec.objects]
        self.state_space = SimpleNamespace(object_types=kinds)
        self._rng: Any = None

    def set_seed(self, seed: int) -> None:
        assert type(seed) is int
        self._rng = np.random.default_rng(seed)

    def _generator(self) -> np.random.Generator:
        rng, self._rng = self._rng, None
        assert rng is not None, "not seeded"
        return rng

    @staticmethod
    def _inside(state: State) -> Any:
        grid = np.array([[[cell(o) for o in row] for row in state.grid.objects]], np.uint8)
        pose = [[*state.agent.position.yx, state.agent.orientation.value]]
        return from_arrays(
            grid, np.array(pose, np.uint8), np.array([cell(state.agent.grid_object)], np.uint8)
        )

    @staticmethod
    def _outside(state: Any) -> State:
        grid, agent, item = (array[0] for array in to_arrays(state))
        y, x, heading = map(int, agent)
        held = thing(item)
        objects = [[thing(code) for code in row] for row in grid]
        return State(Grid(objects), Agent(Position(y, x), Orientation(heading), held))

    def functional_reset(self) -> State:
        return self._outside(self._engine.reset(1, self._generator()))

    def functional_step(self, state: State, action: Action) -> tuple[State, float, bool]:
        assert isinstance(action, Action)
        number = np.array([self.action_space.actions.index(action)])
        after, reward, terminated = self._engine.step(self._inside(state), number, self._generator())
        return self._outside(after), float(reward[0]), bool(terminated[0])

    def functional_observation(self, state: State) -> Observation:
        inside = self._inside(state)
        seen = codes.unpack(self._engine.observe(inside)[:, 0])
        if len(TYPES) > len(codes.OBJECTS):
            seen[(seen == OWN).all(axis=-1)] = (TYPES[-1].kind, 0, 0)
        (y1, x1) = (-start for start, _ in self.observation_space.area)
        agent = Agent(Position(y1, x1), Orientation(0))
        shape = views.size(self.observation_space.area)
        return Observation(seen.reshape(*shape, 3), codes.unpack(inside.item)[0], agent)


class OwnEnv(InnerEnv):
    """With functions of a user's own beside the engine's, each called as the package calls it."""

    def __init__(self, spec: WorldSpec, own: dict[str, list[Callable[..., Any]]]) -> None:
        super().__init__(spec)
        self._own = own
        self.state_space = SimpleNamespace(object_types=TYPES[len(codes.OBJECTS) :])

    def functional_reset(self) -> State:
        return self._own["reset"][0](rng=self._generator())

    def functional_step(self, state: State, action: Action) -> tuple[State, float, bool]:
        rng = copy.deepcopy(self._rng)
        after, reward, _ = super().functional_step(state, action)
        for transition in self._own["transition"]:
            transition(after, action, rng=rng)
        reward += sum(function(state, action, after) for function in self._own["reward"])
        return after, reward, any(function(state, action, after) for function in self._own["terminating"])


@dataclass
class Representation:
    spec: WorldSpec
    calls: list[str] = field(default_factory=list)

    @property
    def space(self) -> dict[str, Any]:
        kinds, colours = observed_codes(self.spec)
        highest = default_table(kinds, colours)[1]
        if len(TYPES) > len(codes.OBJECTS):
            highest = np.array([TYPES[-1].kind, TYPES[-1].num_states(), 0])
        grid = np.broadcast_to(highest, (*views.size(self.spec.area), 3))
        return {"grid": SimpleNamespace(upper_bound=grid), "item": SimpleNamespace(upper_bound=highest)}

    def convert(self, observation: Observation) -> dict[str, NDArray[np.int64]]:
        return {"grid": observation.cells.astype(np.int64), "item": observation.item.astype(np.int64)}


def make_observation_representation(name: str, observation_space: WorldSpec) -> Representation:
    assert name == "default"
    return Representation(observation_space)


def factory_env_from_data(data: dict[str, Any]) -> InnerEnv:
    named = [data["reset_function"]["name"], *data["state_space"]["objects"]]
    if not any(":" in name for name in named):
        return InnerEnv(WorldSpec.from_data(data))
    own: dict[str, list[Callable[..., Any]]] = {kind: [] for kind in REGISTRIES}

    def engines(kind: str, functions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those functions that are the engine's; the others are looked up."""
        for function in functions:
            if ":" in function["name"]:
                module, name = function["name"].split(":")
                importlib.import_module(module)
                own[kind].append(REGISTRIES[kind].functions[name])
        return [function for function in functions if ":" not in function["name"]]

    for name in data["state_space"]["objects"]:
        if ":" in name:
            importlib.import_module(name.split(":")[0])
    space = {"objects": ["Wall", "Floor", "Exit", "Key"], "colors": ["NONE", "YELLOW"]}
    engines("reset", [data["reset_function"]])
    engines("terminating", [data["terminating_function"]])
    spec = WorldSpec.from_data(
        {
            **data,
            "state_space": space,
            "observation_space": space,
            "reset_function": {"name": "empty", "shape": [5, 5]},
            "transition_functions": engines("transition", data["transition_functions"]),
            "reward_functions": engines("reward", data["reward_functions"]),
            "terminating_function": {"name": "bump_into_wall"},
        }
    )
    return OwnEnv(spec, own)


class Library:
    """The generator of functions that are called without one."""

    rng: np.random.Generator

    @classmethod
    def reset(cls, seed: int) -> None:
        cls.rng = np.random.default_rng(seed)

    @classmethod
    def or_given(cls, rng: np.random.Generator | None) -> np.random.Generator:
        return cls.rng if rng is None else rng


class Registry:
    def __init__(self) -> None:
        self.functions: dict[str, Callable[..., Any]] = {}

    def register(self, function: Callable[..., Any]) -> Callable[..., Any]:
        self.functions[function.__name__] = function
        return function


REGISTRIES = {kind: Registry() for kind in ("reset", "transition", "reward", "terminating")}


def modules() -> dict[str, ModuleType]:
    """The installed package's entries of `sys.modules`, by name; without a user's own types."""
    del TYPES[len(codes.OBJECTS) :]
    names = {
        "": {},
        ".agent": {"Agent": Agent},
        ".envs": {},
        ".envs.yaml": {},
        ".envs.yaml.factory": {"factory_env_from_data": factory_env_from_data},
        ".geometry": {"Orientation": Orientation, "Position": Position},
        ".grid": {"Grid": Grid},
        **{
            f".envs.{kind}_functions": {f"{kind}_function_registry": registry}
            for kind, registry in REGISTRIES.items()
        },
        ".rng": {"reset_gv_rng": Library.reset, "get_gv_rng_if_none": Library.or_given},
        ".grid_object": {
            "GridObject": GridObject,
            "Wall": TYPES[codes.WALL],
            "Box": Box,
            "Color": Color,
            "Door": Door,
            "Floor": TYPES[codes.FLOOR],
            "grid_object_registry": TYPES,
        },
        ".representations": {},
        ".representations.observation_representations": {
            "make_observation_representation": make_observation_representation
        },
        ".state": {"State": State},
    }
    found = {}
    for name, members in names.items():
        module = ModuleType(f"gym_gridverse{name}", "A stand-in.")
        module.__path__ = []
        for member, value in members.items():
            setattr(module, member, value)
        found[module.__name__] = module
    return found
