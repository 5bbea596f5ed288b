"""The classic POMDPs by name: `hallway`, `heavenhell`, `heavenhell-<n>`, and `pomdp:<path of a file>`."""

from __future__ import annotations

import functools
import re

from envs import drawing
from envs.families import POMDP_FILE
from envs.pomdp import hallway, heavenhell
from envs.pomdp.dynamics import Draw, PomdpDynamics
from envs.pomdp.parser import load
from envs.task import Native

# Half of uniformly random episodes reach the goal within this limit; with the state in view 10.3 steps do.
HALLWAY_TIME_LIMIT = 500
# In lengths of the best policy's episode; for n = 3, two in three random episodes reach an end in that.
HEAVENHELL_LENGTHS = 10
FILE_TIME_LIMIT = 500

_HEAVENHELL_PREFIX = "heavenhell-"
_RETURN_SUCCESS = "undiscounted return > 0"


def find(id: str) -> Native | None:
    if id == "hallway":
        return functools.partial(PomdpDynamics, hallway.hallway(), hallway.draw, True), {
            "description": (
                "Find the goal in a corridor with noisy motion and noisy wall sensors, from an unknown place."
            ),
            "time_limit": HALLWAY_TIME_LIMIT,
            "best_return": 1.0,
            "success": f"{_RETURN_SUCCESS}: the goal was reached",
            "source": "Littman, Cassandra, Kaelbling 1995 (ICML), gym-pomdps",
        }
    if id == "heavenhell":
        return _heavenhell(id, 3)
    if id.startswith(_HEAVENHELL_PREFIX):
        size = id.removeprefix(_HEAVENHELL_PREFIX)
        if not re.fullmatch("[1-9][0-9]{0,2}", size) or int(size) > heavenhell.MAX_N:
            raise ValueError(f"task {id!r}: {size!r} must be a whole number from 1 to {heavenhell.MAX_N}")
        return _heavenhell(id, int(size))
    if id.startswith(POMDP_FILE):
        return _file(id)
    return None


def _heavenhell(id: str, n: int) -> Native:
    draw = functools.partial(heavenhell.draw, n)
    return functools.partial(PomdpDynamics, heavenhell.heavenhell(n), draw, True), {
        "description": "Ask the priest which arm of a T leads to heaven, remember it, and go there.",
        "time_limit": HEAVENHELL_LENGTHS * heavenhell.shortest_success(n),
        "success": f"{_RETURN_SUCCESS}: heaven",
        "best_return": 1.0,
        "source": "Geffner, Bonet 1998 (AAAI Fall Symposium), gym-pomdps",
    }


def _file(id: str) -> Native:
    path = id.removeprefix(POMDP_FILE)
    model = load(path)
    sizes = f"{len(model.states)} states, {len(model.observations)} observations"
    draw: Draw = functools.partial(drawing.draw_strips, len(model.states), len(model.observations) + 1)
    return functools.partial(PomdpDynamics, model, draw), {
        "description": f"The POMDP of a file: {sizes}.",
        "time_limit": FILE_TIME_LIMIT,
        "source": path,
    }
