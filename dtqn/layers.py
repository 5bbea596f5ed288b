"""From presets, files and flags to one validated `Config`.

The layers are laid over each other in the order: defaults, agent preset, env preset, `--config` file,
`WANDB_MODE`, flags. Each is a *difference*: it names only what it changes.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel, ValidationError

from dtqn.config import Config, ConfigError, MisfitError, fields_of, legal, nearest

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
_WANDB_MODES = {"run": "online", "shared": "online", "dryrun": "offline"}
_GROUPS = [name for name, field in Config.model_fields.items() if isinstance(field.default, BaseModel)]


class Layer(NamedTuple):
    """Settings that one source asks for."""

    source: str | None
    """The file or variable they come from; none for flags, where each setting is its own source."""
    values: dict[str, Any]
    """Nested, by group."""


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping that a YAML file holds; empty where the file holds nothing."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1}: {error.problem})" if mark else ""  # type: ignore[union-attr]
        raise ConfigError(f"{path}: is not a YAML file{where}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(
            f"{path}: holds a {type(content).__name__}; must hold settings, such as learner: {{n_step: 3}}"
        )
    return content


def nested(values: Mapping[Any, Any], group: str = "") -> dict[str, Any]:
    """Settings by group, from names with dots or nested ones, with dashes or underscores.

    A mapping that is itself the value of a setting stays as it is.
    """
    result: dict[str, Any] = {}
    for key, value in values.items():
        first, _, rest = str(key).replace("-", "_").partition(".")
        if rest:
            value = {rest: value}
        if isinstance(value, Mapping) and group + first not in fields_of():
            value = nested(value, f"{group}{first}.")
        elif value is None and first in _GROUPS:  # a group whose lines are all commented out
            continue
        result = merge(result, {first: value})
    return result


def merge(base: Mapping[str, Any], difference: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the nested `difference` laid over it."""
    merged = dict(base)
    for key, value in difference.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def file_layer(path: Path) -> Layer:
    return Layer(str(path), nested(read_yaml(path)))


def environment_layer(environment: Mapping[str, str]) -> list[Layer]:
    """`WANDB_MODE`, in this suite's words."""
    mode = environment.get("WANDB_MODE", "").lower()
    return [Layer("WANDB_MODE", {"wandb": _WANDB_MODES.get(mode, mode)})] if mode else []


def resolve(
    file: Path | None,
    flags: Mapping[str, Any],
    environment: Mapping[str, str],
    configs: Path = CONFIGS,
    below: Sequence[Layer] = (),
) -> Config:
    """The configuration of a new run.

    Args:
        file: what `--config` names.
        flags: dotted name -> text, as given on the command line.
        environment: environment variables.
        configs: the folder of presets.
        below: what lies right below the flags, such as a sweep's choice.
    """
    try:
        given = [file_layer(file)] if file else []
    except ConfigError as error:
        raise ConfigError(f"config is {error}") from None
    given += [*environment_layer(environment), *below, Layer(None, nested(flags))]
    chosen = {"env": Config().env, "agent": Config().agent}
    for layer in given:
        chosen |= {name: value for name, value in layer.values.items() if name in chosen}
    return build(
        [*_agent_preset(chosen["agent"], given, configs), *_env_preset(chosen["env"], configs), *given]
    )


def agents(configs: Path = CONFIGS) -> list[str]:
    """Names of the presets of agents."""
    return sorted(path.stem for path in (configs / "agents").glob("*.yaml"))


def _agent_preset(agent: Any, given: Sequence[Layer], configs: Path) -> list[Layer]:
    known = agents(configs)
    if agent not in known:
        hint = nearest(str(agent), known)
        raise ConfigError(f"agent is {_show(agent)}{_from(given, 'agent')}: there is no such agent{hint}")
    return [file_layer(configs / "agents" / f"{agent}.yaml")]


def _env_preset(env: Any, configs: Path) -> list[Layer]:
    """The preset whose name begins the task's name, the longest where there are several.

    What goes on after it has a dash before it, or a slash as in `ALE/Pong-v5`.
    """
    name = f"{env}-".replace("/", "-")
    families = [path for path in (configs / "envs").glob("*.yaml") if name.startswith(f"{path.stem}-")]
    if not families:
        return []
    preset = file_layer(max(families, key=lambda path: len(path.stem)))
    return [preset._replace(values=_with_horizon(preset.values, env))]


def _with_horizon(values: Mapping[str, Any], env: str) -> dict[str, Any]:
    """The settings of an env preset, with the task's own number in place of the word `horizon`."""
    filled: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            filled[name] = _with_horizon(value, env)
        else:
            filled[name] = _horizon(env) if value == "horizon" else value
    return filled


@functools.cache
def _horizon(env: str) -> int | None:
    import envs  # only here, as most of what reads settings does not need the tasks

    try:
        return envs.spec(env).horizon
    except ValueError as error:
        raise ConfigError(f"env is {env}: {error}") from None


def build(layers: Sequence[Layer]) -> Config:
    """The layers, merged and validated.

    Raises:
        ConfigError: one line that names the setting, its value, where it came from and what would be right.
        MisfitError: where every setting is right by itself.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        merged = merge(merged, layer.values)
    try:
        return Config.model_validate(merged)
    except ValidationError as error:
        found = min((dict(one) for one in error.errors()), key=_is_misfit)
        kind = MisfitError if _is_misfit(found) else ConfigError
        raise kind(_explain(found, layers)) from None


def _is_misfit(error: Mapping[str, Any]) -> bool:
    """Whether it is one of Config's own rules about several settings."""
    return error["type"] == "value_error" and ".".join(map(str, error["loc"])) not in fields_of()


def _explain(error: dict[str, Any], layers: Sequence[Layer]) -> str:
    name = ".".join(map(str, error["loc"]))
    fields = fields_of()
    if error["type"] == "extra_forbidden":
        return f"{name} is no setting{_from(layers, name)}{nearest(name, [*fields, *_GROUPS])}"
    if name in fields:
        hint = nearest(str(error["input"]), _choices(name)) if _choices(name) else ""
        hint = hint if "mean" in hint else ""
        return f"{name} is {_show(error['input'])}{_from(layers, name)}: must be {legal(fields[name])}{hint}"
    if name in _GROUPS and error["type"] != "value_error":
        return f"{name} is {_show(error['input'])}{_from(layers, name)}: must be a group of settings"
    text = str(error["ctx"]["error"])
    named = (match.group() for match in re.finditer(r"[\w.]+\w", text) if match.group() in fields)
    sources = [
        f"{setting} {source}"
        for setting in dict.fromkeys(named)
        if (source := _from(layers, setting).strip(" ()"))
    ]
    return f"{text} ({', '.join(sources)})" if sources else text


def _choices(name: str) -> list[str]:
    kind = legal(fields_of()[name])
    return kind.removeprefix("one of ").split(", ") if kind.startswith("one of ") else []


def _show(value: Any) -> str:
    plain = not isinstance(value, str) or re.fullmatch(r"[\w.+-]+", value)
    text = str(value) if plain else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _from(layers: Sequence[Layer], name: str) -> str:
    """` (from ...)` with the last source that sets `name`, or nothing where none does."""
    for layer in reversed(layers):
        value: Any = layer.values
        for part in name.split("."):
            value = value.get(part, _ABSENT) if isinstance(value, Mapping) else _ABSENT
        if value is not _ABSENT:
            return f" (from {layer.source or _flag(name)})"
    return ""


_ABSENT = object()


def _flag(name: str) -> str:
    return f"--{name if '.' in name else name.replace('_', '-')}"


def to_yaml(config: Config) -> str:
    """Every setting, as `--config` reads it again."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)
