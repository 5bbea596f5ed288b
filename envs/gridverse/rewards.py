"""The reward functions of gym-gridverse, each over N transitions.

    reward (state, action, next_state, *, parameters) -> float64 [N]

`action` [N] indexes `codes.ACTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from envs.gridverse import codes
from envs.gridverse.endings import agent_is_on, bumps_into_wall
from envs.gridverse.state import State

Action = NDArray[Any]
Values = NDArray[np.float64]
Reward = Callable[[State, Action, State], Values]


def _either(condition: NDArray[np.bool_], if_true: float, otherwise: float) -> Values:
    return np.where(condition, float(if_true), float(otherwise))


def _compare(before: Values, after: Values, if_less: float, if_more: float) -> Values:
    return _either(after < before, if_less, 0.0) + _either(after > before, if_more, 0.0)


def living_reward(state: State, action: Action, next_state: State, *, reward: float = -1.0) -> Values:
    """`reward` on every step, the last one included."""
    return np.full(len(action), reward, np.float64)


def overlap(
    state: State,
    action: Action,
    next_state: State,
    *,
    object_type: str,
    reward_on: float = 1.0,
    reward_off: float = 0.0,
) -> Values:
    """`reward_on` where the agent now stands on an object of the type, `reward_off` elsewhere."""
    return _either(agent_is_on(next_state, codes.OBJECTS.index(object_type)), reward_on, reward_off)


def reach_exit(
    state: State, action: Action, next_state: State, *, reward_on: float = 1.0, reward_off: float = 0.0
) -> Values:
    """`reward_on` where the agent now stands on an exit, `reward_off` elsewhere."""
    return _either(agent_is_on(next_state, codes.EXIT), reward_on, reward_off)


def reach_exit_memory(
    state: State, action: Action, next_state: State, *, reward_good: float = 1.0, reward_bad: float = -1.0
) -> Values:
    """`reward_good` on an exit of the colour of the first beacon in row order, `reward_bad` on another."""
    rewards = np.zeros(len(action))
    rows = np.flatnonzero(agent_is_on(next_state, codes.EXIT))
    if rows.size:
        cells = next_state.cells[rows]
        beacon = codes.is_type(cells, codes.BEACON).argmax(axis=1)
        good = codes.COLOUR[cells[np.arange(len(rows)), beacon]]
        own = codes.COLOUR[cells[np.arange(len(rows)), next_state.place[rows]]]
        rewards[rows] = _either(own == good, reward_good, reward_bad)
    return rewards


def bump_moving_obstacle(state: State, action: Action, next_state: State, *, reward: float = -1.0) -> Values:
    """`reward` where an obstacle now stands where the agent does."""
    return _either(agent_is_on(next_state, codes.MOVING_OBSTACLE), reward, 0.0)


def bump_into_wall(state: State, action: Action, next_state: State, *, reward: float = -1.0) -> Values:
    """`reward` where the agent meant to move into a wall."""
    return _either(bumps_into_wall(state, action), reward, 0.0)


def _place_of(state: State, object_type: str) -> NDArray[np.intp]:
    """The place of the only object of the type, [N]."""
    return codes.is_type(state.cells, codes.OBJECTS.index(object_type)).argmax(axis=1)


def _distance(state: State, place: NDArray[np.intp], distance_function: str) -> Values:
    """From the agent to a place, [N]."""
    shape, own = state.geometry, state.place
    dy, dx = shape.y[own] - shape.y[place], shape.x[own] - shape.x[place]
    if distance_function == "manhattan":
        return (np.abs(dy) + np.abs(dx)).astype(np.float64)
    return np.sqrt(dy**2 + dx**2)


def _before_and_after(
    state: State, next_state: State, object_type: str
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The places of the only object of the type, before and now, [N] each."""
    after = _place_of(next_state, object_type)
    before = after if state.cells is next_state.cells else _place_of(state, object_type)
    return before, after


def proportional_to_distance(
    state: State,
    action: Action,
    next_state: State,
    *,
    object_type: str,
    distance_function: str = "manhattan",
    reward_per_unit_distance: float = -1.0,
) -> Values:
    """The distance from the agent to the only object of the type, times a factor."""
    place = _place_of(next_state, object_type)
    return reward_per_unit_distance * _distance(next_state, place, distance_function)


def getting_closer(
    state: State,
    action: Action,
    next_state: State,
    *,
    object_type: str,
    distance_function: str = "manhattan",
    reward_closer: float = 1.0,
    reward_further: float = -1.0,
) -> Values:
    """`reward_closer` or `reward_further` where the agent now is so, from the only object of the type."""
    before, after = _before_and_after(state, next_state, object_type)
    return _compare(
        _distance(state, before, distance_function),
        _distance(next_state, after, distance_function),
        reward_closer,
        reward_further,
    )


def _path_lengths(state: State, place: NDArray[np.intp]) -> Values:
    """Steps of the shortest path from each agent to a place over cells that do not block; inf without one."""
    num, (height, width) = len(place), state.geometry.shape
    free = np.zeros((num, height + 2, width + 2), np.bool_)  # with a border, so that shifts need no care
    free[:, 1:-1, 1:-1] = (state.cells[:, :-1] & codes.STOPS_MOVEMENT == 0).reshape(num, height, width)
    reached = np.zeros_like(free)
    reached[np.arange(num), state.geometry.y[place] + 1, state.geometry.x[place] + 1] = True
    own = np.arange(num), state.geometry.y[state.place] + 1, state.geometry.x[state.place] + 1
    lengths = np.where(reached[own], 0.0, np.inf)
    for steps in range(1, height * width):
        wider = reached.copy()
        inner = wider[:, 1:-1, 1:-1]
        for shifted in (
            reached[:, :-2, 1:-1],
            reached[:, 2:, 1:-1],
            reached[:, 1:-1, :-2],
            reached[:, 1:-1, 2:],
        ):
            inner |= shifted & free[:, 1:-1, 1:-1]
        if (wider == reached).all():
            break
        reached = wider
        lengths[reached[own] & np.isinf(lengths)] = steps
    return lengths


def getting_closer_shortest_path(
    state: State,
    action: Action,
    next_state: State,
    *,
    object_type: str,
    reward_closer: float = 1.0,
    reward_further: float = -1.0,
) -> Values:
    """`getting_closer` by the length of the shortest path in each state's own grid (infinite without one)."""
    before, after = _before_and_after(state, next_state, object_type)
    return _compare(
        _path_lengths(state, before), _path_lengths(next_state, after), reward_closer, reward_further
    )


def pickndrop(
    state: State,
    action: Action,
    next_state: State,
    *,
    object_type: str,
    reward_pick: float = 1.0,
    reward_drop: float = -1.0,
) -> Values:
    """`reward_pick` where an object of the type has come into the hand, `reward_drop` where it left it."""
    kind = codes.OBJECTS.index(object_type)
    had, has = codes.is_type(state.item, kind), codes.is_type(next_state.item, kind)
    return _either(~had & has, reward_pick, 0.0) + _either(had & ~has, reward_drop, 0.0)


def actuate_door(
    state: State,
    action: Action,
    next_state: State,
    *,
    reward_open: float = 1.0,
    reward_close: float = -1.0,
) -> Values:
    """`reward_open` where action 6 has opened the door that was ahead, `reward_close` where it closed one."""
    rewards = np.zeros(len(action))
    rows = np.flatnonzero(action == codes.ACTUATE)
    places = state.ahead[rows]
    before, after = state.cells[rows, places], next_state.cells[rows, places]
    both = (codes.TYPE[before] == codes.DOOR) & (codes.TYPE[after] == codes.DOOR)
    was_open, is_open = codes.STATUS[before] == codes.OPEN, codes.STATUS[after] == codes.OPEN
    rewards[rows] = _either(both & ~was_open & is_open, reward_open, 0.0) + _either(
        both & was_open & ~is_open, reward_close, 0.0
    )
    return rewards


def reduce_sum(
    state: State, action: Action, next_state: State, *, reward_functions: tuple[Reward, ...]
) -> Values:
    """Several rewards, added from left to right starting from zero, as the original adds them.

    The doubles are then the same to the last bit.
    """
    total = np.zeros(len(action))
    for reward in reward_functions:
        total = total + reward(state, action, next_state)
    return total


REWARDS: Final[dict[str, Callable[..., Values]]] = {
    "living_reward": living_reward,
    "overlap": overlap,
    "reach_exit": reach_exit,
    "reach_exit_memory": reach_exit_memory,
    "bump_moving_obstacle": bump_moving_obstacle,
    "bump_into_wall": bump_into_wall,
    "proportional_to_distance": proportional_to_distance,
    "getting_closer": getting_closer,
    "getting_closer_shortest_path": getting_closer_shortest_path,
    "pickndrop": pickndrop,
    "actuate_door": actuate_door,
    "reduce_sum": reduce_sum,
}

NEEDS_ONE: Final = frozenset({"proportional_to_distance", "getting_closer", "getting_closer_shortest_path"})
"""Rewards that need exactly one object of their `object_type` in the grid, always."""
