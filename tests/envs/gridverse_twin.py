"""A slow and obvious twin of the gridverse engine: one state at a time, cell by cell.

A state is `(grid, pose, item)`: `grid[y][x]` and `item` are cells (type, status, colour), `pose` is (y, x,
heading). Written from the description of gym-gridverse's functions, with nothing of the engine in it but the
codes of things.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from envs.gridverse import codes

Cell = tuple[int, int, int]
Grid = tuple[tuple[Cell, ...], ...]
Pose = tuple[int, int, int]
State = tuple[Grid, Pose, Cell]
Choose = Callable[[int], int]
"""Which of so many options is taken."""

FLOOR: Cell = (codes.FLOOR, 0, 0)
NOTHING: Cell = (codes.NOTHING, 0, 0)
HIDDEN: Cell = (codes.HIDDEN, 0, 0)
UP, DOWN, LEFT, RIGHT = (-1, 0), (1, 0), (0, -1), (0, 1)
# The steps of forward, backward, left and right, by heading.
MOVES = {
    0: (UP, DOWN, LEFT, RIGHT),
    1: (DOWN, UP, RIGHT, LEFT),
    2: (LEFT, RIGHT, DOWN, UP),
    3: (RIGHT, LEFT, UP, DOWN),
}
TURNS = {"TURN_LEFT": {0: 2, 2: 1, 1: 3, 3: 0}, "TURN_RIGHT": {0: 3, 3: 1, 1: 2, 2: 0}}


def get(grid: Grid, y: int, x: int) -> Cell | None:
    """A cell; None outside."""
    return grid[y][x] if 0 <= y < len(grid) and 0 <= x < len(grid[0]) else None


def put(grid: Grid, y: int, x: int, cell: Cell) -> Grid:
    rows = [list(row) for row in grid]
    rows[y][x] = cell
    return tuple(map(tuple, rows))


def blocks_movement(cell: Cell | None) -> bool:
    return (
        cell is None
        or cell[0] in (codes.WALL, codes.BOX)
        or (cell[0] == codes.DOOR and cell[1] != codes.OPEN)
    )


def blocks_vision(cell: Cell | None) -> bool:
    return (
        cell is None
        or cell[0] in (codes.WALL, codes.HIDDEN, codes.NOTHING)
        or (cell[0] == codes.DOOR and cell[1] != codes.OPEN)
    )


def intended(pose: Pose, action: str) -> tuple[int, int]:
    """The cell that an action aims at."""
    y, x, heading = pose
    names = ("MOVE_FORWARD", "MOVE_BACKWARD", "MOVE_LEFT", "MOVE_RIGHT")
    dy, dx = MOVES[heading][names.index(action)] if action in names else (0, 0)
    return y + dy, x + dx


def find(grid: Grid, kind: int) -> list[tuple[int, int]]:
    """All cells of a type, row by row."""
    return [(y, x) for y, row in enumerate(grid) for x, cell in enumerate(row) if cell[0] == kind]


def transition(name: str, state: State, action: str, choose: Choose) -> State:
    grid, pose, item = state
    y, x, heading = pose
    ahead = intended(pose, "MOVE_FORWARD")
    front = get(grid, *ahead)
    match name:
        case "move_agent":
            target = intended(pose, action)
            if not blocks_movement(get(grid, *target)) or target == (y, x):
                pose = (*target, heading)
        case "turn_agent" if action in TURNS:
            pose = (y, x, TURNS[action][heading])
        case "actuate_door" if action == "ACTUATE" and front and front[0] == codes.DOOR:
            if front[1] != codes.LOCKED or (item[0] == codes.KEY and item[2] == front[2]):
                grid = put(grid, *ahead, (codes.DOOR, codes.OPEN, front[2]))
        case "actuate_box" if action == "ACTUATE" and front and front[0] == codes.BOX:
            grid = put(grid, *ahead, FLOOR)
        case "pickndrop" if action == "PICK_N_DROP" and front and front[0] in (codes.FLOOR, codes.KEY):
            grid = put(grid, *ahead, FLOOR if item == NOTHING else item)
            item = front if front[0] == codes.KEY else NOTHING
        case "move_obstacles":
            for oy, ox in find(grid, codes.MOVING_OBSTACLE):
                beside = [(oy + dy, ox + dx) for dy, dx in (UP, RIGHT, DOWN, LEFT)]
                free = [cell for cell in beside if get(grid, *cell) == FLOOR]
                if free:
                    grid = put(
                        put(grid, oy, ox, FLOOR), *free[choose(len(free))], (codes.MOVING_OBSTACLE, 0, 0)
                    )
        case "teleport" if grid[y][x][0] == codes.TELEPOD:
            others = [
                pod for pod in find(grid, codes.TELEPOD) if pod != (y, x) and get(grid, *pod) == grid[y][x]
            ]
            if others:
                pose = (*others[choose(len(others))], heading)
    return grid, pose, item


def distance(state: State, kind: int, how: str) -> float:
    """From the agent to the only object of a type."""
    grid, (y, x, _), _ = state
    (oy, ox) = find(grid, kind)[0]
    if how == "manhattan":
        return abs(y - oy) + abs(x - ox)
    return math.sqrt((y - oy) ** 2 + (x - ox) ** 2)


def reward(data: dict[str, Any], state: State, action: str, after: State) -> float:
    """One reward function, given as its data."""
    grid, pose, item = state
    new_grid, (y, x, _), new_item = after
    here = new_grid[y][x]
    kind = codes.OBJECTS.index(data["object_type"]) if "object_type" in data else None
    match data["name"]:
        case "living_reward":
            return data["reward"]
        case "reach_exit":
            return data["reward_on"] if here[0] == codes.EXIT else data["reward_off"]
        case "reach_exit_memory":
            if here[0] != codes.EXIT:
                return 0.0
            by, bx = find(new_grid, codes.BEACON)[0]
            return data["reward_good"] if here[2] == new_grid[by][bx][2] else data["reward_bad"]
        case "bump_moving_obstacle":
            return data["reward"] if here[0] == codes.MOVING_OBSTACLE else 0.0
        case "bump_into_wall":
            cell = get(grid, *intended(pose, action))
            return data["reward"] if cell and cell[0] == codes.WALL else 0.0
        case "getting_closer":
            assert kind is not None
            how = data.get("distance_function", "manhattan")
            was, now = distance(state, kind, how), distance(after, kind, how)
            return data["reward_closer"] if now < was else data["reward_further"] if now > was else 0.0
        case "pickndrop":
            had, has = item[0] == kind, new_item[0] == kind
            return data["reward_pick"] if has and not had else data["reward_drop"] if had and not has else 0.0
        case "actuate_door":
            ahead = intended(pose, "MOVE_FORWARD")
            was_door, is_door = get(grid, *ahead), get(new_grid, *ahead)
            if (
                action != "ACTUATE"
                or not was_door
                or not is_door
                or {was_door[0], is_door[0]} != {codes.DOOR}
            ):
                return 0.0
            opened = was_door[1] != codes.OPEN and is_door[1] == codes.OPEN
            closed = was_door[1] == codes.OPEN and is_door[1] != codes.OPEN
            return data["reward_open"] if opened else data["reward_close"] if closed else 0.0
    raise AssertionError(data)


def ending(data: dict[str, Any], state: State, action: str, after: State) -> bool:
    """One terminating function, given as its data."""
    y, x, _ = after[1]
    here = after[0][y][x][0]
    match data["name"]:
        case "reduce_any":
            return any(ending(d, state, action, after) for d in data["terminating_functions"])
        case "reduce_all":
            return all(ending(d, state, action, after) for d in data["terminating_functions"])
        case "reach_exit":
            return here == codes.EXIT
        case "bump_moving_obstacle":
            return here == codes.MOVING_OBSTACLE
        case "bump_into_wall":
            cell = get(state[0], *intended(state[1], action))
            return cell is not None and cell[0] == codes.WALL
        case "overlap":
            return here == codes.OBJECTS.index(data["object_type"])
    raise AssertionError(data)


def step(data: dict[str, Any], state: State, action: str, choose: Choose) -> tuple[State, float, bool]:
    """One step in the world that `data` is, in the layout of gym-gridverse's YAML files."""
    after = state
    for function in data["transition_functions"]:
        after = transition(function["name"], after, action, choose)
    total = 0.0
    for function in data["reward_functions"]:
        total += reward(function, state, action, after)
    return after, total, ending(data["terminating_function"], state, action, after)


def in_view(grid: Grid, pose: Pose, area: Any) -> list[list[Cell]]:
    """The cells of `area` before the agent, seen or not; Hidden outside the grid."""
    y, x, heading = pose
    forward, _, _, right = MOVES[heading]
    (y0, y1), (x0, x1) = area
    return [
        [
            get(grid, y - dy * forward[0] + dx * right[0], x - dy * forward[1] + dx * right[1]) or HIDDEN
            for dx in range(x0, x1 + 1)
        ]
        for dy in range(y0, y1 + 1)
    ]


def lit(window: list[list[Cell]], area: Any) -> set[tuple[int, int]]:
    """Partial occlusion as two floods that walk from cell to cell."""
    start = (-area[0][0], -area[1][0])
    found = set()
    for side in (-1, 1):
        seen, queue = {start}, [start]
        while queue:
            y, x = queue.pop()
            if blocks_vision(window[y][x]):
                continue
            for cell in ((y - 1, x), (y, x + side), (y - 1, x + side)):
                if 0 <= cell[0] < len(window) and 0 <= cell[1] < len(window[0]) and cell not in seen:
                    seen.add(cell)
                    queue.append(cell)
        found |= seen
    return found


def observe(data: dict[str, Any], state: State) -> list[list[Cell]]:
    """The observation in a world with partial occlusion."""
    area = data["observation_function"]["area"]
    window = in_view(state[0], state[1], area)
    seen = lit(window, area)
    return [
        [cell if (r, c) in seen else HIDDEN for c, cell in enumerate(row)] for r, row in enumerate(window)
    ]
