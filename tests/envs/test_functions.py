"""The functions that worlds are made of, against slow and obvious twins and worlds drawn by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from envs.gridverse import codes, transitions, views
from envs.gridverse.resets import layouts_memory
from envs.gridverse.state import Area, State, from_arrays, to_arrays
from envs.gridverse.world import Engine, WorldSpec
from envs.gridverse.worlds import DTQN, PACKAGE, world

RNG = np.random.default_rng(0)
LETTERS = {
    ".": (codes.FLOOR, 0, 0),
    "#": (codes.WALL, 0, 0),
    "+": (codes.DOOR, 1, 1),
    "/": (codes.DOOR, 0, 1),
}


def draw(rows: Sequence[str]) -> NDArray[np.uint8]:
    """Cells [1, H, W, 3] from a drawing."""
    return np.array([[[LETTERS[letter] for letter in row] for row in rows]], np.uint8)


def at(grid: NDArray[np.uint8], *pose: int) -> State:
    return from_arrays(grid, np.array([pose], np.uint8), np.zeros((1, 3), np.uint8))


def poses(state: State) -> list[tuple[int, ...]]:
    return [tuple(pose) for pose in to_arrays(state)[1].tolist()]


def visible(window: NDArray[np.uint8], area: Area) -> NDArray[np.bool_]:
    """The cells that partial occlusion leaves of one window [1, h, w, 3]."""
    seen = views.partially_occluded(codes.pack(window).reshape(-1, 1), RNG, area=area)
    return seen.reshape(window.shape[1:3])


def in_view(grid: NDArray[np.uint8], area: list[list[int]], *pose: int) -> NDArray[np.uint8]:
    """The cells in view [h, w, 3] of an agent at a pose, seen or not."""
    data = {
        **DTQN["gridverse-memory-7x7"],
        "observation_function": {"name": "fully_transparent", "area": area},
    }
    spec = WorldSpec.from_data(data)
    return codes.unpack(Engine(spec).view(at(grid, *pose))[:, 0]).reshape(*views.size(spec.area), 3)


def test_partial_occlusion_by_hand() -> None:
    """A wall hides what is behind it, and light bends round its ends as the original's does."""
    area = ((-4, 0), (-2, 2))
    window = draw([".....", ".....", "###..", ".....", "....."])
    assert ["".join(".?"[not v] for v in row) for row in visible(window, area)] == [
        "???..",
        "???..",
        ".....",
        ".....",
        ".....",
    ]


def test_nothing_is_ever_hidden_in_the_memory_worlds() -> None:
    for size in (5, 7, 21):
        engine = Engine(world(f"gridverse-memory-{size}x{size}"))
        grid = to_arrays(layouts_memory(shape=(size, size), colors=codes.COLOURS[1:]))[0][:1]
        for y, x in np.argwhere(grid[0, ..., 0] != codes.WALL):
            for heading in range(4):
                assert (engine.observe(at(grid, y, x, heading), RNG) != codes.UNSEEN).all()


def test_windows_turn_with_the_agent() -> None:
    names = [codes.FLOOR, codes.WALL, codes.EXIT, codes.DOOR, codes.KEY, codes.MOVING_OBSTACLE, codes.BOX]
    names += [codes.TELEPOD, codes.BEACON]  # nine types, so that places can be told apart
    grid = np.zeros((1, 3, 3, 3), np.uint8)
    grid[0, ..., 0] = np.reshape(names, (3, 3))
    area = [[-1, 0], [-1, 1]]
    seen = {
        h: [[names.index(k) for k in row] for row in in_view(grid, area, 1, 1, h)[..., 0]] for h in range(4)
    }
    assert seen == {
        0: [[0, 1, 2], [3, 4, 5]],
        1: [[8, 7, 6], [5, 4, 3]],
        2: [[6, 3, 0], [7, 4, 1]],
        3: [[2, 5, 8], [1, 4, 7]],
    }


def test_outside_the_grid_is_hidden_and_blocks() -> None:
    grid = draw(["..", ".."])
    window = in_view(grid, [[-1, 0], [-1, 1]], 0, 0, 0)
    assert window[..., 0].tolist() == [[codes.HIDDEN] * 3, [codes.HIDDEN, codes.FLOOR, codes.FLOOR]]
    for action in (0, 2):
        assert poses(transitions.move_agent(at(grid, 0, 0, 0), np.array([action]), RNG)) == [(0, 0, 0)]
    assert poses(transitions.move_agent(at(grid, 0, 0, 0), np.array([3]), RNG)) == [(0, 1, 0)]


@pytest.mark.parametrize("heading", range(4))
def test_moves_are_relative_to_the_heading(heading: int) -> None:
    grid = draw(["...", "...", "..."])
    ahead = {0: (0, 1), 1: (2, 1), 2: (1, 0), 3: (1, 2)}[heading]
    behind = (2 - ahead[0], 2 - ahead[1])
    state = at(grid, 1, 1, heading)
    places = [poses(transitions.move_agent(state, np.array([a]), RNG))[0] for a in range(6)]
    assert places[:2] == [(*ahead, heading), (*behind, heading)]
    assert places[4:] == [(1, 1, heading)] * 2
    # To the left and back is where a quarter turn left and a step ahead leads.
    turned = transitions.turn_agent(state, np.array([4]), RNG)
    assert places[2][:2] == poses(transitions.move_agent(turned, np.array([0]), RNG))[0][:2]
    assert places[3][:2] == (2 - places[2][0], 2 - places[2][1])


def test_doors_and_boxes_block_as_specified() -> None:
    assert codes.BLOCKS_MOVEMENT[codes.DOOR].tolist() == [False, True, True]
    assert codes.BLOCKS_VISION[codes.DOOR].tolist() == [False, True, True]
    assert codes.BLOCKS_MOVEMENT[[codes.WALL, codes.BOX]].all()
    assert not codes.BLOCKS_MOVEMENT[[codes.EXIT, codes.BEACON, codes.KEY, codes.TELEPOD, codes.FLOOR]].any()


@pytest.mark.parametrize("heading", range(4))
def test_four_turns_are_none(heading: int) -> None:
    state = at(draw(["."]), 0, 0, heading)
    for action in (4, 5):
        headings = []
        for _ in range(4):
            state = transitions.turn_agent(state, np.array([action]), RNG)
            headings.append(poses(state)[0][2])
        assert sorted(headings) == [0, 1, 2, 3]
        assert headings[-1] == heading


@pytest.mark.parametrize("id", [*DTQN, *PACKAGE])
def test_functions_change_nothing_in_place(id: str) -> None:
    engine, rng = Engine(world(id)), np.random.default_rng(3)
    state = engine.reset(50, rng)
    for _ in range(20):
        kept = State(state.geometry, *(field.copy() for field in state[1:]))
        action = rng.integers(len(engine.spec.actions), size=50)
        after, _, _ = engine.step(state, action, rng)
        engine.observe(state, rng)
        for field, copy in zip(state[1:], kept[1:], strict=True):
            np.testing.assert_array_equal(field, copy)
        state = after


@pytest.mark.parametrize(
    ("shape", "colors", "message"),
    [((4, 5), ("RED", "BLUE"), "shape"), ((5, 6), ("RED", "BLUE"), "shape"), ((5, 5), ("RED",), "colors"),
     ((5, 5), ("RED", "NONE"), "colors")],
)  # fmt: skip
def test_impossible_memory_worlds_are_refused(
    shape: tuple[int, int], colors: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        layouts_memory(shape=shape, colors=colors)


def test_worlds_can_be_compared() -> None:
    seven = WorldSpec.from_data(DTQN["gridverse-memory-7x7"])
    assert hash(seven) == hash(world("gridverse-memory-7x7"))
    assert seven != world("gridverse-memory-9x9")
