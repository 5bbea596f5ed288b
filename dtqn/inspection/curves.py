"""The curves of the page as numbers: which there are, and the points of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dtqn.acting.statistics import NORMAL_QUANTILE
from dtqn.experiments.compare import curve
from dtqn.experiments.intervals import LEAST_RUNS
from dtqn.inspection.sources import Run, Sources
from dtqn.settings.presets import RANDOM
from dtqn.training.metrics import Row
from dtqn.training.setup import task_spec
from dtqn.training.staleness import SEQUENCES

FEWEST_SEQUENCES = 64
"""Sequences of a point of a curve of staleness."""
_POOLED = f"a point joins neighbouring rows of metrics until they have {FEWEST_SEQUENCES} sequences"
_STEPS = ("environment steps", "env_steps", 1.0)


class Line(NamedTuple):
    label: str
    group: int
    """Lines of one group have one colour and are hidden together."""
    x: list[float]
    y: list[float]
    low: list[float] | None = None
    """The band's lower edge; None for a line alone, as is the next one."""
    high: list[float] | None = None
    is_thin: bool = False
    is_dashed: bool = False


class Chart(NamedTuple):
    task: str
    title: str
    note: str
    """The meaning of lines and bands."""
    y: str
    """The name of the axis and its unit."""
    lines: list[Line]
    is_share: bool = False
    level: tuple[str, float] | None = None
    """A horizontal line: what it is, and where."""


class _Kind(NamedTuple):
    """A metric, or two of one unit, of every run."""

    title: str
    note: str
    y: str
    keys: tuple[str, ...]
    """The first is drawn in full, the second dashed."""
    is_share: bool = False
    value: Callable[[float], float] = float
    is_of_few_sequences: bool = False
    """A row measures some of a few drawn sequences, and neighbouring rows are put together."""


_OF_RUNS = (
    _Kind("Loss", "the learner's, the mean of updates between two rows", "loss", ("learner/loss",)),
    _Kind(
        "Value estimates",
        "evaluations: largest Q-value of the first decision (full), discounted return (dashed)",
        "discounted return",
        ("eval/value_estimate", "eval/discounted_return"),
    ),
    _Kind(
        "Stale actions",
        f"learned steps at which the stored memory gives another greedy action than the exact one; {_POOLED}",
        "share of steps",
        ("replay/stale_action_share",),
        is_share=True,
        is_of_few_sequences=True,
    ),
    _Kind(
        "Delta Q of stored memory",
        f"change of Q-values by staleness: at the first learned step (full), at the last (dashed); {_POOLED}",
        "delta Q",
        ("replay/delta_q_first", "replay/delta_q_last"),
        is_of_few_sequences=True,
    ),
    _Kind(
        "Environment steps a second",
        "evaluations in the same process included",
        "steps a second",
        ("speed/env_steps_per_second",),
    ),
    _Kind(
        "Updates a second",
        "acting and evaluations included",
        "updates a second",
        ("speed/learner_steps_per_second",),
    ),
    _Kind("Time", "by the clock, from the start", "minutes", ("seconds",), value=lambda x: x / 60),
)


def charts(sources: Sources) -> list[Chart]:
    """Those of each task: the evaluations with intervals, then what the rows of metrics tell."""
    found = []
    for env in dict.fromkeys(run.config.env for run in sources.runs):
        runs = [run for run in sources.runs if run.config.env == env]
        groups = _groups(runs)
        if all(task_spec(run.config).has_success for run in runs):
            found.append(_evaluations(env, runs, groups, "success", sources))
        found.append(_evaluations(env, runs, groups, "return", sources))
        charts_of_rows = (_of_rows(env, kind, runs, groups) for kind in _OF_RUNS)
        found += [chart for chart in charts_of_rows if chart.lines]
    return found


def _groups(runs: Sequence[Run]) -> dict[str, int]:
    """The colour of each: an agent's runs have one where there are several agents, else each its own."""
    agents = list(dict.fromkeys(run.config.agent for run in runs))
    if len(agents) > 1:
        return {run.label: agents.index(run.config.agent) for run in runs}
    return {run.label: number for number, run in enumerate(runs)}


def points(rows: Sequence[Row], key: str) -> tuple[list[float], list[float]]:
    """Environment steps and values of the rows that have `key`."""
    pairs = [(row["env_steps"], value) for row in rows if (value := row.get(key)) is not None]
    return [float(steps or 0) for steps, _ in pairs], [float(value) for _, value in pairs]


def pooled(rows: Sequence[Row], key: str) -> tuple[list[float], list[float]]:
    """Points of a measure of staleness: means over neighbouring rows, by the sequences of each.

    A row draws `SEQUENCES` sequences, and those that begin in the middle of their episode, the share
    `replay/delta_q_share` of them, are measured; fewer, where replay has dropped the starts of episodes,
    which a row does not tell. Rows are put together until they have `FEWEST_SEQUENCES`; what is left at the
    end joins the last point.
    """
    groups: list[list[tuple[float, float, float]]] = [[]]
    for row in rows:
        value, share = row.get(key), row.get("replay/delta_q_share")
        if value is None or not share:
            continue
        if sum(count for *_, count in groups[-1]) >= FEWEST_SEQUENCES:
            groups.append([])
        groups[-1].append((float(row["env_steps"] or 0), float(value), SEQUENCES * share))
    if len(groups) > 1 and sum(count for *_, count in groups[-1]) < FEWEST_SEQUENCES:
        last = groups.pop()
        groups[-1] += last
    parts = [np.array(group) for group in groups if group]
    x, y = ([float(np.average(part[:, of], weights=part[:, 2])) for part in parts] for of in (0, 1))
    return x, y


def _evaluations(
    env: str, runs: Sequence[Run], groups: Mapping[str, int], name: str, sources: Sources
) -> Chart:
    title = "Success in evaluation" if name == "success" else "Return in evaluation"
    unit = "success rate" if name == "success" else "episode return"
    level = _random(env, name, sources)
    if len(runs) == 1:
        return Chart(env, title, "band: 95 % interval of the evaluation's episodes", unit,
                     _of_one(runs[0], name), name == "success", level)  # fmt: skip
    lines = [_line(run, groups, f"eval/{name}", is_thin=True) for run in runs]
    notes = set()
    agents = list(dict.fromkeys(run.config.agent for run in runs))
    for agent in agents:
        done = [run.outcome for run in runs if run.config.agent == agent and run.outcome.state == "finished"]
        if len(done) < 2:
            continue
        of_all = curve(agent, done, f"eval/{name}", _STEPS)
        label = f"{agent}, {len(done)} runs"
        group = agents.index(agent) if len(agents) > 1 else len(runs)
        low, high = (None if edge is None else list(edge) for edge in (of_all.low, of_all.high))
        lines.append(Line(label, group, list(of_all.x), list(of_all.y), low, high))
        notes.add(
            "interquartile mean and 95 % bootstrap interval of runs"
            if len(done) >= LEAST_RUNS
            else "mean, minimum and maximum of runs"
        )
    text = "thin: each run" + "".join(f"; thick and band: {note}" for note in sorted(notes))
    return Chart(env, title, text, unit, lines, name == "success", level)


def _random(env: str, name: str, sources: Sources) -> tuple[str, float] | None:
    """The result of uniformly random actions, by the table."""
    lines = [line for line in sources.table.lines if (line.env, line.agent) == (env, RANDOM)]
    value = None if not lines else lines[0].success if name == "success" else lines[0].episode_return
    return None if value is None else ("random actions", value)


def _of_one(run: Run, name: str) -> list[Line]:
    """A run's evaluations with the interval of their episodes, and its training."""
    rows = run.outcome.rows
    x, y = points(rows, f"eval/{name}")
    low: list[float] | None
    high: list[float] | None
    if name == "success":
        low, high = points(rows, "eval/success_low")[1], points(rows, "eval/success_high")[1]
    else:
        errors = points(rows, "eval/return_error")[1]
        low = [value - NORMAL_QUANTILE * error for value, error in zip(y, errors, strict=False)]
        high = [value + NORMAL_QUANTILE * error for value, error in zip(y, errors, strict=False)]
    if not len(low) == len(high) == len(x):
        low = high = None
    lines = [Line(f"evaluation, {run.config.evaluation.policy}", 0, x, y, low, high)]
    x, y = points(rows, f"train/{name}")
    return [*lines, Line("training, exploring", 1, x, y, is_thin=True)] if x else lines


def _line(
    run: Run,
    groups: Mapping[str, int],
    key: str,
    value: Callable[[float], float] = float,
    read: Callable[[Sequence[Row], str], tuple[list[float], list[float]]] = points,
    is_thin: bool = False,
    is_dashed: bool = False,
) -> Line:
    x, y = read(run.outcome.rows, key)
    label = run.label + (f", {key.rpartition('_')[2]}" if is_dashed else "")
    return Line(label, groups[run.label], x, [value(one) for one in y], is_thin=is_thin, is_dashed=is_dashed)


def _of_rows(env: str, kind: _Kind, runs: Sequence[Run], groups: Mapping[str, int]) -> Chart:
    read = pooled if kind.is_of_few_sequences else points
    lines = [
        _line(run, groups, key, kind.value, read, is_thin=len(runs) > 1, is_dashed=key != kind.keys[0])
        for run in runs
        for key in kind.keys
    ]
    return Chart(env, kind.title, kind.note, kind.y, [line for line in lines if line.x], kind.is_share)
