"""The runs that a report is about, their table and their curve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from dtqn import plots
from dtqn.experiments.comparison_pictures import curve
from dtqn.experiments.intervals import LEAST_RUNS
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
    config: Config
    rows: list[Row]
    """The metrics file; at least one row is of an evaluation."""
    is_finished: bool
    directory: RunDir


def read(paths: Sequence[Path]) -> list[Run]:
    """The runs in these directories; their labels have the directory where the rest is the same.

    Raises:
        ConfigError: where a path holds none, or a run has not been evaluated yet.
    """
    given = [path.resolve() for path in paths]
    if twice := [path for path, real in zip(paths, given, strict=True) if given.count(real) > 1]:
        raise ConfigError(f"{twice[0]}: is given twice; give each run once")
    runs = [_of_directory(path) for path in paths]
    counts = Counter(run.label for run in runs)
    return [
        run if counts[run.label] == 1 else run._replace(label=f"{run.label} ({run.directory.path})")
        for run in runs
    ]


def _of_directory(path: Path) -> Run:
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
    if not any(_is_evaluation(row) for row in rows):
        raise ConfigError(
            f"{path}: has not been evaluated yet, so there is nothing to report; "
            f"the first evaluation comes after {number(config.evaluation_period)} env steps"
        )
    label = f"{config.env} {config.agent} seed {config.seed}"
    return Run(label, config, rows, result is not None, directory)


def _is_evaluation(row: Row) -> bool:
    return row.get("eval/return") is not None


def row(run: Run) -> list[str]:
    """The run's line of the table, under `HEADER`: its last evaluation, and what it took."""
    config, last = run.config, [row for row in run.rows if _is_evaluation(row)][-1]
    unfinished = "" if run.is_finished else f" of {number(config.total_env_steps)}"
    steps = number(last["env_steps"] or 0) + unfinished
    minutes = f"{(last.get('seconds') or 0) / 60:.1f}"
    return [config.env, config.agent, str(config.seed), metrics.outcome(last), steps, minutes]


def panels(runs: Sequence[Run]) -> list[Panel]:
    """The score of evaluations against environment steps, a panel a task and a line an agent."""
    found = []
    for env in dict.fromkeys(run.config.env for run in runs):
        here = [run for run in runs if run.config.env == env]
        tasks = [task_spec(run.config) for run in here]
        name = "success" if all(task.has_success for task in tasks) else "return"
        agents = dict.fromkeys(run.config.agent for run in here)
        curves = [
            _curve(agent, [run.rows for run in here if run.config.agent == agent], name) for agent in agents
        ]
        found.append(Panel(env, name, curves, tasks[0].success_ceiling))
    return found


def _curve(agent: str, runs: Sequence[Sequence[Row]], name: str) -> Curve:
    if len(runs) == 1:
        return plots.evaluations(agent, runs[0], name)
    return curve(agent, runs, f"eval/{name}", _CLOCK)
