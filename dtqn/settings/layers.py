"""Settings as files, variables and flags give them: layers, laid over each other and made one `Config`."""

from __future__ import annotations

import functools
import importlib.resources
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from dtqn.settings import gone, trust
from dtqn.settings.config import (
    Config,
    ConfigError,
    MisfitError,
    choices_of,
    fields_of,
    having,
    setting_of,
    settings_of,
    spelled,
)
from dtqn.settings.group import BrokenRule
from dtqn.settings.values import choices, has_own, is_mapping, legal, mapping, nearest, shown
from envs import entry_points, yaml_file
from envs.errors import meant


def _shipped() -> Path:
    """The folder of the shipped presets: `dtqn/configs` in a wheel, `configs` at the top of a checkout."""
    package = Path(str(importlib.resources.files("dtqn")))
    inside = package / "configs"
    return inside if inside.is_dir() else package.parent / "configs"


CONFIGS = _shipped()
_WANDB_MODES = {"run": "online", "shared": "online", "dryrun": "offline"}
NO_HORIZON = object()
"""The value that the word `horizon` leaves where the task fixes no length: no setting takes it."""
_ABSENT = object()
_GROUPS = [name for name, field in Config.model_fields.items() if isinstance(field.default, BaseModel)]


class Whole(dict[str, Any]):
    """The value of a setting that is a mapping, given as text: it replaces those below, key for key."""


def _as_given(dumper: yaml.SafeDumper, value: Whole) -> yaml.Node:
    return dumper.represent_str(yaml.safe_dump(dict(value), default_flow_style=True, width=math.inf).strip())


yaml.SafeDumper.add_representer(Whole, _as_given)


class Layer(NamedTuple):
    """Settings that one source asks for."""

    source: str | None
    """The file or variable they come from; None for flags, where each setting is its own source."""
    values: dict[str, Any]
    """Nested, by group."""
    is_whole: bool = False
    """Whether it is of a file of a run, which has all settings, so that no preset is laid below it."""
    is_typed: bool = False
    """Whether its source is the command line all the same."""
    is_of_agent: bool = False
    """Whether its source is about one agent alone."""
    is_shared: bool = False
    """Whether it is for whatever agent there is all the same."""
    moved: Mapping[str, list[str]] = MappingProxyType({})
    """The old names in it, each with what took its place."""

    @property
    def is_for_all(self) -> bool:
        """Whether it is for whatever agent there is, so that each of its settings holds where it applies."""
        return self.is_shared or not (self.source is None or self.is_typed or self.is_of_agent)

    def settings(self) -> list[tuple[str, Any]]:
        """Names with dots, and values."""
        return [
            (name, setting_in(self.values, name)) for name in fields_of() if has_setting(self.values, name)
        ]


def read_yaml(path: Path, right: str = "settings, such as learner: {n_step: 3}") -> dict[str, Any]:
    """The mapping that a YAML file holds; empty where the file holds nothing.

    `configs/...` is a file that is shipped, where there is no such folder.

    Args:
        right: tells what the file must hold, where it holds something else.
    """
    if path.parts[:1] == (CONFIGS.name,) and not path.exists():
        path = CONFIGS.joinpath(*path.parts[1:])
    try:
        content = yaml_file.read(path)
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: holds a {type(content).__name__}; must hold {right}")
    return content


def nested(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Settings by group, from names with dots or nested ones, with dashes or underscores.

    A mapping that is itself the value of a setting stays as it is. A name may lead into one, as
    `network.core.kwargs.heads` does; text is then read as YAML, as it is in the whole mapping. What a choice
    names stands in its group under `name`: `network: {core: {name: lstm}}`. Old names are read as the new.

    Raises:
        ConfigError: a setting is there twice, in two spellings.
    """
    return read_names(values)[0]


def read_names(values: Mapping[Any, Any]) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """`nested`, and the old names that were there, each with what took its place."""
    given: dict[str, Any] = {}
    for name, value in flat(values):
        if name in given:
            raise ConfigError(f"{shown(name)} is there twice")
        given[name] = value
    try:
        today, moved = gone.of_today(given)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    result: dict[str, Any] = {}
    for name, value in today.items():
        setting = setting_of(name)
        if isinstance(value, str) and setting is not None and is_mapping(fields_of()[setting]):
            value = _of_mapping(value, whole=setting == name)
        path = _path(name) if setting else name.split(".", 1)
        one = functools.reduce(lambda inner, key: {key: inner}, reversed(path), value)
        result = merge(result, one, name)
    return result, moved


def flat(values: Mapping[Any, Any], group: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names, with underscores for dashes, and values, be they nested or not."""
    for key, value in values.items():
        name = spelled(group + str(key))
        is_group = setting_of(name) is None or name in choices_of()
        if isinstance(value, Mapping) and value and is_group:
            yield from flat(value, f"{name}.")
        elif value is not None or name not in _GROUPS:  # all of whose lines are commented out
            yield name, value


def _path(name: str) -> list[str]:
    """Where a setting stands in nested values."""
    return [*name.split("."), "name"] if name in choices_of() else name.split(".")


def _of_mapping(text: str, whole: bool) -> Any:
    """What text means as a setting that is a mapping, or as a value in one; the text where it is wrong."""
    try:
        value = mapping(text) if whole else yaml_file.parse(text)
    except ValueError:
        return text
    if not whole:
        return value
    return Whole(value) if isinstance(value, Mapping) else text


def merge(base: Mapping[str, Any], difference: Mapping[str, Any], once: str = "") -> dict[str, Any]:
    """`base` with the nested `difference` laid over it.

    Args:
        once: refuse to replace a value; what to call the difference then.
    """
    merged = dict(base)
    for key, value in difference.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping) and not isinstance(value, Whole):
            merged[key] = merge(old, value, once)
        elif once and key in merged:
            raise ConfigError(f"{shown(once)} is there twice")
        else:
            merged[key] = value
    return merged


def without(values: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """The nested values that are not among the others."""
    rest = {}
    for name, value in values.items():
        if name not in others:
            rest[name] = value
        elif isinstance(value, Mapping) and isinstance(others[name], Mapping):
            rest[name] = without(value, others[name])
    return rest


def has_setting(values: Mapping[str, Any], name: str) -> bool:
    """Whether nested values hold the setting of this dotted name."""
    return setting_in(values, name, _ABSENT) is not _ABSENT


def setting_in(values: Mapping[str, Any], name: str, otherwise: Any = None) -> Any:
    """The setting of this dotted name in nested values, or `otherwise` where they do not hold it."""
    return _at(values, _path(name), otherwise)


def _at(values: Mapping[str, Any], path: Sequence[str], otherwise: Any = None) -> Any:
    value: Any = values
    for part in path:
        if not isinstance(value, Mapping) or part not in value:
            return otherwise
        value = value[part]
    return value


def file_layer(path: Path) -> Layer:
    """The settings that a YAML file holds."""
    return layer_of(str(path), read_yaml(path))


def layer_of(source: str, content: Mapping[str, Any]) -> Layer:
    """What a source holds, with names as in YAML; what is wrong with it begins with the source."""
    try:
        values, moved = read_names(content)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None
    return Layer(source, values, moved=moved)


def flags_layer(flags: Mapping[str, Any]) -> Layer:
    """What the command line sets: dotted name -> text."""
    values, moved = read_names(flags)
    return Layer(None, values, moved=moved)


def of_run(layer: Layer) -> Layer:
    """The settings that a file of a run holds, which may be of an earlier version; errors as `of_today`."""
    return layer._replace(values=of_today(layer.values, str(layer.source)), moved={})


def of_today(values: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The settings of a run, by group, without those that have gone or that nothing it has chosen has.

    Args:
        source: the file that holds them.

    Raises:
        ConfigError: one of these has another value than "off".
    """
    for name, setting in gone.GONE.items():
        if setting.unread and setting_in(values, setting.unread[0]) == setting.unread[1]:
            continue
        if (found := setting_in(values, name)) not in (None, setting.off):
            raise ConfigError(f"{source}: {name} is {found}{gone.hint(name)}")
    rest = fitted(nested(without(values, nested(dict.fromkeys(gone.GONE)))))
    return {name: value for name, value in rest.items() if value != {} or values.get(name) == {}}


def fitted(values: Mapping[str, Any]) -> dict[str, Any]:
    """Nested values without the settings that another member of their choice has, and not the chosen one."""
    return without(values, nested(dict.fromkeys(_misfits(values))))


def _misfits(values: Mapping[str, Any]) -> list[str]:
    found = []
    for choice in choices_of():
        held, chosen = _at(values, choice.split(".")), _chosen(values, choice)
        names = [f"{choice}.{setting}" for setting in held] if isinstance(held, Mapping) else []
        found += [name for name in names if name in fields_of() and not _has(choice, chosen, name)]
    return found


def _chosen(values: Mapping[str, Any], choice: str) -> Any:
    """The name that nested values choose, or that is chosen where they choose none."""
    return setting_in(values, choice, fields_of()[choice].default.name)


def _has(choice: str, chosen: Any, name: str) -> bool:
    """Whether what is chosen has the setting."""
    member = choices_of()[choice].member(chosen)
    return member is not None and name.rpartition(".")[2] in member.model_fields


def environment_layer(environment: Mapping[str, str]) -> list[Layer]:
    """`WANDB_MODE`, in this suite's words."""
    mode = environment.get("WANDB_MODE", "").lower()
    return [Layer("WANDB_MODE", {"wandb": _WANDB_MODES.get(mode, mode)})] if mode else []


def build(layers: Sequence[Layer]) -> Config:
    """The layers, merged and validated.

    Raises:
        ConfigError: one line that names the setting, its value, where it came from and what would be right.
        MisfitError: where every setting is right by itself.
    """
    check_code(layers)
    merged: dict[str, Any] = {}
    for layer in layers:
        merged = merge(merged, layer.values)
        if layer.moved:
            gone.tell(layer.source, layer.moved)
    for name in _misfits(merged):
        _check_is_shared(name, merged, layers)
    try:
        return Config.model_validate(fitted(merged))
    except ValidationError as error:
        found = min((dict(one) for one in error.errors()), key=_is_misfit)
        kind = MisfitError if _is_misfit(found) else ConfigError
        raise kind(_explain(found, layers)) from None


def _check_is_shared(name: str, merged: Mapping[str, Any], layers: Sequence[Layer]) -> None:
    """A ConfigError where a setting that the chosen one lacks is asked for.

    It is not where the layer is for all agents, or has chosen what has it and another layer something else.
    """
    choice = name.rpartition(".")[0]
    for layer in layers:
        if layer.is_for_all or not has_setting(layer.values, name):
            continue
        if layer.is_of_agent and _has(choice, _chosen(layer.values, choice), name):
            continue
        value, chosen = setting_in(layer.values, name), _chosen(merged, choice)
        raise ConfigError(
            f"{name} is {shown(value)} (from {layer.source or _flag(name)}), but {choice} is "
            f"{shown(chosen)}, which has no such setting; of {', '.join(having(name))}"
        )


def check_code(layers: Sequence[Layer]) -> None:
    """A ConfigError where a file names code that the user has not asked for (`settings.trust`)."""
    asked: dict[str, tuple[Any, str | None]] = {}
    for name in trust.SETTINGS:
        for layer in layers:
            if has_setting(layer.values, name):
                source = None if layer.is_typed else layer.source
                asked[name] = setting_in(layer.values, name), source
    trust.check(asked)


def _is_misfit(error: Mapping[str, Any]) -> bool:
    """Whether it is one of Config's own rules about several settings."""
    return isinstance(error.get("ctx", {}).get("error"), BrokenRule)


def _explain(error: dict[str, Any], layers: Sequence[Layer]) -> str:
    name, fields = ".".join(map(str, error["loc"])), fields_of()
    if _is_misfit(error):
        text = str(error["ctx"]["error"])
        return _with_sources(f"{name}.{text}" if text.startswith("kwargs") else text, layers)
    if name in choices_of() and isinstance(error["input"], Mapping):
        error["input"] = error["input"].get("name")
    if error["type"] in ("extra_forbidden", "invalid_key", "string_unicode") and name not in fields:
        name = f"{name}.{error['input']}".lstrip(".") if error["type"] == "string_unicode" else name
        hint = gone.hint(name) or nearest(name, [*fields, *_GROUPS])
        return f"{shown(name)} is no setting{origin(layers, name)}{hint}"
    if error["input"] is NO_HORIZON:
        env = next((layer.values["env"] for layer in reversed(layers) if "env" in layer.values), Config().env)
        return (
            f"{name} is horizon{origin(layers, name)}, but {env} fixes no length of its episodes, so there "
            f"is no such number: must be {legal(fields[name])}"
        )
    if name in fields:
        field = _field(name, layers)
        right = legal(field, error["input"]) + _hint(name, field, str(error["input"]))
        return f"{name} is {shown(error['input'])}{origin(layers, name)}: must be {right}"
    return f"{name} is {shown(error['input'])}{origin(layers, name)}: must be a group of settings"


def _field(name: str, layers: Sequence[Layer]) -> FieldInfo:
    """The setting, as what the layers choose has it."""
    choice, _, leaf = name.rpartition(".")
    if choice not in choices_of():
        return fields_of()[name]
    merged: dict[str, Any] = functools.reduce(merge, (layer.values for layer in layers), {})
    member = choices_of()[choice].member(_chosen(merged, choice))
    return member.model_fields[leaf] if member else fields_of()[name]


def _hint(name: str, field: FieldInfo, value: str) -> str:
    """What a wrong value of a setting may have meant."""
    if hint := meant(value, choices(field)):
        return hint
    own_form = ""
    if has_own(field):
        own_form = entry_points.own_form(value, f"make_{name.rpartition('.')[2]}")
    return f"; write {own_form}" if own_form else ""


def _with_sources(text: str, layers: Sequence[Layer]) -> str:
    """A rule's line, with where each setting that it names comes from."""
    fields = fields_of()
    named = (match.group() for match in re.finditer(r"[\w.]+\w", text) if match.group() in fields)
    sources = [
        f"{setting} {source}"
        for setting in dict.fromkeys(named)
        if (source := origin(layers, setting).strip(" ()"))
    ]
    return f"{text} ({', '.join(sources)})" if sources else text


def origin(layers: Sequence[Layer], name: str) -> str:
    """` (from ...)` with the last source that sets `name`, or nothing where none does."""
    for layer in reversed(layers):
        if has_setting(layer.values, name):
            return f" (from {layer.source or _flag(name)})"
    return ""


def _flag(name: str) -> str:
    return f"--{name if '.' in name else name.replace('_', '-')}"


def named(config: Config) -> dict[str, Any]:
    """All settings of a run by dotted name, as JSON has them."""
    dumped = config.model_dump(mode="json")
    return {name: setting_in(dumped, name) for name in settings_of(config)}


def to_yaml(config: Config) -> str:
    """Every setting, as `--config` reads it again."""
    return yaml_of(config.model_dump(mode="json"))


def yaml_of(values: Mapping[str, Any]) -> str:
    """Settings by group as the text of a file; nothing where there are none."""
    return yaml.safe_dump(values, sort_keys=False) if values else ""
