"""Memory Maze (Pasukonis, Lillicrap, Hafner 2022), through its dm_env tasks.

Its package registers with the old gym only.
The picture is 64 x 64 x 3 with the colour of the ball to find as its border; the agent moves in continuous
space. A ball that is touched gives 1. Nothing terminates: episodes are truncated.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from envs.vector import FirstStep

STEPS = {"9x9": 1000, "11x11": 2000, "13x13": 3000, "15x15": 4000}
"""Time limits: 250 to 1000 seconds at 4 steps a second."""
# The package's own names: balls that stand out and are seen from afar; six colours in every size.
_VARIANTS = {"": {}, "-Vis": {"good_visibility": True}, "-6CL": {"randomize_colors": True}}
IDS: dict[str, tuple[str, dict[str, bool]]] = {
    f"MemoryMaze-{size}{variant}-v0": (size, options)
    for variant, options in _VARIANTS.items()
    for size in STEPS
}
"""Size and arguments of each."""


def make(id: str, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
    """One maze.

    Raises:
        ImportError: where the package or what it needs is not installed.
    """
    size, options = IDS[id]
    task = getattr(tasks(), f"memory_maze_{size}")
    return DmEnv(functools.partial(task, image_only_obs=True, **options), render_mode)


def tasks() -> Any:
    """The module `memory_maze.tasks` without the package's `__init__`, which wants the old gym."""
    # As that does: a renderer that needs no display, unless the user has chosen one.
    os.environ.setdefault("MUJOCO_GL", "egl")
    if "memory_maze" not in sys.modules:
        spec = importlib.util.find_spec("memory_maze")
        if spec is None:
            raise ModuleNotFoundError("No module named 'memory_maze'")
        sys.modules["memory_maze"] = importlib.util.module_from_spec(spec)
    return importlib.import_module("memory_maze.tasks")


class DmEnv(gymnasium.Env[Any, Any]):
    """A maze of dm_env's as one of Gymnasium: LAST with discount 0 is termination, otherwise truncation.

    Args:
        make: (seed=...) -> a dm_env environment; called at each reset with a seed: dm_env knows no other way.
        render_mode: "rgb_array" shows the last observation.
    """

    # Gymnasium declares it as an instance variable, which a ClassVar may not override.
    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012

    observation_space = Box(0, 255, (64, 64, 3), np.uint8)
    action_space = Discrete(6)

    def __init__(self, make: Callable[..., Any], render_mode: str | None = None) -> None:
        self._make, self.render_mode = make, render_mode
        self._env: Any = None
        self._shown: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> FirstStep:
        super().reset(seed=seed)
        if seed is not None or self._env is None:
            self.close()
            self._env = self._make(seed=int(self.np_random.integers(2**31)))
        self._shown = self._env.reset().observation
        return self._shown, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        timestep = self._env.step(action)
        self._shown = timestep.observation
        terminated = bool(timestep.last() and timestep.discount == 0)
        return self._shown, float(timestep.reward or 0.0), terminated, timestep.last() and not terminated, {}

    def render(self) -> Any:
        return None if self.render_mode is None else self._shown

    def close(self) -> None:
        if self._env is not None:
            self._env.close()
            self._env = None
