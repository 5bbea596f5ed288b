"""Read W&B's sweep files, and report every mistake in one as one line."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dtqn.experiments import sweep_engine
from dtqn.experiments.sweep_engine import METHODS, Trial
from dtqn.settings.config import Config, ConfigError, MisfitError, fields_of, setting_of, spelled
from dtqn.settings.layers import read_yaml
from dtqn.settings.values import meant, nearest
from dtqn.text import counted
from dtqn.training.metrics import METRICS

_NOT_THE_ENGINES = ("run_cap", "preemptible")
"""Keys of a sweep file that W&B's server reads and the engine's schema refuses."""
_PROGRAM, _ARGS = "${program}", "${args}"
_PROGRAMS = ("run.py", "dtqn/__main__.py")
"""The programs of this suite that W&B's agent can run, from the root of the repository."""
_KINDS = {
    "array": "a list",
    "integer": "an integer",
    "number": "a number",
    "object": "a mapping",
    "string": "text",
}
_FORMS = "must be {value: X}, {values: [X, Y]} or {min: X, max: Y}"
_PROBES = 200
"""Random configurations that are looked at before a search is refused for having none that fits."""


class SweepFile(NamedTuple):
    """The content of a sweep file."""

    path: Path
    name: str
    engine: dict[str, Any]
    """`method`, `metric`, `parameters` by their dotted names, `early_terminate`: as the engine reads them."""
    run_cap: int | None
    flags: list[str]
    """The program's flags in `command` besides `${args}`."""

    @property
    def metric(self) -> str:
        return str(self.engine["metric"]["name"])

    @property
    def sign(self) -> int:
        """1 where larger is better, else -1."""
        return 1 if self.engine["metric"].get("goal") == "maximize" else -1

    def without(self, given: Collection[str]) -> SweepFile:
        """The file without its parameters that settings of these names give otherwise."""
        kept = {
            name: spec
            for name, spec in self.engine["parameters"].items()
            if not any(is_within(name, one) for one in given)
        }
        return self._replace(engine=self.engine | {"parameters": kept})

    def check_metric(self, env: str, has_success: bool) -> None:
        """A ConfigError where runs of the task have no such metric."""
        group, success, _ = self.metric.partition("success")
        if success and not has_success:
            raise ConfigError(
                f"{self.path}: metric.name is {self.metric}, but {env} defines no success; try {group}return"
            )

    @property
    def fixed(self) -> dict[str, Any]:
        """Parameters that have one value."""
        return {name: spec["value"] for name, spec in self.engine["parameters"].items() if "value" in spec}

    @property
    def searched(self) -> list[str]:
        """Parameters that have more than one value."""
        return [name for name, spec in self.engine["parameters"].items() if "value" not in spec]

    def strange(self, parameters: Mapping[str, Any]) -> str:
        """The first difference between a run's parameters and those of this file, in words; empty if none.

        Runs whose other parameters differ are not runs of one search.
        """
        specs = self.engine["parameters"]
        for name in [*specs, *parameters]:
            if name not in parameters:
                return f"without {name}"
            if name not in specs:
                return f"with {name} {parameters[name]}, which this one does not set"
            allowed = [specs[name]["value"]] if "value" in specs[name] else specs[name].get("values")
            if allowed is not None and parameters[name] not in allowed:
                return f"with {name} {parameters[name]}, which is none of {', '.join(map(str, allowed))}"
        return ""


def read_file(path: Path) -> SweepFile:
    """Read and check a sweep file.

    Raises:
        ConfigError: one line that names the file, the key and what would be right.
    """
    content = read_yaml(path, "a sweep: method, metric and parameters by name")
    run_cap = content.get("run_cap")
    if run_cap is not None and (not isinstance(run_cap, int) or run_cap is True or run_cap < 1):
        raise ConfigError(f"{path}: run_cap is {run_cap}; must be an integer of at least 1")
    parameters = content.get("parameters")
    if not isinstance(parameters, Mapping) or not parameters:
        raise ConfigError(f"{path}: parameters is {parameters}; must hold settings to search")
    engine = {key: value for key, value in content.items() if key not in _NOT_THE_ENGINES}
    engine["parameters"] = {}
    for name, spec in _flat(parameters):
        if name in engine["parameters"]:
            raise ConfigError(f"{path}: parameters.{name} is there twice; must be there once")
        engine["parameters"][name] = spec
    known = fields_of()
    for name, spec in engine["parameters"].items():
        if setting_of(name) is None:
            raise ConfigError(f"{path}: parameters.{name} is no setting{nearest(name, known)}")
        _check_parameter(path, name, spec)
        if spelled(name) == "evaluation.epsilon" and "value" not in spec:
            raise ConfigError(
                f"{path}: parameters.{name} is searched, which ranks runs by how they are measured; "
                "must have one value"
            )
    if not isinstance(engine.get("metric"), Mapping) or "name" not in engine["metric"]:
        raise ConfigError(f"{path}: metric is {engine.get('metric')}; must have a name, such as mean_success")
    if engine.get("method") not in METHODS:
        raise ConfigError(f"{path}: {_none_of('method', engine.get('method'), METHODS)}")
    for violation in sweep_engine.schema_violations(engine):
        raise ConfigError(f"{path}: {_explain(violation)}")
    for text in sweep_engine.other_violations(engine):  # what no schema can say
        raise ConfigError(f"{path}: {text}")
    metric = engine["metric"]["name"]
    if metric not in METRICS:
        hint = nearest(metric, METRICS) or "; try mean_success or mean_return"
        raise ConfigError(f"{path}: metric.name is {metric}: there is no such metric{hint}")
    kept: dict[str, Any] = {
        key: engine[key] for key in ("method", "metric", "parameters", "early_terminate") if key in engine
    }
    return SweepFile(path, str(content.get("name", path.stem)), kept, run_cap, _flags(path, content))


def is_within(name: str, setting: str) -> bool:
    """Whether a setting that is given decides one: itself, or a name in the mapping that it is."""
    return f"{name}.".startswith(f"{setting}.")


def _flags(path: Path, content: Mapping[str, Any]) -> list[str]:
    """The words of `command` that are the program's: those after it, but what W&B fills in."""
    program = str(content.get("program", _PROGRAMS[0]))
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


def _explain(violation: Any) -> str:
    """A violation of the schema (a `jsonschema.ValidationError`) in words, with the key that it is about."""
    while violation.context:  # of alternatives the last: of those for early_terminate the usual one
        violation = violation.context[-1]
    key = ".".join(map(str, violation.absolute_path))
    value, wanted, inside = violation.instance, violation.validator_value, f"{key}." if key else ""
    match violation.validator:
        case "additionalProperties":
            known = [*violation.schema["properties"], *(() if inside else _NOT_THE_ENGINES)]
            odd = next(name for name in value if name not in known)
            return f"{inside}{odd} is no key of a sweep file{nearest(str(odd), known)}"
        case "required":
            return f"{inside}{next(name for name in wanted if name not in value)} is missing"
        case "enum":
            return _none_of(key, value, wanted)
        case "type":
            return f"{key} is {value}: must be {_KINDS.get(wanted, wanted)}"
        case "minItems":
            return f"{key} is {value}: must hold at least {counted(wanted, 'item')}"
        case "minimum" | "exclusiveMinimum":
            least = "at least" if violation.validator == "minimum" else "above"
            return f"{key} is {value}: must be {least} {wanted:g}"
    return f"{key} is {value}: {violation.message}"


def _none_of(key: str, value: Any, known: Iterable[str]) -> str:
    return f"{key} is {value}: must be one of {', '.join(known)}{meant(str(value), known)}"


def _flat(parameters: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Parameters by dotted name: of a nested grid the engine gives the same configuration for ever."""
    for key, spec in parameters.items():
        name = spelled(f"{prefix}{key}")
        if isinstance(spec, Mapping) and isinstance(spec.get("parameters"), Mapping):
            yield from _flat(spec["parameters"], f"{name}.")
        else:
            yield name, spec


def _check_parameter(path: Path, name: str, spec: Any) -> None:
    try:
        known = sweep_engine.has_distribution(name, spec)
    except ValueError as error:
        raise ConfigError(f"{path}: parameters.{name}: {error}") from None
    if not known:
        raise ConfigError(
            f"{path}: parameters.{name} is {spec}: no distribution of W&B's; {_right_form(spec)}"
        )


def _right_form(spec: Any) -> str:
    """What would be right in place of a parameter from which nothing can be drawn."""
    if not isinstance(spec, dict):
        return _FORMS
    for key, value in spec.items():
        if key != "distribution" and (number := _with_point(value)):
            return f"write {number} for {value}"
    known = sweep_engine.distributions()
    meant_as = str(spec.get("distribution", _implied(spec)))
    if "distribution" in spec and meant_as not in known:
        return _none_of("distribution", meant_as, known)
    if meant_as not in known:
        return _FORMS
    keys = known[meant_as]["properties"]
    if odd := [str(key) for key in spec if key not in keys]:
        return f"{odd[0]} is no key of {meant_as}{nearest(odd[0], keys)}"
    violation = next(sweep_engine.parameter_violations(spec, meant_as), None)
    return _FORMS if violation is None else _explain(violation)


def _implied(spec: Mapping[str, Any]) -> str:
    """The distribution that keys alone stand for, as in the engine's schema; empty for none."""
    if "values" in spec:
        return "categorical_w_probabilities" if "probabilities" in spec else "categorical"
    if "value" in spec:
        return "constant"
    return "uniform" if "min" in spec or "max" in spec else ""


def _with_point(value: Any) -> str:
    """`1.0e-5` for the text `1e-5`, which YAML takes for no number; empty for anything else."""
    if not isinstance(value, str):
        return ""
    try:
        return repr(float(value)) if "." in repr(float(value)) else f"{float(value):.1e}"
    except ValueError:
        return ""


def check(file: SweepFile, resolve: Callable[[Mapping[str, Any]], Config]) -> Config:
    """A configuration of the search that can be run.

    Args:
        resolve: parameters -> configuration, or a ConfigError.

    Raises:
        ConfigError: a value, fixed or searched, is wrong whatever the others are, or none fit together.
    """
    asked: dict[str, Callable[[], object]] = {
        "early_terminate": lambda: sweep_engine.hopeless(file.engine, ()),
        "parameters": lambda: sweep_engine.propose(file.engine, (), (0, 0)),
    }
    for key, ask in asked.items():
        try:
            ask()
        except ValueError as error:  # the engine's own: brackets that never come, or a range in a grid, say
            raise ConfigError(f"{file.path}: {key}: {error}") from None
    specs = file.engine["parameters"]
    points = [
        {name: value} for name in file.searched for value in sweep_engine.typical_values(name, specs[name])
    ]
    for point in points or [{}]:
        with contextlib.suppress(MisfitError):
            resolve({**file.fixed, **point})
    grid = file.engine["method"] == "grid"
    seen, first = list[Trial](), ""
    while grid or len(seen) < _PROBES:
        parameters = sweep_engine.propose(file.engine, seen if grid else (), (0, len(seen)))
        if parameters is None:
            break
        try:
            return resolve(parameters)
        except ConfigError as error:
            first = first or str(error)
        seen.append(Trial(len(seen) + 1, parameters, "refused"))
    raise MisfitError(f"{file.path}: no configuration fits, the first one as {first}")
