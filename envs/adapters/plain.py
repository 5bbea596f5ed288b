"""One environment of another package, with plain spaces and endings that exclude each other."""

from __future__ import annotations

from typing import Any, Literal, SupportsFloat

import gymnasium

from envs.adapters.spaces import Actions, Observations

SuccessRule = Literal["info", "positive return"] | None
"""What makes an episode a success: `info["is_success"]` on its last row, or a return above 0."""


class PlainEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Where both flags are set `terminated` wins; `info` holds `is_success`, if there is such, and no more.

    Args:
        env: this wrapper is its only user.
        observations: how its observations are read.
        actions: how to act in it.
        success: the rule.
    """

    def __init__(
        self, env: gymnasium.Env[Any, Any], observations: Observations, actions: Actions, success: SuccessRule
    ) -> None:
        super().__init__(env)
        self.observation_space = observations.space
        self.action_space = actions.space
        self._read, self._act, self._success = observations.read, actions.act, success
        self._return = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        observation, _ = self.env.reset(seed=seed, options=options)
        self._return = 0.0
        return self._read(observation), self._info(False)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(self._act(action))
        terminated, truncated = bool(terminated), bool(truncated) and not terminated
        self._return += float(reward)
        ok = bool(info.get("is_success")) if self._success == "info" else self._return > 0
        return (
            self._read(observation),
            float(reward),
            terminated,
            truncated,
            self._info(ok and (terminated or truncated)),
        )

    def _info(self, success: bool) -> dict[str, Any]:
        return {} if self._success is None else {"is_success": success}
