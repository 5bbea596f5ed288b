"""The task that settings name, and whether its options and theirs go together. Knows nothing of torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import envs
from dtqn.settings.config import Config, ConfigError, MisfitError, settings_of, wrong
from dtqn.settings.layers import Layer, build, layer_of
from dtqn.text import one_line


def task_of(config: Config) -> envs.TaskSpec:
    """The run's task.

    Raises:
        ConfigError: where there is no such task.
        MisfitError: where the task lacks an option that is set, a success to stop at, or observations that
            come twice.
    """
    try:
        spec = envs.spec(config.env, **config.task.model_dump())
    except ValueError as error:
        # Some tasks are there only with their options: arguments that a class needs, another backend.
        kind = MisfitError if envs.is_task(config.env) else ConfigError
        raise kind(f"env is {config.env}: {error}") from None
    if config.stop_at_success is not None and not spec.has_success:
        raise MisfitError(
            f"stop_at_success is {config.stop_at_success}, but {config.env} defines no success; try none"
        )
    for name in ("novelty_weight", "repeat_cost"):
        value = getattr(config.learner, name)
        if value and not spec.observations_repeat:
            raise MisfitError(
                f"learner.{name} is {value}, but observations of {config.env} have real numbers, which "
                "hardly ever repeat; try 0"
            )
    return spec


def on_task(config: Config, given: Mapping[str, Any]) -> Config:
    """A run's settings with another task, or with other options of its own task, for its trained network.

    Args:
        given: `env` and options `task.*`, as typed; options that are not given stay as in the run.

    Raises:
        ConfigError: there is no such task, or it shows or takes other things than the run's own.
    """
    if not given:
        return config
    other = build([Layer(None, settings_of(config)), layer_of(None, given)])
    trained_on, played = task_of(config), task_of(other)
    for name in ("observation_space", "action_space"):
        own, there = getattr(trained_on, name), getattr(played, name)
        if own != there:
            what = name.replace("_", " ")
            must = f"must be as in {config.env}, on which the run was trained: {one_line(str(own), 100)}"
            raise wrong("env", other.env, f"its {what} is {one_line(str(there), 100)}; {must}")
    return other


def out_of_reach(config: Config, played: Config) -> str:
    """One line where another task's episodes are longer than what the agent can see; else empty."""
    reach, horizon = config.network.core.reach, task_of(played).horizon
    if reach is None or (horizon is not None and horizon <= reach + 1):
        return ""
    length = "have no limit" if horizon is None else f"last up to {horizon} timesteps"
    return f"{config.network.core.name} sees {reach} timesteps back, and episodes of {played.env} {length}"
