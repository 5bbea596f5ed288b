"""How states change: the transition functions of gym-gridverse, each over N states.

    transition (state, action, rng, *, parameters) -> State

`action` [N] indexes `codes.ACTIONS`; a function leaves the states of other actions as they are. Nothing is
changed in place: where the grid stays the same, the next state's `cells` are the same array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from envs.gridverse import codes
from envs.gridverse.state import State
from envs.gridverse.values import named
from envs.vector import Rng

Action = NDArray[Any]
Transition = Callable[[State, Action, Rng], State]

_FLOOR: Final = codes.cell(codes.FLOOR)
_OBSTACLE: Final = codes.cell(codes.MOVING_OBSTACLE)
_NOTHING: Final = codes.cell(codes.NOTHING)

_SIDES: Final = np.array([1, 2, 4, 8], np.uint8)  # bits of the four neighbours
# By the neighbours that are free and a number below their count: which of them it is.
_NTH_FREE: Final = np.zeros((16, 4), np.intp)
for _bits in range(16):
    _free = [side for side in range(4) if _bits >> side & 1]
    _NTH_FREE[_bits, : len(_free)] = _free
_NUM_FREE: Final = np.array([bits.bit_count() for bits in range(16)])


def move_agent(state: State, action: Action, rng: Rng) -> State:
    """Actions 0 to 3 step ahead, back, left or right as the agent sees it, unless the cell there blocks.

    The heading never changes. A cell outside the grid blocks.
    """
    target = state.geometry.target.take(state.pose * len(codes.ACTIONS) + action)
    stays = state.at(target) & codes.STOPS_MOVEMENT != 0
    moved = (target - state.place) * 4
    moved[stays] = 0
    return state._replace(pose=state.pose + moved)


def turn_agent(state: State, action: Action, rng: Rng) -> State:
    """Actions 4 and 5 turn the agent by a quarter to its left or right."""
    return state._replace(pose=state.geometry.turned.take(state.pose * len(codes.ACTIONS) + action))


def _with_cells(
    state: State, index: NDArray[np.intp], places: NDArray[np.intp], values: NDArray[np.uint8] | int
) -> State:
    """`state` with one cell changed in each state at `index`."""
    if index.size == 0:
        return state
    cells = state.cells.copy()
    cells[index, places] = values
    return state._replace(cells=cells)


def actuate_door(state: State, action: Action, rng: Rng) -> State:
    """Action 6 opens the door ahead, a locked one if a key of its colour is held. Doors never close."""
    index = np.flatnonzero(action == codes.ACTUATE)
    if index.size == 0:
        return state
    places = state.ahead[index]
    door, item = state.cells[index, places], state.item[index]
    has_key = (codes.TYPE[item] == codes.KEY) & (codes.COLOUR[item] == codes.COLOUR[door])
    opens = (codes.TYPE[door] == codes.DOOR) & ((codes.STATUS[door] != codes.LOCKED) | has_key)
    opened = codes.PACK[codes.DOOR, codes.OPEN, codes.COLOUR[door[opens]]]
    return _with_cells(state, index[opens], places[opens], opened)


def actuate_box(state: State, action: Action, rng: Rng) -> State:
    """Action 6 turns a box ahead into what it holds, which is always Floor here."""
    index = np.flatnonzero(action == codes.ACTUATE)
    places = state.ahead[index]
    is_box = codes.TYPE[state.cells[index, places]] == codes.BOX
    return _with_cells(state, index[is_box], places[is_box], _FLOOR)


def pickndrop(state: State, action: Action, rng: Rng) -> State:
    """Action 7 swaps what is held with what lies ahead, if that is a key or Floor (nothing, in the hand)."""
    index = np.flatnonzero(action == codes.PICK_N_DROP)
    if index.size == 0:
        return state
    places = state.ahead[index]
    there = state.cells[index, places]
    can_be_held = codes.CAN_BE_HELD[codes.TYPE[there]]
    possible = can_be_held | (there == _FLOOR)
    index, places, there, can_be_held = (a[possible] for a in (index, places, there, can_be_held))
    held = state.item[index]
    item = state.item.copy()
    item[index] = np.where(can_be_held, there, _NOTHING)
    changed = _with_cells(state, index, places, np.where(held == _NOTHING, np.uint8(_FLOOR), held))
    return changed._replace(item=item)


def move_obstacles(state: State, action: Action, rng: Rng) -> State:
    """Each obstacle moves to a neighbouring cell of Floor, if there is one; all such are equally likely.

    Obstacles of one grid move one after the other, in the order of the rows before any has moved.
    """
    num_cells, neighbours = state.geometry.num_cells, state.geometry.neighbours
    found = np.flatnonzero(state.cells == _OBSTACLE)
    if found.size == 0:
        return state
    grid = found // num_cells
    start = grid * num_cells
    new_grid = np.concatenate([[True], grid[1:] != grid[:-1]])
    first = np.flatnonzero(new_grid)
    order = np.arange(len(found)) - first[new_grid.cumsum() - 1]  # first, second, ... of its grid
    cells = state.cells.copy()
    flat = cells.ravel()
    for turn in range(order.max() + 1):
        mine = np.flatnonzero(order == turn)
        here, at = found[mine], start[mine]
        beside = neighbours.take(here - at, axis=0) + at[:, None]
        free = (flat.take(beside) == _FLOOR).view(np.uint8) @ _SIDES
        can_move = np.flatnonzero(free)
        here, beside, free = here[can_move], beside[can_move], free[can_move]
        side = _NTH_FREE[free, rng.integers(_NUM_FREE[free])]
        flat[here] = _FLOOR
        flat[beside[np.arange(len(here)), side]] = _OBSTACLE
    return state._replace(cells=cells)


def teleport(state: State, action: Action, rng: Rng) -> State:
    """An agent on a telepod is moved to another one of its colour, all equally likely.

    It stays where there is no other (the original fails there).
    """
    here = state.under_agent()
    index = np.flatnonzero(codes.is_type(here, codes.TELEPOD))
    if index.size == 0:
        return state
    others = state.cells[index] == here[index, None]
    others[np.arange(len(index)), state.place[index]] = False
    count = others.sum(axis=1)
    index, others, count = index[count > 0], others[count > 0], count[count > 0]
    chosen = rng.integers(count)
    place = (others.cumsum(axis=1) > chosen[:, None]).argmax(axis=1)
    pose = state.pose.copy()
    pose[index] = place * 4 + (pose[index] & 3)
    return state._replace(pose=pose)


def chain(state: State, action: Action, rng: Rng, *, transition_functions: tuple[Transition, ...]) -> State:
    """Several transitions, one after the other."""
    for transition in transition_functions:
        state = transition(state, action, rng)
    return state


TRANSITIONS: Final = named(
    *(move_agent, turn_agent, pickndrop, move_obstacles, actuate_door, actuate_box, teleport, chain)
)

MOVES_AGENT_ONLY: Final = frozenset({"move_agent", "turn_agent"})
"""Transitions that change neither grid nor item and draw nothing: a world of these alone can be tabulated."""

REMOVES: Final = {"pickndrop": codes.KEY, "actuate_box": codes.BOX}
"""Object types that a transition may take out of the grid."""
