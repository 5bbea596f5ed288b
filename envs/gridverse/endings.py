"""When an episode ends: the terminating functions of gym-gridverse, each over N transitions.

ending (step, *, parameters) -> bool [N]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from envs.gridverse import codes
from envs.gridverse.state import Step
from envs.gridverse.values import named
from envs.vector import Flags

Ending = Callable[[Step], Flags]


def agent_is_on(step: Step, kind: int) -> Flags:
    """Whether each agent now stands on an object of a type, [N]."""
    return codes.is_type(step.after.under_agent(), kind)


def overlap(step: Step, *, object_type: str) -> Flags:
    """Whether the agent now stands on an object of the type."""
    return agent_is_on(step, codes.OBJECTS.index(object_type))


def reach_exit(step: Step) -> Flags:
    """Whether the agent now stands on an exit, whichever."""
    return agent_is_on(step, codes.EXIT)


def bump_moving_obstacle(step: Step) -> Flags:
    """Whether an obstacle now stands where the agent does."""
    return agent_is_on(step, codes.MOVING_OBSTACLE)


def bump_into_wall(step: Step) -> Flags:
    """Whether the cell that the action aims at is a wall; actions that are no move aim at their own."""
    state, action, _ = step
    target = state.geometry.target.take(state.pose * len(codes.ACTIONS) + action)
    return codes.is_type(state.at(target), codes.WALL)


def reduce_any(step: Step, *, terminating_functions: tuple[Ending, ...]) -> Flags:
    """Whether any of several holds."""
    return np.logical_or.reduce([ending(step) for ending in terminating_functions])


def reduce_all(step: Step, *, terminating_functions: tuple[Ending, ...]) -> Flags:
    """Whether all of several hold."""
    return np.logical_and.reduce([ending(step) for ending in terminating_functions])


ENDINGS: Final = named(overlap, reach_exit, bump_moving_obstacle, bump_into_wall, reduce_any, reduce_all)
