"""The pictures of a suite: the performance profile over its tasks, and score against n."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from dtqn import plots
from dtqn.experiments.comparison_table import RunFigures
from dtqn.experiments.intervals import LEAST_RUNS, Band, band, profile
from dtqn.experiments.scores import NORMALISED, Score
from dtqn.experiments.suites import Suite, SuiteTask

_SEED = 0
"""The seed of the bands' bootstrap."""
_LEVELS = 201


def draw(suite: Suite, runs: Sequence[RunFigures], folder: Path) -> None:
    """Write the pictures that the suite has, as far as runs have finished."""
    done = [run for run in runs if run.score is not None]
    agents = list(dict.fromkeys(run.agent for run in runs))
    names = [task.name for task in suite.tasks]
    profiles = [curve for agent in agents if (curve := _profile(agent, names, done)) is not None]
    if len(names) > 1 and profiles:
        title = f"{suite.name}: {len(names)} tasks"
        note = (
            f"share of runs above each score, mean over tasks; band: 95 %, from {LEAST_RUNS} runs a task on"
        )
        _write("profile", [plots.Panel(title, plots.SHARE_OF_RUNS, profiles)], folder, NORMALISED, note)
    if suite.figure_axis is None:
        return
    panels = [
        _against_n(suite, family, tasks, place, agents, done)
        for family, tasks in suite.families.items()
        if len(tasks) > 1
        for place in range(len(tasks[0].scores))
    ]
    note = (
        f"line and band: mean, minimum and maximum; from {LEAST_RUNS} runs on IQM and 95 % interval;"
        " where lines coincide, the wider one lies below"
    )
    if panels:  # none where each task stands alone
        all_positive = all(task.n is None or task.n > 0 for task in suite.tasks)
        _write("against-n", panels, folder, suite.figure_axis, note, log=all_positive)


def _write(
    name: str, panels: Sequence[plots.Panel], folder: Path, axis: str, note: str, log: bool = False
) -> None:
    for suffix in ("png", "svg"):
        plots.comparison(panels, folder / f"{name}.{suffix}", axis, note, log)


def _profile(agent: str, names: Sequence[str], runs: Sequence[RunFigures]) -> plots.Curve | None:
    """The agent's performance profile; None unless it has runs on every task."""
    samples = []
    for name in names:
        mine = [run.normalised for run in runs if (run.env, run.agent) == (name, agent)]
        samples.append(np.array([score for score in mine if score is not None]))
    counts = list(map(len, samples))
    if not all(counts):
        return None
    levels = np.linspace(0.0, 1.0, _LEVELS)
    found = profile(samples, levels, np.random.default_rng(_SEED))
    return _curve(agent, levels.tolist(), [found], counts)


def _curve(
    label: str, x: Sequence[float], bands: Iterable[Band], runs: Iterable[int], marker: str = ""
) -> plots.Curve:
    """A curve whose points are of so many runs each; it has a band where one is of several."""
    middle, low, high = (np.concatenate(part).tolist() for part in zip(*bands, strict=True))
    counts = sorted(set(runs))
    if counts == [1]:
        return plots.Curve(label, x, middle, None, None, counts, marker)
    return plots.Curve(label, x, middle, low, high, counts, marker)


def _against_n(
    suite: Suite,
    family: str,
    tasks: Sequence[SuiteTask],
    place: int,
    agents: Sequence[str],
    runs: Sequence[RunFigures],
) -> plots.Panel:
    """A panel of one of the scores of a family: a curve an agent, and beside them the figures of others."""
    score = tasks[0].scores[place]
    curves = []
    for agent in agents:
        points = [(task.n or 0, _values(runs, task.name, agent, score)) for task in tasks]
        points = sorted((n, values) for n, values in points if len(values))
        if points:
            bands = [band(values[None, :], np.random.default_rng(_SEED)) for _, values in points]
            counts = [len(values) for _, values in points]
            curves.append(_curve(agent, [n for n, _ in points], bands, counts, marker="o"))
    places = {task.name: task.n or 0 for task in tasks}
    shown = [one for one in suite.published if one.task in places and one.column == score.name]
    for label in dict.fromkeys(one.row for one in shown):
        theirs = sorted((places[one.task], one.figure) for one in shown if one.row == label)
        x, y = zip(*theirs, strict=True)
        curves.append(plots.Curve(label, x, y, None, None, [], marker="D"))
    return plots.Panel(
        f"{family}: {score.name}",
        score.name,
        curves,
        chance=score.random,
        solved=score.solved_value,
        observation_alone=score.observation_alone,
    )


def _values(runs: Sequence[RunFigures], env: str, agent: str, score: Score) -> np.ndarray:
    figures = [_figure(run, score) for run in runs if (run.env, run.agent) == (env, agent)]
    return np.array([figure for figure in figures if figure is not None])


def _figure(run: RunFigures, score: Score) -> float | None:
    match score.kind:
        case "success":
            return run.success
        case "return":
            return run.episode_return
    return run.beside.get(score.name)
