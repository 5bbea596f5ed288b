"""The classic POMDPs by name: `hallway`, `heavenhell`, `heavenhell-<n>`, and `pomdp:<path of a file>`."""

from __future__ import annotations

import functools
import re

import gymnasium

from envs.families import POMDP_FILE
from envs.options import TaskOptions
from envs.pomdp import hallway, heavenhell, pictures
from envs.pomdp.dynamics import Draw, GoalDynamics, PomdpDynamics
from envs.pomdp.model import Model
from envs.pomdp.parser import load
from envs.task import Task, TaskSpec, native_task

# Half of uniformly random episodes reach the goal within this limit; with the state in view 10.3 steps do.
HALLWAY_TIME_LIMIT = 500
# In lengths of the best policy's episode; for n = 3, two in three random episodes reach an end in that.
HEAVENHELL_LENGTHS = 10
FILE_TIME_LIMIT = 500

_HEAVENHELL_PREFIX = "heavenhell-"
_RETURN_SUCCESS = "undiscounted return > 0"


def find(id: str, options: TaskOptions) -> Task | None:
    if id == "hallway":
        return _hallway(options)
    if id == "heavenhell":
        return _heavenhell(id, 3, options)
    if id.startswith(_HEAVENHELL_PREFIX):
        size = id.removeprefix(_HEAVENHELL_PREFIX)
        if not re.fullmatch("[1-9][0-9]{0,2}", size) or int(size) > heavenhell.MAX_N:
            raise ValueError(f"task {id!r}: {size!r} must be a whole number from 1 to {heavenhell.MAX_N}")
        return _heavenhell(id, int(size), options)
    if id.startswith(POMDP_FILE):
        return _file(id, options)
    return None


def _hallway(options: TaskOptions) -> Task:
    model = hallway.hallway()
    spec = _spec(
        "hallway",
        "Find the goal in a corridor with noisy motion and noisy wall sensors, from an unknown place.",
        model,
        time_limit=HALLWAY_TIME_LIMIT,
        best_return=1.0,
        success=f"{_RETURN_SUCCESS}: the goal was reached",
        source="Littman, Cassandra, Kaelbling 1995 (ICML), gym-pomdps",
    )
    return native_task(spec, functools.partial(GoalDynamics, model, hallway.draw), options)


def _heavenhell(id: str, n: int, options: TaskOptions) -> Task:
    model = heavenhell.heavenhell(n)
    spec = _spec(
        id,
        "Ask the priest which arm of a T leads to heaven, remember it, and go there.",
        model,
        time_limit=HEAVENHELL_LENGTHS * heavenhell.shortest_success(n),
        success=f"{_RETURN_SUCCESS}: heaven",
        best_return=1.0,
        source="Geffner, Bonet 1998 (AAAI Fall Symposium), gym-pomdps",
    )
    return native_task(
        spec, functools.partial(GoalDynamics, model, functools.partial(heavenhell.draw, n)), options
    )


def _file(id: str, options: TaskOptions) -> Task:
    path = id.removeprefix(POMDP_FILE)
    model = load(path)
    spec = _spec(
        id,
        f"The POMDP of a file: {len(model.states)} states, {len(model.observations)} observations.",
        model,
        time_limit=FILE_TIME_LIMIT,
        success=None,
        source=path,
    )
    draw: Draw = functools.partial(pictures.draw_strips, len(model.states), len(model.observations) + 1)
    return native_task(spec, functools.partial(PomdpDynamics, model, draw), options)


def _spec(
    id: str,
    description: str,
    model: Model,
    *,
    time_limit: int,
    success: str | None,
    source: str,
    best_return: float | None = None,
) -> TaskSpec:
    return TaskSpec(
        id=id,
        description=description,
        observation_space=gymnasium.spaces.Discrete(len(model.observations) + 1),
        action_space=gymnasium.spaces.Discrete(len(model.actions)),
        time_limit=time_limit,
        success=success,
        best_return=best_return,
        source=source,
        action_names=model.actions,
    )
