"""Settings as files, variables and flags give them: layers, laid over each other and made one `Config`."""

from __future__ import annotations

import contextlib
import functools
import importlib.resources
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import yaml
from pydantic import ValidationError
from pydantic.fields import FieldInfo

import envs
from dtqn.settings import gone, trust
from dtqn.settings.config import (
    GROUPS,
    Config,
    ConfigError,
    MisfitError,
    choices_of,
    fields_of,
    flag,
    having,
    leaves,
    mappings,
    setting_of,
)
from dtqn.settings.values import choices, has_own, legal, mapping, nearest, read, shown
from envs import entry_points, families, yaml_file
from envs.errors import meant


def _shipped() -> Path:
    """The folder of the shipped presets: `dtqn/configs` in a wheel, `configs` at the top of a checkout."""
    package = Path(str(importlib.resources.files("dtqn")))
    inside = package / "configs"
    return inside if inside.is_dir() else package.parent / "configs"


CONFIGS = _shipped()
_WANDB_MODES = {"run": "online", "shared": "online", "dryrun": "offline"}
_BY_HORIZON = re.compile(r"horizon|(?P<fixed>horizon|\d+) or (?P<other>.+)")


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
    """By dotted name, as `flat` reads them."""
    is_whole: bool = False
    """Whether it is of a file of a run, which has all settings, so that no preset is laid below it."""
    is_typed: bool = False
    """Whether its source is the command line all the same."""
    of: str = "all"
    """Whom it is for: `all` agents, where each setting applies; one `agent`, that chose it; this `run`."""
    moved: Mapping[str, list[str]] = MappingProxyType({})
    """The old names in it, each with what took its place."""


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


def flat(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Settings by dotted name, from names with dots or nested ones, with dashes or underscores.

    A name may lead into a setting that is a mapping, as `network.core.kwargs.heads` does; text is then read
    as YAML, as it is in the whole mapping. Old names are read as the new.

    Raises:
        ConfigError: a setting is given twice, in two spellings.
    """
    return read_names(values)[0]


def read_names(values: Mapping[Any, Any]) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """`flat`, and the old names that were there, each with what took its place."""
    given: dict[str, Any] = {}
    for name, value in leaves(values):
        if name in given:
            raise ConfigError(f"{shown(name)} is given twice")
        given[name] = value
    try:
        today, moved = gone.of_today(given)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    result: dict[str, Any] = {}
    for name, value in today.items():
        setting = setting_of(name) or name
        if setting in mappings():
            value = _of_mapping(value, name.split(".")[setting.count(".") + 1 :])
        result = merge(result, {setting: value}, name)
    return result, moved


def nested(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Settings by group, as files have them, from what `flat` reads."""
    groups: dict[str, Any] = {}
    for name, value in flat(values).items():
        path = name.split(".") if name in fields_of() else name.split(".", 1)
        if name in choices_of():
            path.append("name")
        place = groups
        for part in path[:-1]:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):  # something else than a group stands there
                break
        else:
            place[path[-1]] = value
    return groups


def _of_mapping(value: Any, within: Sequence[str]) -> Any:
    """A setting that is a mapping, or one with this value at the path `within` it; wrong text as it is."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            read = yaml_file.parse(value) if within else mapping(value)
            value = read if within else Whole(read) if isinstance(read, Mapping) else value
    return functools.reduce(lambda inner, key: {key: inner}, reversed(within), value)


def merge(base: Mapping[str, Any], difference: Mapping[str, Any], once: str = "") -> dict[str, Any]:
    """`base` with `difference` laid over it, mappings key by key.

    Args:
        once: refuse to replace a value; what to call the difference then.
    """
    merged = dict(base)
    for key, value in difference.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping) and not isinstance(value, Whole):
            merged[key] = merge(old, value, once)
        elif once and key in merged:
            raise ConfigError(f"{shown(once)} is given twice")
        else:
            merged[key] = value
    return merged


def file_layer(path: Path) -> Layer:
    """The settings that a YAML file holds."""
    return layer_of(str(path), read_yaml(path))


def layer_of(source: str | None, content: Mapping[str, Any]) -> Layer:
    """What a source holds, with names as in YAML; None: the command line. Errors begin with the source."""
    try:
        values, moved = read_names(content)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}" if source else str(error)) from None
    return Layer(source, values, of="all" if source else "run", moved=moved)


def of_run(layer: Layer) -> Layer:
    """The settings that a file of a run holds, which may be of an earlier version; errors as `of_today`."""
    return layer._replace(values=of_today(layer.values, str(layer.source)), moved={})


def of_today(values: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The settings of a run by dotted name, without those that have gone or that nothing it has chosen has.

    Args:
        source: the file that holds them.

    Raises:
        ConfigError: one of these has another value than "off".
    """
    given = dict(leaves(values))
    for name, setting in gone.GONE.items():
        if setting.unread and given.get(setting.unread[0]) == setting.unread[1]:
            continue
        if (found := given.get(name)) not in (None, setting.off):
            raise ConfigError(f"{source}: {name} is {found}{gone.hint(name)}")
    return fitted(flat({name: value for name, value in given.items() if name not in gone.GONE}))


def fitted(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by dotted name without those that only others of their choice have than the chosen one."""
    return {name: value for name, value in values.items() if _fits(name, values)}


def _fits(name: str, values: Mapping[str, Any]) -> bool:
    return name not in fields_of() or _field(name, values) is not None


def _field(name: str, values: Mapping[str, Any]) -> FieldInfo | None:
    """A setting as what the values choose has it; None where that has no such setting."""
    choice, _, setting = name.rpartition(".")
    if choice not in choices_of():
        return fields_of()[name]
    member = choices_of()[choice].member(_chosen(values, choice))
    return member.model_fields.get(setting) if member else None


def _chosen(values: Mapping[str, Any], choice: str) -> Any:
    """The name that the values choose, or that is chosen where they choose none."""
    return values.get(choice, fields_of()[choice].default.name)


def environment_layer(environment: Mapping[str, str]) -> list[Layer]:
    """`WANDB_MODE`, in this suite's words."""
    mode = environment.get("WANDB_MODE", "").lower()
    return [Layer("WANDB_MODE", {"wandb": _WANDB_MODES.get(mode, mode)})] if mode else []


def build(layers: Sequence[Layer]) -> Config:
    """Merge and validate the layers.

    `horizon` stands for the task's own number. `horizon or 80` is 80 where the task fixes none, and `0 or 40`
    is 0 where it fixes one, else 40.

    Raises:
        ConfigError: one line that names the setting, its value, where it came from and what would be right.
        MisfitError: each setting is right, but they do not go together.
    """
    check_code(layers)
    merged: dict[str, Any] = {}
    for layer in layers:
        merged = merge(merged, layer.values)
        if layer.moved:
            gone.tell(layer.source, layer.moved)
    merged = _of_task(merged)
    for name in merged:
        if not _fits(name, merged):
            _check_is_shared(name, merged, layers)
    try:
        return Config.model_validate(nested(fitted(merged)))
    except ValidationError as error:
        found = min((dict(one) for one in error.errors()), key=_is_misfit)
        kind = MisfitError if _is_misfit(found) else ConfigError
        raise kind(_explain(found, merged, layers)) from None


def _of_task(merged: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with the task's number in place of what depends on it."""
    texts = {name: value for name, value in merged.items() if isinstance(value, str)}
    found = {name: match for name, text in texts.items() if (match := _BY_HORIZON.fullmatch(text))}
    if not found:
        return dict(merged)
    horizon = _horizon(str(merged.get("env", Config().env)), str(merged.get("task.time_limit")))
    which = "other" if horizon is None else "fixed"
    chosen = {name: match[which] or "horizon" for name, match in found.items()}
    return {**merged, **{name: horizon or x if x == "horizon" else x for name, x in chosen.items()}}


@functools.cache
def _horizon(env: str, time_limit: str) -> int | None:
    """The timesteps of the longest episode; None where the task fixes no length."""
    if entry_points.split(env) or families.family_of(env) is families.OTHERS:
        return None  # a task that is not native fixes none, and would have to be made
    with contextlib.suppress(ValueError):  # a check that comes later says what is wrong with the task
        limit = read(time_limit, fields_of()["task.time_limit"])
        return envs.spec(env, **({} if limit is None else {"time_limit": limit})).horizon
    return None


def _check_is_shared(name: str, merged: Mapping[str, Any], layers: Sequence[Layer]) -> None:
    """A ConfigError where a setting that the chosen one lacks is asked for.

    It is not where the layer is for all agents, or has chosen what has it and another layer something else.
    """
    choice = name.rpartition(".")[0]
    for layer in layers:
        if layer.of == "all" or name not in layer.values:
            continue
        if layer.of == "agent" and _fits(name, layer.values):
            continue
        chosen = _chosen(merged, choice)
        raise ConfigError(
            f"{name} is {shown(layer.values[name])} (from {layer.source or flag(name)}), but {choice} is "
            f"{shown(chosen)}, which has no such setting; it is for {', '.join(having(name))}"
        )


def check_code(layers: Sequence[Layer]) -> None:
    """A ConfigError where a file names code that the user has not asked for (`settings.trust`)."""
    asked = {
        name: (layer.values[name], None if layer.is_typed else layer.source)
        for layer in layers
        for name in trust.SETTINGS
        if name in layer.values
    }
    trust.check(asked)


def _is_misfit(error: Mapping[str, Any]) -> bool:
    """Whether it is one of Config's own rules about several settings."""
    return isinstance(error.get("ctx", {}).get("error"), MisfitError)


def _explain(error: dict[str, Any], merged: Mapping[str, Any], layers: Sequence[Layer]) -> str:
    name, fields = ".".join(map(str, error["loc"])), fields_of()
    if _is_misfit(error):
        return _with_sources(str(error["ctx"]["error"]), layers)
    if name in choices_of() and isinstance(error["input"], Mapping):
        error["input"] = error["input"].get("name")
    if error["type"] in ("extra_forbidden", "string_unicode") and name not in fields:
        name = f"{name}.{error['input']}".lstrip(".") if error["type"] == "string_unicode" else name
        hint = gone.hint(name) or nearest(name, [*fields, *GROUPS])
        return f"{shown(name)} is not a setting{origin(layers, name)}{hint}"
    right, why = "a group of settings", ""
    if name in fields:
        field = _field(name, merged) or fields[name]
        right = legal(field, error["input"]) + _hint(name, field, str(error["input"]))
        if error["input"] == "horizon":
            env = merged.get("env", Config().env)
            why = f", but {env} has no fixed episode length"
    return f"{name} is {shown(error['input'])}{origin(layers, name)}{why}: must be {right}"


def _hint(name: str, field: FieldInfo, value: str) -> str:
    """What a wrong value of a setting may have meant."""
    if hint := meant(value, choices(field)):
        return hint
    form = has_own(field) and entry_points.own_form(value, f"make_{name.rpartition('.')[2]}")
    return f"; write {form}" if form else ""


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
    sources = [layer for layer in layers if name in layer.values]
    if not sources and name not in fields_of():
        sources = [layer for layer in layers if any(one.startswith(f"{name}.") for one in layer.values)]
    return f" (from {sources[-1].source or flag(name)})" if sources else ""


def named(config: Config) -> dict[str, Any]:
    """All settings of a run by dotted name, as JSON has them."""
    return dict(leaves(config.model_dump(mode="json")))


def to_yaml(config: Config) -> str:
    """Every setting, as `--config` reads it again."""
    return yaml_of(config.model_dump(mode="json"))


def yaml_of(values: Mapping[str, Any]) -> str:
    """Settings by group as the text of a file; nothing where there are none."""
    return yaml.safe_dump(values, sort_keys=False) if values else ""
