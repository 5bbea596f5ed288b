"""One copy of a task as a Gymnasium environment: the vector environment with N = 1."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from envs.vector import AnyVectorEnv, FirstRow


class NativeEnv(gymnasium.Env[Any, Any]):
    """One copy of a task. `info["is_success"]` is True on the last step of a success, where there is such.

    Args:
        vector: the task with one copy; this environment is its only user.
    """

    # Gymnasium declares it as an instance variable, which a ClassVar may not override.
    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 8}  # noqa: RUF012

    def __init__(self, vector: AnyVectorEnv) -> None:
        self._vector = vector
        self.render_mode = vector.render_mode
        self.observation_space = vector.single_observation_space
        self.action_space = vector.single_action_space
        self._needs_reset = True
        self._share_generator()

    def _share_generator(self) -> None:
        """Makes `np_random` the generator that episodes are drawn from."""
        self._np_random, self._np_random_seed = self._vector.np_random, self._vector.np_random_seed

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> FirstRow:
        """Starts an episode; `options={"state": ...}` in a given state (see `NativeVectorEnv.reset`)."""
        observation, _ = self._vector.reset(seed=seed, options=options)
        self._share_generator()
        self._needs_reset = False
        return _only(observation), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One step.

        Raises:
            ValueError: for an action out of range.
            gymnasium.error.ResetNeeded: before the first reset and after the end of an episode.
        """
        if self._needs_reset:
            raise gymnasium.error.ResetNeeded("call reset() before step(): no episode is open")
        observation, reward, terminated, truncated, infos = self._vector.step(np.asarray(action)[None])
        self._needs_reset = bool(terminated[0] or truncated[0])
        return (
            _only(observation),
            float(reward[0]),
            bool(terminated[0]),
            bool(truncated[0]),
            {key: bool(value[0]) for key, value in infos.items()},
        )

    def render(self) -> Any:
        """An RGB picture, uint8 [height, width, 3] in pixels; None without a render mode."""
        pictures = self._vector.render()
        return None if pictures is None else pictures[0]


def _only(observation: Any) -> Any:
    """The observation of the only copy: an array's first row, or that of each array of a dict."""
    if isinstance(observation, dict):
        return {key: part[0] for key, part in observation.items()}
    return observation[0]
