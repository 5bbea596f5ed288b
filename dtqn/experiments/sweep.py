"""Run W&B's sweep files on this machine by Optuna; no account is needed.

The state of a sweep is Optuna's journal in its folder. So a sweep goes on from there after a kill, and the
command may be given more than once at a time: each process makes the next choice whenever it has room.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import hashlib
import itertools
import json
import math
import os
import shlex
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dtqn.experiments import options
from dtqn.experiments.intervals import LEAST_RUNS
from dtqn.experiments.jobs import Job, RunQueue, fitting
from dtqn.files import replacing, write_whole
from dtqn.program import program
from dtqn.settings import presets
from dtqn.settings.config import Config, ConfigError, MisfitError
from dtqn.settings.layers import Layer, flat, to_yaml
from dtqn.settings.names import folder_of
from dtqn.settings.task import task_of
from dtqn.settings.trust import UntrustedError
from dtqn.text import columns, counted, terminal_width
from dtqn.training import machine, objects
from dtqn.training.directory import RunDir, config_hash, make_writable, task_identity
from dtqn.training.display import RunsView

try:
    from dtqn.experiments.sweep_file import SweepFile, read_file
    from dtqn.experiments.sweep_study import Study, Trial, draws
except ImportError as error:
    raise ConfigError(
        f"sweep needs {error.name}, which is not installed: python -m pip install {error.name}"
    ) from None

_FLAPPING = 3
"""A sweep whose first runs all fail is ended after so many, as W&B's agent does."""
_PROBES = 200
"""Configurations that are looked at before a search is refused for having none that fits."""

Resolve = Callable[[Mapping[str, Any]], Config]
"""Parameters -> configuration, or a ConfigError."""


_SHOWN = 5
"""Lines of the leaderboard that are told."""
_COLUMNS = 5
"""Parameters in them."""


class Line(NamedTuple):
    """A line of the leaderboard: runs that differ in nothing but their seed."""

    parameters: dict[str, Any]
    trials: list[Trial]
    value: float | None
    """The mean over its runs that have ended; None where one is open or has failed."""
    rank: int | None
    """From 1 on; those with the same value share one. None where there is no value."""

    def cells(self, names: Sequence[str]) -> list[str]:
        """The line of a table with these parameters."""
        runs = [f"{one.number}" + f" ({one.state})" * (one.state != "finished") for one in self.trials]
        values = [_cell(self.parameters[name]) for name in names]
        return [f"{self.rank}.", f"{self.value:.4f}", ", ".join(runs), *values]


class Results(NamedTuple):
    """The trials of a sweep and the folder that they are told in."""

    file: SweepFile
    folder: Path
    trials: Sequence[Trial]

    def leaderboard(self) -> list[Line]:
        """All configurations, the best first, those without a result last."""
        groups: dict[str, list[Trial]] = {}
        for trial in self.trials:
            parameters = {name: trial.parameters[name] for name in self.file.searched if name != "seed"}
            groups.setdefault(json.dumps(parameters), []).append(trial)
        means = [_mean(trials) for trials in groups.values()]
        known = sorted((mean for mean in means if mean is not None), reverse=self.file.goal == "maximize")
        ranks = [None if mean is None else 1 + known.index(mean) for mean in means]
        lines = map(Line, map(json.loads, groups), groups.values(), means, ranks)
        return sorted(lines, key=lambda line: line.rank or math.inf)

    def ranked(self) -> list[Line]:
        """The lines that have a result."""
        return [line for line in self.leaderboard() if line.value is not None]

    def table(self) -> list[str]:
        """The top of the leaderboard, with the first of the parameters that vary."""
        board = self.ranked()
        names = [name for name in self.file.searched if name != "seed"]
        varied = [name for name in names if len({_cell(line.parameters[name]) for line in board}) > 1]
        varied = varied[:_COLUMNS]
        rows = [["", self.file.metric, "run", *varied], *(line.cells(varied) for line in board[:_SHOWN])]
        return columns(rows, terminal_width(sys.stdout)) if board else []

    def write_board(self) -> None:
        """Write `leaderboard.csv`."""
        metric = self.file.metric
        header = ["rank", metric, *self.file.searched, "number", "state", "env_steps", "run_dir", "error"]
        rows = [
            trial._asdict() | trial.parameters | {"rank": line.rank, metric: trial.value}
            for line in self.leaderboard()
            for trial in line.trials
        ]
        rows.sort(key=lambda row: (row["rank"] or math.inf, row["number"]))
        with (
            replacing(self.folder / "leaderboard.csv") as temporary,
            temporary.open("w", encoding="utf-8", newline="") as file,
        ):
            writer = csv.DictWriter(file, header, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)

    def write_best(self, config: Config) -> list[str]:
        """Write `best.yaml` with the best configuration; the lines that tell of it."""
        file, board = self.folder / "best.yaml", self.ranked()
        best = board[0]
        settings = ", ".join(f"{name} {_cell(value)}" for name, value in best.parameters.items())
        text = f"{self.file.metric} {best.value:.4f}" + (f" with {settings}" if settings else "")
        write_whole(file, f"# {text}\n{to_yaml(config)}")
        told = [f"best: {text}"]
        if min(len(line.trials) for line in board) < LEAST_RUNS:
            right = "these ranks do not tell which settings are better"
            told.append(f"fewer than {LEAST_RUNS} runs per line: {right}")
        report = RunDir(Path(best.trials[0].run_dir)).command("report")
        again = f"again with another seed: {program()} --config {shlex.quote(str(file))} --seed N"
        return [*told, again, f"report   {report}"]


def _mean(trials: Sequence[Trial]) -> float | None:
    """What runs came to, if all have ended."""
    ended = [one.value for one in trials if one.state in ("finished", "stopped") and one.value is not None]
    return statistics.fmean(ended) if len(ended) == len(trials) else None


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


class Sweep:
    """This process's part in a sweep."""

    def __init__(self, study: Study, resolve: Resolve, runs_dir: Path, run_cap: int | None) -> None:
        self.study, self.file, self.resolve, self.runs_dir = study, study.file, resolve, runs_dir
        self.run_cap = run_cap
        self._exhausted = False

    def results(self) -> Results:
        """What it came to so far, with its leaderboard written."""
        with self.study.alone:  # another process writes the same files
            results = Results(self.file, self.study.folder, self.study.trials())
            results.write_board()
        return results

    def next_job(self) -> tuple[Trial, Job] | None:
        """Claim a trial: one that was left by its process, or else a new one; None where there is none."""
        with self.study.alone:
            trial = self._left() or self._new()
        if trial is None:
            return None
        directory = RunDir(Path(trial.run_dir))
        directory.prepare(self.resolve(trial.parameters))
        return trial, Job(f"run {trial.number}", directory)

    def _left(self) -> Trial | None:
        for trial in self.study.trials():
            if self.study.is_left(trial):
                path = RunDir.of_config(self.resolve(trial.parameters), self.runs_dir).path
                return self.study.take(trial.number, str(path))
        return None

    def _new(self) -> Trial | None:
        draws = self.study.draws()
        while not self._is_complete():
            if (draw := next(draws, None)) is None:
                self._exhausted = True
                break
            try:
                path = self._unused(draw.parameters)
            except UntrustedError:  # no fault of the draw
                raise
            except ConfigError as error:  # such as a width that its heads do not divide
                self.study.add(draw, refused=str(error))
            else:
                return self.study.add(draw, str(path))
        return None

    def _unused(self, parameters: Mapping[str, Any]) -> Path:
        """The directory of a run; a ConfigError where a trial has it."""
        path = RunDir.of_config(self.resolve(parameters), self.runs_dir).path
        for trial in self.study.trials():
            if path.parts[-3:] == Path(trial.run_dir).parts[-3:]:  # in whatever folder of runs
                # An agent's variant fixes what is searched, say, or it is no matter of a run's result.
                raise ConfigError(f"run {trial.number} has the same settings")
        return path

    def _is_complete(self) -> bool:
        trials = self.study.trials()
        begun = [trial for trial in trials if trial.state != "refused"]
        flaps = len(begun) >= _FLAPPING and all(trial.state == "failed" for trial in begun)
        capped = self.run_cap is not None and len(trials) >= self.run_cap
        return self._exhausted or capped or flaps

    def look(self, trial: Trial, job: Job) -> bool:
        """Note down what is new of a run; whether early termination ends it."""
        history = [float(value) for row in job.rows if (value := row.get(self.file.metric)) is not None]
        hopeless = self.study.is_hopeless(trial.number, history)
        if job.state in ("finished", "stopped", "failed"):
            steps = int(job.rows[-1]["env_steps"] or 0) if job.rows else 0
            error = job.error if job.state == "failed" else ""
            self.study.end(trial.number, job.state, history[-1] if history else None, steps, error)
        return hopeless


def asked(path: Path, given: dict[str, Any]) -> tuple[int, Line | None]:
    """Run the sweep of a file, or go on with it; the program's exit code, and the best line of the board.

    Args:
        given: options and settings of all runs by name. The file may fix these too, and may not search them.

    Raises:
        ConfigError: before anything is there, where the file or the settings are wrong.
    """
    own, file = options.Sweep.of(given), read_file(path)
    file.check_given(given)
    run_cap = own.run_cap or file.run_cap
    if run_cap is None and file.method != "grid":
        raise ConfigError(f"{path}: method {file.method} has no end; give --run-cap N")
    resolve = functools.partial(_resolved, file, own, given)
    config = check(file, resolve)  # before anything is there
    if line := objects.told(config):
        print(line, flush=True)
    search = [file.search, config_hash(config), task_identity(config).digest, own.search_seed]
    digest = hashlib.sha256(json.dumps(search, default=str).encode()).hexdigest()[:8]
    # One folder for one search, however many runs it may take.
    folder = own.out or own.runs_dir / "sweeps" / f"{folder_of(file.name)}-{digest}"
    make_writable("--runs-dir", own.runs_dir)
    make_writable("--out", folder)
    with (
        contextlib.closing(Study(file, folder, own.search_seed, digest)) as study,
        options.told_to_wandb(WANDB_RUN_GROUP=file.name, WANDB_JOB_TYPE="sweep"),
    ):
        sweep = Sweep(study, resolve, own.runs_dir, run_cap)
        return run(sweep, own.jobs or fitting(config))


def _resolved(
    file: SweepFile, own: options.Sweep, given: Mapping[str, str], parameters: Mapping[str, Any]
) -> Config:
    from dtqn.training import preflight

    choice = Layer(str(file.path), flat(parameters))
    config = objects.settled(presets.resolve(own.config, given, os.environ, below=[choice]), own.jobs)
    config = machine.settled(config, free=1)  # jobs fill the others
    file.check_metric(config.env, task_of(config).has_success)
    preflight.check(config)
    return config


def check(file: SweepFile, resolve: Resolve) -> Config:
    """The first configuration of the search that can be run.

    Raises:
        ConfigError: a setting of it is wrong, or none fit together.
    """
    first = ""
    for draw in itertools.islice(draws(file, 0), _PROBES):
        try:
            return resolve(draw.parameters)
        except MisfitError as error:
            first = first or str(error)
    raise MisfitError(f"{file.path}: no configuration is valid; in the first one, {first}")


def run(sweep: Sweep, at_once: int) -> tuple[int, Line | None]:
    """Take part in a sweep until nothing is left to claim.

    Args:
        at_once: runs at a time.

    Returns:
        The program's exit code: 0, 1 where a run has failed or none has a result, 128 + n after signal n; and
        the best line of the board, if it has one.
    """
    with (
        RunQueue(at_once) as queue,
        contextlib.closing(RunsView(sys.stdout, queue.jobs)) as view,
    ):
        _train(sweep, queue, view)
    results = sweep.results()
    best = next(iter(results.ranked()), None)
    if queue.caught is not None:
        ended = sum(trial.state != "open" for trial in results.trials)
        print(f"interrupted after {counted(ended, 'run')}; the same command continues")
        return 128 + queue.caught, best
    for trial in results.trials:
        if trial.error:
            print(f"run {trial.number} {trial.state}: {trial.error}")
    told = ["no configuration has a result"]
    if best is not None:
        with sweep.study.alone:
            told = results.write_best(sweep.resolve(best.trials[0].parameters))
    print("\n".join(["", *results.table(), *told, f"all in {sweep.study.folder}"]), flush=True)
    states = {trial.state for trial in results.trials}
    return (1 if "failed" in states or not states & {"finished", "stopped"} else 0), best


def _train(sweep: Sweep, queue: RunQueue, view: RunsView) -> None:
    trials: dict[int, Trial] = {}

    def fill() -> None:
        """As many as can run are there, each chosen with what is known by then."""
        while queue.caught is None and queue.has_room and (found := sweep.next_job()) is not None:
            trial, job = found
            trials[id(job)] = trial
            queue.add(job)

    fill()
    for changed in queue.changes():
        for job in changed:
            if sweep.look(trials[id(job)], job):
                queue.stop(job)
        fill()
        view.update(changed)
        for line in queue.news:
            view.say(line)
        if any(job.ended for job in changed) and (lines := sweep.results().table()):
            view.say("\n".join(lines))
