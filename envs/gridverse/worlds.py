"""The worlds that gym-gridverse registers and those that DTQN adds, in the layout of the former's YAML files.

To add one is to add its data to `DTQN`, `PACKAGE` or a dictionary of its own in `SHIPPED`; what it says of
itself stands under `task` (`envs.gridverse.values.FACTS`).

A world here, a file of a user's and what the package itself is given are the same kind of data, read by
`WorldSpec.from_data`.
"""

from __future__ import annotations

import functools
from typing import Any, Final

from envs.gridverse import codes
from envs.gridverse.world import WorldSpec

Data = dict[str, Any]

_BRIGHT: Final = codes.COLOURS[1:]
_NEAR: Final = [[-1, 0], [-1, 1]]  # 2 x 3 cells
_WIDE: Final = [[-6, 0], [-3, 3]]  # 7 x 7 cells

_REACH_EXIT: Final = {"name": "reach_exit", "reward_on": 5.0, "reward_off": 0.0}
_CLOSER: Final = {
    "name": "getting_closer",
    "distance_function": "manhattan",
    "object_type": "Exit",
    "reward_closer": 0.2,
    "reward_further": -0.2,
}
_LIVING: Final = {"name": "living_reward", "reward": -0.05}
_GOAL: Final = [_REACH_EXIT, _CLOSER, _LIVING]
_GOOD_EXIT: Final = [{"name": "reach_exit_memory", "reward_good": 5.0, "reward_bad": -5.0}, _LIVING]


def _reset(name: str, size: int, **parameters: Any) -> Data:
    return {"name": name, "shape": [size, size], **parameters}


def _world(
    task: str,
    reset: Data,
    *,
    objects: tuple[str, ...] = (),
    colors: tuple[str, ...] = (),
    rewards: list[Data] = _GOAL,
    area: list[list[int]] = _WIDE,
    more_transitions: tuple[str, ...] = (),
    endings: tuple[str, ...] = (),
    num_actions: int = 6,
    **facts: Any,
) -> Data:
    """The part that all shipped worlds share, and what each adds to it; `task` says what is to be done."""
    (y0, y1), (x0, x1) = area
    space = {"objects": ["Wall", "Floor", "Exit", *objects], "colors": ["NONE", *colors]}
    terminating: Data = {"name": "reach_exit"}
    if endings:
        all_endings = [terminating, *({"name": name} for name in endings)]
        terminating = {"name": "reduce_any", "terminating_functions": all_endings}
    return {
        "state_space": space,
        "action_space": list(codes.ACTIONS[:num_actions]),
        "observation_space": space,
        "reset_function": reset,
        "transition_functions": [{"name": name} for name in ("move_agent", "turn_agent", *more_transitions)],
        "reward_functions": rewards,
        "observation_function": {"name": "partially_occluded", "area": area},
        "terminating_function": terminating,
        "task": {"description": f"{task}, with {y1 - y0 + 1} x {x1 - x0 + 1} cells in view.", **facts},
    }


def _good_exit(task: str, reset: Data, area: list[list[int]], **facts: Any) -> Data:
    """A memory world: the colour of beacons tells the good exit."""
    reset = {**reset, "colors": list(_BRIGHT)}
    return _world(task, reset, objects=("Beacon",), colors=_BRIGHT, rewards=_GOOD_EXIT, area=area, **facts)


def _memory(size: int, area: list[list[int]], **facts: Any) -> Data:
    task = "Find the exit that has the colour of the beacons"
    return _good_exit(task, _reset("memory", size), area, **facts)


def _memory_rooms(size: int, rooms: int, area: list[list[int]], ceiling: float) -> Data:
    """
    Args:
        ceiling: the share of layouts that can be won, half of those counted in which no beacon can be seen.
            All 1,860,480 layouts of 7x7 with 2 x 3 cells in view were tried, of the others samples of 80,000
            or more (standard error below 0.0003).
    """
    task = "Find the exit that has the colour of the beacon in a maze of rooms"
    reset = _reset("memory_rooms", size, layout=[rooms, rooms], num_beacons=1, num_exits=2)
    return _good_exit(task, reset, area, success_ceiling=ceiling)


def _rooms(size: int, rooms: int) -> Data:
    return _world("Find the exit in a maze of rooms", _reset("rooms", size, layout=[rooms, rooms]))


def _empty(size: int) -> Data:
    return _world("Find the exit of an empty room", _reset("empty", size, random_agent=True))


def _crossing(size: int, rivers: int) -> Data:
    reset = _reset("crossing", size, num_rivers=rivers, object_type="Wall")
    return _world("Find the exit through openings in walls", reset)


def _dynamic_obstacles(size: int, obstacles: int) -> Data:
    bumps = ("bump_moving_obstacle", "bump_into_wall")
    return _world(
        "Find the exit without touching walls or moving obstacles",
        _reset("dynamic_obstacles", size, num_obstacles=obstacles, random_agent=False),
        objects=("MovingObstacle",),
        rewards=[_REACH_EXIT, *({"name": bump, "reward": -1.0} for bump in bumps), _CLOSER, _LIVING],
        more_transitions=("move_obstacles",),
        endings=bumps,
    )


def _keydoor(size: int) -> Data:
    pick = {"name": "pickndrop", "object_type": "Key", "reward_pick": 1.0, "reward_drop": -1.0}
    actuate = {"name": "actuate_door", "reward_open": 1.0, "reward_close": -1.0}
    return _world(
        "Fetch the key, unlock the door and find the exit",
        _reset("keydoor", size),
        objects=("Door", "Key"),
        colors=("YELLOW",),
        rewards=[_REACH_EXIT, pick, actuate, _CLOSER, _LIVING],
        more_transitions=("actuate_door", "pickndrop"),
        num_actions=8,
    )


def _teleport(size: int) -> Data:
    task, reset = "Find the exit of a room with two telepods", _reset("teleport", size)
    return _world(task, reset, objects=("Telepod",), colors=("RED",), more_transitions=("teleport",))


def _all(worlds: dict[str, Data], **facts: Any) -> dict[str, Data]:
    """The worlds, with facts that all of them share."""
    return {id: {**world, "task": {**world["task"], **facts}} for id, world in worlds.items()}


# Best expected return by exact search over information states (docs/tasks/gridverse.md).
_BEST_RETURN: Final = {5: 4.85, 7: 4.45, 9: 4.10, 11: 3.75, 13: 3.40, 21: 2.00}

DTQN: Final[dict[str, Data]] = _all(
    {
        **{f"gridverse-memory-{n}x{n}": _memory(n, _NEAR, best_return=r) for n, r in _BEST_RETURN.items()},
        **{
            f"gridverse-memory-four-rooms-{n}x{n}": _memory_rooms(n, 2, _NEAR, ceiling)
            for n, ceiling in ((7, 0.943), (9, 0.982))
        },
    },
    source="DTQN (arXiv 2206.01078), gym-gridverse",
    observation="vector",
)
"""Worlds of DTQN's files `gv_memory.<size>.yaml` and `gv_memory_four_rooms.<size>.yaml`."""

PACKAGE: Final[dict[str, Data]] = _all(
    {
        **{f"GV-Memory-{n}x{n}-v0": _memory(n, _WIDE) for n in (5, 9)},
        **{
            f"GV-MemoryFourRooms-{n}x{n}-v0": _memory_rooms(n, 2, _WIDE, ceiling)
            for n, ceiling in ((7, 0.985), (9, 0.996))
        },
        **{
            f"GV-MemoryNineRooms-{n}x{n}-v0": _memory_rooms(n, 3, _WIDE, ceiling)
            for n, ceiling in ((10, 0.997), (13, 0.999))
        },
        **{f"GV-FourRooms-{n}x{n}-v0": _rooms(n, 2) for n in (7, 9)},
        **{f"GV-NineRooms-{n}x{n}-v0": _rooms(n, 3) for n in (10, 13)},
        **{f"GV-Empty-{n}x{n}-v0": _empty(n) for n in (4, 8)},
        **{f"GV-Crossing-{n}x{n}-v0": _crossing(n, rivers) for n, rivers in ((5, 1), (7, 2))},
        **{f"GV-DynamicObstacles-{n}x{n}-v0": _dynamic_obstacles(n, m) for n, m in ((5, 1), (7, 2))},
        **{f"GV-Keydoor-{n}x{n}-v0": _keydoor(n) for n in (5, 7, 9)},
        **{f"GV-Teleport-{n}x{n}-v0": _teleport(n) for n in (5, 7)},
    },
    source="gym-gridverse (github.com/abaisero/gym-gridverse)",
)
"""Worlds that gym-gridverse registers under these names."""

SHIPPED: Final[dict[str, Data]] = {**DTQN, **PACKAGE}


@functools.cache
def world(id: str) -> WorldSpec:
    """A shipped world by the name of its task."""
    return WorldSpec.from_data(SHIPPED[id])
