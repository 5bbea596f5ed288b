"""The figures of a comparison, and its table as text, Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import itertools
import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dtqn.acting.evaluation import EvaluationResult
from dtqn.experiments.intervals import LEAST_RUNS, Estimate, estimate, improvement, interquartile_mean
from dtqn.text import columns, number
from dtqn.training.directory import RunDir
from dtqn.training.metrics import Row, is_full_evaluation

SOLVED = 0.9
"""The success that `env_steps_to_90` and `minutes_to_90` are about."""
ALL_TASKS = "all tasks"
MANY_RUNS = 10
"""Runs from which on an interval covers nearly what it says."""
RANDOM = "random"
"""The line of uniformly random actions."""
_SEED = 0
"""The bootstrap's seed, so that a table is the same whenever it is made."""


class RunFigures(NamedTuple):
    """One run; figures are None if the run has not finished or the task defines no success."""

    env: str
    agent: str
    seed: int
    run_dir: str
    error: str | None = None
    """Why there is no result."""
    success: float | None = None
    """In the last evaluation, as are the next three."""
    episode_return: float | None = None
    length: float | None = None
    episodes: int | None = None
    evaluations: int | None = None
    env_steps: int | None = None
    learner_steps: int | None = None
    minutes: float | None = None
    env_steps_to_90: int | None = None
    """At the first full evaluation with 90 % success; None if there was none."""
    minutes_to_90: float | None = None
    updates_per_second: float | None = None
    """Learner steps by seconds, acting and evaluation included."""
    parameters: int | None = None
    threads: int | None = None
    """Those of the run's last stretch, as is the device."""
    device: str | None = None
    program: str | None = None
    """Versions of this program and of what it computes with."""

    @property
    def score(self) -> float | None:
        """Success where the task defines it, else the return."""
        return self.episode_return if self.success is None else self.success


class AgentFigures(NamedTuple):
    """One agent in one task, or in all; means over finished runs. The row `random` has no runs."""

    env: str
    agent: str
    finished: int
    """Runs that the figures are of."""
    runs: int
    fewest: int
    """Finished runs on the task that has the fewest."""
    score: str
    """`success` or `return`: what the next five but `episode_return` are of."""
    success: float | None = None
    episode_return: float | None = None
    minimum: float | None = None
    maximum: float | None = None
    iqm: Estimate | None = None
    """None below five runs on each task, as is the next one."""
    improvement: Estimate | None = None
    """Over the baseline; None for the baseline itself."""
    reached_90: int | None = None
    """Runs that reached 90 % success; None if the task defines no success."""
    env_steps_to_90: float | None = None
    """The median over runs; one that never got there is later than all, and None if the median is such."""
    minutes_to_90: float | None = None
    parameters: int | None = None
    updates_per_second: float | None = None


class Table(NamedTuple):
    """The content of the table's files, whatever their form."""

    lines: list[AgentFigures]
    """A task's together, with `all tasks` at the end where there are several."""
    baseline: str | None
    under: Mapping[str, Sequence[str]]
    """By task, what stands right below its table."""
    notes: Sequence[str]

    @property
    def parts(self) -> list[tuple[str, list[list[str]], list[str]]]:
        """For each task its name, its header and rows, and what stands below it."""
        found = []
        for env in _unique(line.env for line in self.lines):
            lines = [line for line in self.lines if line.env == env]
            found.append(
                (
                    env,
                    _rows(lines, self.baseline),
                    [*self.under.get(env, ()), *_few_runs(lines, self.baseline)],
                )
            )
        return found


def run_figures(
    env: str, agent: str, seed: int, directory: RunDir, rows: Sequence[Row], error: str
) -> RunFigures:
    """A run's figures by its metrics file; `error` is kept if the run has not finished."""
    which = RunFigures(env, agent, seed, str(directory.path))
    result = directory.read_result()
    evaluations = [row for row in rows if row.get("eval/return") is not None]
    if result is None or not evaluations:
        return which._replace(error=error or "no result")
    last, solved = evaluations[-1], None
    for row in evaluations:
        if solved is None and is_full_evaluation(row) and (row.get("eval/success") or 0) >= SOLVED:
            solved = row
    return which._replace(
        success=last.get("eval/success"),
        episode_return=last["eval/return"],
        length=last["eval/length"],
        episodes=int(_value(last, "eval/episodes")),
        evaluations=len(evaluations),
        env_steps=int(_value(last, "env_steps")),
        learner_steps=int(_value(last, "learner_steps")),
        minutes=_value(last, "seconds") / 60,
        env_steps_to_90=None if solved is None else int(_value(solved, "env_steps")),
        minutes_to_90=None if solved is None else _value(solved, "seconds") / 60,
        updates_per_second=_value(last, "learner_steps") / max(_value(last, "seconds"), 1e-9),
        parameters=result["parameters"],
        threads=result["threads"],
        device=result["device"],
        program=", ".join(f"{name} {version}" for name, version in result["program"].items()),
    )


def _value(row: Row, key: str) -> float:
    return float(row[key] or 0)


def agent_figures(
    runs: Sequence[RunFigures], baseline: str | None, chance: Mapping[str, EvaluationResult]
) -> list[AgentFigures]:
    """A line for each agent in each task, and of several tasks one for all of them; in `runs`' order.

    Args:
        chance: by task, what random actions reach there: the last line of each task.
    """
    envs, agents = _unique(run.env for run in runs), _unique(run.agent for run in runs)
    lines = []
    for group in [[env] for env in envs] + ([envs] if len(envs) > 1 else []):
        here = [_line(group, agent, runs, baseline) for agent in agents]
        lines += [*here, _random_line(here[0], [chance[env] for env in group])]
    return lines


def _random_line(beside: AgentFigures, chance: Sequence[EvaluationResult]) -> AgentFigures:
    """The line of random actions in the table of another one."""
    single, has_success = len(chance) == 1, beside.score == "success"
    return AgentFigures(
        env=beside.env,
        agent=RANDOM,
        finished=0,
        runs=0,
        fewest=0,
        score=beside.score,
        success=_mean(result.success for result in chance) if has_success else None,
        episode_return=chance[0].episode_return if single else None,
    )


def _line(envs: list[str], agent: str, runs: Sequence[RunFigures], baseline: str | None) -> AgentFigures:
    here = [run for run in runs if run.env in envs]
    mine = [run for run in here if run.agent == agent]
    done = [run for run in mine if run.score is not None]
    has_success = all(run.success is not None for run in here if run.score is not None)
    comparable = has_success or len(envs) == 1  # returns of different tasks are of different scales
    samples = [_scores(done, env) for env in envs]
    others = [_scores([run for run in here if run.agent == baseline], env) for env in envs]
    single = len(envs) == 1
    full = all(map(len, samples)) and len(set(map(len, samples))) == 1  # each task has the same weight
    scores = [score for sample in samples for score in sample.tolist()] if full and comparable else []
    return AgentFigures(
        env=envs[0] if single else ALL_TASKS,
        agent=agent,
        finished=len(done),
        runs=len(mine),
        fewest=min(map(len, samples)),
        score="success" if has_success else "return",
        success=_mean(run.success for run in done) if full and has_success else None,
        episode_return=_mean(run.episode_return for run in done) if full and single else None,
        minimum=min(scores, default=None),
        maximum=max(scores, default=None),
        iqm=_estimate(interquartile_mean, samples) if scores else None,
        improvement=_estimate(improvement, [*samples, *others]) if full and agent != baseline else None,
        reached_90=sum(run.env_steps_to_90 is not None for run in done) if single and has_success else None,
        env_steps_to_90=_median_time([run.env_steps_to_90 for run in done]) if single else None,
        minutes_to_90=_median_time([run.minutes_to_90 for run in done]) if single else None,
        parameters=done[0].parameters if done and single else None,
        updates_per_second=_mean(run.updates_per_second for run in done) if done and single else None,
    )


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _scores(runs: Iterable[RunFigures], env: str) -> np.ndarray:
    return np.array([run.score for run in runs if run.env == env and run.score is not None])


def _estimate(statistic: Any, samples: Sequence[np.ndarray]) -> Estimate | None:
    return estimate(statistic, samples, np.random.default_rng(_SEED))


def _mean(values: Iterable[float | None]) -> float:
    return statistics.fmean(value for value in values if value is not None)


def _median_time(times: Sequence[float | None]) -> float | None:
    """The median; a time that never came is later than all, and the result None if the median is such."""
    median = statistics.median([float("inf") if time is None else time for time in times] or [float("inf")])
    return median if median < float("inf") else None


def cells(line: AgentFigures, baseline: str | None) -> dict[str, str]:
    """A line as people read it, by column."""
    reached = "" if line.reached_90 is None else f" ({line.reached_90}/{line.finished})"
    form = ".1%" if line.score == "success" else ".3g"
    count = str(line.runs) if line.finished == line.runs else f"{line.finished} of {line.runs}"
    texts = {
        "agent": line.agent,
        "runs": "-" if line.agent == RANDOM else count,
        "success": "-" if line.success is None else f"{line.success:.1%}",
        "return": "-" if line.episode_return is None else f"{line.episode_return:.3g}",
        f"{line.score}, min to max": _range(line, form),
        f"IQM of {line.score} [95 %]": _show(line.iqm, form),
        f"P(better than {baseline}) [95 %]": _show(line.improvement, ".2f"),
        "env steps to 90 %": "-" if line.env_steps_to_90 is None else number(line.env_steps_to_90),
        "minutes to 90 %": "-" if line.minutes_to_90 is None else f"{line.minutes_to_90:.1f}",
        "parameters": "-" if line.parameters is None else number(line.parameters),
        "updates/s": "-" if line.updates_per_second is None else f"{line.updates_per_second:.3g}",
    }
    texts["env steps to 90 %"] += reached
    if line.env == ALL_TASKS:
        texts = {name: texts[name] for name in texts if name in _OF_ALL or name.endswith(_OF_RUNS)}
    return texts


_OF_ALL = ("agent", "runs", "success")
_NEEDS_RUNS = "[95 %]"
_OF_RUNS = ("min to max", _NEEDS_RUNS)


def _range(line: AgentFigures, form: str) -> str:
    if line.minimum is None or line.maximum is None:
        return "-"
    return f"{line.minimum:{form}} to {line.maximum:{form}}"


def _show(figure: Estimate | None, form: str) -> str:
    return "-" if figure is None else f"{figure.value:{form}} [{figure.low:{form}}, {figure.high:{form}}]"


def _few_runs(lines: Sequence[AgentFigures], baseline: str | None) -> list[str]:
    """Lines that say how far the numbers of runs let a reader trust a table."""
    agents = [line for line in lines if line.agent != RANDOM]
    where = " on a task" if lines[0].env == ALL_TASKS else ""
    notes = []
    if few := [line.agent for line in agents if line.fewest < LEAST_RUNS]:
        notes.append(
            f"Fewer than {LEAST_RUNS} runs{where} of {', '.join(few)}: minimum and maximum, no interval"
            f"{'' if baseline is None else ', no P(better)'}. "
            "These figures do not tell which agent is better."
        )
    if some := [line.agent for line in agents if LEAST_RUNS <= line.fewest < MANY_RUNS]:
        notes.append(
            f"Fewer than {MANY_RUNS} runs{where} of {', '.join(some)}: intervals are narrower than they say. "
            f"With {LEAST_RUNS} runs, nominal 95 % cover 80 to 90 %."
        )
    return notes


def to_text(table: Table) -> str:
    """A table for each task, each with what is to be known right below it, and the notes."""
    parts = [[env, *columns(rows), *under, ""] for env, rows, under in table.parts]
    return "\n".join([*itertools.chain(*parts), *table.notes]) + "\n"


def to_markdown(table: Table) -> str:
    parts = []
    for env, (header, *rows), under in table.parts:
        lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
        parts += [f"### {env}", "", *(f"| {' | '.join(line)} |" for line in lines), ""]
        parts += [text for note in under for text in (note, "")]
    return "\n".join([*parts, *(f"- {note}" for note in table.notes)]) + "\n"


def _rows(lines: Sequence[AgentFigures], baseline: str | None) -> list[list[str]]:
    """The header and a row a line, without the columns that no line has runs enough for."""
    texts = [cells(line, baseline) for line in lines]
    kept = [
        name
        for name in texts[0]
        if not (name.endswith(_NEEDS_RUNS) and all(text[name] == "-" for text in texts))
    ]
    return [kept, *([text[name] for name in kept] for text in texts)]


def to_csv(table: Table) -> str:
    """One table, a line a row; nothing where there is no figure."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for index, line in enumerate(table.lines):
        flat: dict[str, Any] = {}
        for name, value in line._asdict().items():
            if name in ("iqm", "improvement"):
                found = (None, None, None) if value is None else value
                flat |= dict(zip((name, f"{name}_low", f"{name}_high"), found, strict=True))
            else:
                flat[name.replace("episode_return", "return")] = value
        if index == 0:
            writer.writerow(flat)
        writer.writerow(flat.values())
    return out.getvalue()


def to_json(table: Table, runs: Sequence[RunFigures]) -> str:
    """The table, every run behind it and the notes."""

    def plain(figures: AgentFigures | RunFigures) -> dict[str, Any]:
        return {
            name.replace("episode_return", "return"): value._asdict()
            if isinstance(value, Estimate)
            else value
            for name, value in figures._asdict().items()
        }

    content = {
        "baseline": table.baseline,
        "table": [plain(line) for line in table.lines],
        "runs": [plain(run) for run in runs],
        "under": {env: under for env, _, under in table.parts},
        "notes": list(table.notes),
    }
    return json.dumps(content, indent=2) + "\n"
