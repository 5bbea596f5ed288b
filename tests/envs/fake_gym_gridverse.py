"""A small stand-in for the gym_gridverse package: the inner API that the adapter uses, run by our engine.

Only what the adapter touches is there. Objects, grids, agents and states are plain classes with the package's
attributes; an inner environment turns a state into ours and back.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from envs.gridverse import codes, views
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


def cell(thing: GridObject) -> tuple[int, int, int]:
    return thing.type_index(), thing.state_index, thing.color.value


def thing(code: NDArray[np.uint8]) -> GridObject:
    kind, status, colour = (int(number) for number in code)
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
        grid = np.array([[[cell(o) for o in timestep] for timestep in state.grid.objects]], np.uint8)
        pose = [[*state.agent.position.yx, state.agent.orientation.value]]
        return from_arrays(
            grid, np.array(pose, np.uint8), np.array([cell(state.agent.grid_object)], np.uint8)
        )

    @staticmethod
    def _outside(state: Any) -> State:
        grid, agent, item = (array[0] for array in to_arrays(state))
        y, x, heading = map(int, agent)
        held = thing(item)
        objects = [[thing(code) for code in timestep] for timestep in grid]
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
        (y1, x1) = (-start for start, _ in self.observation_space.area)
        agent = Agent(Position(y1, x1), Orientation(0))
        shape = views.size(self.observation_space.area)
        return Observation(seen.reshape(*shape, 3), codes.unpack(inside.item)[0], agent)


@dataclass
class Representation:
    spec: WorldSpec

    def convert(self, observation: Observation) -> dict[str, NDArray[np.int64]]:
        return {"grid": observation.cells.astype(np.int64), "item": observation.item.astype(np.int64)}


def make_observation_representation(name: str, observation_space: WorldSpec) -> Representation:
    assert name == "default"
    return Representation(observation_space)


def factory_env_from_data(data: dict[str, Any]) -> InnerEnv:
    return InnerEnv(WorldSpec.from_data(data))


def modules() -> dict[str, ModuleType]:
    """The installed package's entries of `sys.modules`, by name."""
    names = {
        "": {},
        ".agent": {"Agent": Agent},
        ".envs": {},
        ".envs.yaml": {},
        ".envs.yaml.factory": {"factory_env_from_data": factory_env_from_data},
        ".geometry": {"Orientation": Orientation, "Position": Position},
        ".grid": {"Grid": Grid},
        ".grid_object": {
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
