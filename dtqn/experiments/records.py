"""Records: what is left of a finished run when its directory has gone, in one line of JSON.

A record is found by what a comparison finds a run by: task, agent, seed and settings. It holds the settings,
the rows of all evaluations, the tally of training episodes, means of the other metrics, what the run took and
what it ran on, but no weights. A file of records (`dtqn.settings.record_files`) grows over many machines:
`Records` reads its lines and adds to them, and `put_in_order` sorts them, as after a merge.
"""

from __future__ import annotations

import contextlib
import functools
import json
import operator
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    model_validator,
)

from dtqn.experiments.scores import LAST, SUCCESS, first_solved, shows
from dtqn.files import append_line, locked, write_whole
from dtqn.settings import record_files
from dtqn.settings.config import Config, ConfigError, leaves, wrong
from dtqn.settings.faults import first_fault
from dtqn.settings.layers import nested, of_today
from dtqn.text import one_line
from dtqn.training.directory import (
    HOW_IT_RUNS,
    apart,
    changed_settings,
    config_hash,
    deciding_settings,
    defaults,
    file_errors,
    hash_of,
    lasting_settings,
    resolved,
    run_identity,
)
from dtqn.training.metrics import Row, is_evaluation, is_full_evaluation, late_means, wrong_value

LARGEST_BYTES = 20_000
_CLOCKS = ("env_steps", "learner_steps", "seconds")
_EVALUATION = ("eval/success", "eval/return", "eval/length", "eval/episodes", "eval/stage")
_ADDED = ("eval/return_error",)
"""Keys of evaluations that early records lack."""
_TALLY = ("train/episodes", "train/total_return", "train/total_success")
_TRAINING = ("env_steps", *_TALLY)
_MOST_TALLIES, _MOST_EVALUATIONS = 256, 100
"""Rows of each kind in a record at most: by their steps and number alone, so that runs alike are thinned
alike."""

Columns = dict[str, list[float | int | None]]
"""Rows of metrics, a list a key."""


def identity(config: Config) -> dict[str, Any]:
    """By dotted name the settings, but env, agent and seed, by which a run is told from another.

    They are those that decide its result and differ from today's defaults.
    """
    return _decisive(apart(lasting_settings(resolved(config))))


def _decisive(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by dotted name, those that decide a run's result, but for its name."""
    others = HOW_IT_RUNS | {"env", "agent", "seed"}
    return {name: value for name, value in settings.items() if name not in others}


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be printable")
    return text


_Text = Annotated[str, AfterValidator(_printable)]
"""Text that tables show."""


class Result(BaseModel):
    """Steps, time, machine and program of a finished run, as `result.json` has them."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    task: _Text
    """The digest of the run's task."""
    env_steps: PositiveInt
    learner_steps: NonNegativeInt
    seconds: NonNegativeFloat
    parameters: int
    gamma: float | None = None
    reward_scale: float | None = None
    """As they were settled; early records lack them."""
    threads: int
    device: _Text
    program: dict[_Text, _Text]
    """Versions, by name."""
    code: list[_Text] = []
    """Digests of the sources that it has run."""
    machine: _Text | None = None
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
    """Of a long run the first row at or beyond each multiple of a power of two in env steps, the last ones,
    and those that show when it was solved."""
    training: Columns
    """The tally of training episodes, of a long run thinned alike."""
    metrics: dict[str, float] = {}
    """Means over the second half of the run, by name (`late_means`); empty in early records."""

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Record:
        """A file that was cut or edited would count with wrong figures and never be made anew."""
        _check_columns("evaluations", self.evaluations, [*_CLOCKS, *_EVALUATION])
        _check_columns("training", self.training, _TRAINING)
        steps = self.evaluations["env_steps"]
        if not steps or steps[-1] != self.result.env_steps:
            raise ValueError("the last evaluation is not of the run's end")
        if self.settings_hash not in (hash_of(self.settings, None), hash_of(self.settings, self.result.task)):
            raise ValueError("settings_hash does not match its settings")
        return self

    @property
    def told(self) -> dict[str, Any]:
        """All that it tells of its settings, by dotted name."""
        return dict(leaves(self.defaults)) | dict(leaves(self.settings))

    @functools.cached_property
    def identity(self) -> dict[str, Any]:
        """`identity` by what its settings mean today, whatever the defaults were, and without what has gone.

        A run with what has gone keeps that, so it is none of today. Of an early record, which does not tell
        the defaults, all that differed from these.
        """
        settings = self.told
        with contextlib.suppress(ConfigError):
            settings = of_today(settings, "")
        decisive = _decisive(settings)
        return apart(decisive) if self.defaults else decisive

    @functools.cached_property
    def rows(self) -> list[Row]:
        """The rows of the metrics file, as far as they are kept, in order."""
        rows = [*_rows(self.training), *_rows(self.evaluations)]
        return sorted(rows, key=lambda row: int(row["env_steps"] or 0))


def _check_columns(group: str, columns: Columns, names: Sequence[str]) -> None:
    if missing := [name for name in names if name not in columns]:
        raise ValueError(f"{group} has no {missing[0]}")
    if len(set(map(len, columns.values()))) > 1:
        raise ValueError(f"the columns of {group} are not of one length")
    if why := next(filter(None, (wrong_value(name, *column) for name, column in columns.items())), ""):
        raise ValueError(f"{group}.{why}")


def of_run(config: Config, result: Mapping[str, Any], rows: Sequence[Row]) -> Record:
    """The record of a finished run, smaller than `LARGEST_BYTES`.

    Args:
        result: the content of its `result.json`.
        rows: the rows of its metrics file.
    """
    evaluations = [row for row in rows if is_evaluation(row)]
    tallies = [row for row in rows if row.get("train/episodes") is not None]
    lasting, most = lasting_settings(resolved(config)), _MOST_EVALUATIONS
    usual = {name: value for name, value in lasting.items() if name not in apart(lasting)}
    known = {
        **{name: getattr(config, name) for name in ("env", "agent", "seed")},
        "settings_hash": config_hash(config),
        "settings": deciding_settings(config),
        "defaults": nested(usual),
        "result": {**result, "task": result.get("task") or run_identity(config).digest},
        "num_evaluations": len(evaluations),
        "training": _columns(_thinned(tallies, _MOST_TALLIES), _TRAINING),
        "metrics": late_means(rows),
    }
    while True:
        kept_rows = _evaluations(evaluations, most, config.total_env_steps)
        kept = _columns(kept_rows, [*_CLOCKS, *_EVALUATION, *_ADDED])
        record = Record.model_validate({**known, "evaluations": kept})
        # The first row of a power of two and the last one always stay, however long the settings are.
        if len(_text(record)) < LARGEST_BYTES or most < 4:
            return record
        most //= 2


def _thinned(rows: Sequence[Row], most: int) -> list[Row]:
    """The first row at or beyond each multiple of so many env steps, and the last row.

    It is the least power of two that leaves at most so many. Epochs whose length is a multiple of that power,
    as POPGym's 65 536, end with the same rows as before (`scores.best_epoch`).
    """
    found, step = list(rows), 1
    while len(found) > most:
        step *= 2
        firsts = {int(row["env_steps"] or 0) // step: row for row in reversed(rows)}
        found = [row for row in rows if row is rows[-1] or row is firsts[int(row["env_steps"] or 0) // step]]
    return found


def _evaluations(rows: Sequence[Row], most: int, total_env_steps: int) -> list[Row]:
    """About so many, the last ones among them; they show the moment of 90 % success that all show."""
    solved, full = first_solved(rows, SUCCESS, total_env_steps), list(filter(is_full_evaluation, rows))
    kept = {id(row) for row in (*_thinned(rows, most), *rows[-LAST:], solved)}
    # Without the one after it, one that shows 90 % could seem to be followed by another that does.
    kept |= {id(after) for row, after in pairwise(full) if id(row) in kept and shows(row, SUCCESS)}
    return [row for row in rows if id(row) in kept]


def _columns(rows: Sequence[Row], names: Sequence[str]) -> Columns:
    return {name: [row.get(name) for row in rows] for name in names}


def _rows(columns: Columns) -> list[Row]:
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _text(record: Record) -> str:
    return json.dumps(record.model_dump(mode="json"))


class Outcome(NamedTuple):
    """One run of a comparison, as far as it is known."""

    config: Config
    state: str
    """`finished`, or another word."""
    where: str
    """Its directory, or the name of its record."""
    error: str = ""
    """Why there is no result; empty if there is one."""
    record: Record | None = None
    """None unless it has finished."""


def of_finished(config: Config, result: Mapping[str, Any], rows: Sequence[Row], where: str) -> Outcome:
    """A finished run as its record has it, so that a table is the same from either.

    Raises:
        ConfigError: where `result`, the content of its `result.json`, makes no record, as one that was edited
            may.
    """
    try:
        return Outcome(config, "finished", where, record=of_run(config, result, rows))
    except ValidationError as error:
        raise ConfigError(
            f"{where}: its result.json makes no record ({_why(error)}); remove that file, and the run's "
            "checkpoint writes it again"
        ) from None


class Records:
    """The records of a file. None of its methods changes or removes a line that is there."""

    def __init__(self, file: Path | None) -> None:
        """Read all lines of the file.

        Args:
            file: need not be there; None for no records at all.

        Raises:
            ConfigError: where it is no file of records.
        """
        self.problems: list[str] = []
        """A line for each one that is no record, and one for each task and agent with records that cannot be
        counted, and why."""
        self.unwritten = 0
        """Records that could not be written."""
        self._file = file
        self._found: dict[tuple[str, str, int], list[Record]] = {}
        """By task, agent and seed in the order of the file."""
        self._told = set[tuple[str, str]]()
        """Tasks and agents with a line of records that cannot be counted."""
        if file is not None and file.suffix != record_files.SUFFIX:
            raise wrong("--records", file, f"must be a file with the ending {record_files.SUFFIX}")
        lines = record_files.lines(file) if file is not None and file.exists() else []
        for number, line in enumerate(lines, start=1):
            if line.strip():
                self._add(f"{file}, line {number}", line)

    def _add(self, place: str, line: bytes) -> None:
        try:
            record = Record.model_validate_json(line)
        except (ValueError, RecursionError) as error:
            self.problems.append(f"{place}: is no record of a run ({_why(error)}); it is left as it is")
            return
        self._found.setdefault((record.env, record.agent, record.seed), []).append(record)

    def find(self, config: Config) -> Outcome | None:
        """The first run with these settings on the task as it is now; None where there is no record of it."""
        wanted, problem = identity(config), ""
        for record in self._found.get((config.env, config.agent, config.seed), []):
            name = f"{self._file}#{record_files.key_of(dict(record))}"
            if record.identity != wanted:
                problem = problem or f"{name}: {_differences(record, config)}"
                continue
            digest = run_identity(config).digest
            if (task := record.result.task) == digest:
                return Outcome(config, "finished", name, record=record)
            problem = f"{name}: the task {config.env} has changed since (digest {task}, now {digest})"
        if problem and (config.env, config.agent) not in self._told:
            self._told.add((config.env, config.agent))
            self.problems.append(f"{problem}, so the run is not counted")
        return None

    def keep(self, config: Config, record: Record) -> str:
        """Add a finished run's record to the file, if there is a file and the record is not in it.

        Returns:
            One line where that could not be done; empty if it has been.
        """
        if self._file is None:
            return ""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with locked(self._file) as stream:
                if Records(self._file).find(config) is None:  # another comparison may have kept it meanwhile
                    append_line(stream, _text(record))
        except OSError as error:
            self.unwritten += 1
            return f"{self._file}: cannot be written: {error.strerror}"
        return ""


_order = operator.itemgetter("env", "agent", "seed", "settings_hash")


def put_in_order(file: Path) -> int:
    """Sort a file of records, each of them once.

    Returns:
        How many records it has.

    Raises:
        ConfigError: naming a line that is no record.
    """
    if not file.exists():
        raise ConfigError(f"{file}: there is no such file")
    with file_errors(file, "cannot be written"), locked(file) as stream:
        stream.seek(0)
        lines = enumerate(stream.read().splitlines(), start=1)
        found = [_content(f"{file}, line {number}", line) for number, line in lines if line.strip()]
        texts = sorted({(*_order(content), json.dumps(content)) for content in found})
        write_whole(file, "".join(f"{text[-1]}\n" for text in texts), durable=True)
    return len(texts)


def _content(place: str, line: bytes) -> dict[str, Any]:
    if content := record_files.parsed(line):
        return content
    raise ConfigError(f"{place}: is no record of a run; mend or remove it")


def _differences(record: Record, config: Config) -> str:
    """The settings in which they differ: `learner.gamma is 0.9, now 0.99`."""
    told = changed_settings(record.told, config)
    told += [f"{name}, which is not a setting here" for name in record.identity if name not in defaults()]
    more = [f"and {len(told) - 3} more"] if len(told) > 3 else []
    apart = one_line(", ".join([*told[:3], *more]), 500)
    return f"is of {record.agent} on {record.env} with other settings ({apart})"


def _why(error: Exception) -> str:
    """The fault of a file, in a few words."""
    return one_line(first_fault(error, what="a record") if isinstance(error, ValidationError) else error, 80)
