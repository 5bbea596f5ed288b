"""Read W&B's sweep files, and report every mistake in one as one line."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from dtqn.experiments.scores import Part
from dtqn.experiments.sweep_space import Parameter, read_part
from dtqn.settings.config import ConfigError, fields_of, setting_of
from dtqn.settings.layers import read_yaml
from dtqn.settings.update import of_sweep
from dtqn.settings.values import nearest
from dtqn.training.metrics import METRICS

_PROGRAM = "${program}"
_COMMAND = [_PROGRAM, "${args}", "--resume=auto"]
"""What W&B's agent runs, after the interpreter."""
_Mapping = Annotated[dict[Any, Any], Field(description="a mapping")]


class _File(Part):
    method: Literal["bayes", "grid", "random"]
    metric: _Mapping
    parameters: _Mapping
    early_terminate: _Mapping | None = Field(None, description="a mapping")
    run_cap: int | None = Field(None, ge=1)
    command: list[Any] = Field(_COMMAND, description="a list")
    program: Literal["run.py"] = "run.py"
    name: str | None = Field(None, description="text")


_OF_SERVER = ("project", "entity", "description", "kind", "apiVersion", "controller", "preemptible")
"""Keys that W&B's server alone reads."""


class _Metric(Part):
    name: str
    goal: Literal["minimize", "maximize"] = "minimize"


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
    parameters: dict[str, Parameter]
    """By their dotted names."""
    early_terminate: Hyperband | None
    run_cap: int | None

    @property
    def search(self) -> list[Any]:
        """What makes it another search."""
        specs = [(name, one.distribution, one.spec) for name, one in self.parameters.items()]
        rungs = self.early_terminate and self.early_terminate.model_dump()
        return [self.method, self.metric, self.goal, rungs, specs]

    @property
    def searched(self) -> list[str]:
        """Parameters that have more than one value."""
        return [name for name, one in self.parameters.items() if one.is_searched]

    def settings(self, drawn: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters' values for what was drawn for those that are searched."""
        return {name: one.value(drawn.get(name)) for name, one in self.parameters.items()}

    def check_given(self, given: Mapping[str, str]) -> None:
        """A ConfigError where settings of all runs decide one that is searched."""
        for name, setting in itertools.product(self.searched, given):
            if f"{name}.".startswith(f"{setting}."):  # itself, or one in the mapping that it is
                raise ConfigError(
                    f"--{setting} is {given[setting]}, but {self.path} searches {name}; leave it out"
                )

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
    ours = {key: value for key, value in content.items() if key not in _OF_SERVER}
    file = read_part(_File, ours, "a sweep file")
    metric = read_part(_Metric, file.metric, "metric", "metric.")
    rungs = file.early_terminate
    _check_command([str(word) for word in file.command])
    if metric.name not in METRICS:
        hint = nearest(metric.name, METRICS) or "; try mean_success or mean_return"
        raise ValueError(f"metric.name is {metric.name}: there is no such metric{hint}")
    return SweepFile(
        path,
        file.name or path.stem,
        file.method,
        metric.name,
        metric.goal,
        _parameters(file.parameters, file.method == "grid"),
        read_part(Hyperband, rungs, "early_terminate", "early_terminate.") if rungs else None,
        file.run_cap,
    )


def _parameters(parameters: Mapping[str, Any], is_grid: bool) -> dict[str, Parameter]:
    found = dict[str, Parameter]()
    for name, spec in of_sweep(parameters):
        if name in found:
            raise ValueError(f"parameters.{name} is there twice; must be there once")
        found[name] = _parameter(name, spec, is_grid)
    if not found:
        raise ValueError(f"parameters is {parameters}; must hold settings to search")
    return found


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


def _check_command(words: list[str]) -> None:
    """A ValueError where W&B's agent would run something else than is run here."""
    started = words[words.index(_PROGRAM) :] if _PROGRAM in words else []
    if started not in (_COMMAND, _COMMAND[:-1]):
        right = f"must end in {' '.join(_COMMAND)}; a setting of all runs is a parameter with one value"
        raise ValueError(f"command is {' '.join(words)}; {right}")
