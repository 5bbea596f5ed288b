"""W&B's sweep files, and W&B's own search engine: a function of the file and of the runs so far."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from dtqn.settings.config import Config, ConfigError, MisfitError, fields_of, nearest
from dtqn.settings.presets import read_yaml
from dtqn.training.metrics import Row

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # pydantic's, about how `sweeps` is written
    import sweeps
    from sweeps.config import ParamValidationError, fill_parameter
    from sweeps.config.schema import validator
    from sweeps.params import HyperParameter

_NOT_THE_ENGINES = ("run_cap", "preemptible")
"""What W&B's server reads of a sweep file and the engine's schema refuses."""
_METHODS = ("bayes", "grid", "random")
"""Those that the engine knows. Its schema also has `custom`, a search of the user's own."""
_PROGRAM = "${program}"
_KINDS = {
    "array": "a list",
    "integer": "an integer",
    "number": "a number",
    "object": "a mapping",
    "string": "text",
}
_METRICS = [
    group + name
    for group, names in {
        "": "best_success best_return mean_success mean_return env_steps learner_steps seconds",
        "eval/": "success success_low success_high return length episodes",
        "train/": "success return length",
        "learner/": "loss td_error q_mean q_max q_min target_max target_min grad_norm skipped_updates "
        "auxiliary_loss",
        "replay/": "steps sequences priority_minimum priority_mean priority_maximum importance_weight_min "
        "learned_steps_per_update parameter_age memory_age delta_q_share delta_q_first delta_q_last",
        "actor/": "epsilon",
        "speed/": "env_steps_per_second learner_steps_per_second",
    }.items()
    for name in names.split()
]
"""What a row of `metrics.jsonl` can hold, so that a misspelt metric is known before anything is trained."""
_PROBES = 200
"""Random configurations that are looked at before a search is refused for having none that fits."""
_NEAR_THE_ENDS = (0.001, 0.999)
"""Quantiles that stand for the ends of a range, which a setting need not take (`above 0`)."""

State = Literal["open", "finished", "stopped", "failed", "refused"]
"""`open`: waiting, running or interrupted; `stopped`: by early termination; `refused`: no legal settings."""
_FOR_THE_ENGINE: dict[State, str] = {
    "open": "running",
    "finished": "finished",
    "stopped": "killed",
    "failed": "failed",
    "refused": "failed",
}


class SweepFile(NamedTuple):
    """What a sweep file asks for."""

    path: Path
    name: str
    engine: dict[str, Any]
    """`method`, `metric`, `parameters` by their dotted names, `early_terminate`: as the engine reads them."""
    run_cap: int | None
    flags: list[str]
    """What `command` hands to the program besides `${args}`."""

    @property
    def metric(self) -> str:
        return str(self.engine["metric"]["name"])

    @property
    def sign(self) -> int:
        """1 where larger is better, else -1."""
        return 1 if self.engine["metric"].get("goal") == "maximize" else -1

    def without(self, names: Container[str]) -> SweepFile:
        """The file without its parameters of these names, which are given otherwise."""
        kept = {name: spec for name, spec in self.engine["parameters"].items() if name not in names}
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


def read_file(path: Path) -> SweepFile:
    """Read and check a sweep file.

    Raises:
        ConfigError: one line that names the file, the key and what would be right.
    """
    content = read_yaml(path)
    run_cap = content.get("run_cap")
    if run_cap is not None and (not isinstance(run_cap, int) or run_cap < 1):
        raise ConfigError(f"{path}: run_cap is {run_cap}; must be an integer of at least 1")
    parameters = content.get("parameters")
    if not isinstance(parameters, Mapping) or not parameters:
        raise ConfigError(f"{path}: parameters is {parameters}; must hold settings to search")
    engine = {key: value for key, value in content.items() if key not in _NOT_THE_ENGINES}
    engine["parameters"] = dict(_flat(parameters))
    known = fields_of()
    for name, spec in engine["parameters"].items():
        if name not in known:
            raise ConfigError(f"{path}: parameters.{name} is no setting{nearest(name, known)}")
        _check_parameter(path, name, spec)
    if not isinstance(engine.get("metric"), Mapping) or "name" not in engine["metric"]:
        raise ConfigError(f"{path}: metric is {engine.get('metric')}; must have a name, such as mean_success")
    if engine.get("method") not in _METHODS:
        raise ConfigError(f"{path}: {_none_of('method', engine.get('method'), _METHODS)}")
    for violation in validator.iter_errors(engine):
        raise ConfigError(f"{path}: {_explain(violation)}")
    for text in sweeps.schema_violations_from_proposed_config(engine):  # what no schema can say
        raise ConfigError(f"{path}: {text}")
    metric = engine["metric"]["name"]
    if metric not in _METRICS:
        hint = nearest(metric, _METRICS) or "; try mean_success or mean_return"
        raise ConfigError(f"{path}: metric.name is {metric}: there is no such metric{hint}")
    kept: dict[str, Any] = {
        key: engine[key] for key in ("method", "metric", "parameters", "early_terminate") if key in engine
    }
    return SweepFile(path, str(content.get("name", path.stem)), kept, run_cap, _flags(path, content))


def _flags(path: Path, content: Mapping[str, Any]) -> list[str]:
    """The words of `command` that are the program's: those after it, but what W&B fills in."""
    command = [str(word) for word in content.get("command", [_PROGRAM])]
    if _PROGRAM not in command:
        raise ConfigError(
            f"{path}: command is {' '.join(command)}; must hold {_PROGRAM}, with the program's flags after it"
        )
    words = [word for word in command[command.index(_PROGRAM) + 1 :] if not word.startswith("${")]
    return words[1:] if words[:1] == ["train"] else words


def _explain(violation: Any) -> str:
    """What is wrong by the schema (a `jsonschema.ValidationError`), with the key that it is about."""
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
    return f"{key} is {value}: {violation.message}"


def _none_of(key: str, value: Any, known: Iterable[str]) -> str:
    hint = nearest(str(value), known)
    return f"{key} is {value}: must be one of {', '.join(known)}{hint if 'mean' in hint else ''}"


def _flat(parameters: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Parameters by dotted name: of a nested grid the engine gives the same configuration for ever."""
    for key, spec in parameters.items():
        name = f"{prefix}{key}".replace("-", "_")
        if isinstance(spec, Mapping) and isinstance(spec.get("parameters"), Mapping):
            yield from _flat(spec["parameters"], f"{name}.")
        else:
            yield name, spec


def _check_parameter(path: Path, name: str, spec: Any) -> None:
    try:
        filled = fill_parameter(name, spec)
    except (ParamValidationError, ValueError) as error:
        raise ConfigError(f"{path}: parameters.{name}: {error}") from None
    if filled is None:
        texts = (
            [v for key, v in dict(spec).items() if key != "distribution"] if isinstance(spec, dict) else []
        )
        hint = next((f"; write {_with_point(v)} for {v}" for v in texts if _with_point(v)), "")
        raise ConfigError(f"{path}: parameters.{name} is {spec}: no distribution of W&B's{hint}")


def _with_point(value: Any) -> str:
    """`1.0e-5` for the text `1e-5`, which YAML takes for no number; empty for anything else."""
    try:
        return repr(float(value)) if "." in repr(float(value)) else f"{float(value):.1e}"
    except (TypeError, ValueError):
        return ""


@dataclasses.dataclass
class Trial:
    """One configuration that was tried, or is being tried."""

    number: int
    parameters: dict[str, Any]
    state: State = "open"
    run_dir: str = ""
    error: str = ""
    rows: Sequence[Row] = dataclasses.field(default=(), repr=False)

    def history(self, metric: str) -> list[float]:
        """The metric, evaluation by evaluation."""
        return [float(value) for row in self.rows if (value := row.get(metric)) is not None]

    def value(self, metric: str) -> float | None:
        """What the run came to: the last of the metric, as in W&B's summary."""
        history = self.history(metric)
        return history[-1] if history else None

    @property
    def env_steps(self) -> int:
        return int(self.rows[-1]["env_steps"] or 0) if self.rows else 0

    def for_the_engine(self, metric: str) -> sweeps.SweepRun:
        history = self.history(metric)
        return sweeps.SweepRun(
            name=str(self.number),
            config={name: {"value": value} for name, value in self.parameters.items()},
            state=_FOR_THE_ENGINE[self.state],
            summaryMetrics={metric: history[-1]} if history else {},
            sampledHistory=[{metric: value} for value in history],
        )


def propose(engine: dict[str, Any], trials: Sequence[Trial], seed: Sequence[int]) -> dict[str, Any] | None:
    """The engine's next configuration; none where a grid is done.

    Args:
        seed: of this choice. The engine draws from the generators of the modules `random` and `numpy`.
    """
    runs = [trial.for_the_engine(engine["metric"]["name"]) for trial in trials]
    with _generators(seed), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a Gaussian process that has seen little
        run = sweeps.next_run(engine, runs)
    return None if run is None else {name: _plain(item["value"]) for name, item in run.config.items()}


@contextlib.contextmanager
def _generators(seed: Sequence[int]) -> Iterator[None]:
    before = random.getstate(), np.random.get_state()  # noqa: NPY002
    words = np.random.SeedSequence(list(seed)).generate_state(4)
    random.seed(words.tobytes())
    np.random.seed(words)  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def hopeless(engine: dict[str, Any], trials: Sequence[Trial]) -> list[Trial]:
    """Open trials that early termination ends now."""
    if "early_terminate" not in engine:
        return []
    runs = [trial.for_the_engine(engine["metric"]["name"]) for trial in trials]
    names = {run.name for run in sweeps.stop_runs(engine, runs)}
    return [trial for trial in trials if str(trial.number) in names]


def check(file: SweepFile, resolve: Callable[[Mapping[str, Any]], Config]) -> Config:
    """A configuration of the search that can be run.

    Args:
        resolve: parameters -> configuration, or a ConfigError.

    Raises:
        ConfigError: a value, fixed or searched, is wrong whatever the others are, or none fit together.
    """
    asked: dict[str, Callable[[], object]] = {
        "early_terminate": lambda: hopeless(file.engine, ()),
        "parameters": lambda: propose(file.engine, (), (0, 0)),
    }
    for key, ask in asked.items():
        try:
            ask()
        except ValueError as error:  # the engine's own: brackets that never come, or a range in a grid, say
            raise ConfigError(f"{file.path}: {key}: {error}") from None
    specs = file.engine["parameters"]
    points = [{name: value} for name in file.searched for value in _values(name, specs[name])]
    for point in points or [{}]:
        with contextlib.suppress(MisfitError):
            resolve({**file.fixed, **point})
    grid = file.engine["method"] == "grid"
    seen, first = list[Trial](), ""
    while grid or len(seen) < _PROBES:
        parameters = propose(file.engine, seen if grid else (), (0, len(seen)))
        if parameters is None:
            break
        try:
            return resolve(parameters)
        except ConfigError as error:
            first = first or str(error)
        seen.append(Trial(len(seen) + 1, parameters, "refused"))
    raise MisfitError(f"{file.path}: no configuration fits, the first one as {first}")


def _values(name: str, spec: Mapping[str, Any]) -> Sequence[Any]:
    """All values of a list; of a range those near its ends; else the one in the middle."""
    if "values" in spec:
        return list(spec["values"])
    parameter = HyperParameter(name, dict(spec))
    shares = _NEAR_THE_ENDS if "min" in parameter.config else (0.5,)
    return [_plain(parameter.ppf(share)) for share in shares]
