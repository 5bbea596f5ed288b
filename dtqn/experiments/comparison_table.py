"""The figures of a comparison, of each run and of each agent, and their table as text, Markdown and JSON."""

from __future__ import annotations

import json
import statistics
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dtqn.acting.evaluation import EvaluationResult
from dtqn.experiments.intervals import Estimate, binomial_interval, improved, iqm
from dtqn.experiments.records import Outcome
from dtqn.experiments.scores import NORMALISED, SUCCESS, Score, first_solved, judged_by, last_evaluations
from dtqn.experiments.suites import Published
from dtqn.settings.presets import RANDOM
from dtqn.text import HARD_SPACE, columns, number, shortened
from dtqn.training.metrics import Row, frame, is_evaluation

ALL_TASKS = "all tasks"
_NEVER = float("inf")


Figures = dict[str, Any]
"""The figures of a run, or of an agent in one task or several, by the keys of `table.json`."""
_OF_RUN = (
    *("env", "agent", "seed", "run_dir", "error", "score_name", "score", "normalised", "beside", "success"),
    *("return", "length", "episodes", "evaluations", "env_steps", "learner_steps", "minutes"),
    *("success_of_last", "return_of_last", "failed", "ended_early", "solved", "stayed_solved"),
    *("env_steps_to_solved", "minutes_to_solved", "updates_per_second", "parameters", "threads", "device"),
    *("program", "code", "machine", "changed_at"),
)
"""The figures of a run, in the order of `table.json`."""


def run_figures(run: Outcome, scores: Sequence[Score], metrics: Sequence[str] = ()) -> Figures:
    """A run's figures by its record; None, and its error, where it has not finished.

    Args:
        scores: of the run's task, that which runs are compared by first.
        metrics: names of those that get a column.
    """
    config, record, total = run.config, run.record, run.config.total_env_steps
    others = [each for each in scores if each.name not in ("success", "return")]
    known: Figures = {"env": config.env, "agent": config.agent, "seed": config.seed, "run_dir": run.where}
    known["beside"] = dict.fromkeys([*(each.name for each in others), *metrics])
    known |= {"score_name": scores[0].name, "changed_at": ()}
    figures = dict.fromkeys(_OF_RUN) | known
    if record is None:
        return figures | {"error": run.error or "no result"}
    rows, result = record.rows, record.result
    score = scores[0].value(rows, total)
    if score is None:
        return figures | {"error": f"it has no {scores[0].explained}"}
    evaluations = [row for row in rows if is_evaluation(row)]
    last, bar = evaluations[-1], scores[0].bar
    beside = {each.name: each.value(rows, total) for each in others}
    return figures | {
        "score": score,
        "normalised": scores[0].normalised(score),
        "beside": beside | {name: record.metrics.get(name) for name in metrics},
        **{name: last.get(f"eval/{name}") for name in ("success", "return", "length")},
        "episodes": int(_value(last, "eval/episodes")),
        "evaluations": record.num_evaluations or len(evaluations),
        **{name: int(_value(last, name)) for name in ("env_steps", "learner_steps")},
        "minutes": result.seconds / 60,
        **{f"{name}_of_last": last_evaluations(evaluations, name) for name in ("success", "return")},
        "failed": None if bar is None else score < bar,
        **_solved(evaluations, judged_by(scores), total),
        "updates_per_second": _value(last, "learner_steps") / max(result.seconds, 1e-9),
        **{name: getattr(result, name) for name in ("parameters", "threads", "device", "machine")},
        "program": ", ".join(f"{name} {version}" for name, version in result.program.items()),
        "code": ", ".join(result.code) or None,
        "changed_at": result.changed_at,
    }


def _solved(evaluations: Sequence[Row], score: Score | None, total: int) -> Figures:
    """When a run solved its task, and whether it stayed so; None where that is not known."""
    ended_early = int(_value(evaluations[-1], "env_steps")) < total
    known = None if score is None else evaluations[-1].get(f"eval/{score.of}")
    if score is None or score.bar is None or known is None:
        return {"ended_early": ended_early}
    found, late = first_solved(evaluations, score, total), last_evaluations(evaluations, score.of)
    stayed = found is not None and late is not None and min(known, late) >= score.bar
    return {
        "ended_early": ended_early,
        "solved": found is not None,
        "stayed_solved": None if ended_early and found is not None else stayed,
        "env_steps_to_solved": None if found is None else int(_value(found, "env_steps")),
        "minutes_to_solved": None if found is None else _value(found, "seconds") / 60,
    }


def _value(row: Row, key: str) -> float:
    return float(row[key] or 0)


class Group:
    """The runs of one agent in a task, or in several.

    Attributes:
        runs: all of them; `done`, those that have a score.
        has_success: all finished runs on these tasks have one, whosever they are.
        scale: the name of what `samples` are; None where several tasks have no scale in common.
        samples: the scores of the finished runs, an array [runs] a task; `theirs`, the baseline's.
        bounds: the least and the greatest score that there can be.
        is_full: there are as many finished runs on every task, so that each has the same weight.
        pooled: the scores of all tasks, where they can be pooled.
    """

    def __init__(
        self,
        env: str,
        envs: Sequence[str],
        agent: str,
        runs: Sequence[Figures],
        baseline: str | None,
        scores: Mapping[str, Sequence[Score]],
    ) -> None:
        self.env, self.agent, self.envs, self.baseline = env, agent, envs, baseline
        self.main = [scores[each][0] for each in envs]
        here = [run for run in runs if run["env"] in envs]
        self.runs = [run for run in here if run["agent"] == agent]
        self.done = [run for run in self.runs if run["score"] is not None]
        successes = [run["success"] for run in here if run["score"] is not None]
        self.has_success = bool(successes) and None not in successes
        self.scale = _scale(self.main)
        self.samples = [_scores(self.done, each, self.scale) for each in envs]
        self.bounds = (0.0, 1.0) if self.scale == SUCCESS.name else (-np.inf, np.inf)
        others = [run for run in here if run["agent"] == baseline]
        self.theirs = [_scores(others, each, self.scale) for each in envs]
        counts = set(map(len, self.samples))
        self.is_full = counts != {0} and len(counts) == 1
        can_be_pooled = self.is_full and (len(envs) == 1 or self.scale is not None)
        self.pooled = list(map(float, np.concatenate(self.samples))) if can_be_pooled else []

    def mean(self, name: str) -> float | None:
        return _mean(run[name] for run in self.done)

    def median(self, name: str) -> float | None:
        """The median over runs; a time that never came is later than all, None if the median is such."""
        times = [run[name] for run in self.done]
        median = statistics.median([_NEVER if time is None else time for time in times] or [_NEVER])
        return median if median < _NEVER else None

    def beside(self) -> dict[str, float | None]:
        """Scores but success and return, and metrics, by name; of several tasks the normalised score."""
        if len(self.envs) > 1:
            return {NORMALISED: _mean(self.pooled)} if self.scale == NORMALISED else {}
        columns = {name: [run["beside"][name] for run in self.done] for name in self.runs[0]["beside"]}
        return {name: None if None in values else _mean(values) for name, values in columns.items()}

    def count(self, name: str) -> int | None:
        """How many finished runs are so; None where that is not known of one."""
        values = [run[name] for run in self.done]
        return None if not values or None in values else sum(values)

    def solved_tasks(self) -> int | None:
        """Tasks whose mean normalised score is above the threshold; None where a task has no threshold."""
        if len(self.envs) == 1 or not self.is_full:
            return None
        solved = 0
        for env, score in zip(self.envs, self.main, strict=True):
            mean = _mean(run["normalised"] for run in self.done if run["env"] == env)
            if mean is None or score.solved_above is None:
                return None
            solved += mean > score.solved_above
        return solved

    def improved(self) -> Figures | None:
        """The probability that a run beats one of the baseline, scores above a task's bar cut to it."""
        if not self.is_full or self.agent == self.baseline:
            return None
        bars = [_bar(score, self.scale) for score in self.main]
        cut = [
            [np.minimum(sample, bar) for sample, bar in zip(each, bars, strict=True)]
            for each in (self.samples, self.theirs)
        ]
        return _as_figures(improved(*cut))


class Figure(NamedTuple):
    """A figure of a line, and its column."""

    key: str
    """Its name in `table.json`."""
    of: Callable[[Group], Any]
    """Its value; None where there is none."""
    column: str = ""
    """The head, in which score and baseline are filled in; empty where the figure has no column."""
    form: Callable[[Any, Figures], str] = lambda value, line: str(value)
    single: bool = False
    """Of several tasks there is none."""


def _formatted(spec: str) -> Callable[[Any, Figures], str]:
    return lambda value, line: format(value, spec)


def _median(
    key: str, column: str = "", form: Callable[[Any, Figures], str] = lambda value, line: number(value)
) -> Figure:
    return Figure(key, lambda of: of.median(key), column, form, single=True)


def _mean_of(key: str, column: str) -> Figure:
    return Figure(key, lambda of: of.mean(key), column, _formatted(".3g"), single=True)


def _success(key: str, column: str) -> Figure:
    return Figure(
        key, lambda of: of.mean(key) if of.is_full and of.has_success else None, column, _formatted(".1%")
    )


def _of_runs(runs: int, line: Figures) -> str:
    if not runs:
        return "-"
    return str(runs) if line["finished"] == runs else f"{line['finished']} of {runs}"


def _range(minimum: float, line: Figures) -> str:
    return " to ".join(scored(end, line["score"]) for end in (minimum, line["maximum"]))


def _of_done(count: int, line: Figures) -> str:
    return f"{count} of {line['finished']}"


def _with_exact(count: int, line: Figures) -> str:
    low, high = binomial_interval(count / line["finished"], line["finished"])
    return f"{_of_done(count, line)} [{low:.2f}, {high:.2f}]"


FIGURES = (
    Figure("env", lambda of: of.env),
    Figure("agent", lambda of: of.agent, "agent"),
    Figure("finished", lambda of: len(of.done)),
    Figure("runs", lambda of: len(of.runs), "runs", _of_runs),
    Figure("fewest", lambda of: min(map(len, of.samples))),
    Figure("score", lambda of: of.scale or "return"),
    _success("success", "success"),
    _mean_of("return", "return"),
    _success("success_of_last", "success, last ten"),
    _mean_of("return_of_last", "return, last ten"),
    Figure("beside", lambda of: of.beside()),
    Figure(
        "tasks_solved",
        lambda of: of.solved_tasks(),
        "tasks solved",
        lambda solved, line: f"{solved} of {line['tasks']} ({solved / line['tasks']:.2f})",
    ),
    Figure("tasks", lambda of: len(of.envs)),
    Figure("solved", lambda of: of.count("solved"), "solved [95 %]", _with_exact),
    Figure("stayed_solved", lambda of: of.count("stayed_solved"), "stayed solved", _of_done),
    Figure("failed", lambda of: of.count("failed"), "failed at the end", _of_done),
    Figure("minimum", lambda of: min(of.pooled, default=None), "{score}, min to max", _range),
    Figure("maximum", lambda of: max(of.pooled, default=None)),
    Figure(
        "iqm",
        lambda of: _as_figures(iqm(of.samples, *of.bounds)) if of.pooled else None,
        "IQM of {score} [95 %]",
        lambda found, line: _with_ends(found, lambda value: scored(value, line["score"])),
    ),
    Figure(
        "improvement",
        lambda of: of.improved(),
        "P(better than {baseline}) [95 %]",
        lambda found, line: _with_ends(found, "{:.2f}".format),
    ),
    _median("env_steps_to_solved", "env steps to solved"),
    _median("minutes_to_solved", "minutes to solved", _formatted(".1f")),
    _median("env_steps", "env steps of a run"),
    _median("learner_steps", "updates of a run"),
    _median("minutes", "minutes of a run", _formatted(".1f")),
    _median("parameters", "parameters"),
    _mean_of("updates_per_second", "updates/s"),
)
"""All figures of a line, in the order of the table's columns."""
_TELLING = (
    *(("agent",), ("runs",), ("iqm", "minimum", "success", "return"), ("solved", "tasks_solved")),
    *(("improvement",), ("success_of_last", "return_of_last"), ("minutes",), ("env_steps",)),
)
"""The columns of a terminal, of each group the first that has figures; where room ends, the last go."""
_WARNS = (", in no figure:", "CHANGED DURING", "DIFFER:")
"""In the notes that a terminal may show, the gravest first."""
_AGENT = 20
"""Letters of an agent's name there."""


def scored(value: float, score: str) -> str:
    """A value of the score of this name."""
    return format(value, ".1%" if score == SUCCESS.name else ".3f" if score == NORMALISED else ".3g")


def _as_figures(found: Estimate | None) -> Figures | None:
    return None if found is None else found._asdict()


def _with_ends(found: Figures, form: Callable[[float], str]) -> str:
    if found["low"] is None or found["high"] is None:
        return form(found["value"])
    return f"{form(found['value'])} [{form(found['low'])}, {form(found['high'])}]"


def cells(line: Figures, baseline: str | None) -> dict[str, str]:
    """A line as people read it, by column."""
    texts: dict[str, str] = {}
    for figure in FIGURES:
        if figure.key == "beside":
            beside = line["beside"].items()
            texts |= {name: "-" if value is None else scored(value, name) for name, value in beside}
        if figure.column and not (figure.single and line["tasks"] > 1):
            value, name = line[figure.key], figure.column.format(score=line["score"], baseline=baseline)
            texts[name] = "-" if value is None else figure.form(value, line)
    return texts


def agent_lines(
    runs: Sequence[Figures],
    baseline: str | None,
    chance: Mapping[str, EvaluationResult],
    scores: Mapping[str, Sequence[Score]],
    groups: Mapping[str, Sequence[str]],
    published: Sequence[Published] = (),
) -> list[Figures]:
    """A line for each agent in each group of tasks, in `runs`' order.

    Args:
        chance: by task, what random actions reach there: the line below the agents'.
        scores: of each task, that which runs are compared by first.
        groups: tasks by the name of their table; a task alone has its own.
        published: figures of others, the last lines of their tasks.
    """
    lines = []
    for name, envs in groups.items():
        agents = dict.fromkeys(run["agent"] for run in runs if run["env"] in envs)
        made = [Group(name, envs, agent, runs, baseline, scores) for agent in agents]
        here: list[Figures] = [
            {figure.key: None if figure.single and len(envs) > 1 else figure.of(group) for figure in FIGURES}
            for group in made
        ]
        known: dict[str, Mapping[str, float | None]]
        known = {RANDOM: _known_of_random(here[0]["score"], envs, chance, scores)}
        known |= {one.row: {one.column: one.figure} for one in published if [one.task] == envs}
        lines += [*here, *(_line_without_runs(here[0], *one) for one in known.items())]
    return lines


def _known_of_random(
    score: Any,
    envs: Sequence[str],
    chance: Mapping[str, EvaluationResult],
    scores: Mapping[str, Sequence[Score]],
) -> dict[str, float | None]:
    """By column, the figures of random actions in the table of these tasks, whose score is `score`."""
    if len(envs) == 1:
        found = chance[envs[0]]
        known = {each.name: each.random for each in scores[envs[0]]}
        return known | {"success": found.success, "return": found.episode_return}
    successes = [chance[env].success for env in envs]
    is_known = None not in successes and score != "return"
    return {NORMALISED: 0.0, "success": _mean(successes) if is_known else None}


def _line_without_runs(beside: Figures, agent: str, known: Mapping[str, float | None]) -> Figures:
    """A line in the table of another one, with what is known in its columns of scores."""
    same = {key: beside[key] for key in ("env", "score", "tasks")}
    none = dict.fromkeys(("finished", "runs", "fewest"), 0)
    columns = {name: known.get(name) for name in beside["beside"]}
    shown = {name: known.get(name) for name in ("success", "return")}
    return dict.fromkeys(beside) | same | none | shown | {"agent": agent, "beside": columns}


def _scale(scores: Sequence[Score]) -> str | None:
    """The name of the scale on which runs of several tasks are pooled; None where there is none."""
    # From 0 to 1 a score is its own normalised score.
    alike = {(one.name, one.random, one.optimal) for one in scores} == {(scores[0].name, 0.0, 1.0)}
    if len(scores) == 1 or alike:
        return scores[0].name
    return NORMALISED if all(score.random is not None for score in scores) else None


def _bar(score: Score, scale: str | None) -> float:
    """The bar of a task on the scale of the samples; infinite where there is none."""
    bar = score.bar if score.bar is None or scale != NORMALISED else score.normalised(score.bar)
    return np.inf if bar is None else bar


def _scores(runs: Iterable[Figures], env: str, scale: str | None) -> np.ndarray:
    key = "normalised" if scale == NORMALISED else "score"
    values = [run[key] for run in runs if run["env"] == env]
    return np.array([value for value in values if value is not None])


def _mean(values: Iterable[float | None]) -> float | None:
    """The mean of the values that are there; None where there are none."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


class Table(NamedTuple):
    """The content of the table's files, whatever their form."""

    rows: Sequence[Figures]
    """As docs/compare.md explains; a task's together, with `all tasks` at the end where there are several."""
    baseline: str | None
    under: Mapping[str, Sequence[str]]
    """By task, what stands right below its table."""
    notes: Sequence[str]
    above: str = ""
    """What is to be known before the numbers are read."""

    @property
    def parts(self) -> dict[str, list[list[str]]]:
        """For each task its header and rows, without the columns in which no row has a figure."""
        found: dict[str, list[list[str]]] = {}
        for env in dict.fromkeys(line["env"] for line in self.rows):
            texts = [cells(line, self.baseline) for line in self.rows if line["env"] == env]
            kept = [name for name in texts[0] if any(text[name] != "-" for text in texts)]
            found[env] = [kept, *([text[name] for name in kept] for text in texts)]
        return found

    def __repr__(self) -> str:
        return to_text(self)

    def to_pandas(self) -> Any:
        """The rows as a `pandas.DataFrame`, an interval's ends as `iqm.low`; a ConfigError without pandas."""
        return frame(self.rows)


def to_text(table: Table) -> str:
    """A table for each task, each with what is to be known right below it, and the notes."""
    lines = [table.above, ""] if table.above else []
    for env, rows in table.parts.items():
        lines += [env, *columns(rows), *table.under[env], ""]
    return "\n".join([*lines, *table.notes]) + "\n"


def to_terminal(table: Table, width: int) -> str:
    """The most telling columns and at most three notes, in lines that fit."""
    lines = [table.above, ""] if table.above else []
    for env, rows in table.parts.items():
        score = next(line["score"] for line in table.rows if line["env"] == env)
        heads = {each.key: each.column.format(score=score, baseline=table.baseline) for each in FIGURES}
        groups = [[heads[key] for key in keys if heads[key] in rows[0]] for keys in _TELLING]
        names = [there[0] for there in groups if there]
        lines += [env, *_fitting(names, [dict(zip(rows[0], row, strict=True)) for row in rows], score, width)]
    notes = [note for under in table.under.values() for note in under]
    notes += [note for mark in _WARNS for note in table.notes if mark in note]
    lines += list(dict.fromkeys(notes))[:3]
    return "\n".join(textwrap.fill(line, width, break_on_hyphens=False) for line in lines)


def _fitting(names: list[str], texts: Sequence[dict[str, str]], score: str, width: int) -> list[str]:
    """A table of these columns and a blank line; where there is no room, the last columns are left out."""
    rows = [[text[name].replace(" ", HARD_SPACE) for name in names] for text in texts[1:]]
    for row, text in zip(rows, texts[1:], strict=True):
        row[0] = shortened(text["agent"], _AGENT)
        if row[2:3] == ["-"]:  # random actions have a score and nothing else
            row[2] = text.get(score, "-")
    lines = columns([names, *rows], width)
    if len(names) > 1 and max(map(len, lines)) > width:
        return _fitting(names[:-1], texts, score, width)
    return [*lines, ""]


def to_markdown(table: Table, command: str) -> str:
    """A table for each task, the notes, and the command that has made it."""
    lines = [f"**{table.above}**", ""] if table.above else []
    for env, rows in table.parts.items():
        lines += [f"### {env}", "", *markdown_table(rows), ""]
        lines += [text for note in table.under[env] for text in (note, "")]
    notes = [*table.notes, f"Command: `{command}`"]
    return "\n".join([*lines, *(f"- {note}" for note in notes)]) + "\n"


def markdown_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Its lines; the first row is the header."""
    header, *cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *cells]
    return [f"| {' | '.join(line)} |" for line in lines]


def read(file: Path) -> Table:
    """The table that `to_json` was written of."""
    content = json.loads(file.read_text(encoding="utf-8"))
    return Table(*(content[name] for name in ("table", "baseline", "under", "notes", "above")))


def to_json(table: Table, runs: Sequence[Figures]) -> str:
    """The table, every run behind it and the notes."""
    content = {
        "above": table.above,
        "baseline": table.baseline,
        "table": list(table.rows),
        "runs": list(runs),
        "under": table.under,
        "notes": list(table.notes),
    }
    return json.dumps(content, indent=2) + "\n"
