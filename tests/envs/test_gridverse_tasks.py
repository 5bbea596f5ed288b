"""The gridverse tasks: what they show, when they succeed, how far any agent can get."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

import envs
from envs import drawing
from envs.gridverse import codes, render
from envs.gridverse.resets import _repeat, _walls_of_rooms
from envs.gridverse.state import State, initial
from envs.gridverse.world import Engine
from envs.gridverse.worlds import DTQN, PACKAGE, world
from tests.envs import recordings
from tests.envs.ceilings import chance


@pytest.mark.parametrize("id", [*DTQN, *PACKAGE])
def test_observations_are_as_the_originals_or_as_asked_for(id: str) -> None:
    """By default DTQN's tasks show its vector and the package's show its grid; each can show the other."""
    shape = envs.spec(id).observation_space.shape
    assert shape is not None and len(shape) == (1 if id in DTQN else 3)
    grids: Any = envs.make_vector(id, 5, 3, observation="grid")
    vectors: Any = envs.make_vector(id, 5, 3, observation="vector")
    grid, vector = grids.reset()[0], vectors.reset()[0]
    rng = np.random.default_rng(0)
    for _ in range(50):
        assert grid.dtype == vector.dtype == np.uint8
        assert grid in grids.observation_space and vector in vectors.observation_space
        width = grid.shape[2]
        cells = (grid[..., 0] + grid[..., 2]).reshape(5, -1)
        if world(id).holdable:  # the row of the item is one entry of the vector
            cells = np.concatenate([cells[:, :-width], cells[:, [-width + width // 2]]], axis=1)
        np.testing.assert_array_equal(cells, vector)
        action = rng.integers(grids.single_action_space.n, size=5)
        grid, vector = grids.step(action)[0], vectors.step(action)[0]


@pytest.mark.parametrize("id", ["gridverse-memory-7x7", "GV-Keydoor-5x5-v0"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.uint64])
def test_actions_of_any_integer_type(id: str, dtype: type[np.integer[Any]]) -> None:
    env, twin = envs.make_vector(id, 30, 4), envs.make_vector(id, 30, 4)
    env.reset(), twin.reset()
    for action in np.random.default_rng(1).integers(6, size=(20, 30)):
        np.testing.assert_equal(env.step(action.astype(dtype)), twin.step(action))


def test_unknown_observations_are_refused() -> None:
    with pytest.raises(ValueError, match=r"task\.observation is 'cells'; it must be one of grid, vector"):
        envs.spec("GV-Empty-4x4-v0", observation="cells")


def test_the_item_held_is_seen_below_the_feet() -> None:
    """Its row is the last; beside the item and without one it holds NoneGridObject."""
    env: Any = envs.make_vector("GV-Keydoor-5x5-v0", 1, seed=1)
    env.reset()
    grid = env.get_state()["state"]["grid"][0]
    grid[1:4, 1] = (codes.FLOOR, 0, 0)
    grid[2, 1] = (codes.KEY, 0, 4)
    before, _ = env.reset(options={"state": {"grid": grid, "agent": (3, 1, 0)}})
    assert before[0, 5, 3].tolist() == [codes.KEY, 0, 4]  # ahead
    assert not before[0, 7].any()
    after, reward, *_ = env.step(np.array([codes.PICK_N_DROP]))
    assert reward[0] == pytest.approx(0.95)
    assert after[0, 5, 3].tolist() == [codes.FLOOR, 0, 0]
    assert after[0, 7, 3].tolist() == [codes.KEY, 0, 4]
    assert not after[0, 7, [0, 1, 2, 4, 5, 6]].any()
    np.testing.assert_array_equal(np.delete(before[0, :7], 5, axis=0), np.delete(after[0, :7], 5, axis=0))


@pytest.mark.parametrize("id", [id for id in recordings.RECORDED if id in PACKAGE])
def test_recorded_initial_observations(id: str) -> None:
    """The whole task shows them, through `reset(options=...)`; test_gridverse_recordings has the steps."""
    data = recordings.episodes(id)
    env = envs.make_vector(id, len(data["ep_len"]), seed=0)
    state = {"grid": data["init_grid"], "agent": data["init_agent"], "item": data["init_item"]}
    observation, _ = env.reset(options={"state": state})
    height = data["obs_book"].shape[1]
    np.testing.assert_array_equal(observation[:, :height], data["obs_book"][data["init_obs_code"]])


def test_memory_worlds_of_the_package_have_dtqns_success() -> None:
    for id in ("GV-Memory-5x5-v0", "GV-MemoryNineRooms-10x10-v0", "gridverse-memory-four-rooms-9x9"):
        assert envs.spec(id).success == "undiscounted return > 0: the good exit within 100 steps"


# -- How far any agent can get -------------------------------------------------------------------------------

ROOMS = [id for id in (*DTQN, *PACKAGE) if world(id).reset.name == "memory_rooms"]


@pytest.mark.parametrize("id", ROOMS)
def test_ceiling_of_sampled_layouts(id: str) -> None:
    """The stated ceiling is within four standard errors of what a search over sampled layouts finds."""
    engine, rng = Engine(world(id)), np.random.default_rng(11)
    found = np.concatenate([chance(engine, engine.reset(1_000, rng)) for _ in range(3)])
    assert abs(found.mean() - envs.spec(id).success_ceiling) < 4 * found.std() / np.sqrt(len(found)) + 5e-4


def four_rooms(openings: tuple[int, ...], chosen: np.ndarray[Any, Any]) -> State:
    """Layouts 7x7 with given openings; `chosen` [N, 4]: the Floor of agent, beacon, good exit, bad exit."""
    grid, floor, (first, step), _ = _walls_of_rooms("", (7, 7), (2, 2))
    doors = first + step * np.array(openings)
    place = np.concatenate([floor, doors])[chosen]
    cells, index = _repeat(grid, len(chosen)), np.arange(len(chosen))
    cells[:, doors] = codes.cell(codes.FLOOR)
    for column, (kind, colour) in enumerate([(codes.BEACON, 1), (codes.EXIT, 1), (codes.EXIT, 2)]):
        cells[index, place[:, column + 1]] = codes.cell(kind, colour=colour)
    return initial((7, 7), cells, place[:, 0], np.zeros(len(index), int))


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("id", ["gridverse-memory-four-rooms-7x7", "GV-MemoryFourRooms-7x7-v0"])
def test_exact_ceiling_of_four_rooms(id: str) -> None:
    """All 16 choices of openings x 20 * 19 * 18 * 17 places of agent, beacon and exits."""
    engine, total, num = Engine(world(id)), 0.0, 0
    chosen = np.array(list(permutations(range(20), 4)))
    for openings in product((0, 1), repeat=4):
        for part in np.array_split(chosen, 30):
            found = chance(engine, four_rooms(openings, part))
            total, num = total + found.sum(), num + len(found)
    assert num == 1_860_480
    exact = {"gridverse-memory-four-rooms-7x7": 0.94293, "GV-MemoryFourRooms-7x7-v0": 0.98510}[id]
    assert total / num == pytest.approx(exact, abs=1e-5)
    assert envs.spec(id).success_ceiling == pytest.approx(exact, abs=1e-3)


# -- Pictures ------------------------------------------------------------------------------------------------


def test_every_object_looks_different() -> None:
    cells = [(kind, status, colour) for kind, status, colour in codes.UNPACK[np.unique(codes.PACK)][1:]]
    shown = [c for c in cells if c[0] not in (codes.NOTHING, codes.HIDDEN)]
    pictures = {render._tile(*map(int, c), False).tobytes() for c in shown}
    assert len(pictures) == len(shown) == 39


def test_a_key_in_the_hand_is_shown() -> None:
    env: Any = envs.make_vector("GV-Keydoor-5x5-v0", 1, seed=1, render_mode="rgb_array")
    env.reset()
    state = env.get_state()["state"]
    empty = env.render()[0]
    env.reset(options={"state": {**state, "item": (codes.KEY, 0, 4)}})
    changed = (env.render()[0] != empty).any(axis=2)
    assert changed[: drawing.TILE, : drawing.TILE].any()
    assert not changed[drawing.TILE :].any() and not changed[:, drawing.TILE :].any()
