"""One copy of a gridverse world as a Gymnasium environment: the vector environment with N = 1."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from envs.gridverse.vector import GridverseVectorEnv
from envs.gridverse.world import WorldSpec


class GridverseEnv(gymnasium.Env[NDArray[np.uint8], np.int64]):
    """One copy of a world with a time limit. `info["is_success"]` is True on the last step of a success.

    Args:
        world: the world that is run.
        time_limit: an episode that has not terminated is truncated after this many steps.
        render_mode: "rgb_array" or None.

    Raises:
        ValueError: for a time limit below 1 or an unknown render mode.
    """

    # Gymnasium declares it as an instance variable, which a ClassVar may not override.
    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 8}  # noqa: RUF012

    def __init__(self, world: WorldSpec, *, time_limit: int, render_mode: str | None = None) -> None:
        self._vector = GridverseVectorEnv(world, 1, time_limit=time_limit, render_mode=render_mode)
        self.render_mode = render_mode
        self.observation_space = self._vector.single_observation_space
        self.action_space = self._vector.single_action_space
        self._needs_reset = True
        self._share_generator()

    def _share_generator(self) -> None:
        """Makes `np_random` the generator that episodes are drawn from."""
        self._np_random, self._np_random_seed = self._vector.np_random, self._vector.np_random_seed

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Starts an episode; `options={"state": ...}` in a given state (see `GridverseVectorEnv.reset`)."""
        observation, _ = self._vector.reset(seed=seed, options=options)
        self._share_generator()
        self._needs_reset = False
        return observation[0], {}

    def step(self, action: Any) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
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
            observation[0],
            float(reward[0]),
            bool(terminated[0]),
            bool(truncated[0]),
            {"is_success": bool(infos["is_success"][0])},
        )

    def render(self) -> Any:
        """An RGB picture, uint8 [height, width, 3] in pixels; None without a render mode."""
        pictures = self._vector.render()
        return None if pictures is None else pictures[0]
