"""Endless T-Maze: one corridor after the other, each with a cue that replaces the one before.

Shchendrigin et al. 2026 (arXiv 2601.15086), by the rules of their code. A cue says at a corridor's first cell
which way to turn at its end. The right turn leads into the next corridor, any other ends the episode.

Legend: N environments, n corridors, l cells that the longest has before its junction.
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

FORWARD, LEFT, RIGHT = range(3)
PENALTY: Final = -0.01
"""Of a step that does not lead on, and of a wrong turn."""
_PATIENCE: Final = 6
"""Times as many steps as the way takes, with which an episode is truncated."""


class EndlessTMazeDynamics(FieldDynamics):
    """`corridors` of `longest` cells each, or of 1 to `longest`, drawn anew. The fields of a state, integers:

    cell: cells gone in the corridor, 0 to its length, where the junction is; 0 unless given.
    length: of this corridor; `longest` unless given.
    cue: the way to turn, -1 left or 1 right; it is seen at cell 0 alone.
    passed: junctions behind the agent, 0 to n; 0 unless given.
    """

    action_space = Discrete(3)
    action_names = ("forward", "left", "right")
    cell: NDArray[np.int64]
    length: NDArray[np.int64]
    cue: NDArray[np.int64]
    passed: NDArray[np.int64]

    def __init__(self, corridors: int, longest: int, *, uniform: bool) -> None:
        self._corridors, self._longest = corridors, longest
        self._shortest = 1 if uniform else longest
        self.observation_space = Box(0.0, 1.0, (3,), np.float32)
        self.fields = (
            Field("cell", (), np.int64, 0, longest, 0),
            Field("length", (), np.int64, self._shortest, longest, longest),
            Field("cue", (), np.int64, -1, 1),
            Field("passed", (), np.int64, 0, corridors, 0),
        )

    def restart(self, env_ids: EnvIds, rng: Rng) -> None:
        self.cell[env_ids] = 0
        self.passed[env_ids] = 0
        self.cue[env_ids], self.length[env_ids] = self._drawn(len(env_ids), rng)

    def _drawn(self, count: int, rng: Rng) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Cues and lengths of new corridors."""
        cue = 2 * rng.integers(2, size=count) - 1
        return cue, rng.integers(self._shortest, self._longest + 1, size=count)

    def step(self, action: NDArray[Any], rng: Rng) -> tuple[Rewards, Flags]:
        at_junction = self.cell == self.length
        goes_on = action == np.where(at_junction, np.where(self.cue < 0, LEFT, RIGHT), FORWARD)
        turned = at_junction & goes_on
        self.cell += goes_on & ~at_junction
        self.passed += turned
        enters = turned & (self.passed < self._corridors)
        cue, length = self._drawn(len(action), rng)  # for all environments, whatever they do
        self.cell[enters] = 0
        self.cue, self.length = np.where(enters, cue, self.cue), np.where(enters, length, self.length)
        reward = np.where(goes_on, turned * 1.0, PENALTY)
        return reward, at_junction & ~enters

    def observe(self, rng: Rng) -> NDArray[np.float32]:
        """[N, 3]: the share of the longest corridor that is behind, and at cell 0 the cue: left, right."""
        observation = np.empty((len(self.cell), 3), np.float32)
        observation[:, 0] = self.cell / self._longest
        seen = self.cell == 0
        observation[:, LEFT] = seen & (self.cue < 0)
        observation[:, RIGHT] = seen & (self.cue > 0)
        return observation

    def check(self, state: Arrays) -> None:
        require("cell", state["cell"], state["cell"] <= state["length"], "at most the corridor's length")
        require("cue", state["cue"], state["cue"] != 0, "-1 or 1")

    def success(self, reward: Rewards, episode_return: Rewards, terminated: Flags) -> Flags:
        """The correct turn was taken at every junction."""
        return terminated & (self.passed == self._corridors)

    def other(self, state: Arrays) -> Arrays:
        """The cue of the corridor that the agent is in says the other way."""
        return state | {"cue": -state["cue"]}

    def picture(self, env_id: int) -> NDArray[np.uint8]:
        """The corridor and its junction, green on the cue's side; below it the corridors passed so far.

        Its first cell is yellow while the cue is seen.
        """
        size, (cell, length) = 24, (int(self.cell[env_id]), int(self.length[env_id]))
        picture = np.full((4, size, (self._longest + 1) * size, 3), WALL, np.uint8)
        picture[1, :, : (length + 1) * size] = FLOOR
        picture[1, :, : (length + 1) * size : size] = LINE
        sides = picture[:3:2, :, length * size : (length + 1) * size]
        sides[:] = RED
        sides[0 if self.cue[env_id] < 0 else 1] = GREEN
        if cell == 0:
            picture[1, :, :size] = VIEW
        picture[1, 5:-5, cell * size + 5 : (cell + 1) * size - 5] = AGENT
        share = int(self.passed[env_id]) / self._corridors
        picture[3, 8:-8, : round(share * picture.shape[2])] = AGENT
        return picture.reshape(4 * size, -1, 3)


def find(id: str) -> Native:
    """A published size, or any other."""
    name = match_name(
        id,
        r"endless-t-maze-(uniform-)?([1-9]\d{0,3})-([1-9]\d{0,3})",
        "endless-t-maze-<corridors>-<length> or endless-t-maze-uniform-<corridors>-<length>, "
        "with numbers from 1 to 9999",
    )
    uniform, corridors, longest = name[1] is not None, int(name[2]), int(name[3])
    limit = _PATIENCE * (longest + 1) * corridors
    # Nothing shows a junction: where lengths differ, the best player tries to turn at each cell on the way.
    tries = (longest - 1) / 2 if uniform else 0.0
    return functools.partial(EndlessTMazeDynamics, corridors, longest, uniform=uniform), {
        "description": (
            f"Turn {corridors} times as the latest cue says, each seen at the start of a corridor of "
            f"{'1 to ' * uniform}{longest} cells."
        ),
        "success": "the correct turn at every junction",
        "best_return": corridors * (1 + PENALTY * tries),
        "time_limit": limit,
        "source": "Shchendrigin et al. (arXiv 2601.15086)",
        "horizon": limit + 1,
    }
