"""Read W&B's sweep files, and report every mistake in one as one line."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from dtqn.experiments.sweep_space import Key, Parameter, mistake
from dtqn.settings.config import ConfigError, fields_of, setting_of, spelled
from dtqn.settings.layers import read_yaml
from dtqn.settings.values import nearest
from dtqn.training.metrics import METRICS

_PROGRAM, _ARGS = "${program}", "${args}"
_PROGRAMS = ("run.py", "dtqn/__main__.py")
"""The programs of this suite that W&B's agent can run, from the root of the repository."""
_KEYS = {
    "method": Key("text", among=("bayes", "grid", "random")),
    "metric": Key("a mapping"),
    "parameters": Key("a mapping"),
    "early_terminate": Key("a mapping", None),
    "run_cap": Key("an integer", None, least=1),
    "command": Key("a list", [_PROGRAM, _ARGS]),
    "program": Key("text", _PROGRAMS[0]),
    "name": Key("text", None),
    # What W&B's server alone reads.
    **{name: Key("text", None) for name in ("project", "entity", "description", "kind", "apiVersion")},
    **{name: Key("anything", None) for name in ("controller", "preemptible")},
}
_METRIC = {
    "name": Key("text"),
    "goal": Key("text", "minimize", among=("minimize", "maximize")),
    "target": Key("a number", None),
}
_HYPERBAND = {
    "type": Key("text", among=("hyperband",)),
    "min_iter": Key("an integer", least=1),
    "eta": Key("an integer", 3, least=2),
}
"""W&B's `max_iter` and `s` say the same from the other end."""


class SweepFile(NamedTuple):
    """The content of a sweep file."""

    path: Path
    name: str
    method: str
    metric: str
    goal: Literal["minimize", "maximize"]
    target: float | None
    """The result that ends the search."""
    parameters: dict[str, Parameter]
    """By their dotted names."""
    early_terminate: Mapping[str, Any] | None
    run_cap: int | None
    flags: list[str]
    """The program's flags in `command` besides `${args}`."""

    @property
    def sign(self) -> int:
        """1 where larger is better, else -1."""
        return 1 if self.goal == "maximize" else -1

    @property
    def search(self) -> dict[str, Any]:
        """What makes it another search, as JSON has it."""
        names = ("method", "metric", "goal", "early_terminate")
        specs = {f"parameters.{name}": one.spec for name, one in self.parameters.items()}
        content: dict[str, Any] = {name: getattr(self, name) for name in names} | specs
        return dict(json.loads(json.dumps(content)))

    @property
    def fixed(self) -> dict[str, Any]:
        """Parameters that have one value."""
        return {name: one.spec["value"] for name, one in self.parameters.items() if not one.is_searched}

    @property
    def searched(self) -> list[str]:
        """Parameters that have more than one value."""
        return [name for name, one in self.parameters.items() if one.is_searched]

    def settings(self, drawn: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters' values for what was drawn for those that are searched."""
        values = {name: self.parameters[name].value(drawn[name]) for name in self.searched}
        return {name: (values | self.fixed)[name] for name in self.parameters}

    def without(self, given: Collection[str]) -> SweepFile:
        """The file without its parameters that settings of these names give otherwise."""
        gone = {name for name in self.parameters if any(is_within(name, one) for one in given)}
        kept = {name: one for name, one in self.parameters.items() if name not in gone}
        return self._replace(parameters=kept)

    def check_metric(self, env: str, has_success: bool) -> None:
        """A ConfigError where runs of the task have no such metric."""
        group, success, _ = self.metric.partition("success")
        if success and not has_success:
            raise ConfigError(
                f"{self.path}: metric.name is {self.metric}, but {env} defines no success; try {group}return"
            )


def read_file(path: Path) -> SweepFile:
    """Read and check a sweep file.

    Raises:
        ConfigError: one line that names the file, the key and what would be right.
    """
    content = read_yaml(path, "a sweep: method, metric and parameters by name")
    places = {"": _KEYS, "metric.": _METRIC, "early_terminate.": _HYPERBAND}
    for place, keys in places.items():
        inside = content if not place else content.get(place[:-1])
        if inside is not None and (text := mistake(inside, keys, place[:-1] or "a sweep file", place)):
            raise ConfigError(f"{path}: {text}")
    metric, method = content["metric"], content["method"]
    if metric["name"] not in METRICS:
        hint = nearest(metric["name"], METRICS) or "; try mean_success or mean_return"
        raise ConfigError(f"{path}: metric.name is {metric['name']}: there is no such metric{hint}")
    return SweepFile(
        path,
        content.get("name", path.stem),
        method,
        metric["name"],
        metric.get("goal", "minimize"),
        metric.get("target"),
        _parameters(path, content["parameters"], method == "grid"),
        content.get("early_terminate"),
        content.get("run_cap"),
        _flags(path, content),
    )


def is_within(name: str, setting: str) -> bool:
    """Whether a setting that is given decides one: itself, or a name in the mapping that it is."""
    return f"{name}.".startswith(f"{setting}.")


def _parameters(path: Path, parameters: Mapping[str, Any], is_grid: bool) -> dict[str, Parameter]:
    found = dict[str, Parameter]()
    for name, spec in _flat(parameters):
        if name in found:
            raise ConfigError(f"{path}: parameters.{name} is there twice; must be there once")
        found[name] = _parameter(path, name, spec, is_grid)
    if not found:
        raise ConfigError(f"{path}: parameters is {parameters}; must hold settings to search")
    return found


def _flat(parameters: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Parameters by dotted name."""
    for key, spec in parameters.items():
        name = spelled(f"{prefix}{key}")
        if isinstance(spec, Mapping) and isinstance(spec.get("parameters"), Mapping):
            yield from _flat(spec["parameters"], f"{name}.")
        else:
            yield name, spec


def _parameter(path: Path, name: str, spec: Any, is_grid: bool) -> Parameter:
    if setting_of(name) is None:
        raise ConfigError(f"{path}: parameters.{name} is no setting{nearest(name, fields_of())}")
    try:
        parameter = Parameter(spec, is_grid)
    except ValueError as error:
        raise ConfigError(f"{path}: parameters.{name}{error}") from None
    if spelled(name) == "evaluation.epsilon" and parameter.is_searched:
        raise ConfigError(
            f"{path}: parameters.{name} is searched, which ranks runs by how they are measured; "
            "must have one value"
        )
    return parameter


def _flags(path: Path, content: Mapping[str, Any]) -> list[str]:
    """The words of `command` that are the program's: those after it, but what W&B fills in."""
    program = content.get("program", _PROGRAMS[0])
    if not any(f"/{program}".endswith(f"/{ours}") for ours in _PROGRAMS):
        raise ConfigError(f"{path}: program is {program}: W&B would run that; must be {_PROGRAMS[0]}")
    command = [str(word) for word in content.get("command", [_PROGRAM, _ARGS])]
    if _PROGRAM not in command:
        raise ConfigError(
            f"{path}: command is {' '.join(command)}; must hold {_PROGRAM}, with the program's flags after it"
        )
    if _ARGS not in command[command.index(_PROGRAM) :]:
        raise ConfigError(
            f"{path}: command is {' '.join(command)}; must hold {_ARGS} after {_PROGRAM}: "
            "without it W&B would run every configuration alike"
        )
    words = [word for word in command[command.index(_PROGRAM) + 1 :] if not word.startswith("${")]
    return words[1:] if words[:1] == ["train"] else words
