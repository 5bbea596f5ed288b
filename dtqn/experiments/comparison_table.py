"""What runs came to: the figures of a comparison, and its table as text, Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import statistics
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dtqn.experiments.intervals import Estimate, estimate, improvement, interquartile_mean
from dtqn.text import columns, number
from dtqn.training.directory import RunDir
from dtqn.training.metrics import Row

SOLVED = 0.9
"""The success that `env_steps_to_90` and `minutes_to_90` are about."""
ALL_TASKS = "all tasks"
_SEED = 0
"""Of the bootstrap, so that a table is the same whenever it is made."""


class RunFigures(NamedTuple):
    """One run; figures are none where the run has not finished or the task defines no success."""

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
    """Of the first evaluation with 90 % success; none where there was none."""
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
    """One agent in one task, or in all; means over finished runs."""

    env: str
    agent: str
    finished: int
    """Runs that the figures are of."""
    runs: int
    score: str
    """`success` or `return`: what `iqm` and `improvement` are of."""
    success: float | None
    episode_return: float | None
    iqm: Estimate | None
    improvement: Estimate | None
    """Over the baseline; none for the baseline itself."""
    reached_90: int | None
    """Runs that reached 90 % success; none where the task defines no success."""
    env_steps_to_90: float | None
    """The median over runs, one that never got there being later than all; none where the median is such."""
    minutes_to_90: float | None
    parameters: int | None
    updates_per_second: float | None


def run_figures(
    env: str, agent: str, seed: int, directory: RunDir, rows: Sequence[Row], error: str
) -> RunFigures:
    """What a run came to by its metrics file; `error` is kept where it has not finished."""
    which = RunFigures(env, agent, seed, str(directory.path))
    result = directory.read_result()
    evaluations = [row for row in rows if row.get("eval/return") is not None]
    if result is None or not evaluations:
        return which._replace(error=error or "no result")
    last, solved = evaluations[-1], None
    for row in evaluations:
        if solved is None and (row.get("eval/success") or 0) >= SOLVED:
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


def agent_figures(runs: Sequence[RunFigures], baseline: str | None) -> list[AgentFigures]:
    """A line for each agent in each task, and of several tasks one for all of them; in `runs`' order."""
    envs, agents = _unique(run.env for run in runs), _unique(run.agent for run in runs)
    lines = [_line([env], agent, runs, baseline) for env in envs for agent in agents]
    if len(envs) > 1:
        lines += [_line(envs, agent, runs, baseline) for agent in agents]
    return lines


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
    return AgentFigures(
        env=envs[0] if single else ALL_TASKS,
        agent=agent,
        finished=len(done),
        runs=len(mine),
        score="success" if has_success else "return",
        success=_mean(run.success for run in done) if full and has_success else None,
        episode_return=_mean(run.episode_return for run in done) if full and single else None,
        iqm=_estimate(interquartile_mean, samples) if full and comparable else None,
        improvement=_estimate(improvement, [*samples, *others])
        if full and all(map(len, others)) and agent != baseline
        else None,
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


def _estimate(statistic: Any, samples: Sequence[np.ndarray]) -> Estimate:
    return estimate(statistic, samples, np.random.default_rng(_SEED))


def _mean(values: Iterable[float | None]) -> float:
    return statistics.fmean(value for value in values if value is not None)


def _median_time(times: Sequence[float | None]) -> float | None:
    """The median, a time that never came being later than all; none where the median is such."""
    median = statistics.median([float("inf") if time is None else time for time in times] or [float("inf")])
    return median if median < float("inf") else None


def cells(line: AgentFigures, baseline: str | None) -> dict[str, str]:
    """A line as people read it, by column."""
    reached = "" if line.reached_90 is None else f" ({line.reached_90}/{line.finished})"
    texts = {
        "agent": line.agent,
        "seeds": str(line.runs) if line.finished == line.runs else f"{line.finished} of {line.runs}",
        "success": "-" if line.success is None else f"{line.success:.1%}",
        "return": "-" if line.episode_return is None else f"{line.episode_return:.3g}",
        f"IQM of {line.score} [95 %]": _show(line.iqm, ".1%" if line.score == "success" else ".3g"),
        f"P(better than {baseline}) [95 %]": _show(line.improvement, ".2f"),
        "env steps to 90 %": "-" if line.env_steps_to_90 is None else number(line.env_steps_to_90),
        "minutes to 90 %": "-" if line.minutes_to_90 is None else f"{line.minutes_to_90:.1f}",
        "parameters": "-" if line.parameters is None else number(line.parameters),
        "updates/s": "-" if line.updates_per_second is None else f"{line.updates_per_second:.3g}",
    }
    texts["env steps to 90 %"] += reached
    if baseline is None:
        del texts["P(better than None) [95 %]"]
    if line.env == ALL_TASKS:
        texts = {name: texts[name] for name in texts if name in _OF_ALL or "[95 %]" in name}
    return texts


_OF_ALL = ("agent", "seeds", "success")


def _show(figure: Estimate | None, form: str) -> str:
    if figure is None:
        return "-"
    if figure.low is None or figure.high is None:
        return f"{figure.value:{form}}"
    return f"{figure.value:{form}} [{figure.low:{form}}, {figure.high:{form}}]"


def to_text(lines: Sequence[AgentFigures], baseline: str | None, notes: Sequence[str]) -> str:
    """A table for each task, and the notes."""
    parts = []
    for env in _unique(line.env for line in lines):
        rows = _rows([line for line in lines if line.env == env], baseline)
        parts += [env, *columns(rows), ""]
    return "\n".join([*parts, *notes]) + "\n"


def to_markdown(lines: Sequence[AgentFigures], baseline: str | None, notes: Sequence[str]) -> str:
    parts = []
    for env in _unique(line.env for line in lines):
        header, *rows = _rows([line for line in lines if line.env == env], baseline)
        table = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
        parts += [f"### {env}", "", *(f"| {' | '.join(row)} |" for row in table), ""]
    return "\n".join([*parts, *(f"- {note}" for note in notes)]) + "\n"


def _rows(lines: Sequence[AgentFigures], baseline: str | None) -> list[list[str]]:
    """The header and a row a line."""
    texts = [cells(line, baseline) for line in lines]
    return [list(texts[0]), *(list(text.values()) for text in texts)]


def to_csv(lines: Sequence[AgentFigures]) -> str:
    """One table, a line a row; nothing where there is no figure."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for index, line in enumerate(lines):
        flat: dict[str, Any] = {}
        for name, value in line._asdict().items():
            if name in ("iqm", "improvement"):
                figure = value or Estimate(None, None, None)  # type: ignore[arg-type]
                flat |= {name: figure.value, f"{name}_low": figure.low, f"{name}_high": figure.high}
            else:
                flat[name.replace("episode_return", "return")] = value
        if index == 0:
            writer.writerow(flat)
        writer.writerow(flat.values())
    return out.getvalue()


def to_json(
    lines: Sequence[AgentFigures], runs: Sequence[RunFigures], baseline: str | None, notes: Sequence[str]
) -> str:
    """The table, every run behind it and the notes."""

    def plain(figures: AgentFigures | RunFigures) -> dict[str, Any]:
        return {
            name.replace("episode_return", "return"): value._asdict()
            if isinstance(value, Estimate)
            else value
            for name, value in figures._asdict().items()
        }

    content = {
        "baseline": baseline,
        "table": [plain(line) for line in lines],
        "runs": [plain(run) for run in runs],
        "notes": list(notes),
    }
    return json.dumps(content, indent=2) + "\n"
