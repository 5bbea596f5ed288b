"""The task that settings name, and whether its options and theirs go together. Knows nothing of torch."""

from __future__ import annotations

import envs
from dtqn.settings.config import Config, ConfigError, MisfitError


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
        # Centred, it pays nothing where all observations are new.
        if value and not config.learner.novelty_centred and not spec.observations_repeat:
            raise MisfitError(
                f"learner.{name} is {value}, but observations of {config.env} have real numbers, which "
                "hardly ever come twice; try 0, or learner.novelty_centred true"
            )
    return spec
