"""The pictures of a comparison: learning curves, and of a suite its profile and score against n."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from dtqn import plots
from dtqn.acting.evaluation import EvaluationResult
from dtqn.experiments.also import Played, grouped
from dtqn.experiments.comparison_table import Figures
from dtqn.experiments.intervals import LEAST_RUNS, Band, band, profile
from dtqn.experiments.records import Outcome
from dtqn.experiments.scores import NORMALISED, Score
from dtqn.experiments.suites import Published, Suite, SuiteTask
from dtqn.plots import Row
from dtqn.settings.task import task_of

Clock = tuple[str, str, float]
_CLOCKS: dict[str, Clock] = {
    "env-steps": ("environment steps", "env_steps", 1.0),
    "minutes": ("minutes of training", "seconds", 60.0),
}
"""By file name: the axis, the key of the metrics file and what it is divided by."""
_LEVELS = 201
_BANDS = "line and band: interquartile mean, minimum and maximum of runs"
_SHARES = f"share of runs above each score, mean over tasks; band: 95 %, from {LEAST_RUNS} runs a task on"


def draw_curves(
    outcomes: Sequence[Outcome],
    floors: Mapping[str, EvaluationResult],
    scores: Mapping[str, Sequence[Score]],
    published: Sequence[Published],
    folder: Path,
) -> None:
    """Write the learning curves of all runs that have finished, a panel a task.

    Args:
        floors: by task, what random actions reach there.
        scores: by task, what its runs are judged by.
        published: figures of others, which are drawn as lines.
    """
    tasks: dict[str, list[Outcome]] = {}
    for run in outcomes:
        tasks.setdefault(run.config.env, []).append(run)
    for name, clock in _CLOCKS.items():
        panels = [
            _over_time(env, runs, clock, floors[env], scores[env], published) for env, runs in tasks.items()
        ]
        panels = [panel for panel in panels if panel.curves] or panels  # nothing is trained of some yet
        _write(f"curves-{name}", panels, folder, clock[0], _BANDS)


def draw_also(played: Sequence[Played], folder: Path) -> None:
    """Write what trained agents reach against the tested length, a panel a task of training.

    Tasks whose episodes may have any length have no place in it.
    """
    limited = [one for one in played if one.timesteps is not None]
    panels = []
    for (trained_on, name), of in grouped(limited, "trained_on", "name").items():
        curves = []
        for (agent,), mine in grouped(of, "agent").items():
            lengths = {x: at for (x,), at in sorted(grouped(mine, "timesteps").items())}
            bands = [band(np.array([[one.value for one in at]])) for at in lengths.values()]
            curves.append(_curve(agent, list(lengths), bands, map(len, lengths.values()), marker="o"))
        panels.append(plots.Panel(f"trained on {trained_on}", name, curves))
    if panels:
        note = f"last weights, no training on the other tasks; {_BANDS}"
        _write("also", panels, folder, "timesteps of the longest episode", note, log=True)


def draw_suite(suite: Suite, runs: Sequence[Figures], folder: Path) -> None:
    """Write the pictures that the suite has, as far as runs have finished."""
    done = [run for run in runs if run["score"] is not None]
    agents = list(dict.fromkeys(run["agent"] for run in runs))
    names = [task.name for task in suite.tasks]
    profiles = [curve for agent in agents if (curve := _profile(agent, names, done)) is not None]
    if len(names) > 1 and profiles:
        title = f"{suite.name}: {len(names)} tasks"
        _write("profile", [plots.Panel(title, plots.SHARE_OF_RUNS, profiles)], folder, NORMALISED, _SHARES)
    if suite.file.figure_axis is None:
        return
    panels = [
        _against_n(suite, family, tasks, place, agents, done)
        for family, tasks in suite.families.items()
        if len(tasks) > 1
        for place in range(len(tasks[0].scores))
    ]
    if panels:  # none where each task stands alone
        note = f"{_BANDS}; where lines coincide, the wider one lies below"
        _write("against-n", panels, folder, suite.file.figure_axis, note, log=True)


def _write(
    name: str, panels: Sequence[plots.Panel], folder: Path, axis: str, note: str, log: bool = False
) -> None:
    for suffix in ("png", "svg"):
        plots.comparison(panels, folder / f"{name}.{suffix}", axis, note, log)


def _curve(
    label: str, x: np.ndarray | Sequence[float], bands: Iterable[Band], runs: Iterable[int], marker: str = ""
) -> plots.Curve:
    """A curve whose points are of so many runs each; it has a band where one is of several."""
    middle, low, high = (np.concatenate(part).tolist() for part in zip(*bands, strict=True))
    counts, places = sorted(set(runs)), list(map(float, x))
    if counts == [1]:
        return plots.Curve(label, places, middle, None, None, counts, marker)
    return plots.Curve(label, places, middle, low, high, counts, marker)


def _over_time(
    env: str,
    runs: Sequence[Outcome],
    clock: Clock,
    floor: EvaluationResult,
    scores: Sequence[Score],
    published: Sequence[Published],
) -> plots.Panel:
    """A panel of a task's success, or of the return where it defines none."""
    spec = task_of(runs[0].config)
    name = "success" if spec.has_success else "return"
    agents: dict[str, list[Sequence[Row]]] = {}
    for run in runs:
        if run.record is not None:
            agents.setdefault(run.config.agent, []).append(run.record.rows)
    curves = [curve(agent, rows, f"eval/{name}", clock) for agent, rows in agents.items()]
    chance = floor.success if spec.has_success else floor.episode_return
    blind = next((score.observation_alone for score in scores if score.of == name), None)
    others = {one.line: one.figure for one in published if (one.task, one.column) == (env, name)}
    return plots.Panel(env, name, curves, spec.success_ceiling, chance, None, blind, others)


def curve(agent: str, runs: Sequence[Sequence[Row]], key: str, clock: Clock) -> plots.Curve:
    """The middle of the runs and their spread at every moment at which one of them was evaluated.

    Between its evaluations a run's value is on the straight line, after its end it stays. The curve begins
    where every run has been evaluated once.
    """
    _, axis, unit = clock
    of_runs = (plots.points(run, key, axis) for run in runs)
    points = [(np.array(x) / unit, np.array(y)) for x, y in of_runs]
    begin = max(x[0] for x, _ in points)
    x = np.unique(np.concatenate([x for x, _ in points]))
    x = x[x >= begin]
    values = np.stack([np.interp(x, *point) for point in points], axis=1)
    return _curve(agent, x, [band(values)], [len(runs)])


def _profile(agent: str, names: Sequence[str], runs: Sequence[Figures]) -> plots.Curve | None:
    """The agent's performance profile; None unless it has runs on every task."""
    samples = []
    for name in names:
        mine = [run["normalised"] for run in runs if (run["env"], run["agent"]) == (name, agent)]
        samples.append(np.array([score for score in mine if score is not None]))
    counts = list(map(len, samples))
    if not all(counts):
        return None
    levels = np.linspace(0.0, 1.0, _LEVELS)
    return _curve(agent, levels, [profile(samples, levels)], counts)


def _against_n(
    suite: Suite,
    family: str,
    tasks: Sequence[SuiteTask],
    place: int,
    agents: Sequence[str],
    runs: Sequence[Figures],
) -> plots.Panel:
    """A panel for one of a family's scores: a curve for each agent, and the published figures."""
    score = tasks[0].scores[place]
    places = {task.name: task.n or 0 for task in tasks}
    curves = []
    for agent in agents:
        points: dict[int, list[float]] = {}
        for run in runs:
            value = {**run, **run["beside"]}.get(score.name)
            if run["agent"] == agent and run["env"] in places and value is not None:
                points.setdefault(places[run["env"]], []).append(value)
        if points:
            x = sorted(points)
            bands = [band(np.array([points[n]])) for n in x]
            curves.append(_curve(agent, x, bands, [len(points[n]) for n in x], marker="o"))
    shown = [one for one in suite.published if one.task in places and one.column == score.name]
    for label in dict.fromkeys(one.row for one in shown):
        theirs = sorted((places[one.task], one.figure) for one in shown if one.row == label)
        there, figures = zip(*theirs, strict=True)
        curves.append(plots.Curve(label, there, figures, None, None, [], marker="D"))
    return plots.Panel(
        f"{family}: {score.name}",
        score.name,
        curves,
        chance=score.random,
        solved=score.bar,
        observation_alone=score.observation_alone,
    )
