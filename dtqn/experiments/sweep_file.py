"""Read W&B's sweep files, and report every mistake in one as one line."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, ValidationError, create_model

from dtqn.experiments.scores import Part
from dtqn.settings.config import ConfigError, fields_of, setting_of, spelled
from dtqn.settings.faults import first_fault
from dtqn.settings.layers import read_yaml
from dtqn.settings.values import nearest
from dtqn.training.metrics import METRICS
from envs.errors import meant

Spec = Mapping[str, Any]


def _between(spec: Spec, share: float) -> float:
    return float(spec["min"] + share * (spec["max"] - spec["min"]))


def _geometric(spec: Spec, share: float) -> float:
    return float(spec["min"] * (spec["max"] / spec["min"]) ** share)


def _integer(spec: Spec, share: float) -> int:
    return min(math.floor(spec["min"] + share * (spec["max"] + 1 - spec["min"])), int(spec["max"]))


_NUMBER = Annotated[float, Field(description="a number; YAML reads 1.0e-5 as one, not 1e-5")]
_LIST = Annotated[list[Any], Field(min_length=1, description="a list of at least 1 item")]
_ENDS = {"min": _NUMBER, "max": _NUMBER}
_POSITIVE_ENDS = {"min": Annotated[float, Field(gt=0)], "max": _NUMBER}
DISTRIBUTIONS: Mapping[str, tuple[Mapping[str, Any], Callable[[Spec, Any], Any]]] = {
    "constant": ({"value": Any}, lambda spec, _: spec["value"]),
    "categorical": ({"values": _LIST}, lambda spec, place: spec["values"][place]),
    "int_uniform": ({"min": int, "max": int}, _integer),
    "uniform": (_ENDS, _between),
    "log_uniform": (_ENDS, lambda spec, share: math.exp(_between(spec, share))),
    "log_uniform_values": (_POSITIVE_ENDS, _geometric),
    "inv_log_uniform": (_ENDS, lambda spec, share: math.exp(-_between(spec, 1 - share))),
    "inv_log_uniform_values": (_POSITIVE_ENDS, _geometric),  # inverses are spread alike
}
"""By W&B's name the keys with their types, and the value at a quantile, or at a place in a list.

`log_uniform` has exponents of e as its ends, `..._values` the values."""


class Parameter:
    """A parameter of a sweep file, which Optuna draws as a quantile, or as a place in a list."""

    def __init__(self, spec: Any, is_grid: bool) -> None:
        """Raises: ValueError: what is wrong, as it goes on after the parameter's name."""
        self.distribution = _named(spec) if isinstance(spec, Mapping) else ""
        if not self.distribution:
            raise ValueError(f" is {spec}: must be {{value: X}}, {{values: [X, Y]}} or {{min: X, max: Y}}")
        if self.distribution not in DISTRIBUTIONS:
            right = f"one of {', '.join(DISTRIBUTIONS)}{meant(self.distribution, DISTRIBUTIONS)}"
            raise ValueError(f".distribution is {self.distribution}: must be {right}")
        types, self._value = DISTRIBUTIONS[self.distribution]
        self.spec = {key: value for key, value in spec.items() if key != "distribution"}
        keys: Any = {key: (kind, ...) for key, kind in types.items()}
        model = create_model("Spec", __base__=Part, **keys)
        try:
            model.model_validate(self.spec)
        except ValidationError as error:
            raise ValueError(f".{first_fault(error, model, self.distribution)}") from None
        if "min" in spec and spec["min"] >= spec["max"]:
            raise ValueError(f".min {spec['min']} is not less than max {spec['max']}")
        self.listed = self._all_values() if is_grid or "values" in spec else None
        """The values; Optuna draws the index of one. None: it draws a quantile."""
        if is_grid and self.is_searched and self.listed is None:
            raise ValueError(f" is {self.distribution}: a grid needs values or int_uniform")

    def _all_values(self) -> list[Any] | None:
        """The points of a grid; None where there is no end of them."""
        if self.distribution == "int_uniform":
            return list(range(self.spec["min"], self.spec["max"] + 1))
        return list(self.spec["values"]) if "values" in self.spec else None

    @property
    def is_searched(self) -> bool:
        return self.distribution != "constant"

    def value(self, drawn: Any) -> Any:
        """The setting's value for what was drawn."""
        return self._value(self.spec, drawn) if self.listed is None else self.listed[drawn]


def _named(spec: Spec) -> str:
    """The distribution that is named, or that keys alone stand for; empty for none."""
    if "distribution" in spec:
        return str(spec["distribution"])
    if "values" in spec:
        return "categorical"
    if "value" in spec:
        return "constant"
    ends = [spec[key] for key in ("min", "max") if key in spec]
    return ("int_uniform" if all(isinstance(end, int) for end in ends) else "uniform") if ends else ""


_PROGRAM = "${program}"
_COMMAND = [_PROGRAM, "${args}", "--resume=auto"]
"""What W&B's agent runs, after the interpreter."""
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


class _File(Part):
    method: Literal["bayes", "grid", "random"]
    metric: _Metric = Field(description="a mapping")
    parameters: dict[Any, Any] = Field(description="a mapping")
    early_terminate: Hyperband | None = Field(None, description="a mapping")
    run_cap: int | None = Field(None, ge=1)
    command: list[Any] = Field(_COMMAND, description="a list")
    program: Literal["run.py"] = "run.py"
    name: str | None = Field(None, description="text")


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
        return _checked(path, {key: value for key, value in content.items() if key not in _OF_SERVER})
    except ValidationError as error:
        raise ConfigError(f"{path}: {first_fault(error, _File, 'a sweep file')}") from None
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None


def _checked(path: Path, content: Mapping[str, Any]) -> SweepFile:
    """A ValueError tells the first mistake."""
    file = _File.model_validate(content)
    _check_command([str(word) for word in file.command])
    if (metric := file.metric.name) not in METRICS:
        hint = nearest(metric, METRICS) or "; try mean_success or mean_return"
        raise ValueError(f"metric.name is {metric}: there is no such metric{hint}")
    return SweepFile(
        path,
        file.name or path.stem,
        file.method,
        metric,
        file.metric.goal,
        _parameters(file.parameters, file.method == "grid"),
        file.early_terminate,
        file.run_cap,
    )


def _parameters(parameters: Mapping[str, Any], is_grid: bool) -> dict[str, Parameter]:
    found = dict[str, Parameter]()
    for name, spec in _by_name(parameters):
        if name in found:
            raise ValueError(f"parameters.{name} is given twice; must be given once")
        found[name] = _parameter(name, spec, is_grid)
    if not found:
        raise ValueError(f"parameters is {parameters}; must hold settings to search")
    return found


def _by_name(parameters: Mapping[str, Any], group: str = "") -> Iterator[tuple[str, Any]]:
    """Parameters by dotted name, be they nested or not."""
    for key, spec in parameters.items():
        name = spelled(f"{group}{key}")
        if isinstance(spec, Mapping) and isinstance(spec.get("parameters"), Mapping):
            yield from _by_name(spec["parameters"], f"{name}.")
        else:
            yield name, spec


def _parameter(name: str, spec: Any, is_grid: bool) -> Parameter:
    if setting_of(name) is None:
        raise ValueError(f"parameters.{name} is not a setting{nearest(name, fields_of())}")
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
