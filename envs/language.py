"""What another package's environment says and hears, where agents here read and act by other spaces."""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector.utils import batch_space, iterate

from envs.adapters.spaces import Actions, Observations, each
from envs.errors import ANY_FAULT
from envs.vector import AnyVectorEnv, AnyWrapper, brief

Space = gymnasium.Space[Any]


class Language(NamedTuple):
    """The spaces of one environment as its package makes it, and the way from and to a task's own."""

    observation_space: Space
    observations: Observations
    """The task's."""
    action_space: Space
    actions: Actions
    """The task's."""

    def seen(self, observation: Any, num_envs: int | None) -> Any:
        """An observation in the task's space, of the environment's or of one that is in that space already.

        Args:
            num_envs: N, where it is of a batch; None for one environment.

        Raises:
            ValueError: for one that the environment does not give.
        """
        if _is_of(self.observations.space, observation, () if num_envs is None else (num_envs,)):
            return observation
        try:
            if num_envs is None:
                return self.observations.read(observation)
            ones = list(iterate(batch_space(self.observation_space, num_envs), observation))
            return each(lambda *seen: np.stack(seen), *map(self.observations.read, ones))
        except ANY_FAULT:
            space = " ".join(str(self.observation_space).split())
            raise ValueError(f"observation is {brief(observation)}; must be one of {space}") from None

    def acts(self, numbers: np.ndarray) -> Any:
        """The actions of a batch, from their numbers [N]."""
        return np.stack([np.asarray(self.actions.act(int(number))) for number in numbers])

    def numbers(self, action: Any, num_envs: int | None) -> Any:
        """The number of an action, or the numbers of a batch.

        Raises:
            ValueError: for what is no action of the environment.
        """
        try:
            if num_envs is None:
                return self._number(action)
            return np.array([self._number(one) for one in action])
        except ANY_FAULT:
            space = " ".join(str(self.action_space).split())
            raise ValueError(f"action is {brief(action)}; must be one of {space}") from None

    def _number(self, action: Any) -> int:
        number = self.actions.number(action)
        if not np.array_equal(self.actions.act(number), action):
            raise ValueError
        return number


def _is_of(space: Space, observation: Any, batch: tuple[int, ...]) -> bool:
    """Whether arrays have the shapes and the kinds of numbers of a space's, whatever they hold."""
    if isinstance(space, gymnasium.spaces.Dict):
        same = isinstance(observation, dict) and observation.keys() == space.spaces.keys()
        return same and all(_is_of(part, observation[key], batch) for key, part in space.spaces.items())
    kind = np.dtype(space.dtype).kind
    found = observation if isinstance(observation, np.ndarray | np.generic) else None
    return found is not None and found.shape == (*batch, *(space.shape or ())) and found.dtype.kind == kind


class SpokenVectorEnv(AnyWrapper):
    """Environments that take the actions of the environment's own space; observations are the task's."""

    def __init__(self, env: AnyVectorEnv, language: Language) -> None:
        super().__init__(env)
        self._language = language
        self._single_action_space = language.action_space
        self._action_space = batch_space(language.action_space, env.num_envs)

    def step(self, actions: Any) -> Any:
        return self.env.step(self._language.numbers(actions, self.num_envs))
