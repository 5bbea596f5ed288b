"""Two ways to run N environments of a world: the engine itself, and tables that the engine has filled in.

Both are an `envs.vector.Dynamics` and agree to the last bit, random draws included. In a world whose grid
never changes a state is a layout and a pose; where the layouts are few a step is then a few look-ups.

Legend: N environments, L layouts, S states (every pose that can be stood on, of every layout), A actions.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from envs.fields import Field, FieldDynamics
from envs.gridverse import codes
from envs.gridverse.checks import check_state
from envs.gridverse.render import render_state
from envs.gridverse.representations import Representation
from envs.gridverse.state import Bytes, Places, State, from_arrays, put, take, to_arrays
from envs.gridverse.world import Engine, WorldSpec
from envs.vector import Arrays, EnvIds, Flags, Rewards, Rng


class GridverseDynamics(FieldDynamics):
    """The part that both engines share.

    The fields of a state are `grid` [H, W, 3], `agent` [3] and `item` [3], uint8; without an item nothing is
    held. That is the form in which states are given and saved, and not the one that they are kept in.

    Args:
        observation: "grid" or "vector" (`envs.gridverse.representations`).
    """

    def __init__(self, spec: WorldSpec, observation: str) -> None:
        self._engine = Engine(spec)
        self._representation = Representation(spec, observation)
        self.observation_space = self._representation.space
        self.action_space = gymnasium.spaces.Discrete(len(spec.actions))
        self.action_names = tuple(name.lower().replace("_", " ") for name in spec.actions)
        self.fields = (
            Field("grid", (*spec.shape, 3), np.uint8, 0, 255),
            Field("agent", (3,), np.uint8, 0, 255),
            Field("item", (3,), np.uint8, 0, 255, (codes.NOTHING, 0, codes.NO_COLOUR)),
        )
        self._has_good_exit, self._ends_on_exit = spec.has_good_exit, spec.ends_on_exit

    @abstractmethod
    def state(self) -> State:
        """The states of all environments; not to be changed."""

    def get(self) -> Arrays:
        return dict(zip(("grid", "agent", "item"), to_arrays(self.state()), strict=True))

    def check(self, state: Arrays) -> None:
        check_state(state, self._engine.spec)

    def success(self, reward: Rewards, episode_return: Rewards, terminated: Flags) -> Flags | None:
        """DTQN's measure where there is a good exit, a return above zero; elsewhere an end on an exit."""
        if self._has_good_exit:
            return episode_return > 0.0
        if self._ends_on_exit:
            return terminated & codes.is_type(self.state().under_agent(), codes.EXIT)
        return None

    def other(self, state: Arrays) -> Arrays | None:
        """In a memory world, the beacons have the colour of another exit: of the grid's first other one."""
        if not self._has_good_exit:
            return None
        grid = state["grid"].copy()
        for kind, colour in zip(grid[..., 0], grid[..., 2], strict=True):  # views of one's
            beacons, exits = kind == codes.BEACON, colour[kind == codes.EXIT]
            others = exits[~np.isin(exits, colour[beacons])]
            if len(others):
                colour[beacons] = others[0]
        return state | {"grid": grid}

    def picture(self, env_id: int) -> NDArray[np.uint8]:
        return render_state(self._engine, take(self.state(), np.array([env_id])))


class EngineDynamics(GridverseDynamics):
    """Any world, run by the engine."""

    _state: State

    def state(self) -> State:
        return self._state

    def start(self, num: int, rng: Rng) -> None:
        self._state = self._engine.reset(num, rng)

    def restart(self, env_ids: EnvIds, rng: Rng) -> None:
        self._state = put(self._state, env_ids, self._engine.reset(len(env_ids), rng))

    def step(self, action: NDArray[Any], rng: Rng) -> tuple[Rewards, Flags]:
        action = action.astype(np.intp, copy=False)
        self._state, reward, terminated = self._engine.step(self._state, action, rng)
        return reward, terminated

    def observe(self, rng: Rng) -> NDArray[np.uint8]:
        return self._representation(self._engine.observe(self._state), self._state.item)

    def put(self, state: Arrays) -> None:
        self._state = from_arrays(**state)


@dataclass(frozen=True)
class Tables:
    """A world of L layouts written out. A transition is numbered `state * A + action`."""

    cells: Bytes
    """[L, H * W + 1]."""
    item: Bytes
    """[L]."""
    layout: Places
    """[S], the layout of a state."""
    pose: Places
    """[S]."""
    number: Places
    """[L, poses], the state of a layout and pose; -1 where the pose cannot be stood on."""
    observation: NDArray[np.uint8]
    """[S, ...]."""
    next_state: Places
    """[S * A]."""
    reward: NDArray[np.float64]
    """[S * A]."""
    terminated: NDArray[np.bool_]
    """[S * A]."""

    def followed_by(self, other: Tables) -> Tables:
        """These tables with `other`'s layouts and states after their own."""
        num_layouts, num_states = len(self.cells), len(self.layout)
        shifted = {
            "layout": other.layout + num_layouts,
            "number": np.where(other.number < 0, -1, other.number + num_states),
            "next_state": other.next_state + num_states,
        }
        names = self.__dataclass_fields__
        return Tables(
            **{n: np.concatenate([getattr(self, n), shifted.get(n, getattr(other, n))]) for n in names}
        )


def compile_layouts(engine: Engine, represent: Representation, layouts: State) -> Tables:
    """Runs `engine` once from every pose of every layout; the poses of `layouts` do not matter."""
    num_layouts, num_actions = len(layouts.cells), len(engine.spec.actions)
    free = layouts.cells[:, :-1] & codes.STOPS_MOVEMENT == 0
    layout, place = free.nonzero()
    layout, place = layout.repeat(4), place.repeat(4)
    pose = place * 4 + np.tile(np.arange(4), len(place) // 4)
    number = np.full((num_layouts, free.shape[1] * 4), -1, np.intp)
    number[layout, pose] = np.arange(len(pose))

    def states(layout: Places, pose: Places) -> State:
        return State(layouts.geometry, layouts.cells[layout], pose, layouts.item[layout])

    # The generator is never drawn from: that is what makes the world one for tables.
    unused, here = np.random.default_rng(0), states(layout, pose)
    action = np.tile(np.arange(num_actions), len(pose))
    before = states(layout.repeat(num_actions), pose.repeat(num_actions))
    after, reward, terminated = engine.step(before, action, unused)
    return Tables(
        cells=layouts.cells,
        item=layouts.item,
        layout=layout,
        pose=pose,
        number=number,
        observation=represent(engine.observe(here), here.item),
        next_state=number[layout.repeat(num_actions), after.pose],
        reward=reward,
        terminated=terminated,
    )


@functools.lru_cache(maxsize=32)
def initial_tables(spec: WorldSpec, observation: str) -> tuple[Tables, Places]:
    """Tables of the world's initial layouts, and the initial state of each, [L]."""
    engine = Engine(spec)
    layouts = engine.layouts()
    if layouts is None or not spec.moves_agent_only:
        raise ValueError(f"world with reset {spec.reset.name!r} cannot be tabulated")
    tables = compile_layouts(engine, Representation(spec, observation), layouts)
    return tables, tables.number[np.arange(len(layouts.pose)), layouts.pose]


class TableDynamics(GridverseDynamics):
    """A world whose grid never changes and whose initial states can be listed, run by look-up.

    Raises:
        ValueError: at construction, for any other world.
    """

    def __init__(self, spec: WorldSpec, observation: str) -> None:
        super().__init__(spec, observation)
        self._initial, self._initial_states = initial_tables(spec, observation)
        self._num_actions = len(spec.actions)
        self._tables = self._initial
        self._now: Places

    def state(self) -> State:
        layout, geometry = self._tables.layout[self._now], self._engine.spec.geometry
        return State(
            geometry, self._tables.cells[layout], self._tables.pose[self._now], self._tables.item[layout]
        )

    def start(self, num: int, rng: Rng) -> None:
        self._tables = self._initial  # layouts that were put in by hand are not needed any longer
        self._now = self._initial_states[rng.integers(len(self._initial_states), size=num)]

    def restart(self, env_ids: EnvIds, rng: Rng) -> None:
        self._now[env_ids] = self._initial_states[rng.integers(len(self._initial_states), size=len(env_ids))]

    def step(self, action: NDArray[Any], rng: Rng) -> tuple[Rewards, Flags]:
        transition = self._now * self._num_actions
        transition += action.astype(np.intp, copy=False)
        tables = self._tables
        self._now = tables.next_state.take(transition)
        return tables.reward.take(transition), tables.terminated.take(transition)

    def observe(self, rng: Rng) -> NDArray[np.uint8]:
        return self._tables.observation.take(self._now, axis=0)

    def put(self, state: Arrays) -> None:
        given, tables = from_arrays(**state), self._initial
        known = {_key(c, i): n for n, (c, i) in enumerate(zip(tables.cells, tables.item, strict=True))}
        layout = np.empty(len(given.pose), np.intp)
        added: list[int] = []
        for env_id, (cells, item) in enumerate(zip(given.cells, given.item, strict=True)):
            layout[env_id] = known.setdefault(_key(cells, item), len(known))
            if layout[env_id] == len(tables.cells) + len(added):
                added.append(env_id)
        if added:
            more = compile_layouts(self._engine, self._representation, take(given, np.array(added)))
            tables = tables.followed_by(more)
        self._tables = tables
        self._now = tables.number[layout, given.pose]


def _key(cells: Bytes, item: np.uint8) -> bytes:
    return cells.tobytes() + item.tobytes()


def make_dynamics(spec: WorldSpec, observation: str) -> GridverseDynamics:
    """The faster dynamics that can run the world."""
    if spec.moves_agent_only and Engine(spec).layouts() is not None:
        return TableDynamics(spec, observation)
    return EngineDynamics(spec, observation)
