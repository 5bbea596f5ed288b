"""Read W&B's sweep files, and report every mistake in one as one line."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from dtqn.experiments.sweep_space import Number, Parameter, Part, read_part
from dtqn.settings.config import ConfigError, fields_of, setting_of, spelled
from dtqn.settings.layers import read_yaml
from dtqn.settings.values import nearest
from dtqn.training.metrics import METRICS

_PROGRAM, _ARGS = "${program}", "${args}"
_PROGRAMS = ("run.py", "dtqn/__main__.py")
"""The programs of this suite that W&B's agent can run, from the root of the repository."""
_Mapping = Annotated[dict[Any, Any], Field(description="a mapping")]


class _File(Part):
    method: Literal["bayes", "grid", "random"]
    metric: _Mapping
    parameters: _Mapping
    early_terminate: _Mapping | None = Field(None, description="a mapping")
    run_cap: int | None = Field(None, ge=1)
    command: list[Any] = Field([_PROGRAM, _ARGS], description="a list")
    program: str = _PROGRAMS[0]
    name: str | None = Field(None, description="text")
    # What W&B's server alone reads.
    project: Any = None
    entity: Any = None
    description: Any = None
    kind: Any = None
    apiVersion: Any = None
    controller: Any = None
    preemptible: Any = None


class _Metric(Part):
    name: str
    goal: Literal["minimize", "maximize"] = "minimize"
    target: Number | None = Field(None, description="a number")


class Hyperband(Part):
    """Early termination. W&B's `max_iter` and `s` say the same from the other end."""

    type: Literal["hyperband"]
    min_iter: int = Field(ge=1)
    eta: int = Field(3, ge=2)


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
    early_terminate: Hyperband | None
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
        rungs = self.early_terminate and self.early_terminate.model_dump(exclude_unset=True)
        content = {"method": self.method, "metric": self.metric, "goal": self.goal, "early_terminate": rungs}
        specs = {f"parameters.{name}": one.spec for name, one in self.parameters.items()}
        return dict(json.loads(json.dumps(content | specs)))

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

    def without(self, given: Mapping[str, str]) -> SweepFile:
        """The file without its parameters that settings give otherwise.

        Raises:
            ConfigError: one of these is searched.
        """
        kept = dict(self.parameters)
        for name, setting in itertools.product(self.parameters, given):
            if not _is_within(name, setting):
                continue
            if self.parameters[name].is_searched:
                what = "it" if name == setting else name
                raise ConfigError(
                    f"--{setting} is {given[setting]}, but {self.path} searches {what}; leave it out"
                )
            kept.pop(name, None)
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
    try:
        return _checked(path, content)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None


def _checked(path: Path, content: Mapping[str, Any]) -> SweepFile:
    """A ValueError tells the first mistake."""
    file = read_part(_File, content, "a sweep file")
    metric = read_part(_Metric, file.metric, "metric", "metric.")
    rungs = file.early_terminate
    if metric.name not in METRICS:
        hint = nearest(metric.name, METRICS) or "; try mean_success or mean_return"
        raise ValueError(f"metric.name is {metric.name}: there is no such metric{hint}")
    return SweepFile(
        path,
        file.name or path.stem,
        file.method,
        metric.name,
        metric.goal,
        metric.target,
        _parameters(file.parameters, file.method == "grid"),
        read_part(Hyperband, rungs, "early_terminate", "early_terminate.") if rungs else None,
        file.run_cap,
        _flags(file),
    )


def _is_within(name: str, setting: str) -> bool:
    """Whether a setting that is given decides one: itself, or a name in the mapping that it is."""
    return f"{name}.".startswith(f"{setting}.")


def _parameters(parameters: Mapping[str, Any], is_grid: bool) -> dict[str, Parameter]:
    found = dict[str, Parameter]()
    for name, spec in _flat(parameters):
        if name in found:
            raise ValueError(f"parameters.{name} is there twice; must be there once")
        found[name] = _parameter(name, spec, is_grid)
    if not found:
        raise ValueError(f"parameters is {parameters}; must hold settings to search")
    return found


def _flat(parameters: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Parameters by dotted name."""
    for key, spec in parameters.items():
        name = spelled(f"{prefix}{key}")
        if isinstance(spec, Mapping) and isinstance(spec.get("parameters"), Mapping):
            yield from _flat(spec["parameters"], f"{name}.")
        else:
            yield name, spec


def _parameter(name: str, spec: Any, is_grid: bool) -> Parameter:
    if setting_of(name) is None:
        raise ValueError(f"parameters.{name} is no setting{nearest(name, fields_of())}")
    try:
        parameter = Parameter(spec, is_grid)
    except ValueError as error:
        raise ValueError(f"parameters.{name}{error}") from None
    if name == "evaluation.epsilon" and parameter.is_searched:
        right = "which ranks runs by how they are measured; must have one value"
        raise ValueError(f"parameters.{name} is searched, {right}")
    return parameter


def _flags(file: _File) -> list[str]:
    """The words of `command` that are the program's: those after it, but what W&B fills in."""
    if not any(f"/{file.program}".endswith(f"/{ours}") for ours in _PROGRAMS):
        raise ValueError(f"program is {file.program}: W&B would run that; must be {_PROGRAMS[0]}")
    command = [str(word) for word in file.command]
    words = command[command.index(_PROGRAM) + 1 :] if _PROGRAM in command else []
    if _ARGS not in words:
        right = f"must hold {_PROGRAM}, and {_ARGS} and the program's flags after it"
        raise ValueError(f"command is {' '.join(command)}; {right}")
    flags = [word for word in words if not word.startswith("${")]
    return flags[1:] if flags[:1] == ["train"] else flags
