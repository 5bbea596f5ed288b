"""W&B's own search engine, the package `sweeps`: a function of a sweep file and of the runs so far."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from dtqn.training.metrics import Row

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # pydantic's, about how `sweeps` is written
    import sweeps
    from sweeps.config import ParamValidationError, fill_parameter
    from sweeps.config.schema import dereferenced_sweep_config_jsonschema, validator
    from sweeps.params import HyperParameter

METHODS = ("bayes", "grid", "random")
"""Those that the engine knows. Its schema also has `custom`, a search of the user's own."""
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


def schema_violations(engine: dict[str, Any]) -> Iterator[Any]:
    """The objections of the engine's schema to a sweep file, each a `jsonschema.ValidationError`."""
    yield from validator.iter_errors(engine)


def other_violations(engine: dict[str, Any]) -> list[str]:
    """The engine's objections to a sweep file that keeps its schema, in its own words."""
    return list(sweeps.schema_violations_from_proposed_config(engine))


def has_distribution(name: str, spec: Any) -> bool:
    """Whether the engine knows from what to draw a parameter; a ValueError where its numbers are wrong."""
    try:
        return fill_parameter(name, spec) is not None
    except ParamValidationError as error:
        raise ValueError(str(error)) from None


def distributions() -> dict[str, dict[str, Any]]:
    """What a parameter can be drawn from: W&B's name -> the schema of a parameter that says so."""
    definitions = dereferenced_sweep_config_jsonschema["definitions"]
    found = {}
    for reference in definitions["parameter"]["anyOf"]:
        schema = reference.get("anyOf", [reference])[0]
        if "distribution" in schema["properties"]:  # not in that of a group of parameters
            (name,) = schema["properties"]["distribution"]["enum"]
            found[name] = dict(schema)
    return found


def parameter_violations(spec: Mapping[str, Any], distribution: str) -> Iterator[Any]:
    """The schema's objections to a parameter that is meant as this distribution."""
    checker = validator.evolve(schema=distributions()[distribution])
    yield from checker.iter_errors({**spec, "distribution": distribution})


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
        """The run's result: the last of the metric, as in W&B's summary."""
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
    """The engine's next configuration; None where a grid is done.

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


def typical_values(name: str, spec: Mapping[str, Any]) -> Sequence[Any]:
    """All values of a list; of a range those near its ends; else the one in the middle."""
    if "values" in spec:
        return list(spec["values"])
    parameter = HyperParameter(name, dict(spec))
    shares = _NEAR_THE_ENDS if "min" in parameter.config else (0.5,)
    return [_plain(parameter.ppf(share)) for share in shares]
