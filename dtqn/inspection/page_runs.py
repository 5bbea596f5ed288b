"""The runs that a report is about, their table and their curve."""

from __future__ import annotations

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
from dtqn.text import number
from dtqn.training import metrics
from dtqn.training.directory import RunDir
from dtqn.training.metrics import Row
from dtqn.training.setup import task_spec

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


def read(paths: Sequence[Path]) -> list[Run]:
    """The runs in these directories, by their labels.

    Raises:
        ConfigError: where a path holds none, or a run has not been evaluated yet.
    """
    given = [path.resolve() for path in paths]
    if twice := [path for path, real in zip(paths, given, strict=True) if given.count(real) > 1]:
        raise ConfigError(f"{twice[0]}: is given twice; give each run once")
    return _labelled([_of_directory(path) for path in paths])


def _of_directory(path: Path) -> tuple[Outcome, RunDir]:
    directory = RunDir(path)
    if not directory.config_file.exists():
        raise ConfigError(f"{path}: holds no run (there is no config.yaml)")
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
