"""An environment's start in a given state."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray


def at(env: Any, **state: Any) -> NDArray[Any]:
    observation: NDArray[Any] = env.reset(options={"state": state})[0]
    return observation
