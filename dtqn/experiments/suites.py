"""Suites: a named list of tasks with budget, score and published figures, read from a YAML file.

`configs/suites` has this project's suites; `docs/suites.md` explains the keys.
"""

from __future__ import annotations

import fnmatch
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field, PositiveInt, ValidationError, model_validator

from dtqn.experiments.scores import COLUMNS, SUCCESS, Kind, Part, Score
from dtqn.settings.config import Config, ConfigError, settings_of
from dtqn.settings.faults import first_fault
from dtqn.settings.layers import CONFIGS, Layer, build, check_code, flat, read_yaml
from dtqn.settings.values import nearest, shown
from dtqn.text import number

RECORDS = Path("docs/results/records")
"""The files of records that a checkout holds, one a suite, from its root."""
_NOT_THE_SUITES = ("env", "agent", "seed", "total_env_steps")


def _settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of agents, by dotted name."""
    values = flat(settings)
    for name in _NOT_THE_SUITES:
        if name in values:
            raise ValueError(f"{name} is {values[name]}: leave it out; it is not an agent's setting")
    return values


class _OfAgents(Part):
    """What a suite, or one of its tasks, sets for all agents."""

    settings: Annotated[dict[str, Any], AfterValidator(_settings)] = Field({})
    """settings of all agents, such as learner: {gamma: 0.99}"""


class TaskEntry(_OfAgents):
    """A task, or one for each of several n."""

    name: str
    """the name of a task, with {n} in it for one a number of `n`"""
    n: list[PositiveInt] | None = Field(None, min_length=1)
    """integers of at least 1, one a task"""
    env_steps: int = Field(ge=1)
    """an integer of at least 1"""
    env_steps_per_n: int = Field(0, ge=0)
    """an integer of at least 0, which comes n times on top of env_steps"""
    scores: list[Score] = Field(min_length=1)
    """a list of scores, that which the tables are of first"""

    @model_validator(mode="after")
    def _is_one_task_or_several(self) -> TaskEntry:
        kinds = [score.of for score in self.scores]
        if twice := [kind for kind in kinds if kinds.count(kind) > 1]:
            raise ValueError(f"scores has {twice[0]} twice: must be of different kinds")
        if ("{n}" in self.name) != (self.n is not None):
            why = "with {n} there must be a list n" if self.n is None else "must have {n}, as n is a list"
            raise ValueError(f"name is {self.name}: {why}")
        return self

    @property
    def names(self) -> dict[str, int | None]:
        """The tasks' n, by name."""
        return {self.name: None} if self.n is None else {self.name.replace("{n}", str(n)): n for n in self.n}


class Published(Part):
    """A figure of somebody else's."""

    task: str
    """the name of a task of the suite"""
    label: str = Field(min_length=1)
    """text, the agent's name in the table"""
    source: str = Field(min_length=1)
    """text, the paper with its arXiv number or address, and the place in it"""
    env_steps: int | None = Field(None, ge=1)
    """an integer of at least 1, the budget"""
    figure: float
    """a number"""
    spread: str = ""
    """text such as ± 7.2 (standard error)"""
    unit: Kind
    """one of success, return, mmer"""
    second_hand: bool = False
    """true where the figure was not checked at its source"""

    @model_validator(mode="after")
    def _shares_are_shares(self) -> Published:
        if self.column == SUCCESS.name and not 0 <= self.figure <= 1:
            raise ValueError(f"figure is {self.figure:g}: must be between 0 and 1 in the unit {self.unit}")
        return self

    @property
    def column(self) -> str:
        return COLUMNS[self.unit]

    @property
    def row(self) -> str:
        """The name of its row."""
        return f"{self.label} (published)"

    @property
    def steps(self) -> str:
        """What it took."""
        return "steps not known" if self.env_steps is None else f"{number(self.env_steps)} env steps"

    @property
    def line(self) -> str:
        """The name of its line in learning curves."""
        return f"{self.row}, {self.steps}"

    @property
    def note(self) -> str:
        """The line below the table."""
        spread = f" {self.spread}" if self.spread else ""
        figure = f"{self.figure:.1%}" if self.column == SUCCESS.name else f"{self.figure:.3g}"
        doubt = "; second-hand: not checked at its source" if self.second_hand else ""
        return f"{self.row}: {self.column} {figure}{spread} after {self.steps}; {self.source}{doubt}."


class SuiteFile(_OfAgents):
    """What a suite's file says."""

    description: str = Field(min_length=1)
    """text, a line about the suite"""
    needs: str | None = Field(None, min_length=1)
    """the name of a package that must be installed"""
    figure_axis: str | None = None
    """text, what n is, for a figure of score against n"""
    tasks: list[TaskEntry] = Field(min_length=1)
    """a list of tasks"""
    published: list[Published] = Field([])
    """a list of figures of others"""

    @property
    def names(self) -> list[str]:
        """The names of all tasks."""
        return [name for entry in self.tasks for name in entry.names]

    @model_validator(mode="after")
    def _names_fit(self) -> SuiteFile:
        names = [entry.name for entry in self.tasks if entry.n is not None] + self.names
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"tasks: {twice[0]} is given twice")
        for index, one in enumerate(self.published):
            if one.task not in names:
                hint = nearest(one.task, names) or "; must be a task of the suite"
                raise ValueError(f"published.{index}.task is {shown(one.task)}: no task of the suite{hint}")
        return self


class SuiteTask(NamedTuple):
    """A task of a suite."""

    name: str
    family: str
    """The name of its entry in the file, with `n` for the numbers of several."""
    n: int | None
    scores: tuple[Score, ...]
    """That which the tables are of first, at the suite's share of the budget."""
    settings: tuple[Layer, ...]
    """The suite's settings for all agents, but for what a published one sets itself."""
    budget: Layer
    """The env steps of a run."""


class Suite(NamedTuple):
    """A suite, or some of its tasks, at a share of its budgets."""

    path: Path
    file: SuiteFile
    share: float
    tasks: tuple[SuiteTask, ...]

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def published(self) -> list[Published]:
        """The figures of others on its tasks."""
        names = [task.name for task in self.tasks]
        return [one for one in self.file.published if one.task in names]

    def only(self, text: str) -> Suite:
        """The tasks alone that one of the patterns of `text`, with commas between, fits (`*` is any text).

        Raises:
            ConfigError: a pattern fits no task.
        """
        names = [task.name for task in self.tasks]
        fitting: set[str] = set()
        for pattern in text.split(","):
            if not (found := fnmatch.filter(names, pattern)):
                what = f"{pattern or 'nothing'} fits no task of the suite{nearest(pattern, self.families)}"
                raise ConfigError(f"--tasks is {shown(text)}: {what}")
            fitting.update(found)
        return self._replace(tasks=tuple(task for task in self.tasks if task.name in fitting))

    @property
    def families(self) -> dict[str, list[SuiteTask]]:
        """Tasks by the entry of the file that they come from."""
        found: dict[str, list[SuiteTask]] = {}
        for task in self.tasks:
            found.setdefault(task.family, []).append(task)
        return found

    def notes(self) -> list[str]:
        """Lines below the tables: what the suite is, and how it scores."""
        notes = [f"Suite {self.name}: {self.file.description}"]
        count, whole = len(self.tasks), len(self.file.names)
        if count < whole:
            notes.append(f"PART OF THE SUITE: {count} of its {whole} tasks.")
        if self.share != 1:
            notes.append(
                f"BUDGET SHARE {self.share:g}: runs have this share of the suite's env steps, warm-up and"
                " annealing. These are no results of the suite."
            )
        by_score: dict[tuple[Score, ...], list[str]] = {}
        for family, tasks in self.families.items():
            by_score.setdefault(tasks[0].scores, []).append(family)
        for scores, names in by_score.items():
            told = "; also ".join(score.explained for score in scores)
            notes.append(f"Scores in {', '.join(names)}: {told}.")
        return notes

    def scaled(self, config: Config) -> Config:
        """The settings of a run with the suite's share of its budget.

        The steps of the run, the warm-up and epsilon's annealing are scaled, and the evaluations' period
        where it is given and the scaled budget is shorter. The number of env steps for an update stays.
        """
        if self.share == 1:
            return config
        total, period = max(1, round(config.total_env_steps * self.share)), config.evaluation.period
        if period is not None and period > total:
            period = max(1, round(period * self.share))
        changes = {
            "total_env_steps": total,
            "warmup_env_steps": round(config.warmup * self.share),
            "actor.epsilon_anneal_env_steps": round(config.actor.epsilon_anneal_env_steps * self.share),
            "evaluation.period": period,
        }
        return build([Layer("--budget-share", settings_of(config) | changes, is_typed=True)])


_FOLDER = CONFIGS / "suites"


def known() -> list[str]:
    """Names of the suites of this project."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def read(name: str, share: float = 1.0) -> Suite:
    """The suite of a name, or of a YAML file of the user's own, with its budgets scaled by `share`.

    Raises:
        ConfigError: one line that names the file, the field, the value and what would be right.
    """
    is_path = name.endswith((".yaml", ".yml")) or "/" in name
    if not is_path and name not in known():
        raise ConfigError(f"--suite is {shown(name)}: it is not a suite{nearest(name, known())}")
    path = Path(name) if is_path else _FOLDER / f"{name}.yaml"
    try:
        file = SuiteFile.model_validate(read_yaml(path, "a suite: description, tasks and more by name"))
    except ValidationError as error:
        raise ConfigError(f"{path}: {first_fault(error, SuiteFile, 'a suite')}") from None
    if file.needs is not None and importlib.util.find_spec(file.needs.partition(".")[0]) is None:
        raise ConfigError(
            f"--suite is {shown(name)}: it needs the package {file.needs}, which is not installed: "
            f"python -m pip install {file.needs}"
        )
    tasks = [task for entry in file.tasks for task in _tasks(str(path), file, entry, share)]
    return Suite(path, file, share, tuple(tasks))


def _tasks(source: str, file: SuiteFile, entry: TaskEntry, share: float) -> list[SuiteTask]:
    """The tasks of an entry."""
    tasks = []
    for name, n in entry.names.items():
        check_code([Layer(source, {"env": name})])
        env_steps = entry.env_steps + entry.env_steps_per_n * (n or 0)
        tasks.append(
            SuiteTask(
                name,
                entry.name.replace("{n}", "n"),
                n,
                tuple(score.scaled(share) for score in entry.scores),
                tuple(Layer(source, values) for values in (file.settings, entry.settings)),
                Layer(source, {"total_env_steps": env_steps}),
            )
        )
    return tasks
