"""Records: what is left of a finished run when its directory has gone, in one small file of JSON.

A record is found by what a comparison finds a run by: task, agent, seed and the hash of its settings. It
holds the settings, the rows of all evaluations, the tally of training episodes, means of the other metrics,
what the run took and what it ran on, but no weights. A folder of records grows over many machines: `Records`
reads all that lie in it and adds to it, and never changes a file that is there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import (
    BaseModel,
    ConfigDict,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    model_validator,
)

from dtqn.experiments.scores import first_solved
from dtqn.files import write_whole
from dtqn.settings import gone
from dtqn.settings.config import Config, ConfigError, fields_of, wrong
from dtqn.settings.layers import setting_in, without
from dtqn.text import one_line
from dtqn.training.directory import (
    RunDir,
    changed_settings,
    config_hash,
    deciding_settings,
    hash_of,
    lasting_settings,
    make_writable,
    resolved,
    run_identity,
)
from dtqn.training.metrics import Row, late_means

LARGEST_BYTES = 20_000
_CLOCKS = ("env_steps", "learner_steps", "seconds")
_EVALUATION = ("eval/success", "eval/return", "eval/length", "eval/episodes", "eval/stage")
_TALLY = ("train/episodes", "train/total_return", "train/total_success")
_TRAINING = ("env_steps", *_TALLY)
_MOST_TALLIES, _MOST_EVALUATIONS = 256, 100
"""Rows of each kind in a record at most: by their steps and number alone, so that runs alike are thinned
alike."""

Columns = dict[str, list[float | int | None]]
"""Rows of metrics, a list a key."""


class Identity(NamedTuple):
    """The key of a run: two runs with the same one are the same run."""

    env: str
    agent: str
    seed: int
    settings_hash: str

    @classmethod
    def of(cls, config: Config) -> Identity:
        return cls(config.env, config.agent, config.seed, config_hash(config))


class Result(BaseModel):
    """Steps, time, machine and program of a finished run: those of `result.json`."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    task: str
    """The digest of the run's task."""
    env_steps: PositiveInt
    learner_steps: NonNegativeInt
    seconds: NonNegativeFloat
    parameters: int
    threads: int
    device: str
    program: dict[str, str]
    """Versions, by name."""
    code: list[str] = []
    """Digests of the sources that it has run."""
    machine: str | None = None
    changed_at: list[int] = []
    """Env steps at which the code of its task, or of a network of the user's own, became another."""


class Record(BaseModel):
    """A finished run."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    env: str
    agent: str
    seed: int
    settings_hash: str
    settings: dict[str, Any]
    """The settings that differ from their defaults, by group."""
    defaults: dict[str, Any] = {}
    """The values of all others, by group; empty in early records."""
    result: Result
    num_evaluations: int | None = None
    """How many the run had; None in early records, which have a row of each."""
    evaluations: Columns
    """Every second, fourth, ... row of a long run, the last one, and the one that solved the task first."""
    training: Columns
    """The tally of training episodes: of a long run the first row at or beyond each multiple of a power of
    two in env steps, and the last."""
    metrics: dict[str, float] = {}
    """Means over the second half of the run, by name (`late_means`); empty in early records."""

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Record:
        """A file that was cut or edited would count with wrong figures and never be made anew."""
        _check_columns("evaluations", self.evaluations, [*_CLOCKS, *_EVALUATION])
        _check_columns("training", self.training, _TRAINING)
        steps, success = self.evaluations["env_steps"], self.evaluations["eval/success"]
        if not steps or steps[-1] != self.result.env_steps:
            raise ValueError(
                f"the last evaluation is not of the run's end, {self.result.env_steps} env steps"
            )
        if not all(value is None or 0 <= value <= 1 for value in success):
            raise ValueError("a success is not between 0 and 1")
        if self.num_evaluations is not None and self.num_evaluations < len(steps):
            raise ValueError(
                f"it has {len(steps)} evaluations, but num_evaluations is {self.num_evaluations}"
            )
        if self.settings_hash not in (hash_of(self.settings, None), hash_of(self.settings, self.result.task)):
            raise ValueError("settings_hash is not that of its settings")
        return self

    @property
    def identity(self) -> Identity:
        """By the settings that there still are. A run with what has gone stays what its file calls it."""
        try:
            settings = gone.dropped(self.settings, "")
        except ConfigError:
            settings = self.settings
        digest = None if self.settings_hash == hash_of(self.settings, None) else self.result.task
        return Identity(self.env, self.agent, self.seed, hash_of(settings, digest))

    def rows(self) -> list[Row]:
        """The rows of the metrics file, as far as they are kept, in order."""
        rows = [*_rows(self.training), *_rows(self.evaluations)]
        return sorted(rows, key=lambda row: int(row["env_steps"] or 0))


def _check_columns(group: str, columns: Columns, names: Sequence[str]) -> None:
    if missing := [name for name in names if name not in columns]:
        raise ValueError(f"{group} has no {missing[0]}")
    if len(set(map(len, columns.values()))) > 1:
        raise ValueError(f"the columns of {group} are not of one length")
    steps = [-1 if value is None else value for value in columns["env_steps"]]
    if min(steps, default=0) < 0 or any(late < early for early, late in pairwise(steps)):
        raise ValueError(f"env_steps of {group} do not grow")


def of_run(config: Config, result: Mapping[str, Any], rows: Sequence[Row]) -> Record:
    """The record of a finished run, smaller than `LARGEST_BYTES`.

    Args:
        result: the content of its `result.json`.
        rows: those of its metrics file.
    """
    evaluations = [row for row in rows if row.get("eval/return") is not None]
    tallies = [row for row in rows if row.get("train/episodes") is not None]
    settings, most = deciding_settings(config), _MOST_EVALUATIONS
    known = {
        **Identity.of(config)._asdict(),
        "settings": settings,
        "defaults": without(lasting_settings(resolved(config)), settings),
        "result": {**result, "task": result.get("task") or run_identity(config).digest},
        "num_evaluations": len(evaluations),
        "training": _columns(_tallies(tallies), _TRAINING),
        "metrics": late_means(rows),
    }
    while True:
        kept = _columns(_evaluations(evaluations, most), [*_CLOCKS, *_EVALUATION])
        record = Record.model_validate({**known, "evaluations": kept})
        if len(_text(record)) < LARGEST_BYTES or most <= 1:  # settings are long indeed
            return record
        most //= 2


def _thinned(rows: Sequence[Row], most: int) -> list[Row]:
    """At most so many, evenly, with the last one."""
    found = list(rows)
    while len(found) > most:
        found = found[::-2][::-1]
    return found


def _tallies(rows: Sequence[Row]) -> list[Row]:
    """The first row at or beyond each multiple of so many env steps, the least power of two that leaves few
    enough, and the last row.

    Epochs whose length is a multiple of that power, as POPGym's 65 536, end with the same rows as before
    (`scores.best_epoch`).
    """
    found, step = list(rows), 1
    while len(found) > _MOST_TALLIES:
        step *= 2
        firsts = {int(row["env_steps"] or 0) // step: row for row in reversed(rows)}
        found = [row for row in rows if row is rows[-1] or row is firsts[int(row["env_steps"] or 0) // step]]
    return found


def _evaluations(rows: Sequence[Row], most: int) -> list[Row]:
    kept, solved = _thinned(rows, most), first_solved(rows)
    return [row for row in rows if row is solved or any(row is other for other in kept)]


def _columns(rows: Sequence[Row], names: Sequence[str]) -> Columns:
    return {name: [row.get(name) for row in rows] for name in names}


def _rows(columns: Columns) -> list[Row]:
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _text(record: Record) -> str:
    """The file's content: a line a key, and a line a column."""
    content = record.model_dump(mode="json")
    lines = []
    for name, value in content.items():
        text = json.dumps(value)
        if name in ("evaluations", "training"):
            text = (
                "{" + ",".join(f'\n  "{key}": {json.dumps(column)}' for key, column in value.items()) + "\n }"
            )
        lines.append(f' "{name}": {text}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


class Outcome(NamedTuple):
    """One run of a comparison, as far as it is known."""

    config: Config
    state: str
    """`finished`, or another word."""
    rows: Sequence[Row]
    """Those of its metrics file, or of its record."""
    result: Mapping[str, Any] | None
    """The content of its `result.json`; None unless it has finished."""
    where: str
    """Its directory, or its record's file."""
    error: str
    """Why there is no result; empty if there is one."""
    num_evaluations: int | None = None
    """How many evaluations it had; None: as many as `rows` has."""
    metrics: Mapping[str, float] = {}
    """Means over the second half of the run, by name; empty where they are not known."""


def of_record(config: Config, record: Record, where: str) -> Outcome:
    """The run of a record."""
    rows, result = record.rows(), record.result.model_dump()
    return Outcome(config, "finished", rows, result, where, "", record.num_evaluations, record.metrics)


def of_finished(config: Config, result: Mapping[str, Any], rows: Sequence[Row], where: str) -> Outcome:
    """A finished run as its record has it, so that a table is the same from either.

    Raises:
        ConfigError: where `result`, the content of its `result.json`, makes no record, as one that was edited
            may.
    """
    try:
        return of_record(config, of_run(config, result, rows), where)
    except ValidationError as error:
        raise ConfigError(
            f"{where}: its result.json makes no record ({_why(error)}); remove that file, and the run's "
            "checkpoint writes it again"
        ) from None


class Records:
    """The records of a folder. None of its methods changes or removes a file that is there."""

    def __init__(self, folder: Path | None) -> None:
        """Read all `*.json` in the folder and below.

        Args:
            folder: need not be there; None for no records at all.

        Raises:
            ConfigError: where it is no folder.
        """
        self.problems: list[str] = []
        """A line for each file that is no record or cannot be counted, and why; one for each task and agent
        whose records have other settings."""
        self.unwritten = 0
        """Records that could not be written."""
        self._folder = folder
        self._found: dict[Identity, list[tuple[Path, Record]]] = {}
        """By file, in the order of their names."""
        self._newer = set[Path]()
        """Files with a key that this version does not know."""
        self._told = set[tuple[str, str]]()
        """Tasks and agents with a line of other settings."""
        if folder is None:
            return
        if folder.exists() and not folder.is_dir():
            raise wrong("--records", folder, "must be a folder")
        for file in sorted(folder.rglob("*.json")):
            if not file.is_dir():
                self._add(file)

    def _add(self, file: Path) -> None:
        try:
            record = Record.model_validate_json(file.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            if unknown := _unknown_key(error):
                self._newer.add(file)
                self.problems.append(
                    f"{file}: has {unknown}, which this version does not know, so the run is not counted; "
                    "a newer dtqn may count it"
                )
            else:
                self.problems.append(f"{file}: is no record of a run ({_why(error)}); it is left as it is")
            return
        self._found.setdefault(record.identity, []).append((file, record))

    def __len__(self) -> int:
        return len(self._found)

    def find(self, config: Config) -> Outcome | None:
        """The run with these settings on the task as it is now; None where there is no record of it."""
        identity = Identity.of(config)
        found = self._found.pop(identity, [])
        if not found:
            self._tell_of_others(config)
            return None
        digest, others = run_identity(config).digest, list[str]()
        for index, (file, record) in enumerate(found):
            if record.result.task != digest:
                why = _changed_task(record, digest)
            elif changed := _first(changed_settings(record.defaults, config)):  # no part of the hash
                why = f"defaults have changed since ({changed})"
            else:
                self._found[identity] = [found[index]]
                self.problems += [
                    f"{other}: is of the same run as {file}, which is taken"
                    for other, _ in found[index + 1 :]
                ]
                return of_record(config, record, str(file))
            others.append(f"{file}: {why}; the run is not counted")
        self.problems += others
        return None

    def _tell_of_others(self, config: Config) -> None:
        """Tell of a run with this task, agent and seed, where it is not counted for its settings, or for a
        task from outside, whose digest is part of the hash."""
        name = config.env, config.agent
        if name in self._told:
            return
        others = (found[0] for key, found in self._found.items() if key[:3] == (*name, config.seed))
        file, record = next(others, (None, None))
        if record is None:
            return
        if differences := _differences(record, config):
            why = f"is of {config.agent} on {config.env} with other settings ({differences})"
        else:
            why = _changed_task(record, run_identity(config).digest)
        self._told.add(name)
        self.problems.append(f"{file}: {why}, so the run is not counted")

    def check_writable(self) -> None:
        """Refuse a folder that cannot be written, before the trainings whose records it is to hold."""
        if self._folder is not None:
            make_writable("--records", self._folder)

    def keep(self, config: Config, result: Mapping[str, Any], rows: Sequence[Row]) -> str:
        """Leave a finished run's record in the folder, if there is one and it is not there yet.

        Returns:
            One line where that could not be done; empty if it has been.
        """
        if self._folder is None or Identity.of(config) in self._found:
            return ""
        try:
            record = of_run(config, result, rows)
        except ValidationError as error:
            return f"{RunDir.of_config(config).path.name}: its result.json makes no record ({_why(error)})"
        path = RunDir.of_config(config, self._folder).path
        file = path.with_name(f"{path.name}.json")
        if file in self._newer:
            return f"{file}: is of a newer version, and is left as it is"
        if file.exists():
            there = Records(file.parent).find(config)  # another comparison may have kept it meanwhile
            if there is None or there.where != str(file):
                return f"{file}: is no record of the run as it is now, and is left as it is; move it away"
            return ""
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, _text(record), durable=True)
        except OSError as error:
            self.unwritten += 1
            return f"{file}: cannot be written: {error.strerror}"
        self._found[record.identity] = [(file, record)]
        return ""


def _differences(record: Record, config: Config) -> str:
    """The first settings in which they differ: `learner.gamma is 0.9, here 0.99`; empty if in none."""
    here = deciding_settings(config)
    lines = []
    for name, field in fields_of().items():
        then, now = (setting_in(settings, name, field.default) for settings in (record.settings, here))
        if then != now:
            lines.append(f"{name} is {then}, here {now}")
    lines += [f"{name}, which is no setting here" for name in _unknown(record.settings)]
    return _first(lines)


def _unknown(settings: Mapping[str, Any], group: str = "") -> list[str]:
    """Names with dots of settings that this version does not have."""
    names = []
    for key, value in settings.items():
        if (name := group + key) in fields_of():
            continue
        within = isinstance(value, Mapping) and not group
        names += _unknown(value, f"{name}.") if within else [name]
    return names


def _changed_task(record: Record, digest: str) -> str:
    return f"the task {record.env} has changed since (digest {record.result.task}, now {digest})"


def _first(lines: Sequence[str]) -> str:
    """The first few of them."""
    more = [f"and {len(lines) - 3} more"] if len(lines) > 3 else []
    return ", ".join([*lines[:3], *more])


def _unknown_key(error: Exception) -> str:
    """What a file holds that no record of this version has; empty where it has another fault."""
    found = error.errors(include_url=False) if isinstance(error, ValidationError) else []
    if not found or any(one["type"] != "extra_forbidden" for one in found):
        return ""
    return ".".join(map(str, found[0]["loc"]))


def _why(error: Exception) -> str:
    """The fault of a file, in a few words."""
    if not isinstance(error, ValidationError):
        return one_line(error, 80)
    first = error.errors(include_url=False)[0]
    name = ".".join(map(str, first["loc"]))
    return f"{name}: {first['msg']}" if name else one_line(first["msg"], 80)
