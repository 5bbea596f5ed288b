"""Initial states come up as often as the original's do: chi-square tests against recorded frequencies.

All seeds are fixed, so a test that passes once passes always. A reset that drew a wrong distribution would be
caught: the samples are large and the limit is far out in the tail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from envs.gridverse import codes, resets
from envs.gridverse.state import to_arrays
from envs.gridverse.world import Engine
from envs.gridverse.worlds import world
from tests.envs import recordings

NUM = 20_000
LIMIT = 1e-4  # of the p-value; the smallest of some 150 is expected to be about 0.007

Cells = NDArray[np.uint8]


def places(grid: Cells, kind: int) -> list[str]:
    """The place of the only object of a type, `y,x` of each grid."""
    flat = (grid[..., 0] == kind).reshape(len(grid), -1)
    assert (flat.sum(axis=1) == 1).all()
    return [f"{p // grid.shape[2]},{p % grid.shape[2]}" for p in flat.argmax(axis=1)]


def place_sets(grid: Cells, kind: int) -> list[str]:
    """The places of all objects of a type."""
    return [";".join(f"{y},{x}" for y, x in np.argwhere(g[..., 0] == kind)) for g in grid]


def memory_layouts(grid: Cells) -> list[str]:
    """`good colour, bad colour, column of the good exit` of the memory worlds."""
    good, bad = exits(grid, True), exits(grid, False)
    return joined(colours(grid, good), colours(grid, bad), [place.split(",")[1] for place in good])


def exits(grid: Cells, good: bool) -> list[str]:
    """The place of the only exit that has, or does not have, the colour of the beacon."""
    cells = grid.reshape(len(grid), -1, grid.shape[-1])
    beacon = (cells[..., 0] == codes.BEACON).argmax(axis=1)
    colour = cells[np.arange(len(cells)), beacon, 2]
    fits = (cells[..., 0] == codes.EXIT) & ((cells[..., 2] == colour[:, None]) == good)
    assert (fits.sum(axis=1) == 1).all()
    return [f"{p // grid.shape[2]},{p % grid.shape[2]}" for p in fits.argmax(axis=1)]


def drawings(grid: Cells) -> list[str]:
    letters = {codes.WALL: "#", codes.FLOOR: ".", codes.EXIT: "E"}
    return ["/".join("".join(letters[c[0]] for c in row) for row in g) for g in grid]


def joined(*parts: list[str], sep: str = ",") -> list[str]:
    return [sep.join(row) for row in zip(*parts, strict=True)]


def colours(grid: Cells, where: list[str]) -> list[str]:
    return [str(g[tuple(map(int, yx.split(",")))][2]) for g, yx in zip(grid, where, strict=True)]


def opening(grid: Cells, table: str) -> list[str]:
    """`opening in horizontal wall y=3 segment x=1..2: x`: where in that segment there is no wall."""
    _, _, direction, _, line, _, segment, _ = table.split()
    at, (low, high) = int(line[2:]), map(int, segment[2:-1].split(".."))
    cells = grid[:, at, low : high + 1] if direction == "horizontal" else grid[:, low : high + 1, at]
    free = cells[..., 0] != codes.WALL
    assert (free.sum(axis=1) == 1).all()
    return [str(low + i) for i in free.argmax(axis=1)]


def in_passage(grid: Cells, where: list[str], lines: set[int]) -> list[str]:
    """Whether each place is in the line of a wall."""
    return [str(int(bool(lines & set(map(int, yx.split(",")))))) for yx in where]


def tables(id: str, grid: Cells, agent: Cells) -> dict[str, Callable[[], list[str]]]:
    """By the name of a recorded table, what to count in our states."""
    pose = [f"{y},{x},{h}" for y, x, h in agent]
    own = [f"{y},{x}" for y, x, _ in agent]
    lines = {int(n) for n in np.linspace(0, grid.shape[1] - 1, 3 if "our" in id else 4, dtype=int)}
    beacon, good, bad = (
        lambda: places(grid, codes.BEACON),
        lambda: exits(grid, True),
        lambda: exits(grid, False),
    )
    return {
        "agent_pos_yx": lambda: own,
        "agent_orientation": lambda: [str(h) for h in agent[:, 2]],
        "agent_pose_y,x,o": lambda: pose,
        "n_nonwall_cells": lambda: [str(n) for n in (grid[..., 0] != codes.WALL).sum(axis=(1, 2))],
        "exit_pos_yx": lambda: places(grid, codes.EXIT),
        "layout (rows of #=wall .=floor E=exit)": lambda: drawings(grid),
        "obstacle_set": lambda: place_sets(grid, codes.MOVING_OBSTACLE),
        "telepod_pair": lambda: place_sets(grid, codes.TELEPOD),
        "door_y,x": lambda: places(grid, codes.DOOR),
        "door_x | key_y,x": lambda: joined(
            [d.split(",")[1] for d in places(grid, codes.DOOR)], places(grid, codes.KEY), sep="|"
        ),
        "door_x | agent_y,x": lambda: joined(
            [d.split(",")[1] for d in places(grid, codes.DOOR)], own, sep="|"
        ),
        "agent_on_key": lambda: [str(int(a == k)) for a, k in zip(own, places(grid, codes.KEY), strict=True)],
        "beacon_pos_yx": beacon,
        "good_exit_pos_yx": good,
        "bad_exit_pos_yx": bad,
        "joint good_color,bad_color": lambda: joined(colours(grid, good()), colours(grid, bad())),
        "joint good_color,bad_color,good_exit_x": lambda: memory_layouts(grid),
        "good_color": lambda: colours(grid, exits(grid, True)),
        "in_passage agent,beacon,good,bad": lambda: joined(
            *(in_passage(grid, where, lines) for where in (own, beacon(), good(), bad()))
        ),
    }


def p_value(ours: Counter[str], recorded: dict[str, int]) -> float:
    """That both are samples of one distribution: chi-square of two samples, rare values taken together."""
    names = sorted({*ours, *recorded}, key=lambda name: recorded.get(name, 0))
    counts = np.array([[ours[name], recorded.get(name, 0)] for name in names], np.float64)
    rare = counts.sum(axis=1) < 10
    counts = np.concatenate([counts[rare].sum(axis=0, keepdims=True), counts[~rare]])
    counts = counts[counts.sum(axis=1) > 0]
    if len(counts) == 1:
        return 1.0
    return float(stats.chi2_contingency(counts, correction=False).pvalue)


STATISTICS = recordings.reset_statistics()
OTHERS = {f"gv_memory_four_rooms.{n}x{n}": f"gridverse-memory-four-rooms-{n}x{n}" for n in (7, 9)}
OTHERS |= {f"gv_memory.{n}x{n}": f"gridverse-memory-{n}x{n}" for n in (5, 7, 9, 11, 13, 21)}
WORLDS = {name: OTHERS.get(name, name) for name in STATISTICS}


@pytest.mark.parametrize("name", WORLDS)
def test_resets_are_distributed_as_the_originals(name: str) -> None:
    id = WORLDS[name]
    state = Engine(world(id)).reset(NUM, np.random.default_rng(5))
    grid, agent, item = to_arrays(state)
    assert not item.any()
    known = tables(id, grid, agent)
    for table, recorded in STATISTICS[name]["tables"].items():
        if table == "wall_layout_hash":  # by a hash of the original's own
            continue
        count: Any = (lambda t=table: opening(grid, t)) if table.startswith("opening") else known[table]
        ours = Counter(count())
        # Nothing comes up that never came up, but for what is rare in both.
        strange = sum(number for value, number in ours.items() if value not in recorded)
        assert strange <= NUM / 500, table
        p = p_value(ours, recorded)
        assert p > LIMIT, f"{table}: p = {p}"


def test_distinct_numbers() -> None:
    """All 60 ordered triples out of five are equally likely."""
    triples = resets.distinct(np.random.default_rng(0), 60_000, 5, 3)
    count = Counter(map(tuple, triples.tolist()))
    assert len(count) == 60
    assert all(len(set(triple)) == 3 for triple in count)
    assert stats.chisquare(list(count.values())).pvalue > LIMIT
    assert resets.distinct(np.random.default_rng(0), 4, 5, 0).shape == (4, 0)


# -- Beyond the shipped worlds -------------------------------------------------------------------------------


def test_random_exits() -> None:
    """Exit and agent stand on any two of the four cells of an empty room, equally likely."""
    rng = np.random.default_rng(1)
    state = resets.empty(12_000, rng, shape=(4, 4), random_agent=True, random_exit=True)
    grid, agent, _ = to_arrays(state)
    own = [f"{y},{x}" for y, x, _ in agent]
    count = Counter(joined(own, places(grid, codes.EXIT), sep=";"))
    assert len(count) == 12
    assert stats.chisquare(list(count.values())).pvalue > LIMIT
    grid, agent, _ = to_arrays(resets.empty(4_000, rng, shape=(4, 4), random_exit=True))
    assert (agent == (1, 1, 3)).all()  # maybe on the exit, as in the original
    count = Counter(places(grid, codes.EXIT))
    assert len(count) == 4
    assert stats.chisquare(list(count.values())).pvalue > LIMIT


def test_obstacles_about_a_random_agent() -> None:
    """Agent and two obstacles stand on three of six cells of Floor: 60 equally likely states."""
    state = resets.dynamic_obstacles(
        30_000, np.random.default_rng(2), shape=(4, 5), num_obstacles=2, random_agent=True
    )
    grid, agent, _ = to_arrays(state)
    own = [f"{y},{x}" for y, x, _ in agent]
    count = Counter(joined(own, place_sets(grid, codes.MOVING_OBSTACLE), sep="|"))
    assert len(count) == 5 * 6  # five cells but for the exit, then two of the other four
    assert stats.chisquare(list(count.values())).pvalue > LIMIT
    assert len({h for _, _, h in agent.tolist()}) == 4


def test_crossings_of_other_things() -> None:
    state = resets.crossing(
        50, np.random.default_rng(3), shape=(7, 9), num_rivers=99, object_type="MovingObstacle"
    )
    grid, _, _ = to_arrays(state)
    rivers = (grid[..., 0] == codes.MOVING_OBSTACLE).sum(axis=(1, 2))
    # All lines become rivers: two rows of 7 cells and three columns of 5, less where they cross and open.
    assert (rivers == 2 * 7 + 3 * 5 - 6 - 5).all()


ROOMS = {"shape": (7, 7), "layout": (2, 2), "colors": ("RED", "BLUE"), "num_beacons": 1, "num_exits": 2}


@pytest.mark.parametrize(
    ("reset", "parameters", "message"),
    [
        ("memory", {"shape": (4, 5), "colors": ("RED", "BLUE")}, "shape"),
        ("memory", {"shape": (5, 6), "colors": ("RED", "BLUE")}, "shape"),
        ("memory", {"shape": (5, 5), "colors": ("RED",)}, "colors"),
        ("empty", {"shape": (3, 9)}, "at least 4 x 4"),
        (
            "dynamic_obstacles",
            {"shape": (4, 4), "num_obstacles": 3},
            "num_obstacles is 3; it must be from 0 to 2",
        ),
        ("keydoor", {"shape": (4, 4)}, "at least 5 wide"),
        ("crossing", {"shape": (5, 6), "num_rivers": 1, "object_type": "Wall"}, "both odd"),
        ("crossing", {"shape": (5, 5), "num_rivers": 0, "object_type": "Wall"}, "num_rivers is 0"),
        ("crossing", {"shape": (5, 5), "num_rivers": 1, "object_type": "Door"}, "must be one of Wall"),
        ("teleport", {"shape": (4, 3)}, "at least 4 x 4"),
        ("rooms", {"shape": (5, 5), "layout": (3, 1)}, "too small for a layout"),
        ("rooms", {"shape": (3, 3), "layout": (1, 1)}, "no room for 2 different cells"),
        ("memory_rooms", {**ROOMS, "num_exits": 3}, "num_exits is 3; it must be from 2 to 2"),
        ("memory_rooms", {**ROOMS, "num_beacons": 0}, "num_beacons is 0"),
        ("memory_rooms", {**ROOMS, "colors": ("NONE", "BLUE")}, "colors"),
    ],
)
def test_impossible_parameters_are_refused(reset: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        resets.RESETS[reset](3, np.random.default_rng(0), **parameters)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"{reset}: ")
