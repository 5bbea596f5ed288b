"""From presets, files and flags to one validated `Config`.

The layers are laid over each other in the order: the recipe, agent preset, env preset, `--config` file,
`WANDB_MODE`, a suite's settings, its budget, flags. Each names only what it changes. An agent preset with
`over_task: true` is a published agent: the recipe is not laid below it, it lies over the env preset, and a
suite's settings change nothing of what it sets. An env preset and a `--config` file are for all agents;
settings of single ones may stand in them under `agents`. Below the record of a run that `--config` names
(`FILE.jsonl#task/agent/seed`) no preset is laid.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dtqn.settings import record_files
from dtqn.settings.config import Config, ConfigError, fields_of, settings_of
from dtqn.settings.layers import (
    CONFIGS,
    Layer,
    build,
    environment_layer,
    file_layer,
    flat,
    layer_of,
    merge,
    of_run,
    origin,
    read_yaml,
)
from dtqn.settings.values import nearest, shown
from envs import entry_points

_OVER_TASK = "over_task"
_AGENTS = "agents"
RANDOM = "random"
"""The name of random actions in tables, and of no agent."""


class Shared(NamedTuple):
    """A file of settings for all agents; its settings for single agents lie right over these."""

    layer: Layer
    by_agent: dict[str, Layer]
    """By the name of a shipped agent; its variants get them too."""

    @classmethod
    def of_file(cls, path: Path) -> Shared:
        """What a YAML file holds, or one of a file of records."""
        names_record = f"{record_files.SUFFIX}#" in f"{path}#"
        content = record_files.find(str(path)) if names_record else read_yaml(path)
        if record_files.is_record(content):
            settings = record_files.settings_of(content, str(path))
            return cls(Layer(str(path), settings, is_whole=True), {})
        groups = content.get(_AGENTS) or {}
        if not isinstance(groups, Mapping):
            right = "must be settings by the name of an agent, such as drqn: {learner: {n_step: 3}}"
            raise ConfigError(f"{path}: {_AGENTS} is {shown(groups)}: {right}")
        layer = layer_of(str(path), {name: value for name, value in content.items() if name != _AGENTS})
        layer = of_run(layer)._replace(is_whole=True) if _is_whole(layer) else layer
        return cls(layer, {name: _of_single(path, name, groups[name]) for name in groups})

    def layers(self, agent: Agent) -> list[Layer]:
        own = self.by_agent.get(agent.base or "")
        return [self.layer, own] if own else [self.layer]


def _of_single(path: Path, name: Any, values: Any) -> Layer:
    source, known = f"{path}, {_AGENTS}.{name}", agents()
    if name not in known:
        raise ConfigError(f"{path}: {_AGENTS}: {shown(name)} is not an agent{nearest(str(name), known)}")
    if not isinstance(values, Mapping):
        raise ConfigError(f"{path}: {_AGENTS}.{name} is {shown(values)}: must be a group of settings")
    layer = _of_agent(layer_of(source, values))._replace(of="agent")
    if any(name.partition(".")[0] == "task" for name in layer.values):
        raise ConfigError(f"{source} sets task, which has to be the same for all agents; leave it out")
    return layer


def resolve(
    file: Path | None,
    flags: Mapping[str, Any],
    environment: Mapping[str, str],
    below: Sequence[Layer] = (),
    suite: Sequence[Layer] = (),
    for_all: bool = False,
) -> Config:
    """The configuration of a new run.

    Args:
        file: what `--config` names.
        flags: dotted name -> text, as given on the command line.
        environment: environment variables.
        below: what lies right below the flags, such as a sweep's choice or a suite's budget.
        suite: what a suite sets for all agents, right below these, but for what a published agent sets.
        for_all: the flags are for several agents, each where it applies.
    """
    variables = environment_layer(environment)
    # W&B's agent types what a sweep over several cores has drawn.
    own = layer_of(None, flags)._replace(of="all" if for_all or "WANDB_SWEEP_ID" in environment else "run")
    try:
        files = [Shared.of_file(file)] if file else []
    except ConfigError as error:
        raise ConfigError(f"config is {error}") from None
    all_given = [*(file.layer for file in files), *variables, *suite, *below, own]
    is_whole = any(layer.is_whole for layer in all_given)
    env = next((layer.values["env"] for layer in reversed(all_given) if "env" in layer.values), Config().env)
    agent = _chosen_agent(all_given)
    families = _env_presets(env) if not is_whole else []
    task = [layer for family in families for layer in family.layers(agent)]
    presets = [*task, agent.preset] if agent.over_task else [recipe(), agent.preset, *task]
    given = [*(layer for file in files for layer in file.layers(agent)), *variables]
    kept = agent.preset.values if agent.over_task else {}
    over = [_only(layer, lambda name: name not in kept) for layer in suite]
    above = [agent.variant, Layer(None, {"agent": agent.name})]
    return build([*([] if is_whole else presets), *given, *over, *below, own, *above])


def resolve_task(env: str, flags: Mapping[str, Any]) -> Config:
    """A task as runs have it, for any agent: of its presets only the options of tasks.

    What the presets set for agents is left out: it may not suit a task that can still be described.

    Args:
        flags: dotted name -> text, as given on the command line.
    """
    families = _env_presets(env)
    presets = [_only(family.layer, lambda name: name.startswith("task.")) for family in families]
    return build([*presets, layer_of(None, {**flags, "env": env})])


def _only(layer: Layer, wanted: Callable[[str], bool]) -> Layer:
    """A layer with the settings of wanted names alone."""
    return layer._replace(values={name: value for name, value in layer.values.items() if wanted(name)})


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


def agents() -> list[str]:
    """Names of the presets of agents."""
    return sorted(path.stem for path in (CONFIGS / "agents").glob("*.yaml"))


@functools.cache
def recipe() -> Layer:
    """What agents that are not published ones have alike on all tasks."""
    return file_layer(CONFIGS / "recipe.yaml")


def usual(name: str) -> Any:
    """What a setting is where no preset and nobody sets it."""
    default = fields_of()[name].default
    return recipe().values.get(name, getattr(default, "name", default))


def find_agent(text: str) -> Agent:
    """What `gtrxl`, `my.yaml`, `name=my.yaml` or `long=gtrxl+network.core.memory_length=80` stands for.

    Raises:
        ConfigError: one line that begins with the part that is wrong.
    """
    head, *changes = re.split(r"\+(?=[A-Za-z][\w.-]*=)", text)
    named, equals, base = head.rpartition("=")
    file, own_name = _base_of(text, base)
    preset = file_layer(file)._replace(of="agent")
    if changes and not equals:
        raise ConfigError(f"{shown(text)} has no name; write NAME={shown(text)}")
    name = named if equals else own_name
    shipped = file.stem if file.resolve() == _agent_file(file.stem).resolve() else None
    is_itself = shipped == name and not changes
    _check_name(name, base, changes, is_taken=name in agents() and not is_itself)
    settings: dict[str, Any] = {}
    for change in changes:
        setting, _, value = change.partition("=")
        settings = merge(settings, flat({setting: value}), once=setting)
    over_task = preset.values.pop(_OVER_TASK, False)
    if not isinstance(over_task, bool):
        raise ConfigError(f"{preset.source}: {_OVER_TASK} is {shown(over_task)}: must be true or false")
    variant = Layer(f"agent {name}", settings, is_typed=True, of="run")
    return Agent(name, shipped, _of_agent(preset), over_task, _of_agent(variant))


def _base_of(text: str, base: str) -> tuple[Path, str]:
    """The file of the agent `base`, a preset's name or a file, and the name that it has if none is given."""
    known = agents()
    bare = re.fullmatch(r"(.*)\+([A-Za-z][\w.-]*)", base)
    if bare and not _is_file(base) and (_is_file(bare[1]) or bare[1] in known):
        raise ConfigError(f"{shown(text)}: {bare[2]} has no value; write {bare[2]}=VALUE")
    if _is_file(base) or "/" in base or os.sep in base:
        return Path(base), Path(base).stem
    if base in known:
        return _agent_file(base), base
    raise ConfigError(f"{shown(base)} is not an agent{nearest(base, known)}")


def _check_name(name: str, base: str, changes: Sequence[str], is_taken: bool) -> None:
    """Refuses a name that is none, and one that random actions or another agent has."""
    if not re.fullmatch(r"[^\W_][\w.-]*", name):  # pictures leave out what begins with a dash below
        raise ConfigError(f"{shown(name)} is not a name; use letters, digits, dots and dashes: NAME={base}")
    if name == RANDOM or is_taken:
        whose = "random actions" if name == RANDOM else "a shipped agent"
        other = "+".join([f"my-{name}={base}", *changes])
        raise ConfigError(f"{name} is the name of {whose}; write {other}")


def _is_file(name: str) -> bool:
    """Whether an agent's name is the name of a settings file."""
    return name.endswith((".yaml", ".yml"))


def _of_agent(layer: Layer) -> Layer:
    named = {setting.partition(".")[0] for setting in layer.values}
    for name in ("env", "agent", "seed", _AGENTS):
        if name in named:
            raise ConfigError(f"{layer.source} sets {name}, which is not part of an agent; leave it out")
    return layer


def _chosen_agent(given: Sequence[Layer]) -> Agent:
    source = next((layer for layer in reversed(given) if "agent" in layer.values), Layer(None, {}))
    text = str(source.values.get("agent", Config().agent))
    if source.is_whole:  # a run's own file needs no preset
        return Agent(text, None, Layer(None, {}), False, Layer(None, {}))
    try:
        agent = find_agent(text)
    except ConfigError as error:
        raise ConfigError(f"agent is {shown(text)}{origin(given, 'agent')}: {error}") from None
    for layer in (layer for layer in given if layer.is_whole):
        other = str(layer.values["agent"])
        if agent.name != other and agent.preset.source != str(_agent_file(other)):
            raise ConfigError(
                f"agent is {shown(text)}{origin(given, 'agent')}, but {layer.source} holds every setting of "
                f"{other} and would override it; must be {other}, or the file without an agent's settings"
            )
    return agent


def _is_whole(layer: Layer) -> bool:
    """Whether it holds every setting, as a run's own config.yaml does; an older version's lacks a few."""
    held = len(layer.values.keys() & fields_of().keys())
    return held > 0.75 * len(settings_of(Config())) and layer.values.keys() >= {"env", "agent", "seed"}


def _agent_file(name: str) -> Path:
    return CONFIGS / "agents" / f"{name}.yaml"


def unread(config: Config) -> list[str]:
    """Settings that nothing reads (`Config.unread`), but those that the agent's shipped preset sets."""
    kept = kept_of_preset(config) if config.agent in agents() else {}
    return [name for name in config.unread() if not kept.get(name, False)]


def kept_of_preset(config: Config) -> dict[str, bool]:
    """The settings that the agent's shipped preset sets, and whether the run has its value of each."""
    preset = find_agent(config.agent).preset
    own, here = settings_of(build([preset])), settings_of(config)
    return {name: name in here and here[name] == own[name] for name in preset.values}


def _env_presets(env: Any) -> list[Shared]:
    """The presets whose names begin the task's name, longer ones over shorter ones.

    Such a name ends where a word ends, so no letter follows: `ALE/Pong-v5`, `MiniGrid-MemoryS7-v0`.
    None is for a task of the form `module:Class`, however a user has called that module.
    """
    if entry_points.split(str(env)):
        return []
    files = (CONFIGS / "envs").glob("*.yaml")
    families = [path for path in files if re.match(rf"{re.escape(path.stem)}(?![A-Za-z])", str(env))]
    return [Shared.of_file(path) for path in sorted(families, key=lambda path: len(path.stem))]
