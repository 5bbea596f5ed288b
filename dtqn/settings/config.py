"""The settings of a run, resolved, and each of them by its dotted name.

Settings are frozen pydantic models in the groups `task network learner replay actor evaluation`. The files
`agent` and `run` state the default, unit and legal range of each, and `envs.options` does so for a task's.
Some settings are choices: `network.core` names one of several things, which have settings of their own, such
as `network.core.memory_length` (`dtqn.choices`). Each group says which settings do not go together.
`presets` merges presets, files and flags, and turns what is wrong into a `ConfigError` of one line.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from dtqn.settings import gone, group, values
from dtqn.settings.agent import LearnerConfig, NetworkConfig, ReplayConfig
from dtqn.settings.group import ConfigError, MisfitError, wrong
from dtqn.settings.run import SETTLED, ActorConfig, Config, TaskConfig

__all__ = ["SETTLED", "ActorConfig", "Config", "ConfigError", "LearnerConfig", "MisfitError"]
__all__ += ["NetworkConfig", "ReplayConfig", "TaskConfig", "wrong"]


def settings_of(config: Config) -> dict[str, Any]:
    """Dotted name -> value of all that a run has set; of a choice its name and the chosen one's settings."""
    return dict(leaves(config.model_dump()))


def leaves(values: Mapping[Any, Any], group: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names, with underscores for dashes, and values, be they nested or not.

    A mapping that is itself the value of a setting stays as it is. What a choice names stands in its group
    under `name`: `network: {core: {name: lstm}}`.
    """
    for key, value in values.items():
        name = spelled(group + str(key))
        is_group = setting_of(name) is None or name in choices_of()
        if isinstance(value, Mapping) and value and is_group:
            yield from leaves(value, f"{name}.")
        elif not ((name in GROUPS and value in (None, {})) or (name in choices_of() and value == {})):
            yield name, value  # others are groups all of whose lines are commented out


GROUPS = [name for name, field in Config.model_fields.items() if isinstance(field.default, BaseModel)]


@functools.cache
def fields_of(model: type[BaseModel] = Config, prefix: str = "") -> Mapping[str, FieldInfo]:
    """Dotted name -> field of every leaf setting, in order of declaration.

    One that several of what a choice names have is there once, as the one with the most values has it.
    """
    leaves: dict[str, FieldInfo] = {}
    for name, field in model.model_fields.items():
        inner: list[Any] = []
        if choice := values.mark_of(field, values.Choice):
            leaves[prefix + name] = field
            inner = list(choice.by_name.values())
        elif isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            inner = [field.annotation]
        elif not (name == "name" and issubclass(model, group.Member)):
            leaves[prefix + name] = field
        for part in inner:
            for leaf, of_part in fields_of(part, f"{prefix}{name}.").items():
                known = leaves.setdefault(leaf, of_part)
                leaves[leaf] = max(known, of_part, key=lambda one: len(values.choices(one)))
    return leaves


@functools.cache
def choices_of() -> Mapping[str, values.Choice]:
    """Dotted name -> the choices among the settings."""
    marked = ((name, values.mark_of(field, values.Choice)) for name, field in fields_of().items())
    return {name: choice for name, choice in marked if choice}


def having(name: str) -> list[str]:
    """What a setting is of, by the names that its choice takes; empty where it is of no choice."""
    choice, _, setting = name.rpartition(".")
    members = choices_of()[choice].by_name if choice in choices_of() else {}
    return [name for name, member in members.items() if setting in member.model_fields]


def spelled(name: str) -> str:
    """A setting's dotted name with underscores for dashes; names within a mapping stay as they are.

    `network.core.name` is `network.core`.
    """
    plain = name.replace("-", "_")
    if plain.removesuffix(".name") in choices_of():
        return plain.removesuffix(".name")
    setting = setting_of(plain)
    return plain if setting is None else setting + name[len(setting) :]


def flag(name: str) -> str:
    """A setting or option as the command line has it."""
    return f"--{name if '.' in name else name.replace('_', '-')}"


def setting_of(name: str) -> str | None:
    """The setting that a dotted name belongs to: of `network.core.kwargs.heads` it is `network.core.kwargs`.

    None if no setting has the name, and none had it in earlier versions.
    """
    if name in fields_of() or name in gone.MOVED:
        return name
    within = (x for x in mappings() if name.startswith(f"{x}."))
    return next(within, None) if all(name.split(".")) else None


@functools.cache
def mappings() -> Sequence[str]:
    """The settings that are mappings, and one of earlier versions."""
    return [*(name for name, field in fields_of().items() if values.is_mapping(field)), gone.KWARGS]
