"""Initial states: the reset functions of gym-gridverse, each for N states at once.

    reset (num, rng, *, parameters)  -> State of `num` independent initial states

The distributions are the original's; the order of the random draws is not. Nothing is held at the start.
Impossible parameters are a ValueError of one line.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import pairwise, permutations, product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from envs.gridverse import codes
from envs.gridverse.state import Bytes, Places, State, initial, take
from envs.gridverse.values import named
from envs.vector import Rng

Shape = tuple[int, int]

_FLOOR: Final = codes.cell(codes.FLOOR)
_WALL: Final = codes.cell(codes.WALL)
_EXIT: Final = codes.cell(codes.EXIT)
_UP, _DOWN, _LEFT, _RIGHT = range(len(codes.HEADINGS))
_RIVERS: Final = tuple(
    codes.OBJECTS[kind] for kind in (codes.WALL, codes.MOVING_OBSTACLE, codes.EXIT, codes.FLOOR)
)


# -- Parts of the reset functions ----------------------------------------------------------------------------


def distinct(rng: Rng, num: int, size: int, count: int) -> NDArray[np.intp]:
    """`count` different numbers below `size` in random order, [num, count]; every such row is as likely.

    Each number is drawn among those that are left, and counted past the ones that are gone.
    """
    drawn: list[NDArray[np.intp]] = []
    for k in range(count):
        number = rng.integers(size - k, size=num)
        for other in np.sort(drawn, axis=0) if k > 1 else drawn:
            number += number >= other
        drawn.append(number)
    return np.stack(drawn, axis=1) if drawn else np.zeros((num, 0), np.intp)


def _repeat(grid: Bytes, num: int) -> Bytes:
    """`num` copies of the grid [H, W] as cells [num, H * W + 1]."""
    cells = np.empty((num, grid.size + 1), np.uint8)
    cells[:, :-1] = grid.ravel()
    cells[:, -1] = codes.OUTSIDE
    return cells


def _walled(shape: Shape) -> Bytes:
    """A grid [H, W] of Floor with walls all round."""
    grid = np.full(shape, _WALL, np.uint8)
    grid[1:-1, 1:-1] = _FLOOR
    return grid


def _inner_places(shape: Shape) -> Places:
    """The places within the walls, row by row."""
    return np.flatnonzero(_walled(shape) == _FLOOR)


def _palette(name: str, colors: Sequence[str]) -> NDArray[np.intp]:
    palette = np.array([codes.COLOURS.index(color) for color in colors], np.intp)
    if len(set(colors)) < 2 or codes.NO_COLOUR in palette:
        raise ValueError(f"{name}: colors {list(colors)} must name two or more of {list(codes.COLOURS[1:])}")
    return palette


# -- memory --------------------------------------------------------------------------------------------------


def layouts_memory(*, shape: Shape, colors: tuple[str, ...]) -> State:
    """All initial states of the memory worlds, each as likely as any other.

    A corridor joins two short passages. At the ends of the upper one stand two exits of different colours, at
    the ends of the lower one two beacons of the good exit's colour. The agent starts half-way, facing up. One
    layout per ordered pair (good, bad) of colours and side of the good exit: 24 with four colours.
    """
    height, width = shape
    if height < 5 or width < 5 or width % 2 == 0:
        raise ValueError(f"memory: shape {list(shape)} must be at least 5 x 5, of odd width")
    palette = _palette("memory", colors)
    grid = np.full(shape, _WALL, np.uint8)
    grid[[1, height - 2], 2 : width - 2] = _FLOOR
    grid[2 : height - 2, width // 2] = _FLOOR
    combinations = list(product(permutations(palette, 2), (0, 1)))
    cells = _repeat(grid, len(combinations))
    exits, beacons = ([y * width + x for x in (1, width - 2)] for y in (1, height - 2))
    for layout, ((good, bad), side) in enumerate(combinations):
        cells[layout, exits[side]] = codes.cell(codes.EXIT, colour=good)
        cells[layout, exits[1 - side]] = codes.cell(codes.EXIT, colour=bad)
        cells[layout, beacons] = codes.cell(codes.BEACON, colour=good)
    middle = np.full(len(cells), height // 2 * width + width // 2)
    return initial(shape, cells, middle, np.full(len(cells), _UP))


def memory(num: int, rng: Rng, *, shape: Shape, colors: tuple[str, ...]) -> State:
    """States of `layouts_memory`; one draw of `integers(L, size=num)`."""
    layouts = layouts_memory(shape=shape, colors=colors)
    return take(layouts, rng.integers(len(layouts.cells), size=num))


# -- empty and what is built on it ---------------------------------------------------------------------------


def _check_empty(name: str, shape: Shape) -> None:
    if min(shape) < 4:
        raise ValueError(f"{name}: shape {list(shape)} must be at least 4 x 4")


def _with_exit(shape: Shape, num: int) -> Bytes:
    """Walled grids with an exit at the bottom right."""
    cells = _repeat(_walled(shape), num)
    cells[:, (shape[0] - 1) * shape[1] - 2] = _EXIT
    return cells


def empty(
    num: int, rng: Rng, *, shape: Shape, random_agent: bool = False, random_exit: bool = False
) -> State:
    """A walled room with an exit at the bottom right, or anywhere.

    The agent stands at the top left facing right, or on any cell of Floor with any heading.
    """
    _check_empty("empty", shape)
    inner = _inner_places(shape)
    corner = len(inner) - 1
    if random_exit and random_agent:
        exit, agent = distinct(rng, num, len(inner), 2).T
    elif random_exit:
        exit, agent = rng.integers(len(inner), size=num), np.zeros(num, np.intp)
    else:
        exit = np.full(num, corner)
        agent = rng.integers(corner, size=num) if random_agent else np.zeros(num, np.intp)
    heading = rng.integers(4, size=num) if random_agent else np.full(num, _RIGHT)
    cells = _repeat(_walled(shape), num)
    cells[np.arange(num), inner[exit]] = _EXIT
    return initial(shape, cells, inner[agent], heading)


def dynamic_obstacles(
    num: int, rng: Rng, *, shape: Shape, num_obstacles: int, random_agent: bool = False
) -> State:
    """`empty` with moving obstacles on cells of Floor other than the agent's."""
    _check_empty("dynamic_obstacles", shape)
    floor = _inner_places(shape)[:-1]  # the last is the exit's
    if not 0 <= num_obstacles < len(floor):
        raise ValueError(
            f"dynamic_obstacles: num_obstacles is {num_obstacles}; it must be from 0 to {len(floor) - 1},"
            " the cells that agent and exit leave"
        )
    cells = _with_exit(shape, num)
    if random_agent:
        places = floor[distinct(rng, num, len(floor), 1 + num_obstacles)]
        agent, obstacles, heading = places[:, 0], places[:, 1:], rng.integers(4, size=num)
    else:
        agent, heading = np.full(num, floor[0]), np.full(num, _RIGHT)
        obstacles = floor[1 + distinct(rng, num, len(floor) - 1, num_obstacles)]
    cells[np.arange(num)[:, None], obstacles] = codes.cell(codes.MOVING_OBSTACLE)
    return initial(shape, cells, agent, heading)


def keydoor(num: int, rng: Rng, *, shape: Shape) -> State:
    """A wall with a locked yellow door in it; left of it the key and the agent, maybe on the same cell."""
    height, width = shape
    _check_empty("keydoor", shape)
    if width < 5:
        raise ValueError(f"keydoor: shape {list(shape)} must be at least 5 wide")
    yellow, index = codes.COLOURS.index("YELLOW"), np.arange(num)
    cells = _with_exit(shape, num)
    wall = rng.integers(2, width - 2, size=num)
    for y in range(1, height - 1):
        cells[index, y * width + wall] = _WALL
    cells[index, rng.integers(1, height - 1, size=num) * width + wall] = codes.cell(
        codes.DOOR, codes.LOCKED, yellow
    )
    key = rng.integers(1, height - 1, size=num) * width + rng.integers(1, wall)
    cells[index, key] = codes.cell(codes.KEY, colour=yellow)
    agent = rng.integers(1, height - 1, size=num) * width + rng.integers(1, wall)
    return initial(shape, cells, agent, rng.integers(4, size=num))


def teleport(num: int, rng: Rng, *, shape: Shape) -> State:
    """Two red telepods on cells of Floor; the agent is at the top left, facing right or down."""
    _check_empty("teleport", shape)
    cells = _with_exit(shape, num)
    inner = _inner_places(shape)  # the first is the agent's, the last the exit's
    pods = inner[1 + distinct(rng, num, len(inner) - 2, 2)]
    cells[np.arange(num)[:, None], pods] = codes.cell(codes.TELEPOD, colour=codes.COLOURS.index("RED"))
    heading = np.array([_RIGHT, _DOWN])[rng.integers(2, size=num)]
    return initial(shape, cells, np.full(num, inner[0]), heading)


def crossing(num: int, rng: Rng, *, shape: Shape, num_rivers: int, object_type: str) -> State:
    """Rows and columns of an object cut the room up; one opening for each leads to the exit.

    A random subset of every second row and column becomes rivers. A random monotone path from the room at
    the top left to that at the bottom right then opens, at each step, a random cell of the river that
    borders its room.
    """
    height, width = shape
    if height % 2 == 0 or width % 2 == 0 or min(shape) < 5:
        raise ValueError(f"crossing: shape {list(shape)} must be at least 5 x 5, both odd")
    if num_rivers < 1:
        raise ValueError(f"crossing: num_rivers is {num_rivers}; it must be at least 1")
    if object_type not in _RIVERS:
        raise ValueError(f"crossing: object_type is {object_type!r}; it must be one of {', '.join(_RIVERS)}")
    cells = _with_exit(shape, num)
    index = np.arange(num)
    down, across = np.arange(2, height - 2, 2), np.arange(2, width - 2, 2)
    lines, is_row = np.concatenate([down, across]), np.arange(len(down) + len(across)) < len(down)
    chosen = rng.random((num, len(lines))).argsort(axis=1)[:, :num_rivers]
    line, lies = lines[chosen], is_row[chosen]  # position and direction of each river, [num, rivers]
    grid = cells[:, :-1].reshape(num, height, width)
    river = codes.cell(codes.OBJECTS.index(object_type))
    for k in range(line.shape[1]):
        r, c = index[lies[:, k]], index[~lies[:, k]]
        grid[r, line[r, k], 1:-1] = river
        grid[c, 1:-1, line[c, k]] = river

    def limits(mine: NDArray[np.bool_], end: int) -> NDArray[np.intp]:
        """The places where the rooms of one direction begin and end, padded with `end`, [num, rivers + 2]."""
        inside = np.sort(np.where(mine, line, end), axis=1)
        edges = np.zeros((num, 1), np.intp)
        return np.concatenate([edges, inside, edges + end], axis=1)

    top, left = limits(lies, height - 1), limits(~lies, width - 1)
    # The path has a step to the right for each column and a step down for each row, in random order.
    steps_right = (~lies).sum(axis=1, keepdims=True)
    order = rng.random(line.shape).argsort(axis=1)
    goes_right = order < steps_right
    i, j = np.zeros(num, np.intp), np.zeros(num, np.intp)  # the room of the path, by row and column
    for k in range(line.shape[1]):
        right = goes_right[:, k]
        low = np.where(right, top[index, i], left[index, j])
        high = np.where(right, top[index, i + 1], left[index, j + 1])
        gap = rng.integers(low + 1, high)
        y = np.where(right, gap, top[index, i + 1])
        x = np.where(right, left[index, j + 1], gap)
        grid[index, y, x] = _FLOOR
        i, j = i + ~right, j + right
    return initial(shape, cells, np.full(num, width + 1), np.full(num, _RIGHT))


# -- rooms ---------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=32)
def _walls_of_rooms(
    name: str, shape: Shape, layout: tuple[int, int]
) -> tuple[Bytes, Places, NDArray[np.intp], NDArray[np.intp]]:
    """The grid of rooms, its Floor, and of each segment of wall its first cell, step and length, [S, 3]."""
    ys, xs = (np.linspace(0, n - 1, num=parts + 1, dtype=int) for n, parts in zip(shape, layout, strict=True))
    if min(np.diff(ys).min(), np.diff(xs).min()) < 2:
        raise ValueError(f"{name}: shape {list(shape)} is too small for a layout of {list(layout)} rooms")
    width = shape[1]
    grid = np.full(shape, _FLOOR, np.uint8)
    grid[ys] = grid[:, xs] = _WALL
    segments = [(y * width + x0 + 1, 1, x1 - x0 - 1) for y in ys[1:-1] for x0, x1 in pairwise(xs)]
    segments += [((y0 + 1) * width + x, width, y1 - y0 - 1) for y0, y1 in pairwise(ys) for x in xs[1:-1]]
    first, step, length = np.array(segments, np.intp).reshape(-1, 3).T
    return grid, np.flatnonzero(grid == _FLOOR), np.stack([first, step]), length


def _rooms(
    name: str, num: int, rng: Rng, shape: Shape, layout: tuple[int, int], count: int
) -> tuple[Bytes, Places]:
    """Rooms with one opening in each segment of wall, and `count` different cells of Floor, [num, count]."""
    grid, floor, (first, step), length = _walls_of_rooms(name, shape, layout)
    if count > len(floor) + len(first):
        raise ValueError(f"{name}: shape {list(shape)} has no room for {count} different cells")
    cells, index = _repeat(grid, num), np.arange(num)[:, None]
    openings = first + step * rng.integers(length, size=(num, len(length)))
    cells[index, openings] = _FLOOR
    chosen = distinct(rng, num, len(floor) + len(first), count)
    # Cells of Floor are numbered rooms first, openings after them: every numbering is as good.
    places = floor.take(chosen, mode="clip")
    if len(first):
        in_opening = chosen >= len(floor)
        places = np.where(in_opening, openings[index, np.maximum(chosen - len(floor), 0)], places)
    return cells, places


def rooms(num: int, rng: Rng, *, shape: Shape, layout: tuple[int, int]) -> State:
    """Rooms in rows and columns, joined by openings; agent and exit on any two cells of Floor."""
    cells, places = _rooms("rooms", num, rng, shape, layout, 2)
    cells[np.arange(num), places[:, 1]] = _EXIT
    return initial(shape, cells, places[:, 0], rng.integers(4, size=num))


def memory_rooms(
    num: int,
    rng: Rng,
    *,
    shape: Shape,
    layout: tuple[int, int],
    colors: tuple[str, ...],
    num_beacons: int,
    num_exits: int,
) -> State:
    """Rooms with beacons and the first exit in the good colour, and the other exits each in one of its own.

    All stand on different cells of Floor, openings among them, so that an exit may block the way: not every
    layout can be solved, as in the original.
    """
    palette = _palette("memory_rooms", colors)
    if num_beacons < 1:
        raise ValueError(f"memory_rooms: num_beacons is {num_beacons}; it must be at least 1")
    if not 2 <= num_exits <= len(palette):
        raise ValueError(
            f"memory_rooms: num_exits is {num_exits}; it must be from 2 to {len(palette)}, one color for each"
        )
    cells, places = _rooms("memory_rooms", num, rng, shape, layout, 1 + num_beacons + num_exits)
    heading = rng.integers(4, size=num)
    colour = palette[distinct(rng, num, len(palette), num_exits)]
    index = np.arange(num)[:, None]
    cells[index, places[:, 1 : 1 + num_beacons]] = codes.PACK[codes.BEACON, 0, colour[:, :1]]
    cells[index, places[:, 1 + num_beacons :]] = codes.PACK[codes.EXIT, 0, colour]
    return initial(shape, cells, places[:, 0], heading)


RESETS: Final = named(*(empty, rooms, dynamic_obstacles, keydoor, crossing, teleport, memory, memory_rooms))
