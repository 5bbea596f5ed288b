"""The exact optimum of a gridverse memory task for an agent that forgets nothing.

All that such an agent does not know is which of the task's layouts (the colours of exits and beacons) it is
in. Its belief is the set of layouts that would have shown it what it has seen. Each is as likely as the
others, so a pose and a belief are a state of a Markov decision process that value iteration solves. The value
of an unknown layout thereby includes that of going to look.

The process is read off the environment itself, which is put into every state and stepped with every action.
There is no time limit in it.

Legend: N copies, L layouts, P poses (free cells times headings), A actions, S states.
"""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from envs.gridverse import codes
from envs.task import Task
from envs.vector import NativeVectorEnv

HEADINGS: Final = len(codes.HEADINGS)
_RESETS: Final = 1024
"""Copies that are reset to meet every layout; each of 24 is missed with a probability below 1e-18."""

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


class Optimum:
    """The value of every pose under every belief, discounted, with scaled rewards."""

    def __init__(self, task: Task, gamma: float, reward_scale: float) -> None:
        """`task` is a native gridverse task in which nothing but the agent moves, whichever way it goes."""
        begun = task.make_vector(_RESETS, 0)
        assert isinstance(begun, NativeVectorEnv)
        begun.reset()
        found = begun.get_state()["state"]
        layouts = np.unique(found["grid"], axis=0)
        self.start: NDArray[Any] = found["agent"][0]
        kinds, colours = layouts[..., 0], layouts[..., 2]
        self.cells: dict[str, list[tuple[int, int]]] = {
            name: [(int(y), int(x)) for y, x in np.argwhere(kinds[0] == kind)]
            for name, kind in (("exit", codes.EXIT), ("beacon", codes.BEACON))
        }
        self.cue: NDArray[Any] = colours[:, *self.cells["beacon"][0]]
        """[L] the beacons' colour."""
        self.width: int = kinds.shape[2]
        """Cells of a row."""
        self.free: NDArray[np.intp] = np.argwhere((kinds != codes.WALL).all(axis=0))
        """[cells, 2] rows and columns where one can stand."""
        poses = np.array([(y, x, heading) for y, x in self.free for heading in range(HEADINGS)], np.uint8)
        self._number = np.full((*kinds.shape[1:], HEADINGS), -1)
        self._number[tuple(poses.T)] = np.arange(len(poses))
        self._tabulate(task, layouts, poses, found["item"][0])
        self._solve(gamma, reward_scale)

    def _tabulate(
        self, task: Task, layouts: NDArray[Any], poses: NDArray[Any], item: NDArray[np.uint8]
    ) -> None:
        """Look around in every pose of every layout, and try every action there."""
        size = len(layouts), len(poses)
        env = task.make_vector(size[0] * size[1], 0)
        assert isinstance(env, NativeVectorEnv)
        num_actions = int(env.single_action_space.n)  # type: ignore[attr-defined]
        state = {
            "grid": layouts.repeat(size[1], axis=0),
            "agent": np.tile(poses, (size[0], 1)),
            "item": item,
        }
        seen = env.reset(options={"state": state})[0]
        self._seen: NDArray[Any] = seen.reshape(*size, -1)  # [L, P, ...]
        self._next, self._reward, self._over = (np.zeros((num_actions, *size), t) for t in (int, float, bool))
        for action in range(num_actions):
            env.reset(options={"state": state})
            _, reward, terminated, _, _ = env.step(np.full(env.num_envs, action))
            after = self.poses(env.get_state()["state"]["agent"])
            self._next[action], self._reward[action], self._over[action] = (
                array.reshape(size) for array in (after, reward, terminated)
            )
        self._alike: Bools = (self._seen[:, None] == self._seen).all(axis=-1)
        """[L, L, P] whether two layouts look the same from a pose."""
        self._shows_cue: Bools = ~(self._alike & (self.cue[:, None] != self.cue)[..., None]).any(axis=(0, 1))

    def _solve(self, gamma: float, reward_scale: float) -> None:
        """Number the states that can be reached from the start, and iterate their values."""
        pose = int(self.poses(self.start[None])[0])
        self._states: dict[tuple[int, bytes], int] = {}
        waiting = [self._state(pose, belief) for belief in self._parts(self.ignorance(1)[0], pose)]
        reward: list[float] = []
        edges: list[tuple[int, int, float]] = []  # (number of state and action, next state, probability)
        for pose, belief in waiting:  # it grows
            for action in range(len(self._next)):
                (after,) = set(self._next[action, belief, pose].tolist())
                (over,) = set(self._over[action, belief, pose].tolist())
                number = len(reward)
                reward.append(float(self._reward[action, belief, pose].mean()))
                for part in [] if over else self._parts(belief, after):
                    known = (after, part.tobytes()) in self._states
                    state = self._state(after, part)
                    if not known:
                        waiting.append(state)
                    share = float(part.sum() / belief.sum())
                    edges.append((number, self._states[after, part.tobytes()], share))
        source, target, share = (np.array(column) for column in zip(*edges, strict=True))
        scaled = np.array(reward) * reward_scale
        values: Floats = np.zeros(len(self._states))
        for _ in itertools.count():
            following = np.bincount(source, share * values[target], minlength=len(scaled))
            self.action_values: Floats = (scaled + gamma * following).reshape(len(values), -1)
            before, values = values, self.action_values.max(axis=1)
            if np.abs(values - before).max() < 1e-12:
                return

    def _state(self, pose: int, belief: Bools) -> tuple[int, Bools]:
        self._states.setdefault((pose, belief.tobytes()), len(self._states))
        return pose, belief

    def _parts(self, belief: Bools, pose: int) -> list[Bools]:
        """The beliefs that a belief may become by the observation at a pose."""
        parts = []
        while belief.any():
            parts.append(belief & self._alike[belief.argmax(), :, pose])
            belief = belief & ~parts[-1]
        return parts

    def poses(self, agent: NDArray[Any]) -> NDArray[np.intp]:
        """The numbers of poses [N, 3] of (row, column, heading)."""
        number: NDArray[np.intp] = self._number[tuple(agent.T)]
        return number

    def ignorance(self, num: int) -> Bools:
        """Beliefs [N, L] before an episode's first observation."""
        return np.ones((num, len(self.cue)), bool)

    def cue_in_view(self, agent: NDArray[Any]) -> Bools:
        """[N] whether a beacon's colour is seen from poses [N, 3]."""
        shown: Bools = self._shows_cue[self.poses(agent)]
        return shown

    def updated(self, belief: Bools, agent: NDArray[Any], observation: NDArray[Any]) -> Bools:
        """Beliefs [N, L] after observations [N, ...] at poses [N, 3]."""
        expected = self._seen[:, self.poses(agent)]  # [L, N, ...]
        observed = observation.reshape(len(observation), -1)
        after: Bools = belief & (expected == observed).all(axis=-1).T
        return after

    def states(self, agent: NDArray[Any], belief: Bools) -> NDArray[np.intp]:
        """The rows of `action_values` [S, A] for poses [N, 3] and beliefs [N, L]; KeyError after the end."""
        pairs = zip(self.poses(agent).tolist(), belief, strict=True)
        return np.array([self._states[pose, row.tobytes()] for pose, row in pairs], np.intp)

    def values(self, agent: NDArray[Any], belief: Bools) -> Floats:
        """V* [N] of poses [N, 3] under beliefs [N, L]."""
        values: Floats = self.action_values[self.states(agent, belief)].max(axis=1)
        return values
