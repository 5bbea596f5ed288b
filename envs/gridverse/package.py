"""The same tasks run by the package gym_gridverse, one environment after the other: slow, for comparison.

Only the package's inner environments are used, whose `functional_*` methods are the same under every version
of gym; gym itself is not needed. This is the only module that imports gym_gridverse.
"""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from envs.gridverse import codes
from envs.gridverse.dynamics import GridverseDynamics
from envs.gridverse.state import State, from_arrays
from envs.gridverse.world import WorldSpec
from envs.vector import Arrays, EnvIds, Flags, Rewards, Rng

INSTALL: Final = (
    "pip install more-itertools schema typing-extensions &&"
    " pip install --no-deps git+https://github.com/abaisero/gym-gridverse"
)
_GYM_PART: Final = "gym_gridverse.gym"


class Package:
    """The names of gym_gridverse that are used here; `load` makes it."""

    def __init__(self) -> None:
        # The package imports its registration with the old gym first thing, which needs gym and a
        # setuptools of old. Nothing here uses that part: an empty module takes its place meanwhile.
        stands_in = _GYM_PART not in sys.modules and "gym_gridverse" not in sys.modules
        if stands_in:
            sys.modules[_GYM_PART] = ModuleType(_GYM_PART)
        try:
            from gym_gridverse.agent import Agent
            from gym_gridverse.envs.yaml.factory import factory_env_from_data
            from gym_gridverse.geometry import Orientation, Position
            from gym_gridverse.grid import Grid
            from gym_gridverse.grid_object import Box, Color, Door, Floor, grid_object_registry
            from gym_gridverse.representations.observation_representations import (
                make_observation_representation,
            )
            from gym_gridverse.state import State as PackageState
        except ImportError as error:
            raise ValueError(
                f"task.backend is 'gym-gridverse', but it cannot be imported ({error}); install it: {INSTALL}"
            ) from None
        finally:
            if stands_in:
                del sys.modules[_GYM_PART]
        self.make_env = factory_env_from_data
        self.make_representation = make_observation_representation
        self._agent, self._grid, self._state = Agent, Grid, PackageState
        self._position, self._orientation = Position, Orientation
        self._color, self._types = Color, list(grid_object_registry)
        self._door, self._box, self._floor = Door, Box, Floor

    def object(self, cell: NDArray[np.uint8]) -> Any:
        """The package's object for a cell (type, status, colour)."""
        kind, status, colour = (int(code) for code in cell)
        if kind == codes.DOOR:
            return self._door(self._door.Status(status), self._color(colour))
        if kind == codes.BOX:
            return self._box(self._floor())
        if codes.CAN_BE_COLOURED[kind]:
            return self._types[kind](self._color(colour))
        return self._types[kind]()

    def state(self, grid: NDArray[np.uint8], agent: NDArray[np.uint8], item: NDArray[np.uint8]) -> Any:
        """The package's state for `grid` [H, W, 3], `agent` [3] and `item` [3]."""
        y, x, heading = (int(number) for number in agent)
        cells = self._grid([[self.object(cell) for cell in row] for row in grid])
        held = None if item[0] == codes.NOTHING else self.object(item)
        return self._state(cells, self._agent(self._position(y, x), self._orientation(heading), held))


@functools.cache
def load() -> Package:
    """The package.

    Raises:
        ValueError: one line that says how to install it, where it cannot be imported.
    """
    return Package()


def _cell(thing: Any) -> tuple[int, int, int]:
    """The (type, status, colour) of one of the package's objects."""
    return thing.type_index(), thing.state_index, thing.color.value


class PackageDynamics(GridverseDynamics):
    """N environments of a world, each a state of the package's.

    The package draws from a generator of its own; it gets a new seed from ours before each use, so that our
    generator determines everything and states are all that there is to save.
    """

    def __init__(self, spec: WorldSpec, observation: str) -> None:
        super().__init__(spec, observation)
        self._package = load()
        self._env = self._package.make_env(spec.to_data())
        self._convert = self._package.make_representation("default", self._env.observation_space).convert
        self._states: list[Any] = []

    def _seed(self, seed: np.int64 | int) -> None:
        self._env.set_seed(int(seed))

    def _reset(self, rng: Rng) -> Any:
        self._seed(rng.integers(2**63))
        return self._env.functional_reset()

    def start(self, num: int, rng: Rng) -> None:
        self._states = [self._reset(rng) for _ in range(num)]

    def restart(self, env_ids: EnvIds, rng: Rng) -> None:
        for env_id in env_ids:
            self._states[env_id] = self._reset(rng)

    def step(self, action: NDArray[Any], rng: Rng) -> tuple[Rewards, Flags]:
        reward, terminated = np.zeros(len(action)), np.zeros(len(action), np.bool_)
        for env_id, seed in enumerate(rng.integers(2**63, size=len(action))):
            self._seed(seed)
            chosen = self._env.action_space.int_to_action(int(action[env_id]))
            answer = self._env.functional_step(self._states[env_id], chosen)
            self._states[env_id], reward[env_id], terminated[env_id] = answer
        return reward, terminated

    def observe(self, rng: Rng) -> NDArray[np.uint8]:
        grids, items = [], []
        for state, seed in zip(self._states, rng.integers(2**63, size=len(self._states)), strict=True):
            self._seed(seed)
            shown = self._convert(self._env.functional_observation(state))
            grids.append(shown["grid"])
            items.append(shown["item"])
        view = codes.pack(np.array(grids, np.uint8)).reshape(len(grids), -1)
        return self._representation(view.T, codes.pack(np.array(items, np.uint8)))

    def state(self) -> State:
        grid = [[[_cell(thing) for thing in row] for row in state.grid.objects] for state in self._states]
        agent = [(*state.agent.position.yx, state.agent.orientation.value) for state in self._states]
        item = [_cell(state.agent.grid_object) for state in self._states]
        return from_arrays(np.array(grid, np.uint8), np.array(agent, np.uint8), np.array(item, np.uint8))

    def put(self, state: Arrays) -> None:
        self._states = [
            self._package.state(*parts)
            for parts in zip(state["grid"], state["agent"], state["item"], strict=True)
        ]
