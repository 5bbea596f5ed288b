"""T-Maze: recall at the end of a corridor what was seen at its beginning (Ni et al. 2023, arXiv 2307.03864).

The corridor is y = 0 from x = 0 to the junction at x = o + L; the goals are the cells above and below the
junction. In the passive task (o = 0) an episode starts at x = 0, where the goal's side is seen; in the active
task (o = 1) it starts at x = 1, and the agent has to go back for it.

Legend: N environments, L length of the corridor, o the start, T = L + 2 o + 1 steps of an episode.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from envs.drawing import AGENT, FLOOR, GREEN, LINE, RED, VIEW, WALL
from envs.fields import Field, FieldDynamics, require
from envs.task import Native, match_name
from envs.vector import Arrays, EnvIds, Flags, Rewards, Rng

_MOVE: Final = np.array([(1, 0, -1, 0), (0, 1, 0, -1)])  # x and y by action


class TMazeDynamics(FieldDynamics):
    """A corridor of `length`. The fields of a state, integers:

    position: [2], the cell (x, y).
    goal: the goal's side y, +1 or -1.
    time: steps taken, 0 to T; 0 unless given.
    visited: whether x = 0 was visited before now (bool); False unless given. The goal's side is seen there
        on the first visit only.
    """

    observation_space = Box(np.array([0, -1], np.float32), np.array([1, 1], np.float32), dtype=np.float32)
    action_space = Discrete(4)
    action_names = ("right", "up", "left", "down")
    position: NDArray[np.int64]
    goal: NDArray[np.int64]
    time: NDArray[np.int64]
    visited: NDArray[np.bool_]

    def __init__(self, length: int, *, active: bool) -> None:
        self._start = 1 if active else 0
        self._junction = self._start + length
        self._duration = length + 2 * self._start + 1
        self._penalty = -1.0 / length
        self.fields = (
            Field("position", (2,), np.int64, -1, self._junction),
            Field("goal", (), np.int64, -1, 1),
            Field("time", (), np.int64, 0, self._duration, 0),
            Field("visited", (), np.bool_, 0, 1, False),
        )

    def restart(self, env_ids: EnvIds, rng: Rng) -> None:
        self.position[env_ids] = (self._start, 0)
        self.time[env_ids] = 0
        self.visited[env_ids] = False
        self.goal[env_ids] = 2 * rng.integers(2, size=len(env_ids)) - 1

    def step(self, action: NDArray[Any], rng: Rng) -> tuple[Rewards, Flags]:
        self.visited |= self.position[:, 0] == 0
        target = self.position.T + _MOVE.take(action, axis=1)
        x, y = target
        at_junction = x == self._junction
        legal = (x >= 0) & (x <= self._junction) & (abs(y) <= at_junction)
        self.position = np.where(legal, target, self.position.T).T
        self.time += 1
        over = self.time >= self._duration
        x, y = self.position.T
        late = x < self.time - self._start
        reward = np.where(over, y == self.goal, self._penalty * late)
        return reward, over

    def observe(self, rng: Rng) -> NDArray[np.float32]:
        x, y = self.position.T
        observation = np.empty((len(x), 2), np.float32)
        observation[:, 0] = x == self._junction
        shown = (x == 0) & ~self.visited
        observation[:, 1] = y + self.goal * shown  # y is 0 wherever the goal is shown
        return observation

    def check(self, state: Arrays) -> None:
        position = state["position"]
        x, y = position.T
        wrong = (x < 0) | (abs(y) > (x == self._junction))
        if wrong.any():
            raise ValueError(
                f"state 'position' holds {tuple(position[wrong][0].tolist())}; it must be (0, 0) to"
                f" ({self._junction}, 0) or ({self._junction}, -1 or 1)"
            )
        require("goal", state["goal"], state["goal"] != 0, "-1 or 1")

    def success(self, reward: Rewards, episode_return: Rewards, terminated: Flags) -> Flags:
        """The episode ends in the goal."""
        return reward == 1.0

    def other(self, state: Arrays) -> Arrays:
        """The goal is on the other side."""
        return state | {"goal": -state["goal"]}

    def picture(self, env_id: int) -> NDArray[np.uint8]:
        """The maze with y upward, squeezed where it is long; the goal is green, the other side red.

        The oracle's cell, x = 0, is yellow until it was left, with green on the goal's side.
        """
        cells, height = self._junction + 1, 24
        width = min(cells * height, 960)
        end = max(6, width // cells)  # the cells at both ends, however narrow the others are
        goal = int(self.goal[env_id])
        x, y = self.position[env_id].tolist()
        picture = np.full((3, height, width, 3), WALL, np.uint8)
        picture[1] = FLOOR
        if width // cells > 4:
            picture[1, :, np.arange(cells) * width // cells] = LINE
        picture[1 - goal, :, -end:], picture[1 + goal, :, -end:] = GREEN, RED
        if not self.visited[env_id]:
            picture[1, :, :end] = VIEW
            picture[1, (slice(0, height // 2) if goal > 0 else slice(height // 2, None)), :end] = GREEN
        middle = (2 * x + 1) * width // (2 * cells)
        half = max(2, width // cells // 4)
        middle = min(max(middle, half), width - 1 - half)
        picture[1 - y, 5:-5, middle - half : middle + half + 1] = AGENT
        return picture.reshape(3 * height, width, 3)


def find(id: str) -> Native:
    """A published task, or one of any other length from 1."""
    right = "t-maze-passive-<length> or t-maze-active-<length>, with a length from 1 to 999999999"
    name = match_name(id, r"t-maze-(passive|active)-([1-9]\d{0,8})", right)
    length, active = int(name[2]), name[1] == "active"
    return functools.partial(TMazeDynamics, length, active=active), {
        "description": (
            f"Recall at the end of a corridor of {length} the side that was seen "
            + ("one step behind the start, if one went there." if active else "at the start.")
        ),
        "success": "the last step is at the goal (its reward is 1)",
        "best_return": 1.0,
        "source": "Ni et al. (arXiv 2307.03864)",
        "horizon": length + (4 if active else 2),
    }
