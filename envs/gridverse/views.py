"""The cells in view that are seen: the visibility functions of gym-gridverse, each over N views.

    visibility  (view, rng, area, *, parameters) -> bool [h * w, N]
    observation (view, rng, *, area, parameters) -> bool [h * w, N]

`view` uint8 [h * w, N] holds the bytes of the cells in `area` as the agent sees them, row by row, the agent
facing up. Cells come first and copies last, so that what is done to a cell is done to all copies at a stroke.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from envs.gridverse import codes
from envs.gridverse.state import Area, Bytes
from envs.gridverse.values import named
from envs.vector import Rng

Visible = NDArray[np.bool_]
Visibility = Callable[..., Visible]


def size(area: Area) -> tuple[int, int]:
    """Height and width of a view, in cells."""
    (y0, y1), (x0, x1) = area
    return y1 - y0 + 1, x1 - x0 + 1


def fully_transparent(view: Bytes, rng: Rng, area: Area) -> Visible:
    """All cells."""
    return np.ones(view.shape, np.bool_)


MAX_COLUMNS: Final = 64
"""Of an area that `partially_occluded` sees: a row is an integer of so many bits."""


def partially_occluded(view: Bytes, rng: Rng, area: Area) -> Visible:
    """Cells that light reaches, spreading ahead and sideways from an agent on the bottom row.

    Two floods, one to the left and one to the right, are united. A cell is lit where the cell below it, the
    one beside it towards the agent's column, or the one diagonally between is lit and does not block vision.

    A flood's row is an integer, bit j for the cell j columns away from the agent's.
    """
    (height, width), column = size(area), -area[1][0]
    # The columns of the two floods, both outwards from the agent's own.
    sides = (slice(column, None, -1), slice(column, None))
    row_type = next(t for t in (np.uint8, np.uint16, np.uint32, np.uint64) if np.iinfo(t).bits >= width)
    bits = np.array([1 << j for j in range(width)], row_type)[:, None]
    clear = (view < codes.STOPS_VISION).reshape(height, width, -1)
    open_cells = np.empty((height, 2, view.shape[1]), row_type)
    for side, columns in enumerate(sides):
        near = clear[:, columns]
        np.bitwise_or.reduce(near * bits[: near.shape[1]], axis=1, out=open_cells[:, side])
    lit = np.empty_like(open_cells)
    seeds = np.ones_like(lit[0])  # the agent's own cell
    for row in range(height - 1, -1, -1):
        ways = open_cells[row]
        # Light runs outwards through clear cells up to the first that blocks, as a carry runs in a sum.
        lit[row] = ((ways + (seeds & ways)) ^ ways) | seeds
        shines = lit[row] & ways
        seeds = shines | (shines << row_type(1))
    visible = np.zeros(clear.shape, np.bool_)
    for side, columns in enumerate(sides):
        near = visible[:, columns]
        near |= (lit[:, side, None] & bits[: near.shape[1]]) != 0
    return visible.reshape(view.shape)


@functools.lru_cache(maxsize=32)
def _rays(area: Area) -> tuple[list[tuple[NDArray[np.intp], NDArray[np.intp]]], NDArray[np.float32]]:
    """Rays from the agent's cell to all corners of cells, as a tree of what they have in common.

    Returns:
        For each distance from the root, of each node the number of its parent in the level before and the
        cell it stands for; and how many rays go through a node, float32 [h * w, nodes], by its cell.
    """
    (height, width), (own_y, own_x) = size(area), (-area[0][0], -area[1][0])
    corner_y, corner_x = np.meshgrid(np.arange(height + 1) - 0.5, np.arange(width + 1) - 0.5, indexing="ij")
    angles = np.arctan2(corner_y - own_y, corner_x - own_x).ravel()
    along = np.arange(100 * (height + width))
    rays: list[tuple[int, ...]] = []
    for angle in angles:
        y = np.rint(own_y + along * (0.01 * np.sin(angle))).astype(int)
        x = np.rint(own_x + along * (0.01 * np.cos(angle))).astype(int)
        outside = (y < 0) | (y >= height) | (x < 0) | (x >= width)
        cells = (y * width + x)[: outside.argmax()]
        rays.append(tuple(dict.fromkeys(cells.tolist())))
    levels, counts = [], []
    number: dict[tuple[int, ...], int] = {(): 0}
    for depth in range(1, max(map(len, rays)) + 1):
        prefixes = sorted({ray[:depth] for ray in rays if len(ray) >= depth})
        parents = np.array([number[p[:-1]] for p in prefixes])
        levels.append((parents, np.array([p[-1] for p in prefixes])))
        counts += [(p[-1], sum(ray[:depth] == p for ray in rays)) for p in prefixes]
        number = {p: n for n, p in enumerate(prefixes)}
    through = np.zeros((height * width, len(counts)), np.float32)
    for node, (cell, count) in enumerate(counts):
        through[cell, node] = count
    return levels, through


def _ray_counts(view: Bytes, area: Area) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rays that reach each cell with their light on, [h * w, N], and all that pass it, [h * w, 1]."""
    levels, through = _rays(area)
    clear = view < codes.STOPS_VISION
    shines = np.ones((1, view.shape[1]), np.bool_)
    lit = []
    for parents, cells in levels:
        lit.append(shines[parents])
        shines = lit[-1] & clear[cells]
    counts = through @ np.concatenate(lit).astype(np.float32)  # small integers, exact in any precision
    return counts.astype(np.float64), through.sum(axis=1, dtype=np.float64)[:, None]


def raytracing(
    view: Bytes, rng: Rng, area: Area, *, absolute_counts: bool = True, threshold: float = 1
) -> Visible:
    """Cells that at least `threshold` rays reach, or that share of the rays that pass them."""
    reached, all_rays = _ray_counts(view, area)
    if absolute_counts:
        return reached >= threshold
    return (all_rays > 0) & (reached / np.maximum(all_rays, 1) >= threshold)


def stochastic_raytracing(view: Bytes, rng: Rng, area: Area) -> Visible:
    """Cells are seen with the probability that is the share of reaching rays; one uniform number per cell."""
    reached, all_rays = _ray_counts(view, area)
    uniform = rng.random((view.shape[1], *size(area))).reshape(view.shape[1], -1).T
    seen: Visible = uniform <= reached / np.maximum(all_rays, 1)
    return seen


VISIBILITIES: Final = named(fully_transparent, partially_occluded, raytracing, stochastic_raytracing)


def from_visibility(view: Bytes, rng: Rng, *, area: Area, visibility_function: Visibility) -> Visible:
    """The cells that a visibility function shows."""
    return visibility_function(view, rng, area)


def _by_itself(visibility: Visibility) -> Callable[..., Visible]:
    """The observation function of a visibility function: no parameters but the area, as in the original."""

    def observation(view: Bytes, rng: Rng, *, area: Area) -> Visible:
        return visibility(view, rng, area)

    return observation


OBSERVATIONS: Final[dict[str, Callable[..., Visible]]] = {
    **{name: _by_itself(visibility) for name, visibility in VISIBILITIES.items()},
    "from_visibility": from_visibility,
}
