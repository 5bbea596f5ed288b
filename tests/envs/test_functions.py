"""The functions that worlds are made of, against slow and obvious twins and worlds drawn by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from envs.gridverse import codes, functions
from envs.gridverse.functions import Area, State
from envs.gridverse.world import Engine, FunctionSpec, WorldSpec, memory_world

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
    return State(grid, np.array([pose], np.uint8), np.zeros((1, 3), np.uint8))


def occlusion_twin(window: NDArray[np.uint8], area: Area) -> NDArray[np.bool_]:
    """Partial occlusion of one window as two floods that walk from cell to cell."""
    bottom, column = -area[0][0], -area[1][0]
    visible = np.zeros(window.shape[:2], np.bool_)
    for side in (-1, 1):
        seen, queue = {(bottom, column)}, [(bottom, column)]
        while queue:
            y, x = queue.pop()
            if codes.BLOCKS_VISION[window[y, x, 0], window[y, x, 1]]:
                continue
            for cell in ((y - 1, x), (y, x + side), (y - 1, x + side)):
                inside = 0 <= cell[0] < window.shape[0] and 0 <= cell[1] < window.shape[1]
                if inside and cell not in seen:
                    seen.add(cell)
                    queue.append(cell)
        for cell in seen:
            visible[cell] = True
    return visible


@given(data=st.data(), height=st.integers(1, 7), half=st.integers(0, 3), shift=st.integers(-1, 1))
@settings(max_examples=150, deadline=None)
def test_partial_occlusion_equals_its_twin(data: st.DataObject, height: int, half: int, shift: int) -> None:
    shift = max(-half, min(half, shift))
    area = ((1 - height, 0), (shift - half, shift + half))
    drawing = data.draw(
        st.lists(
            st.text("..#+/", min_size=2 * half + 1, max_size=2 * half + 1), min_size=height, max_size=height
        )
    )
    window = draw(drawing)
    visible = functions.partially_occluded(window, None, area=area)[0]
    np.testing.assert_array_equal(visible, occlusion_twin(window[0], area))


def test_partial_occlusion_by_hand() -> None:
    """A wall hides what is behind it, and light bends round its ends as the original's does."""
    area = ((-4, 0), (-2, 2))
    window = draw([".....", ".....", "###..", ".....", "....."])
    visible = functions.partially_occluded(window, None, area=area)[0]
    assert ["".join(".?"[not v] for v in row) for row in visible] == [
        "???..",
        "???..",
        ".....",
        ".....",
        ".....",
    ]


def test_nothing_is_ever_hidden_in_the_memory_worlds() -> None:
    for size in (5, 7, 21):
        engine = Engine(memory_world(size))
        layouts = engine.layouts()
        assert layouts is not None
        for y, x in np.argwhere(layouts.grid[0, ..., 0] != codes.WALL):
            for heading in range(4):
                assert (engine.observe(at(layouts.grid[:1], y, x, heading))[..., 0] != codes.HIDDEN).all()


def test_windows_turn_with_the_agent() -> None:
    grid = np.zeros((1, 3, 3, 3), np.uint8)
    grid[..., 0] = codes.FLOOR
    grid[0, ..., 2] = np.arange(9).reshape(3, 3)  # numbered, so that places can be told apart
    area = ((-1, 0), (-1, 1))
    seen = {h: functions.window(at(grid, 1, 1, h), area)[0, ..., 2].tolist() for h in range(4)}
    assert seen == {
        0: [[0, 1, 2], [3, 4, 5]],
        1: [[8, 7, 6], [5, 4, 3]],
        2: [[6, 3, 0], [7, 4, 1]],
        3: [[2, 5, 8], [1, 4, 7]],
    }


def test_outside_the_grid_is_hidden_and_blocks() -> None:
    grid = draw(["..", ".."])
    window = functions.window(at(grid, 0, 0, 0), ((-1, 0), (-1, 1)))[0]
    assert window[..., 0].tolist() == [[codes.HIDDEN] * 3, [codes.HIDDEN, codes.FLOOR, codes.FLOOR]]
    for action in (0, 2):
        assert functions.move_agent(at(grid, 0, 0, 0), np.array([action]), RNG).agent.tolist() == [[0, 0, 0]]
    assert functions.move_agent(at(grid, 0, 0, 0), np.array([3]), RNG).agent.tolist() == [[0, 1, 0]]


@pytest.mark.parametrize("heading", range(4))
def test_moves_are_relative_to_the_heading(heading: int) -> None:
    grid = draw(["...", "...", "..."])
    ahead = {0: (0, 1), 1: (2, 1), 2: (1, 0), 3: (1, 2)}[heading]
    behind = (2 - ahead[0], 2 - ahead[1])
    state = at(grid, 1, 1, heading)
    places = [tuple(functions.move_agent(state, np.array([a]), RNG).agent[0].tolist()) for a in range(6)]
    assert places[:2] == [(*ahead, heading), (*behind, heading)]
    assert places[4:] == [(1, 1, heading)] * 2
    # To the left and back is where a quarter turn left and a step ahead leads.
    turned = functions.turn_agent(state, np.array([4]), RNG)
    assert places[2][:2] == tuple(functions.move_agent(turned, np.array([0]), RNG).agent[0, :2].tolist())
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
            state = functions.turn_agent(state, np.array([action]), RNG)
            headings.append(int(state.agent[0, 2]))
        assert sorted(headings) == [0, 1, 2, 3]
        assert headings[-1] == heading


def test_functions_change_nothing_in_place() -> None:
    engine = Engine(memory_world(5))
    state = engine.reset(50, RNG)
    kept = State(*(field.copy() for field in state))
    for action in range(6):
        engine.step(state, np.full(50, action), RNG)
    engine.observe(state)
    for field, copy in zip(state, kept, strict=True):
        np.testing.assert_array_equal(field, copy)


def replaced(**changes: object) -> WorldSpec:
    fields = {name: getattr(memory_world(7), name) for name in WorldSpec.__dataclass_fields__}
    return WorldSpec(**{**fields, **changes})


def seeing(area: list[list[int]]) -> FunctionSpec:
    return FunctionSpec.from_data({"name": "partially_occluded", "area": area})


@pytest.mark.parametrize(
    ("world", "message"),
    [
        (replaced(terminating=FunctionSpec("reach_exitt")), r"unknown terminating .* mean 'reach_exit'"),
        (replaced(rewards=(FunctionSpec("living_reward", (("rewrad", 1.0),)),)), "takes no 'rewrad'"),
        (replaced(observation=seeing([[-1, 1], [-1, 1]])), "bottom row"),
        (replaced(observation=seeing([[-1, 0], [-1, 2]])), "odd number of columns"),
        (replaced(actions=("TURN_LEFT",)), "must be the first of"),
    ],
)
def test_impossible_worlds_are_refused(world: WorldSpec, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Engine(world)


@pytest.mark.parametrize(
    ("shape", "colors", "message"),
    [((4, 5), ("RED", "BLUE"), "shape"), ((5, 6), ("RED", "BLUE"), "shape"), ((5, 5), ("RED",), "colors"),
     ((5, 5), ("RED", "NONE"), "colors")],
)  # fmt: skip
def test_impossible_memory_worlds_are_refused(
    shape: tuple[int, int], colors: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        functions.layouts_memory(shape=shape, colors=colors)


def test_specs_survive_their_data_form() -> None:
    for spec in (memory_world(7).reset, memory_world(7).observation, *memory_world(7).rewards):
        assert FunctionSpec.from_data(spec.to_data()) == spec
    assert hash(memory_world(7)) == hash(memory_world(7)) != hash(memory_world(9))
