"""N copies of a finite POMDP, stepped by look-up in its tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from envs.fields import Field, FieldDynamics
from envs.pomdp.model import Model, Rows
from envs.vector import Arrays, Copies, Flags, Rewards, Rng

Draw = Callable[[int, int], NDArray[np.uint8]]
"""The picture of a state and the observation last shown."""


class PomdpDynamics(FieldDynamics):
    """Any model. The fields of a state are `state`, and `observation`, the symbol last shown; both scalar. An
    observation that is not given is the symbol that a start shows.

    A start shows the extra symbol O, so that observations are 0 to O, as in gym-pomdps. A step draws s', then
    o of s', and pays the reward of (a, s, s', o). It ends the episode where `model.reset[a, s]`.

    Args:
        model: the tables.
        draw: makes the pictures.
        has_goal: whether an episode is a success where its return is above zero (DTQN's measure).
    """

    state: NDArray[np.intp]
    observation: NDArray[np.int64]

    def __init__(self, model: Model, draw: Draw, has_goal: bool = False) -> None:
        num_actions, num_states = model.reset.shape
        self._num_states, self._first_symbol = num_states, len(model.observations)
        self.observation_space = gymnasium.spaces.Discrete(self._first_symbol + 1)
        self.action_space, self.action_names = gymnasium.spaces.Discrete(num_actions), model.actions
        self._start = Rows(model.start[None])
        self._transition = Rows(model.transition.reshape(num_actions * num_states, num_states))
        self._observation = Rows(model.observation.reshape(num_actions * num_states, -1))
        self._reset = model.reset.ravel()
        self._reward = np.ascontiguousarray(model.reward).ravel()
        # How far apart neighbours along a, s, s' and o lie in `_reward`; 0 along axes of length 1.
        lengths = np.array(model.reward.shape)
        self._strides = np.where(lengths == 1, 0, lengths.prod() // lengths.cumprod())
        self._draw, self._model, self._has_goal = draw, model, has_goal
        self.fields = (
            Field("state", (), np.intp, 0, num_states - 1),
            Field("observation", (), np.int64, 0, self._first_symbol, self._first_symbol),
        )

    def restart(self, rows: Copies, rng: Rng) -> None:
        self.state[rows] = self._start.draw(np.zeros(len(rows), np.intp), rng.random(len(rows)))
        self.observation[rows] = self._first_symbol

    def step(self, action: NDArray[Any], rng: Rng) -> tuple[Rewards, Flags]:
        action, state = action.astype(np.intp), self.state
        uniform = rng.random((2, len(state)))
        first_row = action * self._num_states
        row = first_row + state
        self.state = self._transition.draw(row, uniform[0])
        self.observation = self._observation.draw(first_row + self.state, uniform[1])
        entry = np.zeros_like(row)
        for stride, index in zip(self._strides, (action, state, self.state, self.observation), strict=True):
            if stride:
                entry += stride * index
        return self._reward.take(entry), self._reset.take(row)

    def observe(self, rng: Rng) -> NDArray[np.int64]:
        return self.observation.copy()

    def success(self, reward: Rewards, episode_return: Rewards, terminated: Flags) -> Flags | None:
        return episode_return > 0.0 if self._has_goal else None

    def other(self, state: Arrays) -> Arrays | None:
        other_state, other_observation = self._model.other_state, self._model.other_observation
        if other_state is None or other_observation is None:
            return None
        shown = np.append(other_observation, self._first_symbol)[state["observation"]]
        return {"state": other_state[state["state"]], "observation": shown}

    def picture(self, copy: int) -> NDArray[np.uint8]:
        return self._draw(int(self.state[copy]), int(self.observation[copy]))
