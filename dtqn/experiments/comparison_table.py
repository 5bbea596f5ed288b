"""The figures of a comparison: those of each run, and of each agent in a task or in several."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dtqn.acting.evaluation import EvaluationResult
from dtqn.experiments.intervals import Estimate, estimate, improvement, interquartile_mean
from dtqn.experiments.records import Outcome
from dtqn.experiments.scores import NORMALISED, Score, first_solved
from dtqn.experiments.suites import Published
from dtqn.settings.presets import RANDOM
from dtqn.training.metrics import Row

ALL_TASKS = "all tasks"
_SEED = 0
"""The bootstrap's seed, so that a table is the same whenever it is made."""


class RunFigures(NamedTuple):
    """One run; figures are None if the run has not finished or the task defines no success."""

    env: str
    agent: str
    seed: int
    run_dir: str
    """Its directory, or its record's file."""
    error: str | None = None
    """Why there is no result."""
    score_name: str = ""
    score: float | None = None
    """The score of the comparison: success where the task defines it and else the return, or a suite's."""
    normalised: float | None = None
    """0 for random actions and 1 for the best policy; None where the score has no such scale."""
    beside: Mapping[str, float | None] = {}
    """All scores but success and return, and metrics that were asked for, by name."""
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
    """At the first evaluation that shows 90 % success (`first_solved`); None if there was none."""
    minutes_to_90: float | None = None
    updates_per_second: float | None = None
    """Learner steps by seconds, acting and evaluation included."""
    parameters: int | None = None
    threads: int | None = None
    """Those of the run's last stretch, as is the device."""
    device: str | None = None
    program: str | None = None
    """Versions of this program and of what it computes with."""
    code: str | None = None
    """The digest of the sources that it has run; None where it is not known, as is the next one."""
    machine: str | None = None
    changed_at: Sequence[int] = ()
    """Env steps at which the code of its task, or of a network of the user's own, became another."""


class AgentFigures(NamedTuple):
    """One agent in one task, or in several; means over finished runs.

    The row `random` and the figures of others have no runs.
    """

    env: str
    agent: str
    finished: int
    """Runs that the figures are of."""
    runs: int
    fewest: int
    """Finished runs on the task that has the fewest."""
    score: str
    """The name of what minimum, maximum, IQM and improvement are of."""
    success: float | None = None
    episode_return: float | None = None
    beside: Mapping[str, float | None] = {}
    """Scores but success and return, and metrics, by name."""
    solved: int | None = None
    """Tasks whose mean score is above the suite's threshold; None where there is none."""
    tasks: int = 1
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
    env_steps: float | None = None
    """Of a whole run, the median over runs, as are the next two."""
    learner_steps: float | None = None
    minutes: float | None = None
    parameters: int | None = None
    updates_per_second: float | None = None


def run_figures(run: Outcome, scores: Sequence[Score], metrics: Sequence[str] = ()) -> RunFigures:
    """A run's figures by the rows of its metrics; its error is kept if it has not finished.

    Args:
        scores: of the run's task, that which runs are compared by first.
        metrics: names of those that get a column.
    """
    config, result = run.config, run.result
    others = [each for each in scores if each.name not in _EVALUATED]
    beside: dict[str, float | None] = dict.fromkeys([*(each.name for each in others), *metrics])
    which = RunFigures(
        config.env, config.agent, config.seed, run.where, score_name=scores[0].name, beside=beside
    )
    evaluations = [row for row in run.rows if row.get("eval/return") is not None]
    if result is None or not evaluations:
        return which._replace(error=run.error or "no result")
    score = scores[0].of(run.rows, config.total_env_steps)
    if score is None:
        return which._replace(error=f"no {scores[0].name}: {scores[0].lacking}")
    last, solved = evaluations[-1], first_solved(evaluations)
    return which._replace(
        score=score,
        normalised=scores[0].normalised(score),
        beside=beside
        | {each.name: each.of(run.rows, config.total_env_steps) for each in others}
        | {name: run.metrics.get(name) for name in metrics},
        success=last.get("eval/success"),
        episode_return=last["eval/return"],
        length=last["eval/length"],
        episodes=int(_value(last, "eval/episodes")),
        evaluations=len(evaluations) if run.num_evaluations is None else run.num_evaluations,
        env_steps=int(_value(last, "env_steps")),
        learner_steps=int(_value(last, "learner_steps")),
        minutes=result["seconds"] / 60,
        env_steps_to_90=None if solved is None else int(_value(solved, "env_steps")),
        minutes_to_90=None if solved is None else _value(solved, "seconds") / 60,
        updates_per_second=_value(last, "learner_steps") / max(result["seconds"], 1e-9),
        parameters=result["parameters"],
        threads=result["threads"],
        device=result["device"],
        program=", ".join(f"{name} {version}" for name, version in result["program"].items()),
        code=", ".join(result.get("code") or []) or None,
        machine=result.get("machine"),
        changed_at=result.get("changed_at") or (),
    )


def _value(row: Row, key: str) -> float:
    return float(row[key] or 0)


_EVALUATED = ("success", "return")
"""Scores that every run has, of its last evaluation."""


def agent_figures(
    runs: Sequence[RunFigures],
    baseline: str | None,
    chance: Mapping[str, EvaluationResult],
    scores: Mapping[str, Sequence[Score]],
    families: Mapping[str, Sequence[str]] | None = None,
    published: Sequence[Published] = (),
) -> list[AgentFigures]:
    """A line for each agent in each task, in each family and, of several tasks, in all; in `runs`' order.

    Args:
        chance: by task, what random actions reach there: the line below the agents'.
        scores: of each task, that which runs are compared by first.
        families: tasks that are pooled too, by name.
        published: figures of others, the last lines of their tasks.
    """
    tasks, agents = _unique(run.env for run in runs), _unique(run.agent for run in runs)
    groups = {env: [env] for env in tasks}
    groups |= {name: list(envs) for name, envs in (families or {}).items()}
    if len(tasks) > 1:
        groups[ALL_TASKS] = tasks
    lines = []
    for name, envs in groups.items():
        present = {run.agent for run in runs if run.env in envs}
        here = [_line(name, envs, agent, runs, baseline, scores) for agent in agents if agent in present]
        lines += [*here, _random_line(here[0], envs, chance, scores)]
        lines += [_published_line(here[0], one) for one in published if [one.task] == envs]
    return lines


def _random_line(
    beside: AgentFigures,
    envs: Sequence[str],
    chance: Mapping[str, EvaluationResult],
    scores: Mapping[str, Sequence[Score]],
) -> AgentFigures:
    """The line of random actions in the table of another one."""
    single = len(envs) == 1
    successes = [chance[env].success for env in envs]
    known = {score.name: score.random for score in scores[envs[0]]} if single else {NORMALISED: 0.0}
    line = _line_without_runs(beside, RANDOM, known)
    return line._replace(
        success=_mean(successes) if None not in successes and (single or beside.score != "return") else None,
        episode_return=chance[envs[0]].episode_return if single else None,
        tasks=len(envs),
    )


def _published_line(beside: AgentFigures, one: Published) -> AgentFigures:
    """The line of somebody else's figure in the table of another one."""
    return _line_without_runs(beside, one.row, {one.column: one.figure})._replace(
        success=one.figure if one.unit == "success" else None,
        episode_return=one.figure if one.unit == "return" else None,
    )


def _line_without_runs(beside: AgentFigures, agent: str, known: Mapping[str, float | None]) -> AgentFigures:
    """A line in the table of another one, with what is known in its columns of scores."""
    columns = {name: known.get(name) for name in beside.beside}
    return AgentFigures(beside.env, agent, 0, 0, 0, beside.score, beside=columns)


def _line(
    name: str,
    envs: list[str],
    agent: str,
    runs: Sequence[RunFigures],
    baseline: str | None,
    scores: Mapping[str, Sequence[Score]],
) -> AgentFigures:
    here = [run for run in runs if run.env in envs]
    mine = [run for run in here if run.agent == agent]
    done = [run for run in mine if run.score is not None]
    successes = [run.success for run in here if run.score is not None]
    has_success = bool(successes) and None not in successes
    single = len(envs) == 1
    scale = _scale([scores[env][0] for env in envs])
    samples = [_scores(done, env, scale) for env in envs]
    others = [_scores([run for run in here if run.agent == baseline], env, scale) for env in envs]
    full = all(map(len, samples)) and len(set(map(len, samples))) == 1  # each task has the same weight
    comparable = single or scale is not None  # returns of different tasks are of different scales
    pooled = [score for sample in samples for score in sample.tolist()] if full and comparable else []
    beside = {}
    if single:
        beside = {name: _mean_of_all([run.beside[name] for run in done]) for name in mine[0].beside}
    elif scale == NORMALISED:
        beside = {NORMALISED: statistics.fmean(pooled) if pooled else None}
    return AgentFigures(
        env=name,
        agent=agent,
        finished=len(done),
        runs=len(mine),
        fewest=min(map(len, samples)),
        score=scale or "return",
        success=_mean(run.success for run in done) if full and has_success else None,
        episode_return=_mean(run.episode_return for run in done) if full and single else None,
        beside=beside,
        solved=_solved(done, envs, scores) if full and not single else None,
        tasks=len(envs),
        minimum=min(pooled, default=None),
        maximum=max(pooled, default=None),
        iqm=_estimate(interquartile_mean, samples) if pooled else None,
        improvement=_estimate(improvement, [*samples, *others]) if full and agent != baseline else None,
        reached_90=sum(run.env_steps_to_90 is not None for run in done) if single and has_success else None,
        env_steps_to_90=_median_time([run.env_steps_to_90 for run in done]) if single else None,
        minutes_to_90=_median_time([run.minutes_to_90 for run in done]) if single else None,
        env_steps=_median_time([run.env_steps for run in done]) if single else None,
        learner_steps=_median_time([run.learner_steps for run in done]) if single else None,
        minutes=_median_time([run.minutes for run in done]) if single else None,
        parameters=done[0].parameters if done and single else None,
        updates_per_second=_mean(run.updates_per_second for run in done) if done and single else None,
    )


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _scale(scores: Sequence[Score]) -> str | None:
    """The name of the scale on which runs of several tasks are pooled; None where there is none."""
    if len(scores) == 1 or all(score.is_normalised and score.name == scores[0].name for score in scores):
        return scores[0].name
    return NORMALISED if all(score.random is not None for score in scores) else None


def _scores(runs: Iterable[RunFigures], env: str, scale: str | None) -> np.ndarray:
    values = [run.normalised if scale == NORMALISED else run.score for run in runs if run.env == env]
    return np.array([value for value in values if value is not None])


def _solved(
    runs: Sequence[RunFigures], envs: Sequence[str], scores: Mapping[str, Sequence[Score]]
) -> int | None:
    """How many tasks' mean normalised score is above the threshold; None where a task has no threshold."""
    solved = 0
    for env in envs:
        mean, threshold = _mean(run.normalised for run in runs if run.env == env), scores[env][0].solved_above
        if mean is None or threshold is None:
            return None
        solved += mean > threshold
    return solved


def _estimate(statistic: Any, samples: Sequence[np.ndarray]) -> Estimate | None:
    return estimate(statistic, samples, np.random.default_rng(_SEED))


def _mean(values: Iterable[float | None]) -> float | None:
    """The mean of the values that are there; None where there are none."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _mean_of_all(values: Sequence[float | None]) -> float | None:
    """The mean; None where one is missing, or all."""
    return None if None in values else _mean(values)


def _median_time(times: Sequence[float | None]) -> float | None:
    """The median; a time that never came is later than all, and the result None if the median is such."""
    median = statistics.median([float("inf") if time is None else time for time in times] or [float("inf")])
    return median if median < float("inf") else None
