"""On which past steps the decisions of trained agents depend: a map of one greedy episode for each run.

    python -m benchmarks.dependence_maps RUN [RUN ...] --out FILE.png [--both]

A row of the figure is a task, a column an agent, in the order of the runs. The point in row t and column k of
a map is the change of the decision at t when the observation of step k is replaced by those of other
episodes, as a share of its range of Q-values (docs/debug.md). Dotted lines are the steps that show the cue,
where the task names one. With `--both` each run is a column, and a second row replaces what the agent did.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

import dtqn
from benchmarks.options import one_line_errors
from dtqn import plots
from dtqn.inspection import measures, recorder
from dtqn.settings.names import name_of
from dtqn.training.setup import num_actions, task_spec

EPISODES, REPLACEMENTS = 100, 16


class Look(NamedTuple):
    """One episode of a run."""

    task: str
    agent: str
    score: str
    """Of all the episodes."""
    saw: np.ndarray
    """[T, T] the decision at t on the observation of step k; nan where k > t."""
    did: np.ndarray
    """[T, T] on the action before step k."""
    cue: np.ndarray
    """The steps that show it."""


def look(run: str) -> Look:
    """The longest success of greedy episodes, or the longest of all where none succeeds."""
    policy = dtqn.load(run)
    found = recorder.play(policy.network, policy.make_env(EPISODES, seed=7))
    number = max(range(len(found)), key=lambda n: (found[n].success, found[n].length))
    episode, succeeded = found[number], sum(x.success for x in found)
    actions, generator = num_actions(task_spec(policy.config)), np.random.default_rng(0)
    made = measures.mapped(policy.network, found, number, REPLACEMENTS, actions, generator)
    earlier = np.tri(episode.length, dtype=bool)
    mean = np.mean([x.episode_return for x in found])
    score = f"{succeeded} of {len(found)} succeed" if succeeded else f"return {mean:.2f}"
    saw, did = (np.where(earlier, x, np.nan) for x in (made.dependence.advantage, made.actions))
    cue = np.zeros(0) if episode.cue is None else np.flatnonzero(episode.cue)
    task, agent = name_of(policy.config)
    return Look(task, agent, score, saw, did, cue)


def draw(looks: Sequence[Look], both: bool, path: Path) -> None:
    if both:
        grid = [[(x, x.saw, f"{x.task}\n{x.agent}") for x in looks], [(x, x.did, "") for x in looks]]
        names = ["observation of step k replaced", "action before step k replaced"]
    else:
        names = list(dict.fromkeys(x.task for x in looks))
        grid = [[(x, x.saw, x.agent) for x in looks if x.task == task] for task in names]
    columns = max(map(len, grid))
    figure = Figure(figsize=(2.6 * columns, 2.7 * len(grid)), layout="constrained")
    axes = figure.subplots(len(grid), columns, squeeze=False)
    for row, name, cells in zip(axes, names, grid, strict=True):
        for place in row[len(cells) :]:
            place.set_axis_off()
        for place, (x, values, title) in zip(row, cells, strict=False):
            _map(place, values, x.cue, f"{title}\n{x.score}".replace("+", "\n+") if title else "")
        row[0].set_ylabel(f"{name}\ndecision at step t", fontsize=8)
    for place in axes[-1]:
        place.set_xlabel("step k", fontsize=8)
    plots.save(figure, path)


def _map(axes: Axes, values: np.ndarray, cue: np.ndarray, title: str) -> None:
    axes.imshow(values, cmap="viridis", vmin=0, vmax=max(float(np.nanmax(values)), 1e-3))
    for step in cue:
        axes.axvline(step, color="tab:red", linewidth=1, linestyle=":")
    axes.set_title(title, fontsize=8)
    axes.tick_params(labelsize=7)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5, integer=True))


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.png")
    parser.add_argument("--both", action="store_true", help="what it did too")
    args: Any = parser.parse_args(arguments)
    draw([look(run) for run in args.runs], args.both, args.out)


if __name__ == "__main__":
    sys.exit(main())
