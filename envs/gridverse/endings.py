"""When an episode ends: the terminating functions of gym-gridverse, each over N transitions.

    ending (state, action, next_state, *, parameters) -> bool [N]

`action` [N] indexes `codes.ACTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from envs.gridverse import codes
from envs.gridverse.state import State

Action = NDArray[Any]
Flags = NDArray[np.bool_]
Ending = Callable[[State, Action, State], Flags]


def agent_is_on(state: State, kind: int) -> Flags:
    """Whether each agent stands on an object of a type, [N]."""
    return codes.is_type(state.under_agent(), kind)


def bumps_into_wall(state: State, action: Action) -> Flags:
    """Whether the cell that each action aims at is a wall, [N]; actions that are no move aim at their own."""
    target = state.geometry.target.take(state.pose * len(codes.ACTIONS) + action)
    return codes.is_type(state.at(target), codes.WALL)


def overlap(state: State, action: Action, next_state: State, *, object_type: str) -> Flags:
    """Whether the agent now stands on an object of the type."""
    return agent_is_on(next_state, codes.OBJECTS.index(object_type))


def reach_exit(state: State, action: Action, next_state: State) -> Flags:
    """Whether the agent now stands on an exit, whichever."""
    return agent_is_on(next_state, codes.EXIT)


def bump_moving_obstacle(state: State, action: Action, next_state: State) -> Flags:
    """Whether an obstacle now stands where the agent does."""
    return agent_is_on(next_state, codes.MOVING_OBSTACLE)


def bump_into_wall(state: State, action: Action, next_state: State) -> Flags:
    """Whether the agent meant to move into a wall."""
    return bumps_into_wall(state, action)


def reduce_any(
    state: State, action: Action, next_state: State, *, terminating_functions: tuple[Ending, ...]
) -> Flags:
    """Whether any of several holds."""
    return np.logical_or.reduce([ending(state, action, next_state) for ending in terminating_functions])


def reduce_all(
    state: State, action: Action, next_state: State, *, terminating_functions: tuple[Ending, ...]
) -> Flags:
    """Whether all of several hold."""
    return np.logical_and.reduce([ending(state, action, next_state) for ending in terminating_functions])


ENDINGS: Final[dict[str, Callable[..., Flags]]] = {
    "overlap": overlap,
    "reach_exit": reach_exit,
    "bump_moving_obstacle": bump_moving_obstacle,
    "bump_into_wall": bump_into_wall,
    "reduce_any": reduce_any,
    "reduce_all": reduce_all,
}
