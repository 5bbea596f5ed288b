"""The reward functions of gym-gridverse, each over N transitions.

reward (step, *, parameters) -> float64 [N]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from envs.gridverse import codes, endings
from envs.gridverse.state import Places, State, Step
from envs.gridverse.values import named
from envs.vector import Flags

Values = NDArray[np.float64]
Reward = Callable[[Step], Values]


def _either(condition: Flags, if_true: float, otherwise: float = 0.0) -> Values:
    return np.where(condition, float(if_true), float(otherwise))


def living_reward(step: Step, *, reward: float = -1.0) -> Values:
    """`reward` on every step, the last one included."""
    return np.full(len(step.action), reward, np.float64)


def overlap(step: Step, *, object_type: str, reward_on: float = 1.0, reward_off: float = 0.0) -> Values:
    """`reward_on` where the agent now stands on an object of the type, `reward_off` elsewhere."""
    return _either(endings.overlap(step, object_type=object_type), reward_on, reward_off)


def reach_exit(step: Step, *, reward_on: float = 1.0, reward_off: float = 0.0) -> Values:
    """`reward_on` where the agent now stands on an exit, `reward_off` elsewhere."""
    return _either(endings.reach_exit(step), reward_on, reward_off)


def reach_exit_memory(step: Step, *, reward_good: float = 1.0, reward_bad: float = -1.0) -> Values:
    """`reward_good` on an exit of the colour of the first beacon in row order, `reward_bad` on another."""
    rewards = np.zeros(len(step.action))
    index = np.flatnonzero(endings.reach_exit(step))
    if index.size:
        cells = step.after.cells[index]
        beacon = codes.is_type(cells, codes.BEACON).argmax(axis=1)
        good = codes.COLOUR[cells[np.arange(len(index)), beacon]]
        own = codes.COLOUR[cells[np.arange(len(index)), step.after.place[index]]]
        rewards[index] = _either(own == good, reward_good, reward_bad)
    return rewards


def bump_moving_obstacle(step: Step, *, reward: float = -1.0) -> Values:
    """`reward` where an obstacle now stands where the agent does."""
    return _either(endings.bump_moving_obstacle(step), reward)


def bump_into_wall(step: Step, *, reward: float = -1.0) -> Values:
    """`reward` where the agent meant to move into a wall."""
    return _either(endings.bump_into_wall(step), reward)


def _place_of(state: State, object_type: str) -> Places:
    """The place of the only object of the type, [N]."""
    return codes.is_type(state.cells, codes.OBJECTS.index(object_type)).argmax(axis=1)


def _distance(state: State, place: Places, distance_function: str) -> Values:
    """From the agent to a place, [N]."""
    shape, own = state.geometry, state.place
    dy, dx = shape.y[own] - shape.y[place], shape.x[own] - shape.x[place]
    if distance_function == "manhattan":
        return (np.abs(dy) + np.abs(dx)).astype(np.float64)
    return np.sqrt(dy**2 + dx**2)


def getting_closer(
    step: Step,
    *,
    object_type: str,
    distance_function: str = "manhattan",
    reward_closer: float = 1.0,
    reward_further: float = -1.0,
) -> Values:
    """`reward_closer` or `reward_further` where the agent now is so, from the only object of the type."""
    after = _place_of(step.after, object_type)
    before = after if step.before.cells is step.after.cells else _place_of(step.before, object_type)
    was, now = (_distance(*at, distance_function) for at in ((step.before, before), (step.after, after)))
    return _either(now < was, reward_closer) + _either(now > was, reward_further)


def pickndrop(step: Step, *, object_type: str, reward_pick: float = 1.0, reward_drop: float = -1.0) -> Values:
    """`reward_pick` where an object of the type has come into the hand, `reward_drop` where it left it."""
    kind = codes.OBJECTS.index(object_type)
    had, has = codes.is_type(step.before.item, kind), codes.is_type(step.after.item, kind)
    return _either(~had & has, reward_pick) + _either(had & ~has, reward_drop)


def actuate_door(step: Step, *, reward_open: float = 1.0, reward_close: float = -1.0) -> Values:
    """`reward_open` where action 6 has opened the door that was ahead, `reward_close` where it closed one."""
    rewards = np.zeros(len(step.action))
    index = np.flatnonzero(step.action == codes.ACTUATE)
    places = step.before.ahead[index]
    before, after = step.before.cells[index, places], step.after.cells[index, places]
    both = (codes.TYPE[before] == codes.DOOR) & (codes.TYPE[after] == codes.DOOR)
    was_open, is_open = codes.STATUS[before] == codes.OPEN, codes.STATUS[after] == codes.OPEN
    opened, closed = both & ~was_open & is_open, both & was_open & ~is_open
    rewards[index] = _either(opened, reward_open) + _either(closed, reward_close)
    return rewards


def reduce_sum(step: Step, *, reward_functions: tuple[Reward, ...]) -> Values:
    """Several rewards, added from left to right starting from zero, as the original adds them.

    The doubles are then the same to the last bit.
    """
    total = np.zeros(len(step.action))
    for reward in reward_functions:
        total = total + reward(step)
    return total


REWARDS: Final = named(
    *(living_reward, overlap, reach_exit, reach_exit_memory, bump_moving_obstacle, bump_into_wall),
    *(getting_closer, pickndrop, actuate_door, reduce_sum),
)

NEEDS_ONE: Final = frozenset({"getting_closer"})
"""Rewards that need exactly one object of their `object_type` in the grid, always."""
