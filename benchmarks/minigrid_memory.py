"""MiniGrid's Memory tasks: exact returns of the best player and of a guess, and what needs no memory.

    python -m benchmarks.minigrid_memory [--json FILE]

A layout is where the corridor ends and where in it, or in the room before it, the agent starts. In each one
a search over places, directions, and what has been in sight finds the fewest steps to have seen the cue and
one of the two objects at the end, and then to reach the side that is right, which may be either one. The
figures are means over layouts, as likely as the package draws them.

A reflex knows the observation and the action before it. It goes to the crossing, turns until it looks back
along the corridor, and there compares the cue with what stands beside it, where the view reaches so far.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from benchmarks.options import one_line_errors, parser_of, write
from dtqn.settings.config import ConfigError

TASKS = tuple(f"MiniGrid-Memory{name}-v0" for name in ("S7", "S9", "S11", "S13Random", "S17Random"))
LEFT, RIGHT, FORWARD = 0, 1, 2

_KEY, _BALL = 5, 6
"""Objects in a view, by the package's numbers."""
EPISODES = 400
"""Those that the reflex plays."""

Pose = tuple[int, int, int]
"""Column, row, direction: right, down, left, up."""


class Best(NamedTuple):
    """The best play of one layout."""

    steps: float
    """To the right side, the mean over both."""
    actions: tuple[list[int], list[int]]
    """Those of a right side at the smaller row, and at the larger one."""
    held: float
    """Steps that are left, the mean over both sides, when the cue has last been in sight."""


class Layout:
    """The world of a Memory environment as a player's poses see it; what its objects are does not matter."""

    def __init__(self, env: Any) -> None:
        """`env` is the environment itself, just reset."""
        self.env, self.start = env, (*map(int, env.agent_pos), int(env.agent_dir))
        column, middle = int(env.success_pos[0]), env.height // 2
        self.cue = (1, middle - 1)
        self.objects = ((column, middle - 2), (column, middle + 2))
        self.sides = ((column, middle - 1), (column, middle + 1))
        self._seen: dict[Pose, tuple[bool, bool]] = {}

    def sees(self, pose: Pose) -> tuple[bool, bool]:
        """The cue, and one of the two objects at the end."""
        if pose not in self._seen:
            self._seen[pose] = self._look(pose)
        return self._seen[pose]

    def _look(self, pose: Pose) -> tuple[bool, bool]:
        self.env.agent_pos, self.env.agent_dir = np.array(pose[:2]), pose[2]
        _, visible = self.env.gen_obs_grid()

        def seen(cell: tuple[int, int]) -> bool:
            at = self.env.relative_coords(*cell)
            return at is not None and bool(visible[at])

        return seen(self.cue), any(map(seen, self.objects))

    def after(self, pose: Pose) -> Iterator[tuple[int, Pose]]:
        """Actions and where they lead."""
        x, y, direction = pose
        yield LEFT, (x, y, (direction - 1) % 4)
        yield RIGHT, (x, y, (direction + 1) % 4)
        dx, dy = ((1, 0), (0, 1), (-1, 0), (0, -1))[direction]
        if self.env.grid.get(x + dx, y + dy) is None:
            yield FORWARD, (x + dx, y + dy, direction)

    def ways(self, start: Pose) -> dict[tuple[Pose, bool, bool], list[int]]:
        """The shortest actions to every pose and what has been seen on the way; either side is an end."""
        first = (start, *self.sees(start))
        found: dict[tuple[Pose, bool, bool], list[int]] = {first: []}
        queue = deque([first])
        while queue:
            pose, cue, ends = state = queue.popleft()
            if pose[:2] in self.sides:
                continue
            for action, then in self.after(pose):
                now = self.sees(then)
                after = (then, cue or now[0], ends or now[1])
                if after not in found:
                    found[after] = [*found[state], action]
                    queue.append(after)
        return found

    def best(self) -> Best:
        ways = self.ways(self.start)
        plans = []
        for (pose, cue, ends), actions in ways.items():
            if cue and ends and pose[:2] not in self.sides:
                rest = self._to_sides(pose)
                plans.append((len(actions) + np.mean([len(x) for x in rest]), actions, rest))
        steps, actions, rest = min(plans, key=lambda plan: plan[0])
        pose, last = self.start, 0
        for step, action in enumerate(actions):
            pose = dict(self.after(pose))[action]
            last = step + 1 if self.sees(pose)[0] else last
        return Best(float(steps), (actions + rest[0], actions + rest[1]), float(steps) - last)

    def blind(self) -> int:
        """The fewest steps to a side."""
        return min(map(len, self._to_sides(self.start)))

    def _to_sides(self, pose: Pose) -> list[list[int]]:
        """The shortest actions to each side."""
        ends = [(then[:2], actions) for (then, *_), actions in self.ways(pose).items()]
        return [
            min((actions for at, actions in ends if at == side), key=lambda actions: (len(actions), actions))
            for side in self.sides
        ]


def layouts(id: str) -> list[tuple[float, int, Layout]]:
    """Every layout of a task: its probability, a seed of `reset` that draws it, and itself."""
    env = gymnasium.make(id).unwrapped
    assert env.agent_view_size == 7
    last = env.width - 3
    ends = range(4, last + 1) if env.random_length else [last]
    missing = {(end, start) for end in ends for start in range(1, end + 1)}
    found = []
    seed = 0
    while missing:
        env.reset(seed=seed)
        key = int(env.success_pos[0]) - 1, int(env.agent_pos[0])
        if key in missing:
            missing.remove(key)
            found.append((1 / len(ends) / key[0], seed, Layout(env)))
            env = gymnasium.make(id).unwrapped
        seed += 1
    return found


def reflex(image: NDArray[np.uint8], direction: int, before: int | None) -> int:
    """The action of who has no memory; views [7, 7, 3] are from (3, 6), and column 0 is to the left."""
    objects = image[:, :, 0]
    left, right = (int(objects[column, 6]) for column in (1, 5))
    match direction:
        case 0:  # along the corridor, until both objects are beside
            return RIGHT if {left, right} <= {_KEY, _BALL} and left != right else FORWARD
        case 1:  # from the corridor it goes on turning; from the look back it comes by the left
            return RIGHT if before == RIGHT else FORWARD
        case 2:  # the cue lies to the right of the way back; one that is not in sight is taken for the other
            cue = next((int(x) for x in objects[4, :6] if x in (_KEY, _BALL)), None)
            return LEFT if cue is not None and cue == left else RIGHT
    return FORWARD


def success_of_reflex(id: str, episodes: int = EPISODES) -> float:
    """The share of the episodes of seeds 0, 1, ... that it ends at the right side."""
    env = gymnasium.make(id).unwrapped
    right = 0
    for seed in range(episodes):
        observation, _ = env.reset(seed=seed)
        action, over, reward = None, False, 0.0
        while not over:
            action = reflex(observation["image"], int(observation["direction"]), action)
            observation, reward, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
        right += reward > 0
    return right / episodes


def measure(ids: Sequence[str] = TASKS) -> dict[str, Any]:
    """`{id: figures}`"""
    return {id: _figures(id) for id in ids}


def _figures(id: str) -> dict[str, float]:
    every = layouts(id)
    limit = every[0][2].env.max_steps
    bests = [layout.best() for _, _, layout in every]

    def mean(values: Sequence[float]) -> float:
        return math.fsum(p * x for (p, _, _), x in zip(every, values, strict=True))

    return {
        "best_return": mean([1 - 0.9 * best.steps / limit for best in bests]),
        "longest_held": max(best.held for best in bests),
        "return_of_a_guess": mean([0.5 * (1 - 0.9 * layout.blind() / limit) for _, _, layout in every]),
        "success_of_reflex": success_of_reflex(id),
    }


def table(result: dict[str, Any]) -> str:
    """The figures of `measure` as text."""
    lines = [f"{'task':<28}{'best return':>12}{'cue held':>10}{'guess':>8}{'reflex':>8}"]
    for id, row in result.items():
        lines.append(
            f"{id:<28}{row['best_return']:>12.4f}{row['longest_held']:>10.0f}"
            f"{row['return_of_a_guess']:>8.4f}{row['success_of_reflex']:>8.1%}"
        )
    return "\n".join(lines)


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> None:
    parser = parser_of(__doc__)
    args = parser.parse_args(arguments)
    try:
        import minigrid  # noqa: F401  # it registers the tasks
    except ImportError:
        raise ConfigError("MiniGrid is not installed; python -m pip install minigrid") from None
    result = measure()
    print(table(result))
    write(args.json, result)


if __name__ == "__main__":
    sys.exit(main())
