"""The runs that a report is about, their table and their curve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from dtqn import plots
from dtqn.experiments.comparison_pictures import curve
from dtqn.plots import Curve, Panel
from dtqn.settings.config import Config, ConfigError
from dtqn.settings.names import Name, name_of
from dtqn.settings.task import task_of
from dtqn.text import number
from dtqn.training import metrics
from dtqn.training.directory import RunDir
from dtqn.training.metrics import Row, is_evaluation
from dtqn.training.setup import task_spec

_CLOCK = ("environment steps", "env_steps", 1.0)
NOTE = (
    "line and band: of one run its evaluations and the 95 % interval of their episodes; of several (n) "
    "interquartile mean, minimum and maximum"
)
HEADER = ("task", "agent", "seed", "score", "env steps", "minutes")


class Run(NamedTuple):
    """A run of the report."""

    label: str
    """Its name among the others."""
    name: Name
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
    config = directory.read_config()
    task_of(config)
    rows, result = metrics.read_run(directory)
    if not any(is_evaluation(row) for row in rows):
        raise ConfigError(
            f"{path}: has not been evaluated yet, so there is nothing to report; "
            f"the first evaluation comes after {number(config.evaluation_period)} env steps"
        )
    name = name_of(config)
    label = f"{name.task} {name.agent} seed {config.seed}"
    return Run(label, name, config, rows, result is not None or directory.is_exported, directory)


def row(run: Run) -> list[str]:
    """The run's line of the table, under `HEADER`: its last evaluation, and what it took."""
    config, last = run.config, [row for row in run.rows if is_evaluation(row)][-1]
    unfinished = "" if run.is_finished else f" of {number(config.total_env_steps)}"
    steps = number(last["env_steps"] or 0) + unfinished
    minutes = f"{(last.get('seconds') or 0) / 60:.1f}"
    return [*run.name, str(config.seed), metrics.outcome(last), steps, minutes]


def panels(runs: Sequence[Run]) -> list[Panel]:
    """The score of evaluations against environment steps, a panel a task and a line an agent."""
    found = []
    for env in dict.fromkeys(run.name.task for run in runs):
        here = [run for run in runs if run.name.task == env]
        tasks = [task_spec(run.config) for run in here]
        name = "success" if all(task.has_success for task in tasks) else "return"
        agents = dict.fromkeys(run.name.agent for run in here)
        curves = [
            _curve(agent, [run.rows for run in here if run.name.agent == agent], name) for agent in agents
        ]
        found.append(Panel(env, name, curves, tasks[0].success_ceiling))
    return found


def _curve(agent: str, runs: Sequence[Sequence[Row]], name: str) -> Curve:
    if len(runs) == 1:
        return plots.evaluations(agent, runs[0], name)
    return curve(agent, runs, f"eval/{name}", _CLOCK)
