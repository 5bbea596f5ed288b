"""The task that settings name, and whether its options and theirs go together. Knows nothing of torch."""

from __future__ import annotations

import envs
from dtqn.settings.config import Config, ConfigError, MisfitError


def task_of(config: Config) -> envs.TaskSpec:
    """The run's task.

    Raises:
        ConfigError: where there is no such task.
        MisfitError: where the task lacks an option that is set, or a success to stop at.
    """
    kind = ConfigError
    try:
        envs.spec(config.env)
        kind = MisfitError  # a task that there is, with options that are not its own
        spec = envs.spec(config.env, **config.task.model_dump())
    except ValueError as error:
        raise kind(f"env is {config.env}: {error}") from None
    if config.stop_at_success is not None and not spec.has_success:
        raise MisfitError(
            f"stop_at_success is {config.stop_at_success}, but {config.env} defines no success; try none"
        )
    return spec
