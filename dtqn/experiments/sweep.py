"""Run W&B's sweep files on this machine. W&B's own search engine chooses, and no account is needed.

The engine is a function of the sweep file and of the runs so far. So the state of a sweep is the choices in
`sweep.json` and the metrics of these runs, and a sweep goes on from there after a kill.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import itertools
import json
import os
import re
import shlex
import shutil
import statistics
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from dtqn import plots
from dtqn.experiments import launchers
from dtqn.experiments.intervals import LEAST_RUNS as COMPARABLE
from dtqn.experiments.jobs import Job, Pool, fitting
from dtqn.experiments.launcher import Launcher
from dtqn.files import replacing, write_whole
from dtqn.program import program
from dtqn.settings import presets
from dtqn.settings.config import Config, ConfigError, setting_of
from dtqn.settings.layers import Layer, nested, to_yaml
from dtqn.settings.task import task_of
from dtqn.text import columns, counted
from dtqn.training.directory import RunDir, changed_settings, lasting_settings, make_writable
from dtqn.training.display import RunsView, open_runs_view
from dtqn.training.metrics import read_run

try:
    from dtqn.experiments.importance import LEAST_RUNS, axis_of, dependence
    from dtqn.experiments.sweep_engine import Trial, hopeless, propose
    from dtqn.experiments.sweep_file import SweepFile, check, is_within, read_file
except ImportError as error:
    raise ConfigError(
        f'sweep needs {error.name}, which is not installed: pip install "dtqn[sweep]"'
    ) from None

__all__ = ["Asked", "Sweep", "check", "command", "default_folder", "read_file", "run"]

_ATTEMPTS = 50
"""Draws of a configuration that was not tried before, until the space counts as exhausted."""
_FLAPPING = 3
"""A sweep whose first runs all fail is ended after so many, as W&B's agent does."""
_SHOWN = 5
_RECORDED = [field.name for field in dataclasses.fields(Trial) if field.name != "rows"]
"""The fields of a trial that `sweep.json` holds; its rows are the run's own."""


class Configuration(NamedTuple):
    """A line of the leaderboard: runs that differ in nothing but their seed."""

    parameters: dict[str, Any]
    trials: list[Trial]
    value: float | None
    """The mean over its runs that have ended; None where one is open or has failed."""
    rank: int | None
    """From 1 on; those with the same value share one. None where there is no value."""


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
        self.trials = self._recorded()
        for trial in self.trials:
            if trial.state == "failed":  # what it failed of may have been mended
                trial.state, trial.error = "open", ""
            if trial.run_dir:
                self._read(trial)

    def _recorded(self) -> list[Trial]:
        """The trials of an earlier stretch."""
        if not self._record.exists():
            return []
        try:
            entries = json.loads(self._record.read_text(encoding="utf-8"))["runs"]
            trials = [Trial(**{name: entry[name] for name in _RECORDED}) for entry in entries]
            strange = [text for trial in trials if (text := self.file.strange(trial.parameters))]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{self._record}: is no record of a sweep ({type(error).__name__}: {error}); move it away, "
                "what has been trained is found again"
            ) from None
        if strange:
            raise ConfigError(f"{self._record}: is of a sweep {strange[0]}; give another --out")
        return trials

    def _read(self, trial: Trial) -> None:
        """Read what a run has come to; one that has ended and is not found is open again.

        A run is looked for where it was, and else where its parameters would have it now: folders may have
        been moved, and the command given from another one.
        """
        directory = RunDir(Path(trial.run_dir))
        if trial.state != "open":
            directory = self._same(trial, directory)
        trial.run_dir, (trial.rows, _) = str(directory.path), read_run(directory)
        if not trial.rows:
            trial.state = "open"

    def _same(self, trial: Trial, directory: RunDir) -> RunDir:
        """The directory of a run that has ended; a ConfigError where its parameters give another run now.

        A search compares runs on one task that differ in what is searched and in nothing else.
        """
        config = self._resolve(trial.parameters)
        now = RunDir.of_config(config, self.runs_dir)
        if not directory.holds_run and now.path.parts[-3:] == directory.path.parts[-3:]:
            directory = now
        if directory.holds_run and (change := directory.task_change(directory.read_config())):
            raise ConfigError(f"{change}; to search on the task as it is now, give another --out")
        if now.path.parts[-3:] != directory.path.parts[-3:]:
            then = lasting_settings(directory.read_config()) if directory.holds_run else {}
            names = f"{directory.path.name}, now {now.path.name}"
            change = next(iter(changed_settings(then, config)), names)
            raise ConfigError(
                f"{self._record}: run {trial.number} was made with other settings ({change}); "
                "to search with the settings as they are now, give another --out"
            )
        return directory

    def open_jobs(self) -> list[tuple[Trial, Job]]:
        """The trials that an earlier stretch has left undone."""
        return [
            (trial, self._job(trial, self._resolve(trial.parameters)))
            for trial in self.trials
            if trial.state == "open"
        ]

    def next_job(self) -> tuple[Trial, Job] | None:
        """Choose and note down another configuration; None where the sweep is complete."""
        while not self._complete:
            trial = self._next_trial()
            if trial is None:
                return None
            self.trials.append(trial)
            try:
                config = self._resolve(trial.parameters)
            except ConfigError as error:  # such as a width that its heads do not divide
                trial.state, trial.error = "refused", str(error)
                self.save()
                continue
            job = self._job(trial, config)
            if same := [other for other in self.trials[:-1] if other.run_dir == trial.run_dir]:
                # An agent's variant fixes what is searched, say, or it is no matter of a run's result.
                trial.state, trial.run_dir = "refused", ""
                trial.error = f"its settings are those of run {same[0].number}"
                self.save()
                continue
            self.save()
            return trial, job
        return None

    @property
    def _complete(self) -> bool:
        if self.run_cap is not None and len(self.trials) >= self.run_cap:
            return True
        begun = [trial for trial in self.trials if trial.state != "refused"]
        if len(begun) >= _FLAPPING and all(trial.state == "failed" for trial in begun):
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

    def _job(self, trial: Trial, config: Config) -> Job:
        directory = RunDir.of_config(config, self.runs_dir)
        directory.prepare(config)
        trial.run_dir = str(directory.path)
        return Job(f"run {trial.number}", directory)

    def leaderboard(self) -> list[Configuration]:
        """All configurations, the best first, those without a result last."""
        groups: dict[str, Configuration] = {}
        for trial in self.trials:
            parameters = {name: trial.parameters[name] for name in self.file.searched if name != "seed"}
            group = groups.setdefault(json.dumps(parameters), Configuration(parameters, [], None, None))
            group.trials.append(trial)
        lines = [group._replace(value=self._mean(group.trials)) for group in groups.values()]
        known = sorted(-self.file.sign * line.value for line in lines if line.value is not None)
        lines = [
            line if line.value is None else line._replace(rank=1 + known.index(-self.file.sign * line.value))
            for line in lines
        ]
        return sorted(lines, key=lambda line: (line.rank is None, line.rank or 0))

    def _mean(self, trials: Sequence[Trial]) -> float | None:
        values = [t.value(self.file.metric) for t in trials if t.state in ("finished", "stopped")]
        known = [value for value in values if value is not None]
        return statistics.fmean(known) if len(known) == len(trials) else None

    def table(self) -> list[str]:
        """The top of the leaderboard with the parameters that vary, as many as the terminal is wide for."""
        board = [line for line in self.leaderboard() if line.value is not None]
        if not board:
            return []
        names = [
            name for name in board[0].parameters if len({_cell(line.parameters[name]) for line in board}) > 1
        ]
        rows = [["", self.file.metric, "run", *(_leaf(name, names) for name in names)]]
        for line in board[:_SHOWN]:
            runs = ", ".join(map(_told, line.trials))
            cells = [_cell(line.parameters[name]) for name in names]
            rows.append([f"{line.rank}.", f"{line.value:.4f}", runs, *cells])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        ends = itertools.accumulate(widths, lambda end, width: end + 2 + width)
        shown = max(3, sum(end <= _width() for end in ends))
        lines = columns([row[:shown] for row in rows])
        hidden = len(widths) - shown
        more = [f"{hidden} more parameters in {self.folder / 'leaderboard.csv'}"] if hidden else []
        return [*lines, *more]

    def save(self) -> None:
        """Write `sweep.json` and `leaderboard.csv`, each whole."""
        metric = self.file.metric
        ranks = {trial.number: line.rank for line in self.leaderboard() for trial in line.trials}
        rows = []
        for trial in self.trials:
            rows.append(
                {name: getattr(trial, name) for name in _RECORDED}
                | {"env_steps": trial.env_steps, metric: trial.value(metric), "rank": ranks.get(trial.number)}
            )
        about = {"name": self.file.name, "file": str(self.file.path), "search_seed": self._seed}
        write_whole(self._record, json.dumps(about | self.file.engine | {"runs": rows}, indent=2) + "\n")
        searched = self.file.searched
        header = ["rank", metric, *searched, "number", "state", "env_steps", "run_dir", "error"]
        with (
            replacing(self.folder / "leaderboard.csv") as temporary,
            temporary.open("w", encoding="utf-8", newline="") as file,
        ):
            writer = csv.writer(file)
            writer.writerow(header)
            for row in sorted(rows, key=lambda row: (row["rank"] is None, row["rank"] or 0, row["number"])):
                flat = row | row["parameters"]
                writer.writerow([flat[name] for name in header])

    def finish(self) -> list[str]:
        """Write the best configuration and the pictures; what is to be told."""
        self.save()
        board = self.leaderboard()
        if not board or board[0].value is None:
            return ["no configuration has a result"]
        best, file = board[0], self.folder / "best.yaml"
        config = RunDir(Path(best.trials[0].run_dir)).read_config()
        settings = ", ".join(f"{name} {_cell(value)}" for name, value in best.parameters.items())
        text = f"{self.file.metric} {best.value:.4f}" + (f" with {settings}" if settings else "")
        write_whole(file, f"# {text}\n{to_yaml(config)}")
        again = f"again with another seed: {program()} --config {shlex.quote(str(file))} --seed N"
        told = textwrap.fill(f"best: {text}", _width(), subsequent_indent="  ", break_on_hyphens=False)
        tied = sum(line.rank == 1 for line in board) - 1
        more = [f"{tied} other{'s' if tied > 1 else ''} came to the same"] if tied else []
        if min(len(line.trials) for line in board if line.rank is not None) < COMPARABLE:
            more.append(
                f"fewer than {COMPARABLE} runs a line: these ranks do not tell which settings are better"
            )
        report = f"report   {RunDir(Path(best.trials[0].run_dir)).report_command}"
        return [told, *more, *self._draw(), again, report]

    def _draw(self) -> list[str]:
        """The pictures; what is missing of them."""
        values, parameters = [], []
        for trial in self.trials:
            value = trial.value(self.file.metric)
            if trial.state in ("finished", "stopped") and value is not None:
                values.append(value)
                parameters.append(trial.parameters)
        specs, metric = self.file.engine["parameters"], self.file.metric
        axes = [axis_of(name, specs[name], [p[name] for p in parameters]) for name in self.file.searched]
        if not axes:
            return []
        found = dependence(axes, values)
        shares = found.shares if found else []
        ranks = {share.name: rank for rank, share in enumerate(shares)}
        ordered = sorted(axes, key=lambda axis: ranks.get(axis.name, len(ranks)))
        best = max(range(len(values)), key=lambda run: self.file.sign * values[run])
        plots.by_parameter(ordered, values, self.folder / "by_parameter.png", metric, best)
        if found is None:
            return [f"no parameter importance: it needs {LEAST_RUNS} runs with different results"]
        about = {"runs": found.runs, "held_out_r2": found.r2, "dependence_found": found.found}
        content = about | {"parameters": [share._asdict() for share in shares]}
        write_whole(self.folder / "importance.json", json.dumps(content, indent=2) + "\n")
        plots.importance(shares, self.folder / "importance.png", metric, found.r2, found.runs)
        if not found.found:
            return [f"no dependence of {metric} on the parameters found (held-out R² {found.r2:.2f})"]
        return []


class Asked(NamedTuple):
    """The command line's part beside the sweep file; None leaves it to the file."""

    settings: Mapping[str, str]
    """Settings of all runs. The file may fix them too, and may not search them."""
    launcher: launchers.Asked
    config: Path | None
    runs_dir: Path | None
    out: Path | None
    run_cap: int | None
    jobs: int | None
    search_seed: int


def command(path: Path, asked: Asked, read_flags: Callable[[list[str]], dict[str, Any]]) -> int:
    """Run the sweep of a file, or go on with it; the program's exit code.

    Args:
        read_flags: the flags of a sweep file's `command` -> the options of a training by name.

    Raises:
        ConfigError: before anything is there, where the file or the settings are wrong.
    """
    file = read_file(path)
    try:
        flags = read_flags(file.flags)
    except ConfigError as error:
        raise ConfigError(f"{path}: command: {error}") from None
    settings = {name: value for name, value in flags.items() if setting_of(name)} | dict(asked.settings)
    config_file = asked.config or flags.get("config")
    runs_dir = asked.runs_dir or flags.get("runs_dir") or Path("runs")
    for name, searched in itertools.product(settings, file.searched):
        if is_within(searched, name):
            what = "it" if searched == name else searched
            raise ConfigError(f"--{name} is {settings[name]}, but {path} searches {what}; leave it out")
    file = file.without(settings)
    run_cap = asked.run_cap or file.run_cap
    if run_cap is None and file.engine["method"] != "grid":
        raise ConfigError(f"{path}: method {file.engine['method']} has no end; give --run-cap N")
    from dtqn.training import preflight

    def resolve(parameters: Mapping[str, Any]) -> Config:
        choice = Layer(str(path), nested(parameters))
        config = presets.resolve(config_file, settings, os.environ, below=[choice])
        config = config.settled(free_cores=1)  # jobs fill the others
        file.check_metric(config.env, task_of(config).has_success)
        preflight.check(config, asked.launcher.is_here)
        return config

    config = check(file, resolve)  # before anything is there
    jobs = asked.jobs or (fitting(config) if asked.launcher.is_local else None)
    os.environ.setdefault("WANDB_RUN_GROUP", file.name)  # what the trainings tell W&B
    os.environ.setdefault("WANDB_JOB_TYPE", "sweep")
    given = settings | {"config": config_file}
    folder = asked.out or default_folder(file, given, asked.search_seed, runs_dir)
    with launchers.opened(asked.launcher, runs_dir) as launcher:
        return run(Sweep(file, folder, runs_dir, resolve, run_cap, asked.search_seed), jobs, launcher)


def default_folder(file: SweepFile, given: Mapping[str, Any], seed: int, runs_dir: Path) -> Path:
    """`<runs_dir>/sweeps/<name>-<hash>`: one folder for one search, however many runs it may take."""
    content = json.dumps([file.engine, sorted(file.flags), dict(given), seed], sort_keys=True, default=str)
    name = re.sub(r"[^\w.-]+", "-", file.name)
    return runs_dir / "sweeps" / f"{name}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def run(
    sweep: Sweep, parallel: int | None, launcher: Launcher | None = None, out: TextIO | None = None
) -> int:
    """Run a sweep to its end, or go on with it; the program's exit code.

    Args:
        parallel: trainings at a time; None: as many as the launcher has room for, and one that waits there.
        launcher: where trainings run; None: on this machine.

    Returns:
        0, 1 where a run has failed or none has a result, 128 + n after signal n.
    """
    out = out or sys.stdout
    make_writable("--runs-dir", sweep.runs_dir)
    make_writable("--out", sweep.folder)
    with RunDir(sweep.folder).lock(), Pool(parallel, launcher=launcher) as pool:
        view = open_runs_view(out, pool.jobs)
        try:
            _train(sweep, pool, view)
        finally:
            view.close()
    sweep.save()
    if pool.caught is not None:
        ended = sum(trial.state != "open" for trial in sweep.trials)
        print(f"interrupted after {counted(ended, 'run')}; the same command goes on", file=out)
        return 128 + pool.caught
    unhappy = [trial for trial in sweep.trials if trial.state in ("failed", "refused")]
    told = [f"run {trial.number} {trial.state}: {trial.error}" for trial in unhappy]
    print("\n".join([*told, "", *sweep.table()]), file=out, flush=True)
    print("\n".join([*sweep.finish(), f"all in {sweep.folder}"]), file=out)
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
        while pool.caught is None and pool.has_room:
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
        lagging = hopeless(sweep.file.engine, sweep.trials) if any(job.rows for job in changed) else []
        for job in pool.jobs:
            if trials[id(job)] in lagging:
                pool.stop(job)
        if ended:
            sweep.save()
        fill()
        view.update(changed)
        for line in pool.news:
            view.say(line)
        if ended and (lines := sweep.table()):
            view.say("\n".join(lines))


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _leaf(name: str, names: Sequence[str]) -> str:
    """The name without its group, where no other ends alike."""
    leaf = name.rpartition(".")[2]
    return leaf if [other.rpartition(".")[2] for other in names].count(leaf) == 1 else name


def _told(trial: Trial) -> str:
    return str(trial.number) if trial.state == "finished" else f"{trial.number} ({trial.state})"


def _width() -> int:
    return shutil.get_terminal_size((100, 24)).columns
