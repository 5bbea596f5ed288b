"""Suites: a named list of tasks with budget, score and published figures, read from a YAML file.

`configs/suites` has those of this project; `docs/suites.md` explains the keys.
"""

from __future__ import annotations

import fnmatch
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from dtqn.experiments.scores import COLUMNS, SHARES, Kind, Score
from dtqn.settings.config import Config, ConfigError, fields_of
from dtqn.settings.layers import CONFIGS, Layer, build, check_code, merge, nested, read_yaml, without
from dtqn.settings.values import legal, nearest, shown
from dtqn.text import number


def _numbers(n: Sequence[int] | None) -> Sequence[int | None]:
    return (None,) if n is None else n


class _Part(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False, strict=True
    )


class ScoreEntry(_Part):
    of: Kind
    """one of success, return, bsuite, mmer"""
    random: float
    """a number, the score of random actions"""
    optimal: float
    """a number, the score of the best policy"""
    episodes: int = Field(10_000, ge=1)
    """an integer of at least 1, training episodes of `bsuite`"""
    epoch_env_steps: int = Field(65_536, ge=1)
    """an integer of at least 1, steps of an epoch of `mmer`"""
    solved_above: float | None = None
    """a number, the normalised score above which the task counts as solved"""
    observation_alone: float | None = None
    """a number, the best score of a policy that sees the present observation alone"""

    @model_validator(mode="after")
    def _ends_differ(self) -> ScoreEntry:
        if self.random == self.optimal:
            raise ValueError(f"optimal is {self.optimal:g}, as random is: must be another number")
        return self

    def scaled(self, share: float) -> Score:
        """The score of runs that have a share of the budget."""
        score = Score(self.of, **self.model_dump(exclude={"of"}))
        return score._replace(
            episodes=max(1, round(score.episodes * share)),
            epoch_env_steps=max(1, round(score.epoch_env_steps * share)),
        )


class TaskEntry(_Part):
    name: str
    """the name of a task, with {n} in it for one a number of `n`"""
    n: list[int] | None = Field(None, min_length=1)
    """integers, one a task"""
    env_steps: int = Field(ge=1)
    """an integer of at least 1"""
    env_steps_per_n: int = Field(0, ge=0)
    """an integer of at least 0, which comes n times on top of env_steps"""
    scores: list[ScoreEntry] = Field(min_length=1)
    """a list of scores, that which the tables are of first"""
    settings: dict[str, Any] = {}
    """settings of all agents, such as learner: {gamma: 0.99}"""
    shares_of_budget: dict[str, float] = {}
    """settings of all agents as shares of env_steps, such as warmup_env_steps: 0.02"""

    @model_validator(mode="after")
    def _columns_differ(self) -> TaskEntry:
        kinds = [score.of for score in self.scores]
        if twice := [kind for kind in kinds if kinds.count(kind) > 1]:
            raise ValueError(f"scores has {twice[0]} twice: must be of different kinds")
        return self

    @model_validator(mode="after")
    def _n_is_used(self) -> TaskEntry:
        if ("{n}" in self.name) != (self.n is not None):
            why = "with {n} there must be a list n" if self.n is None else "must have {n}, as n is a list"
            raise ValueError(f"name is {self.name}: {why}")
        if self.n is not None and len(set(self.n)) < len(self.n):
            raise ValueError(f"n is {self.n}: a number is there twice")
        if self.n is None and self.env_steps_per_n:
            raise ValueError(f"env_steps_per_n is {self.env_steps_per_n}: must be left out without a list n")
        if self.env_steps + self.env_steps_per_n * min(self.n or [0]) < 1:
            raise ValueError(
                f"env_steps is {self.env_steps}: must be above 0 with env_steps_per_n for each n"
            )
        return self


class Published(_Part):
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
    """one of success, return, bsuite, mmer"""
    second_hand: bool = False
    """true where the figure was not checked at its source"""

    @model_validator(mode="after")
    def _shares_are_shares(self) -> Published:
        if self.column in SHARES and not 0 <= self.figure <= 1:
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
    def note(self) -> str:
        """The line below the table."""
        steps = "steps not known" if self.env_steps is None else f"{number(self.env_steps)} env steps"
        spread = f" {self.spread}" if self.spread else ""
        figure = f"{self.figure:.1%}" if self.column in SHARES else f"{self.figure:.3g}"
        doubt = "; second-hand: not checked at its source" if self.second_hand else ""
        return f"{self.row}: {self.column} {figure}{spread} after {steps}; {self.source}{doubt}."


class _File(_Part):
    builds_on: str | None = None
    """the name of a suite of this project, whose keys it has but for those given here"""
    description: str = Field(min_length=1)
    """text, a line about the suite"""
    needs: str | None = None
    """the name of a package that must be installed"""
    task_presets: bool = True
    """true, or false to leave out the presets of tasks (configs/envs)"""
    settings: dict[str, Any] = {}
    """settings of all agents, such as learner: {gamma: 0.99}"""
    shares_of_budget: dict[str, float] = {}
    """settings of all agents as shares of env_steps, such as warmup_env_steps: 0.02"""
    figure_axis: str | None = None
    """text, what n is, for a figure of score against n"""
    tasks: list[TaskEntry] = Field(min_length=1)
    """a list of tasks"""
    published: list[Published] = []
    """a list of figures of others"""

    @field_validator("tasks")
    @classmethod
    def _names_differ(cls, tasks: list[TaskEntry]) -> list[TaskEntry]:
        names = [entry.name for entry in tasks if entry.n is not None]
        names += [name for entry in tasks for name, _ in _expanded(entry)]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"tasks: {name} is there twice")
        return tasks

    @model_validator(mode="after")
    def _published_are_of_tasks(self) -> _File:
        names = [name for entry in self.tasks for name, _ in _expanded(entry)]
        for index, one in enumerate(self.published):
            if one.task not in names:
                hint = nearest(one.task, names) or "; must be a task of the suite"
                raise ValueError(f"published.{index}.task is {shown(one.task)}: no task of the suite{hint}")
        return self


def _expanded(entry: TaskEntry) -> Iterator[tuple[str, int | None]]:
    for n in _numbers(entry.n):
        yield (entry.name if n is None else entry.name.replace("{n}", str(n))), n


class SuiteTask(NamedTuple):
    """A task of a suite, its budget scaled."""

    name: str
    family: str
    """The name of its entry in the file, with `n` for the numbers of several."""
    n: int | None
    env_steps: int
    scores: tuple[Score, ...]
    """That which the tables are of first."""
    settings: tuple[Layer, ...]
    """The suite's settings for all agents, but for what a published one sets itself."""
    budget: tuple[Layer, ...]
    """The env steps of a run and the settings that are shares of them, for all agents alike."""
    place: str
    """Its entry in the file, such as `tasks.0`."""


class Suite(NamedTuple):
    """A suite at a share of its budgets."""

    name: str
    path: Path
    description: str
    task_presets: bool
    share: float
    figure_axis: str | None
    tasks: tuple[SuiteTask, ...]
    published: tuple[Published, ...]
    left_out: int = 0
    """How many of the file's tasks are not among `tasks`."""

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
        return self._replace(
            tasks=tuple(task for task in self.tasks if task.name in fitting),
            published=tuple(one for one in self.published if one.task in fitting),
            left_out=self.left_out + len(names) - len(fitting),
        )

    def check_scores(self, env: str, has_success: bool) -> None:
        """A ConfigError where runs of the task have no such score."""
        (task,) = (task for task in self.tasks if task.name == env)
        for index, score in enumerate(task.scores):
            if score.name in SHARES and not has_success:
                of = f"{task.place}.scores.{index}.of is {score.kind}"
                raise ConfigError(f"{self.path}: {of}, but {env} defines no success; try return")

    @property
    def families(self) -> dict[str, list[SuiteTask]]:
        """Tasks by the entry of the file that they come from."""
        found: dict[str, list[SuiteTask]] = {}
        for task in self.tasks:
            found.setdefault(task.family, []).append(task)
        return found

    def notes(self) -> list[str]:
        """Lines below the tables: what the suite is, and how it scores."""
        notes = [f"Suite {self.name}: {self.description}"]
        if self.left_out:
            count = len(self.tasks)
            notes.append(f"PART OF THE SUITE: {count} of its {count + self.left_out} tasks.")
        if self.share != 1:
            notes.append(
                f"BUDGET SHARE {self.share:g}: runs have this share of the suite's env steps, warm-up and"
                " annealing. These are no results of the suite."
            )
        if not self.task_presets:
            notes.append("The presets of tasks are left out: the suite's settings are the same on all tasks.")
        by_score: dict[tuple[Score, ...], list[str]] = {}
        for family, tasks in self.families.items():
            by_score.setdefault(tasks[0].scores, []).append(family)
        for scores, names in by_score.items():
            told = [score.explained for score in scores]
            notes.append(f"Scores in {', '.join(names)}: {'; beside it '.join(told)}.")
        return notes

    def scaled(self, config: Config) -> Config:
        """The settings of a run with the suite's share of its budget.

        The steps of the run, the warm-up and epsilon's annealing are scaled, and the evaluations' period
        where the scaled budget is shorter. The number of env steps for an update stays.
        """
        if self.share == 1:
            return config
        total = max(1, round(config.total_env_steps * self.share))
        actor = {"epsilon_anneal_env_steps": round(config.actor.epsilon_anneal_env_steps * self.share)}
        period = config.evaluation.period
        if period > total:
            period = max(1, round(period * self.share))
        changes = {
            "total_env_steps": total,
            "warmup_env_steps": round(config.warmup * self.share),
            "actor": actor,
            "evaluation": {"period": period},
        }
        return build([Layer("--budget-share", merge(config.model_dump(), changes), is_typed=True)])


FOLDER = "suites"


def known(configs: Path = CONFIGS) -> list[str]:
    """Names of the suites of this project."""
    return sorted(path.stem for path in (configs / FOLDER).glob("*.yaml"))


def _content(path: Path, configs: Path) -> dict[str, Any]:
    """What a suite's file holds, over that of the suite which it builds on."""
    content = read_yaml(path, "a suite: description, tasks and more by name")
    name = content.get("builds_on")
    if not isinstance(name, str):  # left out, or what the check of the whole file names
        return content
    if name not in known(configs):
        raise ConfigError(
            f"{path}: builds_on is {shown(name)}: it is no suite{nearest(name, known(configs))}"
        )
    base = _content(configs / FOLDER / f"{name}.yaml", configs)
    if "tasks" in content:  # figures are of tasks
        base.pop("published", None)
    return {**base, **content}


def read(name: str, share: float = 1.0, configs: Path = CONFIGS) -> Suite:
    """The suite of a name, or of a YAML file of the user's own, with its budgets scaled by `share`.

    Raises:
        ConfigError: one line that names the file, the field, the value and what would be right.
    """
    is_path = name.endswith((".yaml", ".yml")) or "/" in name
    if not is_path and name not in known(configs):
        raise ConfigError(f"--suite is {shown(name)}: it is no suite{nearest(name, known(configs))}")
    path = Path(name) if is_path else configs / FOLDER / f"{name}.yaml"
    try:
        file = _File.model_validate(_content(path, configs))
    except ValidationError as error:
        raise ConfigError(f"{path}: {_explain(error)}") from None
    if file.needs is not None and not _is_installed(file.needs):
        raise ConfigError(
            f"--suite is {shown(name)}: it needs the package {file.needs}, which is not installed: "
            f"python -m pip install {file.needs}"
        )
    tasks = [
        _task(path, file, f"tasks.{index}", entry, task, n, share)
        for index, entry in enumerate(file.tasks)
        for task, n in _expanded(entry)
    ]
    return Suite(
        name=path.stem,
        path=path,
        description=file.description,
        task_presets=file.task_presets,
        share=share,
        figure_axis=file.figure_axis,
        tasks=tuple(tasks),
        published=tuple(file.published),
    )


def _task(
    path: Path, file: _File, place: str, entry: TaskEntry, name: str, n: int | None, share: float
) -> SuiteTask:
    check_code([Layer(str(path), {"env": name})])
    steps = entry.env_steps + entry.env_steps_per_n * (n or 0)
    parts = (("", file), (f"{place}.", entry))
    settings = [_settings(path, f"{where}settings", part.settings) for where, part in parts]
    shares = [
        _shares(path, f"{where}shares_of_budget", part.shares_of_budget, steps) for where, part in parts
    ]
    shares[0] = without(shares[0], settings[1])  # a task's own settings lie over those of all tasks
    return SuiteTask(
        name=name,
        family=entry.name.replace("{n}", "n"),
        n=n,
        env_steps=max(1, round(steps * share)),
        scores=tuple(score.scaled(share) for score in entry.scores),
        settings=tuple(Layer(str(path), values) for values in settings),
        budget=tuple(Layer(str(path), values) for values in ({"total_env_steps": steps}, *shares)),
        place=place,
    )


_NOT_THE_SUITES = ("env", "agent", "seed", "total_env_steps")


def _settings(path: Path, place: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    try:
        values = nested(settings)
    except ConfigError as error:
        raise ConfigError(f"{path}: {place}: {error}") from None
    for name in _NOT_THE_SUITES:
        if name in values:
            raise ConfigError(
                f"{path}: {place}.{name} is {values[name]}: leave it out; it is no agent's setting"
            )
    return values


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):  # a part of what is not there, or no name at all
        return False


def _shares(path: Path, place: str, shares: Mapping[str, float], budget: int) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, share in shares.items():
        if name in _NOT_THE_SUITES:
            raise ConfigError(f"{path}: {place}.{name}: leave it out; it is no share of the budget")
        field = fields_of().get(name)
        kinds = set() if field is None else {field.annotation, *get_args(field.annotation)}
        if not kinds & {int, float}:
            raise ConfigError(
                f"{path}: {place}.{name} is no setting with a number{nearest(name, fields_of())}"
            )
        if not 0 <= share <= 1:
            raise ConfigError(f"{path}: {place}.{name} is {share}: must be a number from 0 to 1")
        values[name] = share * budget if float in kinds else round(share * budget)
    return nested(values)


_INSIDE: dict[str, type[BaseModel]] = {"tasks": TaskEntry, "scores": ScoreEntry, "published": Published}
"""By key, what its items hold."""


def _explain(error: ValidationError) -> str:
    """The first mistake in words: the field, its value and what would be right."""
    errors = error.errors(include_url=False)
    # A misspelt key is also a missing one.
    found = next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])
    place = [part for part in found["loc"] if part not in ("int", "str")]  # those of a union
    name = ".".join(map(str, place))
    if found["type"] == "value_error":
        text = str(found["ctx"]["error"])
        return text if "." in text.partition(" is ")[0] or not name or name == "tasks" else f"{name}.{text}"
    names = [part for part in place if isinstance(part, str)]
    model = next((_INSIDE[part] for part in reversed(names[:-1]) if part in _INSIDE), _File)
    field = model.model_fields.get(names[-1])
    if found["type"] == "extra_forbidden":
        return f"{name} is no key of a suite{nearest(str(place[-1]), model.model_fields)}"
    must = (
        f"must be {field.description or legal(field)}" if field is not None else "must hold keys of a suite"
    )
    if found["type"] == "missing":
        return f"{name} is missing: {must}"
    return f"{name} is {shown(found['input'])}: {must}"
