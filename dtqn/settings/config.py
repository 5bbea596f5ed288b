"""The settings of a run, resolved, and each of them by its dotted name.

Settings are frozen pydantic models in the groups `task network learner replay actor evaluation`. The files
`network`, `learner` and `run` state each one's default, unit, legal range and the cores that read it, and
`envs.options` those of a task. `rules` says which of them do not go together and which nothing reads.
`presets` merges presets, files and flags, and turns what is wrong into a `ConfigError` of one line.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from dtqn.settings import rules, values
from dtqn.settings.group import ConfigError as ConfigError
from dtqn.settings.group import MisfitError as MisfitError
from dtqn.settings.group import wrong as wrong
from dtqn.settings.learner_and_replay import LearnerConfig as LearnerConfig
from dtqn.settings.learner_and_replay import ReplayConfig as ReplayConfig
from dtqn.settings.network import NetworkConfig as NetworkConfig
from dtqn.settings.run import SETTLED as SETTLED
from dtqn.settings.run import ActorConfig as ActorConfig
from dtqn.settings.run import RunConfig
from dtqn.settings.run import TaskConfig as TaskConfig


class Config(RunConfig):
    """One run, resolved."""

    rules_of_group = rules.RUN

    @property
    def records_graphs(self) -> bool:
        """Whether acting and updates are recorded as CUDA graphs, if they are on a GPU."""
        return rules.is_recordable(self) if self.cuda_graphs == "auto" else self.cuda_graphs

    def unread(self) -> list[str]:
        """Settings that were changed from their default and that nothing reads, given the others.

        Those that presets of tasks set for every agent are left out, such as `network.memory_length`.
        """
        return [
            name
            for name, field in fields_of().items()
            if value_of(self, name) != field.default and not rules.is_read(self, name, field)
        ]


@functools.cache
def fields_of(model: type[BaseModel] = Config, prefix: str = "") -> Mapping[str, FieldInfo]:
    """Dotted name -> field of every leaf setting, in order of declaration."""
    leaves: dict[str, FieldInfo] = {}
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            leaves.update(fields_of(kind, f"{prefix}{name}."))
        else:
            leaves[prefix + name] = field
    return leaves


def spelled(name: str) -> str:
    """A setting's dotted name with underscores for dashes; names within a mapping stay as they are."""
    plain = name.replace("-", "_")
    setting = setting_of(plain)
    return plain if setting is None else setting + name[len(setting) :]


def setting_of(name: str) -> str | None:
    """The setting that a dotted name is of: `network.kwargs` is that of `network.kwargs.heads` too.

    None where there is no such setting.
    """
    fields = fields_of()
    if name in fields:
        return name
    within = (x for x, field in fields.items() if name.startswith(f"{x}.") and values.is_mapping(field))
    return next(within, None) if all(name.split(".")) else None


def value_of(config: Config, name: str) -> Any:
    """The value of a setting by its dotted name."""
    value: Any = config
    for part in name.split("."):
        value = getattr(value, part)
    return value
