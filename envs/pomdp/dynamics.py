"""A finite POMDP as tables, and N environments of one, stepped by look-up in them.

Legend: S states, A actions, O observations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from envs.fields import Field, FieldDynamics
from envs.vector import Arrays, EnvIds, Flags, Rewards, Rng

Draw = Callable[[int, int], NDArray[np.uint8]]
"""The picture of a state and the observation last shown."""


@dataclass(frozen=True, eq=False)
class Model:
    """A finite POMDP. Action a in state s leads to state s' and shows observation o of it."""

    states: tuple[str, ...]
    actions: tuple[str, ...]
    observations: tuple[str, ...]
    start: NDArray[np.float64]
    """[S], probability of each initial state."""
    transition: NDArray[np.float64]
    """[A, S, S'], probability of s' after a in s."""
    observation: NDArray[np.float64]
    """[A, S', O], probability of o where a led to s'."""
    reward: NDArray[np.float64]
    """Broadcasts to [A, S, S', O]: an axis that no reward depends on has length 1."""
    reset: NDArray[np.bool_]
    """[A, S], whether the episode ends with a in s; s' is then drawn from `start`."""
    other_state: NDArray[np.intp] | None = None
    """[S], each state with another secret, the one thing to be seen and remembered; None: there is none."""
    other_observation: NDArray[np.intp] | None = None
    """[O], what is then shown in the place of each observation; None where there is no secret."""


class Rows:
    """Rows of probabilities, laid end to end: row r has the interval [r, r + 1), cut at its cumulative sums.

    So one binary search finds the outcome of any row, whatever the number of its outcomes.

    Args:
        probabilities: [R, K], each row with a positive sum; rows are scaled to a sum of 1.
    """

    def __init__(self, probabilities: NDArray[np.float64]) -> None:
        cumulative = probabilities.cumsum(axis=1)
        cumulative /= cumulative[:, -1:]
        row, self._outcome = probabilities.nonzero()
        self._upper = row + cumulative[row, self._outcome]
        self._last = np.bincount(row).cumsum() - 1

    def draw(self, row: NDArray[np.intp], uniform: NDArray[np.float64]) -> NDArray[np.intp]:
        """The outcome of each of `row` [N]: the first whose cumulative probability exceeds `uniform` [N]."""
        index = self._upper.searchsorted(row + uniform, side="right")
        # A uniform number just below 1 may be rounded up to the next row when its row is added.
        np.minimum(index, self._last.take(row), out=index)
        return self._outcome.take(index)


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
        self._reward_shape = (num_actions, num_states, num_states, self._first_symbol)
        self._draw, self._model, self._has_goal = draw, model, has_goal
        self.fields = (
            Field("state", (), np.intp, 0, num_states - 1),
            Field("observation", (), np.int64, 0, self._first_symbol, self._first_symbol),
        )

    def restart(self, env_ids: EnvIds, rng: Rng) -> None:
        self.state[env_ids] = self._start.draw(np.zeros(len(env_ids), np.intp), rng.random(len(env_ids)))
        self.observation[env_ids] = self._first_symbol

    def step(self, action: NDArray[Any], rng: Rng) -> tuple[Rewards, Flags]:
        action, state = action.astype(np.intp), self.state
        uniform = rng.random((2, len(state)))
        first_row = action * self._num_states
        row = first_row + state
        self.state = self._transition.draw(row, uniform[0])
        self.observation = self._observation.draw(first_row + self.state, uniform[1])
        reward = np.broadcast_to(self._model.reward, self._reward_shape)  # no copy, which might be huge
        return reward[action, state, self.state, self.observation], self._reset.take(row)

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

    def picture(self, env_id: int) -> NDArray[np.uint8]:
        return self._draw(int(self.state[env_id]), int(self.observation[env_id]))
