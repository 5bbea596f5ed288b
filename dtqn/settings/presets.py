"""From presets, files and flags to one validated `Config`.

The layers are laid over each other in the order: defaults, `WORLD_SIZE`, agent preset, env preset,
`--config` file, `WANDB_MODE`, a suite's settings, its budget, flags. Each is a *difference*: it names only
what it changes. An agent preset with `over_task: true` lies over the env preset and keeps from a suite's
settings what it sets, so that a published agent is as published on every task. An env preset and a `--config`
file are for all agents; settings of single ones may stand in them under `agents`. Where `--config` names the
record of a run, that has every setting, and no preset is laid below it.
"""

from __future__ import annotations

import functools
import importlib.resources
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel, ValidationError

from dtqn.settings.config import (
    Config,
    ConfigError,
    MisfitError,
    fields_of,
    setting_of,
    spelled,
    value_of,
)
from dtqn.settings.values import OwnOr, choices, is_mapping, legal, mapping, mark_of, meant, nearest, shown
from envs import entry_points, yaml_file


def _shipped() -> Path:
    """The folder of the shipped presets: `dtqn/configs` in a wheel, `configs` at the top of a checkout."""
    package = Path(str(importlib.resources.files("dtqn")))
    inside = package / "configs"
    return inside if inside.is_dir() else package.parent / "configs"


CONFIGS = _shipped()
_WANDB_MODES = {"run": "online", "shared": "online", "dryrun": "offline"}
_OVER_TASK = "over_task"
_AGENTS = "agents"
_OF_RECORD = {"env", "agent", "seed", "settings_hash", "settings"}
"""Keys that a record of a run has, and no file of settings."""
_ABSENT = object()
_NO_HORIZON = object()
"""The value that the word `horizon` leaves where the task fixes no length: no setting takes it."""
RANDOM = "random"
"""The name of random actions in tables, and of no agent."""
_GROUPS = [name for name, field in Config.model_fields.items() if isinstance(field.default, BaseModel)]


class Whole(dict[str, Any]):
    """The value of a setting that is a mapping, given as text: it replaces those below, key for key."""


class Layer(NamedTuple):
    """Settings that one source asks for."""

    source: str | None
    """The file or variable they come from; None for flags, where each setting is its own source."""
    values: dict[str, Any]
    """Nested, by group."""

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


def nested(values: Mapping[Any, Any], group: str = "") -> dict[str, Any]:
    """Settings by group, from names with dots or nested ones, with dashes or underscores.

    A mapping that is itself the value of a setting stays as it is. A name may lead into one, as
    `network.kwargs.heads` does; text is then read as YAML, as it is in the whole mapping.

    Args:
        group: the group that the names are in, with a dot at its end.

    Raises:
        ConfigError: a setting is there twice, in two spellings.
    """
    result: dict[str, Any] = {}
    for key, value in values.items():
        name = spelled(group + str(key))
        setting = setting_of(name)
        if setting is not None:
            if isinstance(value, str) and is_mapping(fields_of()[setting]):
                value = _of_mapping(value, whole=setting == name)
        elif isinstance(value, Mapping):
            value = nested(value, f"{name}.")
        elif value is None and name in _GROUPS:  # all of whose lines are commented out
            continue
        within = name.removeprefix(group)
        path = within.split(".", -1 if setting else 1)
        result = merge(
            result, functools.reduce(lambda inner, key: {key: inner}, reversed(path), value), within
        )
    return result


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


def file_layer(path: Path) -> Layer:
    return _layer(str(path), read_yaml(path))


def _of_record(path: Path, content: Mapping[str, Any]) -> Layer | None:
    """All settings of the run whose record (`dtqn.experiments.records`) this is; None for another file."""
    if not content.keys() >= _OF_RECORD:
        return None
    groups = [content.get("defaults", {}), content["settings"]]  # early records have no defaults
    if not all(isinstance(group, Mapping) for group in groups):
        raise ConfigError(f"{path}: settings and defaults of a record must be groups of settings")
    run = {name: content[name] for name in ("env", "agent", "seed")}
    return Layer(str(path), merge(*groups) | run)


def _layer(source: str, content: Mapping[str, Any]) -> Layer:
    try:
        return Layer(source, nested(content))
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None


class Shared(NamedTuple):
    """A file of settings for all agents, and those of single agents in it, which lie right over them."""

    layer: Layer
    by_agent: dict[str, Layer]
    """By the name of a shipped agent; its variants get them too."""

    @classmethod
    def of_file(cls, path: Path, configs: Path = CONFIGS) -> Shared:
        return cls.of(path, read_yaml(path), configs)

    @classmethod
    def of(cls, path: Path, content: Mapping[str, Any], configs: Path = CONFIGS) -> Shared:
        """The file's, which holds `content`."""
        groups = content.get(_AGENTS) or {}
        if not isinstance(groups, Mapping):
            right = "must be settings by the name of an agent, such as drqn: {learner: {n_step: 3}}"
            raise ConfigError(f"{path}: {_AGENTS} is {shown(groups)}: {right}")
        layer = _layer(str(path), {name: value for name, value in content.items() if name != _AGENTS})
        return cls(layer, {name: _of_single(path, name, groups[name], configs) for name in groups})

    def layers(self, agent: Agent) -> list[Layer]:
        own = self.by_agent.get(agent.base or "")
        return [self.layer, own] if own else [self.layer]


def _of_single(path: Path, name: Any, values: Any, configs: Path) -> Layer:
    source, known = f"{path}, {_AGENTS}.{name}", agents(configs)
    if name not in known:
        raise ConfigError(f"{path}: {_AGENTS}.{name}: {shown(name)} is no agent{nearest(str(name), known)}")
    if not isinstance(values, Mapping):
        raise ConfigError(f"{path}: {_AGENTS}.{name} is {shown(values)}: must be a group of settings")
    layer = _of_agent(_layer(source, values))
    if "task" in layer.values:
        raise ConfigError(f"{source} sets task, which has to be the same for all agents; leave it out")
    return layer


def ranks_layer(environment: Mapping[str, str]) -> list[Layer]:
    """`learner.ranks` as `torchrun` tells it."""
    size = environment.get("WORLD_SIZE", "") if "RANK" in environment else ""
    return [Layer("WORLD_SIZE", {"learner": {"ranks": size}})] if size.isdecimal() else []


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
    suite: Sequence[Layer] = (),
    task_presets: bool = True,
) -> Config:
    """The configuration of a new run.

    Args:
        file: what `--config` names: a file of settings, or the record of a run, which has all of them, so
            that no preset is laid below it.
        flags: dotted name -> text, as given on the command line.
        environment: environment variables.
        configs: the folder of presets.
        below: what lies right below the flags, such as a sweep's choice or a suite's budget; the word
            `horizon` stands for the task's own number there and in `suite`, as in the presets of tasks.
        suite: a suite's settings for all agents: right below these. Of a preset that lies over its task's
            they change nothing.
        task_presets: whether the task's preset is laid over the agent's.
    """
    variables = environment_layer(environment)
    own = Layer(None, nested(flags))
    try:
        content = read_yaml(file) if file else {}
        record = _of_record(file, content) if file else None
        files = [Shared.of(file, content, configs)] if file and record is None else []
    except ConfigError as error:
        raise ConfigError(f"config is {error}") from None
    if record is not None:
        if "agent" in own.values:
            right = f"{record.source} has all settings of a run of {record.values['agent']}; leave it out"
            raise ConfigError(f"agent is {shown(own.values['agent'])}: {right}")
        return build([*ranks_layer(environment), record, *variables, *suite, *below, own])
    all_given = [*(file.layer for file in files), *variables, *suite, *below, own]
    env = next((layer.values["env"] for layer in reversed(all_given) if "env" in layer.values), Config().env)
    agent = _chosen_agent(all_given, configs)
    name = Layer(None, {"agent": agent.name})
    limit = _time_limit(all_given)

    def filled(layers: Sequence[Layer]) -> list[Layer]:
        return [layer._replace(values=_with_horizon(layer.values, env, limit)) for layer in layers]

    families = _env_presets(env, configs) if task_presets else []
    task = filled([layer for family in families for layer in family.layers(agent)])
    presets = [*task, agent.preset] if agent.over_task else [agent.preset, *task]
    given = [*(layer for file in files for layer in file.layers(agent)), *variables]
    kept = agent.preset.values if agent.over_task else {}
    over = [layer._replace(values=without(layer.values, kept)) for layer in filled(suite)]
    above = [agent.variant, name]
    return build([*ranks_layer(environment), *presets, *given, *over, *filled(below), own, *above])


def resolve_task(env: str, flags: Mapping[str, Any], configs: Path = CONFIGS) -> Config:
    """A task as runs have it, whoever plays: of its presets only the options of tasks.

    What the presets set for agents is left out: it may not suit a task that can be described all the same.

    Args:
        flags: dotted name -> text, as given on the command line.
    """
    presets = [
        family.layer._replace(values={"task": family.layer.values["task"]})
        for family in _env_presets(env, configs)
        if "task" in family.layer.values
    ]
    return build([*presets, Layer(None, nested({**flags, "env": env}))])


class Agent(NamedTuple):
    """An agent as `--agent` names it: a preset, a file of the user's, or a variant of either."""

    name: str
    base: str | None
    """The shipped agent that it is, or is a variant of; None for a file of the user's."""
    preset: Layer
    over_task: bool
    """Whether the preset lies over the task's, and a suite's settings change nothing of it."""
    variant: Layer
    """It lies above everything, as no other setting may undo what the variant is about."""


def agents(configs: Path = CONFIGS) -> list[str]:
    """Names of the presets of agents."""
    return sorted(path.stem for path in (configs / "agents").glob("*.yaml"))


def find_agent(text: str, configs: Path = CONFIGS) -> Agent:
    """The agent that `gtrxl`, `my.yaml`, `name=my.yaml` or `long=gtrxl+network.memory_length=80` stands for.

    Raises:
        ConfigError: one line that begins with the part that is wrong.
    """
    head, *changes = re.split(r"\+(?=[A-Za-z][\w.-]*=)", text)
    named, equals, base = head.rpartition("=")
    known = agents(configs)
    bare = re.fullmatch(r"(.*)\+([A-Za-z][\w.-]*)", base)
    if bare and not _is_file(base) and (_is_file(bare[1]) or bare[1] in known):
        raise ConfigError(f"{shown(text)}: {bare[2]} has no value; write {bare[2]}=VALUE")
    if _is_file(base) or "/" in base or os.sep in base:
        file = Path(base)
        preset, name = file_layer(file), named if equals else file.stem
    elif base in known:
        file = _agent_file(base, configs)
        preset, name = file_layer(file), named if equals else base
    else:
        raise ConfigError(f"{shown(base)} is no agent{nearest(base, known)}")
    if changes and not equals:
        raise ConfigError(f"{shown(text)} has no name; write NAME={shown(text)}")
    if not re.fullmatch(r"[^\W_][\w.-]*", name):  # pictures leave out what begins with a dash below
        raise ConfigError(f"{shown(name)} is no name; use letters, digits, dots and dashes: NAME={base}")
    is_shipped = name in known
    shipped = file.stem if file.resolve() == _agent_file(file.stem, configs).resolve() else None
    is_other = is_shipped and shipped != name
    if name == RANDOM or is_other or (is_shipped and changes):
        whose = "random actions" if name == RANDOM else "a shipped agent"
        other = "+".join([f"my-{name}={base}", *changes])
        raise ConfigError(f"{name} is the name of {whose}; write {other}")
    settings: dict[str, Any] = {}
    for change in changes:
        setting, _, value = change.partition("=")
        settings = merge(settings, nested({setting: value}), once=setting)
    over_task = preset.values.pop(_OVER_TASK, False)
    if not isinstance(over_task, bool):
        raise ConfigError(f"{preset.source}: {_OVER_TASK} is {shown(over_task)}: must be true or false")
    return Agent(name, shipped, _of_agent(preset), over_task, _of_agent(Layer(f"agent {name}", settings)))


def _is_file(name: str) -> bool:
    """Whether an agent's name is that of a file of settings."""
    return name.endswith((".yaml", ".yml"))


def _of_agent(layer: Layer) -> Layer:
    for name in ("env", "agent", "seed", _AGENTS):
        if name in layer.values:
            raise ConfigError(f"{layer.source} sets {name}, which is no part of an agent; leave it out")
    return layer


def _chosen_agent(given: Sequence[Layer], configs: Path) -> Agent:
    source = next((layer for layer in reversed(given) if "agent" in layer.values), Layer(None, {}))
    text = str(source.values.get("agent", Config().agent))
    if _is_whole(source):  # a run's own file needs no preset
        return Agent(text, None, Layer(None, {}), False, Layer(None, {}))
    try:
        agent = find_agent(text, configs)
    except ConfigError as error:
        raise ConfigError(f"agent is {shown(text)}{_from(given, 'agent')}: {error}") from None
    for layer in filter(_is_whole, given):
        other = str(layer.values["agent"])
        if agent.name != other and agent.preset.source != str(_agent_file(other, configs)):
            raise ConfigError(
                f"agent is {shown(text)}{_from(given, 'agent')}, but {layer.source} holds every setting of "
                f"{other}, to be laid over it; must be {other}, or the file without an agent's settings"
            )
    return agent


def _is_whole(layer: Layer) -> bool:
    """Whether it holds every setting, as a run's own config.yaml does; an older version's lacks a few."""
    held = sum(has_setting(layer.values, name) for name in fields_of())
    return held > 0.75 * len(fields_of()) and layer.values.keys() >= {"env", "agent", "seed"}


def _agent_file(name: str, configs: Path) -> Path:
    return configs / "agents" / f"{name}.yaml"


def unread(config: Config) -> list[str]:
    """Settings that nothing reads (`Config.unread`), but those that the agent's shipped preset sets."""
    if config.agent not in agents():
        return config.unread()
    kept = kept_of_preset(config)
    return [name for name in config.unread() if not kept.get(name, False)]


def kept_of_preset(config: Config) -> dict[str, bool]:
    """The settings that the agent's shipped preset sets, and whether the run has its value of each."""
    preset = find_agent(config.agent).preset
    own = build([preset])
    return {
        name: value_of(config, name) == value_of(own, name)
        for name in fields_of()
        if has_setting(preset.values, name)
    }


def _time_limit(given: Sequence[Layer]) -> int | None:
    """`task.time_limit` as it was given; None where it was not, or is no number, which `build` refuses."""
    limits = (setting_in(layer.values, "task.time_limit") for layer in reversed(given))
    limit = str(next((value for value in limits if value is not None), None))
    return int(limit) if limit.isdecimal() and int(limit) > 0 else None


def _env_presets(env: Any, configs: Path) -> list[Shared]:
    return [Shared.of_file(path, configs) for path in of_task(env, configs)]


def of_task(env: Any, configs: Path = CONFIGS) -> list[Path]:
    """The presets whose names begin the task's name, longer ones over shorter ones.

    Such a name ends where a word ends, so no small letter follows: `ALE/Pong-v5`, `MiniGrid-MemoryS7-v0`.
    None is for a task of the form `module:Class`, however a user has called that module.
    """
    if entry_points.split(str(env)):
        return []
    files = (configs / "envs").glob("*.yaml")
    families = [path for path in files if re.match(rf"{re.escape(path.stem)}(?![a-z])", str(env))]
    return sorted(families, key=lambda path: len(path.stem))


def _with_horizon(
    values: Mapping[str, Any], env: str, time_limit: int | None, group: str = ""
) -> dict[str, Any]:
    """A task's or a suite's settings, with the task's own number in place of the word `horizon`.

    Args:
        time_limit: that of the run; None: the task's own.
        group: the group that the names are in, with a dot at its end.
    """
    filled: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and group + name in fields_of():  # of the user's own words
            filled[name] = value
        elif isinstance(value, Mapping):
            filled[name] = _with_horizon(value, env, time_limit, f"{group}{name}.")
        else:
            filled[name] = _horizon(env, time_limit) if value == "horizon" else value
    return filled


@functools.cache
def _horizon(env: str, time_limit: int | None) -> Any:
    import envs  # only here, as most of what reads settings does not need the tasks

    try:
        found = envs.spec(env, **({} if time_limit is None else {"time_limit": time_limit})).horizon
    except ValueError as error:
        raise ConfigError(f"env is {env}: {error}") from None
    return _NO_HORIZON if found is None else found


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
    if error["input"] is _NO_HORIZON:
        env = next((layer.values["env"] for layer in reversed(layers) if "env" in layer.values), Config().env)
        return (
            f"{name} is horizon{_from(layers, name)}, but {env} fixes no length of its episodes, so there is "
            f"no such number: must be {legal(fields[name])}"
        )
    if name in fields:
        hint = meant(str(error["input"]), choices(fields[name]))
        if not hint and mark_of(fields[name], OwnOr):
            own_form = entry_points.own_form(str(error["input"]), f"make_{name.rpartition('.')[2]}")
            hint = f"; write {own_form}" if own_form else ""
        right = legal(fields[name], error["input"])
        return f"{name} is {shown(error['input'])}{_from(layers, name)}: must be {right}{hint}"
    if name in _GROUPS and error["type"] != "value_error":
        return f"{name} is {shown(error['input'])}{_from(layers, name)}: must be a group of settings"
    text = str(error["ctx"]["error"])
    named = (match.group() for match in re.finditer(r"[\w.]+\w", text) if match.group() in fields)
    sources = [
        f"{setting} {source}"
        for setting in dict.fromkeys(named)
        if (source := _from(layers, setting).strip(" ()"))
    ]
    return f"{text} ({', '.join(sources)})" if sources else text


def _from(layers: Sequence[Layer], name: str) -> str:
    """` (from ...)` with the last source that sets `name`, or nothing where none does."""
    for layer in reversed(layers):
        if has_setting(layer.values, name):
            return f" (from {layer.source or _flag(name)})"
    return ""


def without(values: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """The nested values that are not among the others."""
    rest = {}
    for name, value in values.items():
        if name not in others:
            rest[name] = value
        elif isinstance(value, Mapping):
            rest[name] = without(value, others[name])
    return rest


def has_setting(values: Mapping[str, Any], name: str) -> bool:
    """Whether nested values hold the setting of this dotted name."""
    return setting_in(values, name, _ABSENT) is not _ABSENT


def setting_in(values: Mapping[str, Any], name: str, otherwise: Any = None) -> Any:
    """The setting of this dotted name in nested values, or `otherwise` where they do not hold it."""
    value: Any = values
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return otherwise
        value = value[part]
    return value


def _flag(name: str) -> str:
    return f"--{name if '.' in name else name.replace('_', '-')}"


def to_yaml(config: Config) -> str:
    """Every setting, as `--config` reads it again."""
    return yaml_of(config.model_dump(mode="json"))


def yaml_of(values: Mapping[str, Any]) -> str:
    """Settings by group as the text of a file; nothing where there are none."""
    return yaml.safe_dump(values, sort_keys=False) if values else ""
