"""N states of a world, and the tables of a grid's geometry that everything looks things up in.

Places of a grid of H x W cells are numbered row by row, y * W + x; one more, `outside`, stands for all that
is not in the grid. A pose is the number place * 4 + heading.
"""

from __future__ import annotations

import functools
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from envs.gridverse import codes

Area = tuple[tuple[int, int], tuple[int, int]]
"""Observed rows and columns `((y0, y1), (x0, x1))`, ends included, relative to an agent that faces up."""
Places = NDArray[np.intp]
Bytes = NDArray[np.uint8]

_NEIGHBOURS: Final = ((-1, 0), (0, 1), (1, 0), (0, -1))  # up, right, down, left: the original's order


class Geometry:
    """The look-up tables of a grid of H x W cells; one object for each shape (`geometry`)."""

    def __init__(self, height: int, width: int) -> None:
        self.shape = (height, width)
        self.outside = height * width
        """The place that is not in the grid."""
        self.num_cells = height * width + 1
        """Bytes of one grid, `outside` included."""
        self.y, self.x = np.divmod(np.arange(height * width), width)
        """Row and column of a place, [H * W]."""
        heading = np.arange(height * width * 4) % 4
        y, x = self.y.repeat(4), self.x.repeat(4)
        own = np.arange(height * width).repeat(4)
        offset = codes.MOVE[heading]
        target = np.stack([self.place(y + offset[:, a, 0], x + offset[:, a, 1]) for a in range(4)], axis=1)
        self.target: Places = np.concatenate([target, own[:, None].repeat(4, axis=1)], axis=1).ravel()
        """The place that an action is meant to reach, by pose * 8 + action; its own but for the moves."""
        turned = np.stack(
            [heading] * 4 + [codes.TURN_LEFT[heading], codes.TURN_RIGHT[heading]] + [heading] * 2
        )
        self.turned: Places = (own * 4 + turned).T.astype(np.intp).ravel()
        """The pose after an action that may turn the agent, by pose * 8 + action."""
        self.neighbours: Places = np.stack(
            [self.place(self.y + dy, self.x + dx) for dy, dx in _NEIGHBOURS], 1
        )
        """Places above, to the right, below and to the left of a place, [H * W, 4]."""
        self._starts = np.zeros(0, np.intp)

    def place(self, y: NDArray[Any], x: NDArray[Any]) -> Places:
        """The numbers of places given by row and column."""
        height, width = self.shape
        inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
        return np.where(inside, y * width + x, self.outside).astype(np.intp)

    @functools.cache  # noqa: B019  # as long-lived as the geometry; there are few
    def window(self, area: Area) -> Places:
        """The places seen from a pose, row by row as the agent sees them, [h * w, poses]."""
        (y0, y1), (x0, x1) = area
        rows, columns = np.mgrid[y0 : y1 + 1, x0 : x1 + 1]
        offset = np.einsum("hij,pj->phi", codes.ROTATION, np.stack([rows.ravel(), columns.ravel()], axis=1))
        offset = np.tile(offset, (1, self.outside, 1))  # [h * w, poses, 2]
        return self.place(self.y.repeat(4) + offset[..., 0], self.x.repeat(4) + offset[..., 1])

    def starts(self, num: int) -> Places:
        """The place where each of `num` grids begins, all laid end to end, [num]."""
        if len(self._starts) < num:
            self._starts = np.arange(num) * self.num_cells
        return self._starts[:num]


@functools.cache
def geometry(height: int, width: int) -> Geometry:
    """The geometry of a shape."""
    return Geometry(height, width)


class State(NamedTuple):
    """N states. Nothing in it is ever changed in place."""

    geometry: Geometry
    cells: Bytes
    """[N, H * W + 1], bytes of `codes`; the last is `codes.OUTSIDE`."""
    pose: Places
    """[N]."""
    item: Bytes
    """[N], the byte of what is held."""

    @property
    def place(self) -> Places:
        """The place where each agent stands, [N]."""
        return self.pose >> 2

    @property
    def ahead(self) -> Places:
        """The place in front of each agent, [N]."""
        return self.geometry.target.take(self.pose * len(codes.ACTIONS))

    def at(self, place: Places) -> Bytes:
        """The byte of one place in each grid, [N]."""
        return self.cells.ravel().take(self.geometry.starts(len(place)) + place)

    def under_agent(self) -> Bytes:
        """The byte of the cell that each agent stands on, [N]."""
        return self.at(self.place)


class Step(NamedTuple):
    """N transitions."""

    before: State
    action: NDArray[Any]
    """[N], places in `codes.ACTIONS`."""
    after: State


def initial(shape: tuple[int, int], cells: Bytes, place: Places, heading: NDArray[Any]) -> State:
    """States of a shape with nothing held, from `cells` [N, H * W + 1]."""
    item = np.full(len(cells), codes.cell(codes.NOTHING), np.uint8)
    return State(geometry(*shape), cells, place * 4 + heading, item)


def from_arrays(grid: Bytes, agent: Bytes, item: Bytes) -> State:
    """States from `grid` [N, H, W, 3] cells, `agent` [N, 3] poses (y, x, heading) and `item` [N, 3]."""
    num, height, width = grid.shape[:3]
    shape = geometry(height, width)
    cells = np.full((num, shape.num_cells), codes.OUTSIDE, np.uint8)
    cells[:, :-1] = codes.pack(grid).reshape(num, -1)
    y, x, heading = agent.astype(np.intp).T
    return State(shape, cells, (y * width + x) * 4 + heading, codes.pack(item))


def to_arrays(state: State) -> tuple[Bytes, Bytes, Bytes]:
    """`grid` [N, H, W, 3], `agent` [N, 3] and `item` [N, 3]: the inverse of `from_arrays`."""
    shape, place = state.geometry, state.place
    grid = codes.unpack(state.cells[:, :-1]).reshape(-1, *shape.shape, 3)
    agent = np.stack([shape.y[place], shape.x[place], state.pose & 3], axis=1).astype(np.uint8)
    return grid, agent, codes.unpack(state.item)


def take(state: State, index: NDArray[np.integer[Any]]) -> State:
    """The states at `index`, as copies."""
    return State(state.geometry, state.cells[index], state.pose[index], state.item[index])


def put(state: State, index: NDArray[np.integer[Any]], values: State) -> State:
    """`state` with the states at `index` replaced by `values`, as a copy."""
    cells, pose, item = state.cells.copy(), state.pose.copy(), state.item.copy()
    cells[index], pose[index], item[index] = values.cells, values.pose, values.item
    return State(state.geometry, cells, pose, item)
