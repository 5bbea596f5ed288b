"""The tables of the page: results, time, settings, and what the runs were made with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dtqn.experiments.comparison_forms import Table
from dtqn.experiments.scores import first_solved
from dtqn.inspection.sources import Run
from dtqn.settings.config import Config, fields_of, value_of
from dtqn.text import clock, number
from dtqn.training.metrics import Row

_NAMES = ("env", "agent", "seed")
"""Settings that a run's name tells."""


class Grid(NamedTuple):
    """A table of texts."""

    title: str
    header: list[str]
    rows: list[list[str]]
    notes: Sequence[str] = ()


def comparison(table: Table, notes: Sequence[str]) -> list[Grid]:
    """The table of a comparison, as `compare` prints it: one a task, the notes below the last."""
    grids = [Grid(name, rows[0], rows[1:], under) for name, rows, under in table.parts]
    *others, last = grids
    return [*others, last._replace(notes=[*last.notes, *table.notes, *notes])]


def results(runs: Sequence[Run]) -> Grid:
    """A run a row: its last evaluation, and when it was good."""
    policies = " or ".join(dict.fromkeys(run.config.evaluation.policy for run in runs))
    return Grid(
        "Each run",
        ["run", "success [95 %]", "return", "episodes", "env steps", "updates", "time", "env steps to 90 %"],
        [_result(run) for run in runs],
        [f"The last evaluation, {policies}; the interval is of its episodes (Wilson)."],
    )


def _result(run: Run) -> list[str]:
    rows = run.outcome.rows
    evaluations = [row for row in rows if row.get("eval/return") is not None]
    last = evaluations[-1]
    success = "-"
    if last.get("eval/success") is not None:
        success = f"{last['eval/success']:.1%}"
        if last.get("eval/success_low") is not None:
            success += f" [{last['eval/success_low']:.1%}, {last['eval/success_high']:.1%}]"
    solved = first_solved(evaluations)
    unfinished = "" if run.outcome.state == "finished" else f" of {number(run.config.total_env_steps)}"
    return [
        run.label,
        success,
        f"{last['eval/return']:.4g}",
        number(last.get("eval/episodes") or 0),
        number(last["env_steps"] or 0) + unfinished,
        number(last.get("learner_steps") or 0),
        clock(float(last.get("seconds") or 0)),
        "-" if solved is None else number(solved["env_steps"] or 0),
    ]


def times(runs: Sequence[Run]) -> Grid:
    """Where the time of each run went, as far as its rows tell."""
    return Grid(
        "Where the time went",
        ["run", "in all", "before the first update", "rows with an evaluation", "other rows",
         "env steps/s", "updates/s"],
        [_time(run) for run in runs],
        ["Seconds between two rows of metrics.jsonl count for the later one. An evaluation in a process of "
         "its own runs beside the learner, and its row is no slower for it. Speeds: the median of rows "
         "without an evaluation, once the run learns."],
    )  # fmt: skip


def _time(run: Run) -> list[str]:
    rows = [row for row in run.outcome.rows if row.get("seconds") is not None]
    ends = np.array([_value(row, "seconds") for row in rows])
    took = np.diff(ends, prepend=0.0)
    learns = np.array([_value(row, "learner_steps") > 0 for row in rows])
    evaluates = np.array([row.get("eval/return") is not None for row in rows])
    plain = [row for row, is_plain in zip(rows, learns & ~evaluates, strict=True) if is_plain]
    shares = [took[~learns], took[learns & evaluates], took[learns & ~evaluates]]
    whole = float(ends[-1])
    return [
        run.label,
        clock(whole),
        *(f"{clock(float(x.sum()))} ({x.sum() / max(whole, 1e-9):.0%})" for x in shares),
        *(_median(plain, f"speed/{name}_per_second") for name in ("env_steps", "learner_steps")),
    ]


def _value(row: Row, key: str) -> float:
    return float(row.get(key) or 0)


def _median(rows: Sequence[Row], key: str) -> str:
    known = [float(value) for row in rows if (value := row.get(key)) is not None]
    return f"{np.median(known):.3g}" if known else "-"


def settings(runs: Sequence[Run]) -> Grid:
    """The settings that are not the defaults; runs that differ in their seed alone share a column."""
    default = Config()
    names = [name for name in fields_of() if name not in _NAMES]
    columns: dict[tuple[str, ...], list[str]] = {}
    for run in runs:
        values = tuple(_told(value_of(run.config, name)) for name in names)
        columns.setdefault((run.config.env, run.config.agent, *values), []).append(run.label)
    told = [_told(value_of(default, name)) for name in names]
    rows = []
    for place, name in enumerate(names):
        here = [column[2 + place] for column in columns]
        if any(value != told[place] for value in here):
            rows.append([name, told[place], *here])
    heads = ["all runs"] if len(columns) == 1 else [_together(labels) for labels in columns.values()]
    return Grid(
        "Settings that are not the defaults",
        ["setting", "default", *heads],
        rows,
        ["`auto` is settled when a run starts. All other settings are the defaults of this version."],
    )


def _together(labels: Sequence[str]) -> str:
    """`gtrxl seeds 1, 2, 3` of labels that differ in their last word alone."""
    parts = [label.rpartition("seed ") for label in labels]
    if len(labels) > 1 and len({head for head, _, _ in parts}) == 1 and all(seed for _, seed, _ in parts):
        return f"{parts[0][0]}seeds {', '.join(number for _, _, number in parts)}"
    return ", ".join(labels)


def _told(value: Any) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def made_with(runs: Sequence[Run], page: dict[str, str]) -> Grid:
    """Machine, versions and code of each run, and of the page itself.

    Args:
        page: the same of the page, by the names of the columns.
    """

    def of(run: Run, name: str, tell: Callable[[Any], str] = str) -> str:
        value = None if run.outcome.result is None else run.outcome.result.get(name)
        return "-" if value is None or value == [] else tell(value)

    def versions(of_program: dict[str, str]) -> str:
        return ", ".join(f"{name} {version}" for name, version in of_program.items())

    columns = ["machine", "device", "threads", "versions", "code", "task", "parameters"]
    made = [
        [
            run.label,
            of(run, "machine"),
            of(run, "device"),
            of(run, "threads"),
            of(run, "program", versions),
            of(run, "code", ", ".join),
            of(run, "task"),
            of(run, "parameters", number),
        ]
        for run in runs
    ]
    alike: dict[tuple[str, ...], list[str]] = {}
    for label, *values in made:
        alike.setdefault(tuple(values), []).append(label)
    rows = [[_together(labels), *values] for values, labels in alike.items()]
    rows.append(["this page", *(page.get(name, "-") for name in columns)])
    return Grid(
        "Machine, versions, code",
        ["run", *columns],
        rows,
        ["code: digest of the sources that a training runs; several where they changed between two "
         "stretches. task: digest of the task. Nothing of this is told of an unfinished run."],
    )  # fmt: skip
