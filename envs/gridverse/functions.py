"""The pure functions that gridverse worlds are made of, each over a batch of N states.

Names and meaning are those of gym-gridverse; a world lists them with their parameters
(`envs.gridverse.world`). Every kind has one signature, the parameters following by keyword:

    layouts      ()                          -> State of L equally likely initial states
    reset        (num, rng)                  -> State
    transition   (state, action, rng)        -> State
    reward       (state, action, next_state) -> float64 [N]
    terminating  (state, action, next_state) -> bool [N]
    visibility   (window, rng)               -> bool [N, h, w], from `window` uint8 [N, h, w, 3]

Shapes: N states, H x W the grid, h x w the observed window. `action` is an integer array [N] that indexes
`codes.ACTIONS`. Nothing is changed in place.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations, product
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from envs.gridverse import codes

Area = tuple[tuple[int, int], tuple[int, int]]
"""Observed rows and columns `((y0, y1), (x0, x1))`, ends included, relative to an agent that faces up."""


class State(NamedTuple):
    """N states, uint8: `grid` [N, H, W, 3] cells, `agent` [N, 3] poses, `item` [N, 3] held objects."""

    grid: NDArray[np.uint8]
    agent: NDArray[np.uint8]
    item: NDArray[np.uint8]


def take(state: State, rows: NDArray[np.integer[Any]]) -> State:
    """The states at `rows`, as copies."""
    return State(state.grid[rows], state.agent[rows], state.item[rows])


def put(state: State, rows: NDArray[np.integer[Any]], values: State) -> State:
    """`state` with the states at `rows` replaced by `values`, as a copy."""
    new = State(state.grid.copy(), state.agent.copy(), state.item.copy())
    for target, value in zip(new, values, strict=True):
        target[rows] = value
    return new


def cells_at(grid: NDArray[np.uint8], y: NDArray[Any], x: NDArray[Any]) -> NDArray[np.uint8]:
    """Cells [N, ..., 3] of `grid` [N, H, W, 3] at `y`, `x` [N, ...]; Hidden where they lie outside."""
    height, width = grid.shape[1:3]
    inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
    rows = np.arange(len(grid)).reshape(-1, *(1,) * (y.ndim - 1))
    cells = grid[rows, np.where(inside, y, 0), np.where(inside, x, 0)]
    cells[~inside] = (codes.HIDDEN, 0, codes.NO_COLOUR)
    return cells


def under_agent(state: State) -> NDArray[np.uint8]:
    """The cell [N, 3] that each agent stands on."""
    return state.grid[np.arange(len(state.grid)), state.agent[:, 0], state.agent[:, 1]]


# -- Initial states ------------------------------------------------------------------------------------------


def layouts_memory(*, shape: tuple[int, int], colors: tuple[str, ...]) -> State:
    """All initial states of the memory worlds, each as likely as any other.

    A corridor joins two short passages. At the ends of the upper one stand two exits of different colours, at
    the ends of the lower one two beacons of the good exit's colour. The agent starts half-way, facing up. One
    layout per ordered pair (good, bad) of colours and side of the good exit: 24 with four colours.

    Raises:
        ValueError: for a shape or colours that the world is not defined for.
    """
    height, width = shape
    if height < 5 or width < 5 or width % 2 == 0:
        raise ValueError(f"memory: shape {shape} must be at least 5 x 5, of odd width")
    palette = [codes.COLOURS.index(color) for color in colors]
    if len(set(palette)) < 2 or codes.NO_COLOUR in palette:
        raise ValueError(f"memory: colors {colors} must name two or more of {codes.COLOURS[1:]}")
    combinations = list(product(permutations(palette, 2), (0, 1)))
    grid = np.zeros((len(combinations), height, width, 3), np.uint8)
    grid[..., 0] = codes.WALL
    grid[:, 1, 2 : width - 2, 0] = codes.FLOOR
    grid[:, height - 2, 2 : width - 2, 0] = codes.FLOOR
    grid[:, 2 : height - 2, width // 2, 0] = codes.FLOOR
    for layout, ((good, bad), side) in enumerate(combinations):
        left, right = (good, bad) if side == 0 else (bad, good)
        grid[layout, 1, 1] = (codes.EXIT, 0, left)
        grid[layout, 1, width - 2] = (codes.EXIT, 0, right)
        grid[layout, height - 2, [1, width - 2]] = (codes.BEACON, 0, good)
    agent = np.zeros((len(combinations), 3), np.uint8)
    agent[:] = (height // 2, width // 2, codes.HEADINGS.index("FORWARD"))
    return State(grid, agent, np.zeros_like(agent))


def reset_memory(
    num: int, rng: np.random.Generator, *, shape: tuple[int, int], colors: tuple[str, ...]
) -> State:
    """`num` independent initial states of the memory worlds; one draw of `integers(L, size=num)`."""
    layouts = layouts_memory(shape=shape, colors=colors)
    return take(layouts, rng.integers(len(layouts.grid), size=num))


# -- Transitions ---------------------------------------------------------------------------------------------


def move_agent(state: State, action: NDArray[Any], rng: np.random.Generator) -> State:
    """Actions 0 to 3 step ahead, back, left or right as the agent sees it, unless the cell there blocks.

    The heading never changes. A cell outside the grid blocks.
    """
    is_move = action < codes.NUM_MOVES
    heading = state.agent[:, 2]
    offset = codes.MOVE[heading, np.where(is_move, action, 0)]
    y, x = state.agent[:, 0] + offset[:, 0], state.agent[:, 1] + offset[:, 1]
    target = cells_at(state.grid, y, x)
    outside = target[:, 0] == codes.HIDDEN
    moves = is_move & ~outside & ~codes.BLOCKS_MOVEMENT[target[:, 0], target[:, 1]]
    agent = state.agent.copy()
    agent[moves, 0] = y[moves]
    agent[moves, 1] = x[moves]
    return state._replace(agent=agent)


def turn_agent(state: State, action: NDArray[Any], rng: np.random.Generator) -> State:
    """Actions 4 and 5 turn the agent by a quarter to its left or right."""
    heading = state.agent[:, 2]
    turned = np.where(action == codes.ACTIONS.index("TURN_LEFT"), codes.TURN_LEFT[heading], heading)
    turned = np.where(action == codes.ACTIONS.index("TURN_RIGHT"), codes.TURN_RIGHT[heading], turned)
    agent = state.agent.copy()
    agent[:, 2] = turned
    return state._replace(agent=agent)


# -- Rewards -------------------------------------------------------------------------------------------------


def living_reward(
    state: State, action: NDArray[Any], next_state: State, *, reward: float = -1.0
) -> NDArray[np.float64]:
    """`reward` on every step, the last one included."""
    return np.full(len(action), reward, np.float64)


def reach_exit_memory(
    state: State,
    action: NDArray[Any],
    next_state: State,
    *,
    reward_good: float = 1.0,
    reward_bad: float = -1.0,
) -> NDArray[np.float64]:
    """`reward_good` on an exit of the colour of the first beacon in row order, `reward_bad` on another."""
    here = under_agent(next_state)
    flat = next_state.grid.reshape(len(action), -1, 3)
    beacon = (flat[:, :, 0] == codes.BEACON).argmax(axis=1)
    is_good = here[:, 2] == flat[np.arange(len(action)), beacon, 2]
    return np.where(here[:, 0] == codes.EXIT, np.where(is_good, reward_good, reward_bad), 0.0)


# -- Endings -------------------------------------------------------------------------------------------------


def reach_exit(state: State, action: NDArray[Any], next_state: State) -> NDArray[np.bool_]:
    """True where the agent now stands on an exit, whichever."""
    ended: NDArray[np.bool_] = under_agent(next_state)[:, 0] == codes.EXIT
    return ended


# -- Observations --------------------------------------------------------------------------------------------


def window_positions(agent: NDArray[np.uint8], area: Area) -> NDArray[np.int64]:
    """Grid positions [N, h, w, 2] of the cells of `area`, turned so that the agent faces up in its view."""
    (y0, y1), (x0, x1) = area
    rows, columns = np.mgrid[y0 : y1 + 1, x0 : x1 + 1]
    offsets = np.stack([rows, columns], axis=-1)
    rotated = np.einsum("hij,rcj->hrci", codes.ROTATION, offsets)
    positions: NDArray[np.int64] = agent[:, None, None, :2] + rotated[agent[:, 2]]
    return positions


def window(state: State, area: Area) -> NDArray[np.uint8]:
    """What lies in `area` before each agent, uint8 [N, h, w, 3]; Hidden outside the grid."""
    positions = window_positions(state.agent, area)
    return cells_at(state.grid, positions[..., 0], positions[..., 1])


def partially_occluded(
    window: NDArray[np.uint8], rng: np.random.Generator | None, *, area: Area
) -> NDArray[np.bool_]:
    """Cells that light reaches, spreading ahead and sideways from an agent on the bottom row.

    Two floods, one to the left and one to the right, are united. A cell is lit where the cell below it, the
    one beside it towards the agent's column, or the one diagonally between is lit and does not block vision.
    """
    (y0, _), (x0, _) = area
    bottom, column = -y0, -x0
    clear = ~codes.BLOCKS_VISION[window[..., 0], window[..., 1]]
    width = window.shape[2]
    visible = np.zeros(clear.shape, np.bool_)
    for side, columns in ((-1, range(column, -1, -1)), (1, range(column, width))):
        lit = np.zeros(clear.shape, np.bool_)
        lit[:, bottom, column] = True
        shines = lit & clear
        for row in range(bottom, -1, -1):
            for col in columns:
                below, beside = row < bottom, col != column
                if below:
                    lit[:, row, col] |= shines[:, row + 1, col]
                if beside:
                    lit[:, row, col] |= shines[:, row, col - side]
                if below and beside:
                    lit[:, row, col] |= shines[:, row + 1, col - side]
                shines[:, row, col] = lit[:, row, col] & clear[:, row, col]
        visible |= lit
    return visible


LAYOUTS: Final[dict[str, Callable[..., State]]] = {"memory": layouts_memory}
RESETS: Final[dict[str, Callable[..., State]]] = {"memory": reset_memory}
TRANSITIONS: Final[dict[str, Callable[..., State]]] = {"move_agent": move_agent, "turn_agent": turn_agent}
REWARDS: Final[dict[str, Callable[..., NDArray[np.float64]]]] = {
    "living_reward": living_reward,
    "reach_exit_memory": reach_exit_memory,
}
TERMINATING: Final[dict[str, Callable[..., NDArray[np.bool_]]]] = {"reach_exit": reach_exit}
VISIBILITY: Final[dict[str, Callable[..., NDArray[np.bool_]]]] = {"partially_occluded": partially_occluded}

MOVES_AGENT_ONLY: Final = frozenset({"move_agent", "turn_agent"})
"""Transitions that change neither grid nor item and draw nothing: a world of these alone can be tabulated."""

NEEDS_OBJECT: Final = {"reach_exit_memory": codes.BEACON}
"""Object types without which a function means nothing in a given state."""
