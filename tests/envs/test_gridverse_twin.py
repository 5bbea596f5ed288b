"""The engine against its slow and obvious twin: random play of every world, functions on random grids."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from envs.gridverse import codes, transitions
from envs.gridverse.state import State, from_arrays, to_arrays
from envs.gridverse.world import Engine, WorldSpec
from envs.gridverse.worlds import DTQN, PACKAGE
from tests.envs import gridverse_twin as twin

WORLDS: dict[str, dict[str, Any]] = {**DTQN, **PACKAGE}
NUM_ENVS, STEPS = 8, 60


def as_tuples(state: State) -> list[twin.State]:
    grid, agent, item = (array.tolist() for array in to_arrays(state))
    return [
        (tuple(tuple(tuple(cell) for cell in row) for row in g), tuple(a), tuple(i))
        for g, a, i in zip(grid, agent, item, strict=True)
    ]


class Recorder:
    """A Generator whose draws of `integers(high)`, of one environment, are kept for its twin."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self.draws: list[tuple[NDArray[Any], NDArray[Any]]] = []

    def integers(self, high: NDArray[Any]) -> NDArray[Any]:
        drawn = self._rng.integers(high)
        if len(high):
            self.draws.append((high, drawn))
        return drawn

    def random(self, shape: Any) -> NDArray[Any]:
        return self._rng.random(shape)

    def again(self, options: int) -> int:
        """The first of the draws that are left, which was one of so many."""
        high, drawn = self.draws.pop(0)
        assert high[0] == options
        return int(drawn[0])


@pytest.mark.parametrize("id", WORLDS)
def test_random_play(id: str) -> None:
    """State, reward, ending and view of every step, environments one by one so that draws are told apart."""
    data = WORLDS[id]
    engine = Engine(WorldSpec.from_data(data))
    rng = np.random.default_rng(4)
    state = engine.reset(NUM_ENVS, rng)
    held = opened = 0
    for _ in range(STEPS):
        action = rng.integers(len(engine.spec.actions), size=NUM_ENVS)
        before = as_tuples(state)
        singles = []
        for env_id in range(NUM_ENVS):
            recorder: Any = Recorder(int(rng.integers(2**32)))
            alone = State(state.geometry, *(field[env_id : env_id + 1] for field in state[1:]))
            after, reward, terminated = engine.step(alone, action[env_id : env_id + 1], recorder)
            expected, expected_reward, expected_end = twin.step(
                data, before[env_id], engine.spec.actions[action[env_id]], recorder.again
            )
            assert not recorder.draws
            assert as_tuples(after)[0] == expected
            assert reward[0] == expected_reward
            assert terminated[0] == expected_end
            seen = codes.unpack(engine.observe(after)[:, 0])
            assert [tuple(cell) for cell in seen.tolist()] == list(
                chain.from_iterable(twin.observe(data, expected))
            )
            held += expected[2] != twin.NOTHING
            opened += twin.find(expected[0], codes.DOOR) != [] and expected[0] != before[env_id][0]
            singles.append(engine.reset(1, rng) if terminated[0] else after)
        state = State(
            state.geometry,
            *(np.concatenate([getattr(s, name) for s in singles]) for name in state._fields[1:]),
        )
    if "Keydoor-5x5" in id:
        assert held > 20 and opened > 1


CELLS = [
    (codes.FLOOR, 0, 0),
    (codes.FLOOR, 0, 0),
    (codes.WALL, 0, 0),
    *((codes.DOOR, status, colour) for status in range(3) for colour in (1, 4)),
    *((codes.KEY, 0, colour) for colour in (1, 4)),
    (codes.MOVING_OBSTACLE, 0, 0),
    (codes.BOX, 0, 0),
    *((codes.TELEPOD, 0, colour) for colour in (1, 2)),
    (codes.BEACON, 0, 3),
]


def random_state(rng: np.random.Generator, height: int, width: int) -> State:
    """A grid of anything, without walls round it, one exit somewhere, and an agent anywhere."""
    grid = np.array(CELLS, np.uint8)[rng.integers(len(CELLS), size=(1, height, width))]
    grid[0, rng.integers(height), rng.integers(width)] = (codes.EXIT, 0, 2)
    agent = np.array([[rng.integers(height), rng.integers(width), rng.integers(4)]], np.uint8)
    item = np.array(
        [[(codes.NOTHING, 0, 0), (codes.KEY, 0, 1), (codes.KEY, 0, 4)][rng.integers(3)]], np.uint8
    )
    return from_arrays(grid, agent, item)


@given(
    seed=st.integers(0, 2**32), height=st.integers(1, 7), width=st.integers(1, 7), action=st.integers(0, 7)
)
@settings(max_examples=200, deadline=None)
def test_every_transition_on_any_grid(seed: int, height: int, width: int, action: int) -> None:
    """Agents at the edge of grids without walls, several telepods, keys for other doors."""
    rng = np.random.default_rng(seed)
    state = random_state(rng, height, width)
    for name in transitions.TRANSITIONS:
        if name == "chain":
            continue
        recorder: Any = Recorder(seed)
        after = transitions.TRANSITIONS[name](state, np.array([action]), recorder)
        expected = twin.transition(name, as_tuples(state)[0], codes.ACTIONS[action], recorder.again)
        assert as_tuples(after)[0] == expected, name
        assert not recorder.draws


@given(
    seed=st.integers(0, 2**32),
    y0=st.integers(-7, 0),
    half=st.integers(0, 5),
    shift=st.integers(-3, 3),
)
@settings(max_examples=150, deadline=None)
def test_partial_occlusion_on_any_grid(seed: int, y0: int, half: int, shift: int) -> None:
    shift = max(-half, min(half, shift))
    data = {
        **PACKAGE["GV-Empty-8x8-v0"],
        "observation_function": {
            "name": "partially_occluded",
            "area": [[y0, 0], [shift - half, shift + half]],
        },
    }
    state = random_state(np.random.default_rng(seed), 8, 8)
    seen = Engine(WorldSpec.from_data(data)).observe(state)
    expected = list(chain.from_iterable(twin.observe(data, as_tuples(state)[0])))
    assert [tuple(cell) for cell in codes.unpack(seen[:, 0]).tolist()] == expected


@pytest.mark.parametrize("id", WORLDS)
def test_functions_change_nothing_in_place(id: str) -> None:
    engine, rng = Engine(WorldSpec.from_data(WORLDS[id])), np.random.default_rng(3)
    state = engine.reset(50, rng)
    for _ in range(20):
        kept = State(state.geometry, *(field.copy() for field in state[1:]))
        action = rng.integers(len(engine.spec.actions), size=50)
        after, _, _ = engine.step(state, action, rng)
        engine.observe(state)
        for field, copy in zip(state[1:], kept[1:], strict=True):
            np.testing.assert_array_equal(field, copy)
        state = after
