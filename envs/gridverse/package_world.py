"""Worlds that only the gym_gridverse package can run, with objects, rewards or transitions of a user's own.

Their files go to the package as they are. Each is a task as those of other packages are (`envs.adapters`):
what the package holds of a state cannot be saved.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import yaml
from numpy.typing import NDArray

from envs import yaml_file
from envs.adapters.foreign import Recipe, foreign_task
from envs.entry_points import located, search_working_directory
from envs.errors import ANY_FAULT
from envs.gridverse.package import load
from envs.gridverse.representations import chosen
from envs.gridverse.world import WorldFacts
from envs.options import TaskOptions
from envs.task import Task
from envs.vector import FirstRow, positive_int


def task(id: str, path: str, data: Any, options: TaskOptions) -> Task:
    """The task of a file that goes to the package as it is.

    Args:
        data: what the file holds; what it says of itself under `task` is not for the package.

    Raises:
        ValueError: one line, where the package is not installed or cannot make the world.
    """
    world = dict(data) if isinstance(data, dict) else data
    facts = WorldFacts.from_data(world.pop("task", {}) if isinstance(world, dict) else {})
    observation = chosen(options.observation, facts.observation)
    limit = facts.time_limit if options.time_limit is None else options.time_limit
    limit = positive_int("task.time_limit", limit)
    return foreign_task(
        Recipe(id, make_world, (path, yaml.safe_dump(world), observation, limit)),
        options,
        description=facts.description or "A world of gym-gridverse with parts of a user's own.",
        source=facts.source or path,
        takes=("observation", "backend"),
    )


def make_world(
    path: str, text: str, observation: str, time_limit: int, render_mode: str | None
) -> gymnasium.Env[Any, Any]:
    """A world of the package's as a Gymnasium environment with a time limit; `text` is the file's."""
    load()
    search_working_directory()  # for modules that the file names
    try:
        env = PackageWorld(yaml_file.parse(text), observation)
    except ANY_FAULT as error:  # whatever the package, or a user's module, makes of the file
        raise ValueError(f"{path}: gym_gridverse cannot make it: {located(error)}") from None
    return gymnasium.wrappers.TimeLimit(env, time_limit)


class PackageWorld(gymnasium.Env[NDArray[np.uint8], Any]):
    """One copy of a world that the package makes from data in the layout of its YAML files.

    Observations have the form of the native worlds' (`envs.gridverse.representations`).
    """

    def __init__(self, data: Any, observation: str) -> None:
        self._package = load()
        self._env = self._package.make_env(data)
        representation = self._package.make_representation("default", self._env.observation_space)
        self._convert, self._is_grid = representation.convert, observation == "grid"
        height, width, _ = representation.space["grid"].upper_bound.shape
        self._can_hold = any(kind.holdable for kind in self._env.state_space.object_types)
        highest = np.asarray(representation.space["item"].upper_bound)
        if self._is_grid:
            shape = (height + self._can_hold, width, 3)
            nvec = np.broadcast_to(highest + 1, shape)
        else:
            nvec = np.full(height * width + self._can_hold, 2 * highest.max() + 1)
        self.observation_space = gymnasium.spaces.MultiDiscrete(nvec, dtype=np.uint8)
        self.action_space = gymnasium.spaces.Discrete(len(self._env.action_space.actions))
        self._state: Any = None

    def _seed(self) -> None:
        """Everything that is drawn at the next call, by the world and by functions without a generator."""
        seed = int(self.np_random.integers(2**63))
        self._env.set_seed(seed)
        self._package.seed_library(seed)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> FirstRow:
        super().reset(seed=seed)
        self._seed()
        self._state = self._env.functional_reset()
        return self._observe(), {}

    def step(self, action: Any) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        self._seed()
        chosen = self._env.action_space.int_to_action(int(action))
        self._state, reward, terminated = self._env.functional_step(self._state, chosen)
        return self._observe(), float(reward), bool(terminated), False, {}

    def _observe(self) -> NDArray[np.uint8]:
        self._seed()
        observation = self._env.functional_observation(self._state)
        shown = self._convert(observation)
        cells, item = np.asarray(shown["grid"]), np.asarray(shown["item"])
        if not self._is_grid:
            held = [item] if self._can_hold else []
            return np.array([*cells.reshape(-1, 3), *held])[:, (0, 2)].sum(axis=1).astype(np.uint8)
        if self._can_hold:
            row = np.zeros_like(cells[:1])  # NoneGridObject, but below the agent
            row[0, observation.agent.position.x] = item
            cells = np.concatenate([cells, row])
        return cells.astype(np.uint8)
