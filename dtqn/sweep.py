"""Sweeps: W&B's sweep files, run on this machine. W&B's own search engine chooses, and no account is needed.

The engine (the package `sweeps`) is a function of the sweep file and of the runs so far. So a sweep is what
`sweep.json` says was chosen, and the metrics of these runs; it goes on from there after a kill.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import hashlib
import json
import os
import random
import shlex
import statistics
import sys
import warnings
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TextIO

import numpy as np

from dtqn import plots
from dtqn.config import Config, ConfigError, fields_of, nearest
from dtqn.jobs import Job, Pool
from dtqn.layers import read_yaml, to_yaml
from dtqn.live import RunsView, open_runs_view
from dtqn.metrics import Row, read_rows
from dtqn.rundir import RunDir

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pydantic's, about how `sweeps` is written
        import sweeps
        from sweeps.config import ParamValidationError, fill_parameter

        from dtqn.importance import LEAST_RUNS, axis_of, importance
except ImportError as error:
    raise ConfigError(
        f"sweep needs {error.name}, which is not installed: "
        'python -m pip install -c constraints.txt -e ".[sweep]"'
    ) from None

_NOT_THE_ENGINES = ("run_cap", "preemptible")
"""What W&B's server reads of a sweep file and the engine's schema refuses."""
_ATTEMPTS = 50
"""Draws of a configuration that was not tried before, until the space counts as exhausted."""
_FLAPPING = 3
"""A sweep whose first runs all fail is ended after so many, as W&B's agent does."""
_SHOWN = 5

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
    for violation in sweeps.schema_violations_from_proposed_config(engine):
        raise ConfigError(f"{path}: {violation}")
    flags = [str(part) for part in content.get("command", []) if not str(part).startswith("${")]
    kept: dict[str, Any] = {
        key: engine[key] for key in ("method", "metric", "parameters", "early_terminate") if key in engine
    }
    return SweepFile(path, str(content.get("name", path.stem)), kept, run_cap, flags)


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
        return self.history(metric)[-1] if self.history(metric) else None

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


class Configuration(NamedTuple):
    """A line of the leaderboard: runs that differ in nothing but their seed."""

    parameters: dict[str, Any]
    trials: list[Trial]
    value: float | None
    """The mean over its runs that have ended; none where one is open or has failed."""


class Sweep:
    """The trials of a sweep and what they came to, kept in `sweep.json`."""

    def __init__(
        self,
        file: SweepFile,
        folder: Path,
        runs_dir: Path,
        resolve: Callable[[Mapping[str, Any]], Config],
        run_cap: int | None,
        seed: int,
    ) -> None:
        self.file, self.folder, self.runs_dir, self._resolve = file, folder, runs_dir, resolve
        self.run_cap, self._seed = run_cap, seed
        self._record = folder / "sweep.json"
        stored = json.loads(self._record.read_text(encoding="utf-8"))["runs"] if self._record.exists() else []
        names = [field.name for field in dataclasses.fields(Trial) if field.name != "rows"]
        self.trials = [Trial(**{name: entry[name] for name in names}) for entry in stored]
        for trial in self.trials:
            if trial.state == "failed":  # what it failed of may have been mended
                trial.state, trial.error = "open", ""
            if trial.run_dir:
                trial.rows = read_rows(RunDir(Path(trial.run_dir)).metrics_file)

    def open_jobs(self) -> list[tuple[Trial, Job]]:
        """What an earlier stretch has left undone."""
        return [(trial, self._job(trial)) for trial in self.trials if trial.state == "open"]

    def next_job(self) -> tuple[Trial, Job] | None:
        """Choose and note down another configuration; none where the sweep is complete."""
        while not self._complete:
            trial = self._next_trial()
            if trial is None:
                return None
            self.trials.append(trial)
            try:
                job = self._job(trial)
            except ConfigError as error:  # such as a width that its heads do not divide
                trial.state, trial.error = "refused", str(error)
            self.save()
            if trial.state == "open":
                return trial, job
        return None

    @property
    def _complete(self) -> bool:
        if self.run_cap is not None and len(self.trials) >= self.run_cap:
            return True
        if len(self.trials) >= _FLAPPING and all(t.state in ("failed", "refused") for t in self.trials):
            return True
        target = self.file.engine["metric"].get("target")
        values = [trial.value(self.file.metric) for trial in self.trials]
        return target is not None and any(
            v is not None and self.file.sign * (v - target) >= 0 for v in values
        )

    def _next_trial(self) -> Trial | None:
        tried = [trial.parameters for trial in self.trials]
        number = len(self.trials) + 1
        for attempt in range(_ATTEMPTS):
            parameters = propose(self.file.engine, self.trials, (self._seed, number, attempt))
            if parameters is None:
                return None
            if parameters not in tried:
                return Trial(number, parameters)
        return None

    def _job(self, trial: Trial) -> Job:
        config = self._resolve(trial.parameters)
        directory = RunDir.of_config(config, self.runs_dir)
        directory.prepare(config)
        trial.run_dir = str(directory.path)
        return Job(f"run {trial.number}", directory)

    def to_stop(self) -> list[Trial]:
        """Open trials that early termination ends now."""
        if "early_terminate" not in self.file.engine:
            return []
        runs = [trial.for_the_engine(self.file.metric) for trial in self.trials]
        names = {run.name for run in sweeps.stop_runs(self.file.engine, runs)}
        return [trial for trial in self.trials if str(trial.number) in names]

    def leaderboard(self) -> list[Configuration]:
        """All configurations, the best first, those without a result last."""
        groups: dict[str, Configuration] = {}
        for trial in self.trials:
            parameters = {name: trial.parameters[name] for name in self.file.searched if name != "seed"}
            group = groups.setdefault(json.dumps(parameters), Configuration(parameters, [], None))
            group.trials.append(trial)
        lines = [group._replace(value=self._mean(group.trials)) for group in groups.values()]
        return sorted(lines, key=lambda line: (line.value is None, -self.file.sign * (line.value or 0.0)))

    def _mean(self, trials: Sequence[Trial]) -> float | None:
        values = [t.value(self.file.metric) for t in trials if t.state in ("finished", "stopped")]
        known = [value for value in values if value is not None]
        return statistics.fmean(known) if len(known) == len(trials) else None

    def lines(self) -> list[str]:
        """The top of the leaderboard, as text."""
        lines = []
        for rank, line in enumerate(self.leaderboard()[:_SHOWN], 1):
            if line.value is not None:
                runs = ", ".join(f"{trial.number} ({trial.state})" for trial in line.trials)
                lines.append(
                    f"{rank}. {self.file.metric} {line.value:.4f}  {_text(line.parameters)}  run {runs}"
                )
        return lines

    def save(self) -> None:
        """Write `sweep.json` and `leaderboard.csv`, each whole."""
        metric, ranks = self.file.metric, dict[int, int]()
        for rank, line in enumerate(self.leaderboard(), 1):
            ranks |= {trial.number: rank for trial in line.trials if line.value is not None}
        rows = []
        for trial in self.trials:
            row = {field.name: getattr(trial, field.name) for field in dataclasses.fields(trial)}
            del row["rows"]
            rows.append(
                row
                | {"env_steps": trial.env_steps, metric: trial.value(metric), "rank": ranks.get(trial.number)}
            )
        about = {"name": self.file.name, "file": str(self.file.path), "search_seed": self._seed}
        _write(self._record, json.dumps(about | self.file.engine | {"runs": rows}, indent=2) + "\n")
        searched = self.file.searched
        header = ["rank", metric, *searched, "number", "state", "env_steps", "run_dir", "error"]
        with (self.folder / "leaderboard.tmp").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(header)
            for row in sorted(rows, key=lambda row: (row["rank"] is None, row["rank"] or 0, row["number"])):
                flat = row | row["parameters"]
                writer.writerow([flat[name] for name in header])
        os.replace(self.folder / "leaderboard.tmp", self.folder / "leaderboard.csv")

    def finish(self) -> list[str]:
        """Write the best configuration and the pictures; what is to be told."""
        self.save()
        board = self.leaderboard()
        if not board or board[0].value is None:
            return ["no configuration has a result"]
        best, file = board[0], self.folder / "best.yaml"
        config = RunDir(Path(best.trials[0].run_dir)).read_config()
        text = f"{self.file.metric} {best.value:.4f} with {_text(best.parameters)}"
        _write(file, f"# {text}\n{to_yaml(config)}")
        again = f"again with another seed: python run.py --config {shlex.quote(str(file))} --seed N"
        return [f"best: {text}", *self._draw(), again]

    def _draw(self) -> list[str]:
        """The pictures; what is missing of them."""
        values, parameters = [], []
        for trial in self.trials:
            value = trial.value(self.file.metric)
            if trial.state in ("finished", "stopped") and value is not None:
                values.append(value)
                parameters.append(trial.parameters)
        specs = self.file.engine["parameters"]
        axes = [axis_of(name, specs[name], [p[name] for p in parameters]) for name in self.file.searched]
        picture = self.folder / "parallel_coordinates.png"
        plots.parallel_coordinates(axes, values, picture, self.file.metric, self.file.sign > 0)
        shares = importance(axes, values)
        if not shares:
            return [f"no parameter importance: it needs {LEAST_RUNS} runs with different results"]
        table = [share._asdict() for share in shares]
        _write(self.folder / "importance.json", json.dumps(table, indent=2) + "\n")
        plots.importance(shares, self.folder / "importance.png", self.file.metric)
        return []


def default_folder(file: SweepFile, given: Mapping[str, Any], seed: int, runs_dir: Path) -> Path:
    """`<runs_dir>/sweeps/<name>-<hash>`: one folder for one search, however many runs it may take."""
    content = json.dumps([file.engine, sorted(file.flags), dict(given), seed], sort_keys=True, default=str)
    return runs_dir / "sweeps" / f"{file.name}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def run(sweep: Sweep, parallel: int, out: TextIO | None = None) -> int:
    """Run a sweep to its end, or go on with it; the program's exit code.

    Args:
        parallel: trainings at a time.

    Returns:
        0, 1 where a run has failed or none has a result, 128 + n after signal n.
    """
    out = out or sys.stdout
    with RunDir(sweep.folder).lock(), Pool(parallel) as pool:
        view = open_runs_view(out, pool.jobs)
        try:
            _train(sweep, pool, view)
        finally:
            view.close()
    sweep.save()
    if pool.caught is not None:
        ended = sum(trial.state != "open" for trial in sweep.trials)
        print(f"interrupted, {ended} runs have ended; the same command goes on", file=out)
        return 128 + pool.caught
    unhappy = [trial for trial in sweep.trials if trial.state in ("failed", "refused")]
    told = [f"run {trial.number} {trial.state}: {trial.error}" for trial in unhappy]
    print("\n".join([*told, "", *sweep.lines(), *sweep.finish(), f"all in {sweep.folder}"]), file=out)
    fruitless = not any(trial.state in ("finished", "stopped") for trial in sweep.trials)
    return 1 if fruitless or any(trial.state == "failed" for trial in unhappy) else 0


def _train(sweep: Sweep, pool: Pool, view: RunsView) -> None:
    trials: dict[int, Trial] = {}

    def add(found: tuple[Trial, Job]) -> None:
        trial, job = found
        trials[id(job)] = trial
        pool.add(job)

    def fill() -> None:
        """As many as can run are there, each chosen with what is known by then."""
        while pool.caught is None and sum(not job.ended for job in pool.jobs) < pool.parallel:
            if (found := sweep.next_job()) is None:
                return
            add(found)

    for found in sweep.open_jobs():
        add(found)
    fill()
    for changed in pool.changes():
        ended = [job for job in changed if job.ended]
        for job in changed:
            trial = trials[id(job)]
            trial.rows = job.rows
            if job.state in ("finished", "stopped", "failed"):
                trial.state = job.state
                trial.error = job.error if job.state == "failed" else ""
        hopeless = sweep.to_stop() if any(job.rows for job in changed) else []
        for job in pool.jobs:
            if trials[id(job)] in hopeless:
                pool.stop(job)
        if ended:
            sweep.save()
        fill()
        view.update(changed)
        if ended and (lines := sweep.lines()):
            view.say("\n".join(lines))


def _text(parameters: Mapping[str, Any]) -> str:
    shown = {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in parameters.items()}
    return ", ".join(f"{name} {value}" for name, value in shown.items())


def _write(file: Path, text: str) -> None:
    temporary = file.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, file)
