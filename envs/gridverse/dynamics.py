"""Two ways to run N copies of a world: the engine itself, and tables that the engine has filled in.

Both are an `envs.vector.Dynamics` and agree to the last bit, random draws included. In a world whose grid
never changes a state is a layout and a pose, few enough to number; then a step is a few look-ups.

Legend: N copies, L layouts, S states (every pose that can be stood on, of every layout), A actions.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from envs.gridverse import codes
from envs.gridverse.functions import State, put, take
from envs.gridverse.render import render_state
from envs.gridverse.states import read_state
from envs.gridverse.world import Engine, WorldSpec, vector_representation, vector_representation_nvec
from envs.vector import Arrays, Dynamics


class GridverseDynamics(Dynamics):
    """What both ways share. The fields of a state are `grid` [H, W, 3], `agent` [3] and `item` [3], uint8."""

    def __init__(self, spec: WorldSpec) -> None:
        self._engine = Engine(spec)
        self.observation_space = observation_space(spec)
        self.action_space = gymnasium.spaces.Discrete(len(spec.actions))

    def read(self, state: Mapping[str, Any], num: int) -> Arrays:
        """Without an item nothing is held."""
        return read_state(state, self._engine.spec, num)._asdict()

    def success(
        self, reward: NDArray[np.float64], episode_return: NDArray[np.float64], terminated: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """DTQN's measure: an undiscounted return above zero."""
        success: NDArray[np.bool_] = episode_return > 0.0
        return success

    def picture(self, copy: int) -> NDArray[np.uint8]:
        return render_state(self._engine, take(State(**self.get()), np.array([copy])))


class EngineDynamics(GridverseDynamics):
    """Any world, run by the general engine."""

    _state: State

    def start(self, num: int, rng: np.random.Generator) -> None:
        self._state = self._engine.reset(num, rng)

    def restart(self, rows: NDArray[np.intp], rng: np.random.Generator) -> None:
        self._state = put(self._state, rows, self._engine.reset(len(rows), rng))

    def step(
        self, action: NDArray[Any], rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        self._state, reward, terminated = self._engine.step(self._state, action, rng)
        return reward, terminated

    def observe(self, rng: np.random.Generator) -> NDArray[np.uint8]:
        return vector_representation(self._engine.observe(self._state, rng))

    def get(self) -> Arrays:
        return take(self._state, np.arange(len(self._state.agent)))._asdict()

    def put(self, state: Arrays) -> None:
        self._state = State(**state)


def observation_space(spec: WorldSpec) -> gymnasium.spaces.MultiDiscrete[np.uint8]:
    """The space of one copy's observation."""
    return gymnasium.spaces.MultiDiscrete(vector_representation_nvec(spec), dtype=np.uint8)


@dataclass(frozen=True)
class Tables:
    """A world of L layouts written out. A transition is numbered `state * A + action`."""

    grid: NDArray[np.uint8]
    """[L, H, W, 3]."""
    item: NDArray[np.uint8]
    """[L, 3]."""
    layout: NDArray[np.intp]
    """[S], the layout of a state."""
    pose: NDArray[np.uint8]
    """[S, 3]."""
    number: NDArray[np.intp]
    """[L, H, W, 4], the state of a layout and pose; -1 where the pose cannot be stood on."""
    observation: NDArray[np.uint8]
    """[S, ...]."""
    next_state: NDArray[np.intp]
    """[S * A]."""
    reward: NDArray[np.float64]
    """[S * A]."""
    terminated: NDArray[np.bool_]
    """[S * A]."""

    def followed_by(self, other: Tables) -> Tables:
        """These tables with `other`'s layouts and states after their own."""
        num_layouts, num_states = len(self.grid), len(self.layout)
        shifted = {
            "layout": other.layout + num_layouts,
            "number": np.where(other.number < 0, -1, other.number + num_states),
            "next_state": other.next_state + num_states,
        }
        names = self.__dataclass_fields__
        return Tables(
            **{n: np.concatenate([getattr(self, n), shifted.get(n, getattr(other, n))]) for n in names}
        )


def compile_layout(engine: Engine, grid: NDArray[np.uint8], item: NDArray[np.uint8]) -> Tables:
    """Runs `engine` once from every pose of one layout, `grid` [H, W, 3] with `item` [3] held."""
    spec, num_actions = engine.spec, len(engine.spec.actions)
    free = ~codes.BLOCKS_MOVEMENT[grid[..., 0], grid[..., 1]]
    cells = np.argwhere(free)
    num_headings = len(codes.HEADINGS)
    pose = np.empty((len(cells) * num_headings, 3), np.uint8)
    pose[:, :2] = cells.repeat(num_headings, axis=0)
    pose[:, 2] = np.tile(np.arange(num_headings), len(cells))
    number = np.full((1, *spec.shape, num_headings), -1, np.intp)
    number[0, pose[:, 0], pose[:, 1], pose[:, 2]] = np.arange(len(pose))

    def states(agent: NDArray[np.uint8]) -> State:
        return State(
            np.broadcast_to(grid, (len(agent), *grid.shape)), agent, np.broadcast_to(item, (len(agent), 3))
        )

    action = np.tile(np.arange(num_actions), len(pose))
    # The generator is never drawn from: that is what makes the world one for tables.
    after, reward, terminated = engine.step(
        states(pose.repeat(num_actions, axis=0)), action, np.random.default_rng(0)
    )
    return Tables(
        grid=grid[None],
        item=item[None],
        layout=np.zeros(len(pose), np.intp),
        pose=pose,
        number=number,
        observation=vector_representation(engine.observe(states(pose))),
        next_state=number[0, after.agent[:, 0], after.agent[:, 1], after.agent[:, 2]],
        reward=reward,
        terminated=terminated,
    )


def compile_layouts(engine: Engine, grid: NDArray[np.uint8], item: NDArray[np.uint8]) -> Tables:
    """Tables of the layouts `grid` [L, H, W, 3] with `item` [L, 3], in this order."""
    return functools.reduce(
        Tables.followed_by, (compile_layout(engine, g, i) for g, i in zip(grid, item, strict=True))
    )


@functools.lru_cache(maxsize=32)
def initial_tables(spec: WorldSpec) -> tuple[Tables, NDArray[np.intp]]:
    """Tables of the world's initial layouts, and the initial state of each, [L]."""
    engine = Engine(spec)
    layouts = engine.layouts()
    if layouts is None or not spec.moves_agent_only:
        raise ValueError(f"world with reset {spec.reset.name!r} cannot be tabulated")
    tables = compile_layouts(engine, layouts.grid, layouts.item)
    y, x, heading = layouts.agent.T
    return tables, tables.number[np.arange(len(y)), y, x, heading]


class TableDynamics(GridverseDynamics):
    """A world whose grid never changes and whose initial states can be listed, run by look-up.

    Raises:
        ValueError: at construction, for any other world.
    """

    def __init__(self, spec: WorldSpec) -> None:
        super().__init__(spec)
        self._initial, self._initial_states = initial_tables(spec)
        self._num_actions = len(spec.actions)
        self._tables = self._initial
        self._now: NDArray[np.intp]

    def start(self, num: int, rng: np.random.Generator) -> None:
        self._tables = self._initial  # layouts that were put in by hand are not needed any longer
        self._now = self._initial_states[rng.integers(len(self._initial_states), size=num)]

    def restart(self, rows: NDArray[np.intp], rng: np.random.Generator) -> None:
        self._now[rows] = self._initial_states[rng.integers(len(self._initial_states), size=len(rows))]

    def step(
        self, action: NDArray[Any], rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        transition = self._now * self._num_actions
        transition += action
        tables = self._tables
        self._now = tables.next_state.take(transition)
        return tables.reward.take(transition), tables.terminated.take(transition)

    def observe(self, rng: np.random.Generator) -> NDArray[np.uint8]:
        return self._tables.observation.take(self._now, axis=0)

    def get(self) -> Arrays:
        layout = self._tables.layout[self._now]
        return State(
            self._tables.grid[layout], self._tables.pose[self._now], self._tables.item[layout]
        )._asdict()

    def put(self, state: Arrays) -> None:
        grids, agents, items = State(**state)
        tables = self._initial
        known = {_key(g, i): n for n, (g, i) in enumerate(zip(tables.grid, tables.item, strict=True))}
        layout = np.empty(len(agents), np.intp)
        added: list[int] = []
        for row, (grid, item) in enumerate(zip(grids, items, strict=True)):
            layout[row] = known.setdefault(_key(grid, item), len(known))
            if layout[row] == len(tables.grid) + len(added):
                added.append(row)
        if added:
            tables = tables.followed_by(compile_layouts(self._engine, grids[added], items[added]))
        self._tables = tables
        self._now = tables.number[layout, agents[:, 0], agents[:, 1], agents[:, 2]]


def _key(grid: NDArray[np.uint8], item: NDArray[np.uint8]) -> bytes:
    return grid.tobytes() + item.tobytes()


def make_dynamics(spec: WorldSpec) -> GridverseDynamics:
    """The faster dynamics that can run the world."""
    if spec.moves_agent_only and Engine(spec).layouts() is not None:
        return TableDynamics(spec)
    return EngineDynamics(spec)
