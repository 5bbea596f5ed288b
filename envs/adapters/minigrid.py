"""The particulars of MiniGrid's environments."""

from __future__ import annotations

import importlib
import sys
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium.spaces import MultiDiscrete


def max_steps(env: gymnasium.Env[Any, Any]) -> int | None:
    """The limit that a MiniGrid environment keeps, which some set in their reset; None for others."""
    return int(cast(Any, env.unwrapped).max_steps) or None if _is_minigrid(env) else None


def _is_minigrid(env: gymnasium.Env[Any, Any]) -> bool:
    module = sys.modules.get("minigrid.minigrid_env")
    return module is not None and isinstance(env.unwrapped, module.MiniGridEnv)


def codes(env: gymnasium.Env[Any, Any]) -> dict[str, gymnasium.Space[Any]]:
    """MiniGrid declares bytes, but its picture holds codes: object, colour, state (or direction) of cells."""
    space = env.observation_space
    if not _is_minigrid(env) or not isinstance(space, gymnasium.spaces.Dict) or "image" not in space.spaces:
        return {}
    if space["image"] != cast(Any, env.unwrapped.observation_space)["image"]:
        return {}  # a wrapper's picture
    constants = importlib.import_module("minigrid.core.constants")
    sizes = [max(t.values()) + 1 for t in (constants.OBJECT_TO_IDX, constants.COLOR_TO_IDX)]
    numbers = np.broadcast_to([*sizes, 4], space["image"].shape or ())
    return {"image": MultiDiscrete(numbers, dtype=np.uint8)}
