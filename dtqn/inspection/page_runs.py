"""The runs that a report is about, their table and their curve."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from dtqn import plots
from dtqn.experiments.comparison_pictures import curve
from dtqn.experiments.intervals import LEAST_RUNS
from dtqn.experiments.records import Outcome
from dtqn.plots import Curve, Panel
from dtqn.settings.config import Config, ConfigError
from dtqn.settings.task import task_of
from dtqn.text import number, one_line
from dtqn.training import metrics
from dtqn.training.directory import RunDir
from dtqn.training.metrics import Row
from dtqn.training.setup import task_spec

_TABLE = "table.json"
_CLOCK = ("environment steps", "env_steps", 1.0)
NOTE = (
    "line and band: of one run its evaluations and the 95 % interval of their episodes; of several (n) mean, "
    f"minimum and maximum; from {LEAST_RUNS} on interquartile mean and 95 % bootstrap interval"
)
HEADER = ("task", "agent", "seed", "score", "env steps", "minutes")


class Run(NamedTuple):
    """A run of the report."""

    label: str
    """Its name among the others."""
    outcome: Outcome
    directory: RunDir

    @property
    def config(self) -> Config:
        return self.outcome.config

    @property
    def is_finished(self) -> bool:
        return self.outcome.state == "finished"

    @property
    def evaluations(self) -> list[Row]:
        """The rows of all evaluations, at least one."""
        return [row for row in self.outcome.rows if row.get("eval/return") is not None]


class Found(NamedTuple):
    """The subject of a report."""

    runs: list[Run]
    missing: list[str]
    """A line for each run of a comparison that is left out."""
    home: Path
    """The folder where the page goes by default."""


def read(paths: Sequence[Path]) -> Found:
    """The runs in these directories, or of the one comparison.

    Raises:
        ConfigError: where a path holds neither, or a run has not been evaluated yet.
    """
    comparisons = [path for path in paths if (path / _TABLE).is_file()]
    if comparisons:
        if len(paths) > 1:
            raise ConfigError(f"{comparisons[0]}: holds a comparison; give it alone, or runs without it")
        return _comparison(paths[0])
    given = [path.resolve() for path in paths]
    if twice := [path for path, real in zip(paths, given, strict=True) if given.count(real) > 1]:
        raise ConfigError(f"{twice[0]}: is given twice; give each run once")
    runs = _labelled([_of_directory(path) for path in paths])
    home = paths[0] if len(paths) == 1 else Path(os.path.commonpath([path.parent for path in given]))
    return Found(runs, [], home)


def _of_directory(path: Path) -> tuple[Outcome, RunDir]:
    directory = RunDir(path)
    if not directory.config_file.exists():
        raise ConfigError(
            f"{path}: holds no run (there is no config.yaml) and no comparison (there is no {_TABLE})"
        )
    if directory.is_exported:
        raise ConfigError(
            f"{path}: is an exported agent, whose README.md has its figures; give the run that it was made of"
        )
    config = directory.read_config()
    task_of(config)
    rows, result = metrics.read_run(directory)
    if not any(row.get("eval/return") is not None for row in rows):
        raise ConfigError(
            f"{path}: has not been evaluated yet, so there is nothing to report; "
            f"the first evaluation comes after {number(config.evaluation.period)} env steps"
        )
    state = "finished" if result is not None else "unfinished"
    why = "" if result is not None else "it has not finished"
    return Outcome(config, state, rows, result, str(path), why), directory


def _comparison(folder: Path) -> Found:
    """Those of a comparison's runs that have finished and whose directories can be found."""
    file = folder / _TABLE
    try:
        told = [str(run["run_dir"]) for run in json.loads(file.read_text(encoding="utf-8"))["runs"]]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ConfigError(f"{file}: is no table of a comparison ({one_line(error, 80)})") from None
    found, missing = [], []
    for where in told:
        if path := _finished(where, folder):
            found.append(_of_directory(path))
        else:
            missing.append(f"{where}: is no directory of a finished run, so it is not on the page")
    if not found:
        raise ConfigError(f"{folder}: none of the runs of its {_TABLE} has finished and can be found")
    return Found(_labelled(found), missing, folder)


def _finished(where: str, folder: Path) -> Path | None:
    """The directory of a finished run, named from where the comparison was made.

    That is a folder which the comparison is in, by default, and else the present one.
    """
    for base in (*folder.resolve().parents, Path()):
        if (base / where / "config.yaml").is_file():
            return base / where if RunDir(base / where).has_result else None
    return None


def _labelled(found: Sequence[tuple[Outcome, RunDir]]) -> list[Run]:
    """The runs by task, agent and seed, and by their directories where these are the same."""
    names = [f"{of.config.env} {of.config.agent} seed {of.config.seed}" for of, _ in found]
    counts = Counter(names)
    labels = [
        name if counts[name] == 1 else f"{name} ({of.where})"
        for name, (of, _) in zip(names, found, strict=True)
    ]
    return [Run(label, *each) for label, each in zip(labels, found, strict=True)]


def table(runs: Sequence[Run]) -> list[list[str]]:
    """A row of texts for each run, under `HEADER`: its last evaluation, and what it took."""
    return [_row(run) for run in runs]


def _row(run: Run) -> list[str]:
    last = run.evaluations[-1]
    unfinished = "" if run.is_finished else f" of {number(run.config.total_env_steps)}"
    return [
        run.config.env,
        run.config.agent,
        str(run.config.seed),
        metrics.outcome(last),
        number(last["env_steps"] or 0) + unfinished,
        f"{(last.get('seconds') or 0) / 60:.1f}",
    ]


def panels(runs: Sequence[Run]) -> list[Panel]:
    """The score of evaluations against environment steps, a panel a task and a line an agent."""
    found = []
    for env in dict.fromkeys(run.config.env for run in runs):
        here = [run for run in runs if run.config.env == env]
        tasks = [task_spec(run.config) for run in here]
        name = "success" if all(task.has_success for task in tasks) else "return"
        agents = dict.fromkeys(run.config.agent for run in here)
        curves = [_curve(agent, [run for run in here if run.config.agent == agent], name) for agent in agents]
        found.append(Panel(env, name, curves, tasks[0].success_ceiling))
    return found


def _curve(agent: str, runs: Sequence[Run], name: str) -> Curve:
    if len(runs) == 1:
        return plots.evaluations(agent, runs[0].outcome.rows, name)
    return curve(agent, [run.outcome for run in runs], f"eval/{name}", _CLOCK)
