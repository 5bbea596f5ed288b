"""Pictures of a run, and of several side by side."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, NullFormatter, PercentFormatter

from dtqn.files import replacing

Row = Mapping[str, float | int | None]
_EVALUATION, _TRAINING = "#1f5fa8", "#e07b39"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7A5195")
"""Told apart without seeing red from green (Okabe and Ito 2008, whose yellow is too faint for lines)."""
_DASHES = ("-", "--", ":", "-.")
SHARE_OF_RUNS = "share of runs"
"""The y of a performance profile."""
_COLUMNS = 3
_MANY = 12
"""Beyond so many panels there are twice as many columns."""
_LETTERS_AN_INCH = 15
"""Of a note below panels; so no line of it is wider than the picture."""
_LETTERS_OF_A_LABEL = 30
"""In a line of the legend beside panels."""
_FEW_PLACES = 10
"""So many x at most have a tick each, on an axis by the logarithm."""


class Curve(NamedTuple):
    """An agent's way through one task."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None
    """Lower edge of the band; None for a line alone."""
    high: Sequence[float] | None
    runs: Sequence[int]
    """How many its points are of, each number once; none for the figures of others."""
    marker: str = ""
    """The sign at each of its points; empty for a line alone."""


class Panel(NamedTuple):
    """One task."""

    title: str
    name: str
    """The name of y: `success`, `return` or another score."""
    curves: Sequence[Curve]
    ceiling: float = 1.0
    """The success rate that no agent can exceed."""
    chance: float | None = None
    """The result of uniformly random actions; None where it is not known."""
    solved: float | None = None
    """The score above which the task counts as solved; None where there is none."""
    observation_alone: float | None = None
    """The best score by the observation alone; None where it is not known."""


def learning_curve(
    rows: Sequence[Row],
    path: Path,
    title: str,
    ceiling: float = 1.0,
    chance: float | None = None,
    policy: str = "greedy",
) -> None:
    """Draw success, or the return where the task defines none, against environment steps.

    Both axes of a success begin at 0, and the steps do in any case.

    Args:
        rows: the metrics file's rows.
        path: the PNG, replaced atomically.
        title: the task, agent and seed.
        ceiling: the success rate that no agent can exceed.
        chance: what uniformly random actions reach, on the scale of y; None where that is not known.
        policy: that of evaluations (`EvaluationConfig.policy`).
    """
    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    axes = figure.subplots()
    name = "success" if any(row.get("eval/success") is not None for row in rows) else "return"
    _training_curve(axes, rows, name)
    _evaluation_curve(axes, rows, name, policy)
    if chance is not None:
        text = f"random actions, {chance:.1%}" if name == "success" else f"random actions, {chance:.3g}"
        axes.axhline(chance, color="0.4", linestyle=":", linewidth=1, label=text)
    _dress(axes, name, title, ceiling)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlabel("environment steps")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, loc="best")
    save(figure, path)


def comparison(panels: Sequence[Panel], path: Path, clock: str, note: str, log: bool = False) -> None:
    """Draw every agent's curve in every task, a panel a task, with one legend for all beside them.

    Args:
        path: the PNG or SVG, by its suffix; replaced atomically.
        clock: what x is, such as `environment steps` or `minutes`.
        note: what lines and bands are; below the panels.
        log: draw x by its logarithm.
    """
    columns = min(len(panels), _COLUMNS if len(panels) <= _MANY else 2 * _COLUMNS)
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(5.2 * columns + 1.6, 3.7 * rows + 0.3), layout="constrained")
    styles = _styles(panels)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    for axes, panel in zip(grid, panels, strict=False):
        for above, curve in zip(reversed(range(len(panel.curves))), panel.curves, strict=True):
            _comparison_curve(axes, curve, styles[curve.label], above)
        for level, line, width, label in (
            (panel.chance, ":", 1.2, "random actions"),
            (panel.solved, "-.", 1.0, "solved above"),
            (panel.observation_alone, "--", 1.0, "best by the observation alone"),
        ):
            if level is not None:
                axes.axhline(level, color="0.4", linestyle=line, linewidth=width, label=label)
        _dress(axes, panel.name, panel.title, panel.ceiling)
        if log:
            axes.set_xscale("log")
            places = sorted({x for curve in panel.curves for x in curve.x})
            if len(places) <= _FEW_PLACES:  # a decade may lie between no two of them
                axes.set_xticks(places)
            axes.xaxis.set_major_formatter(EngFormatter(sep=""))
            axes.xaxis.set_minor_formatter(NullFormatter())
        else:
            axes.set_xlim(left=0)
        axes.set_xlabel(clock)
        if clock == "environment steps":
            axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    handles = {
        label: handle
        for axes in grid
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    if handles:
        labels = [textwrap.fill(label, _LETTERS_OF_A_LABEL) for label in handles]
        figure.legend(handles.values(), labels, loc="outside right upper", frameon=False)
    letters = int(_LETTERS_AN_INCH * figure.get_figwidth())
    figure.supxlabel(textwrap.fill(note, letters), fontsize=8, color="0.35")
    save(figure, path)


def _styles(panels: Sequence[Panel]) -> dict[str, dict[str, Any]]:
    """Colour, dashes and the label in the legend of each agent, the same in all panels."""
    counts: dict[str, set[int]] = {}
    for panel in panels:
        for curve in panel.curves:
            counts.setdefault(curve.label, set()).update(curve.runs)
    return {
        label: {
            "color": COLOURS[index % len(COLOURS)],
            "linestyle": _DASHES[index // len(COLOURS) % len(_DASHES)],
            "linewidth": 1.8,
            "clip_on": False,  # a line at 0 is seen in full
            "label": f"{label} (n = {' or '.join(map(str, sorted(runs)))})" if runs else label,
        }
        for index, (label, runs) in enumerate(counts.items())
    }


def _comparison_curve(axes: Axes, curve: Curve, style: Mapping[str, Any], above: int) -> None:
    """A line and its band; of a single evaluation a point and its bar.

    Points often coincide with those of other agents. All lie on their place, and a point or a line with
    markers is wider, the more curves are drawn `above` it, so that each is seen around those.
    """
    single = len(curve.x) == 1
    if single or curve.marker:
        style = {**style, "linewidth": style["linewidth"] + above, "markersize": 4 + 2 * above}
    if single:
        bar = None
        if curve.low is not None and curve.high is not None:
            bar = [[curve.y[0] - curve.low[0]], [curve.high[0] - curve.y[0]]]
        axes.errorbar(curve.x, curve.y, bar, marker="o", capsize=4 + above, **style)
        return
    axes.plot(curve.x, curve.y, marker=curve.marker, **style)
    if curve.low is not None and curve.high is not None:
        axes.fill_between(curve.x, curve.low, curve.high, color=style["color"], alpha=0.16, linewidth=0)


def _dress(axes: Axes, name: str, title: str, ceiling: float) -> None:
    """Draw what all pictures of a score share."""
    if name.endswith("success") or name == SHARE_OF_RUNS:
        axes.set_ylim(0, 1.02)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        if ceiling < 1:
            axes.axhline(ceiling, color="0.4", linestyle="--", linewidth=1, label=f"ceiling {ceiling:.1%}")
    axes.set_ylabel({"success": "success rate", "return": "episode return"}.get(name, name))
    axes.set_title(title, fontsize=11)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def save(figure: Figure, path: Path) -> None:
    """Write the picture whole, the same bytes for the same picture."""
    kind = path.suffix.lstrip(".")
    no_date: dict[str, Any] | None = {"Date": None} if kind == "svg" else None
    with replacing(path) as temporary, rc_context({"svg.hashsalt": "dtqn"}):
        figure.savefig(temporary, format=kind, dpi=120, metadata=no_date)


def _evaluation_curve(axes: Axes, rows: Sequence[Row], name: str, policy: str) -> None:
    steps, values = _points(rows, f"eval/{name}")
    if not steps:
        return
    axes.plot(
        steps,
        values,
        color=_EVALUATION,
        marker="o",
        markersize=4,
        linewidth=1.8,
        label=f"{policy} evaluation{_episodes(rows)}",
        clip_on=False,  # a marker at 0 is drawn whole
        zorder=3,
    )
    low, high = _points(rows, "eval/success_low")[1], _points(rows, "eval/success_high")[1]
    if name != "success" or not len(low) == len(high) == len(steps):
        return
    interval = "95 % interval of its episodes (Wilson)"
    if len(steps) == 1:  # a band of no width is not seen
        axes.vlines(steps, low, high, color=_EVALUATION, alpha=0.4, linewidth=4, label=interval)
    else:
        axes.fill_between(steps, low, high, color=_EVALUATION, alpha=0.18, linewidth=0, label=interval)


def _episodes(rows: Sequence[Row]) -> str:
    """How many episodes an evaluation had, for the legend."""
    counts = [int(count) for count in _points(rows, "eval/episodes")[1]]
    if not counts:
        return ""
    low, high = min(counts), max(counts)
    return f", n = {low}" if low == high else f", n = {low} to {high}"


def _training_curve(axes: Axes, rows: Sequence[Row], name: str) -> None:
    steps, values = _points(rows, f"train/{name}")
    if steps:
        axes.plot(steps, values, color=_TRAINING, linewidth=1.2, label="training, exploring")


def _points(rows: Sequence[Row], key: str) -> tuple[list[float], list[float]]:
    """Environment steps and values of the rows that have `key`."""
    pairs = [(row["env_steps"], value) for row in rows if (value := row.get(key)) is not None]
    return [float(steps or 0) for steps, _ in pairs], [float(value) for _, value in pairs]


class Share(Protocol):
    """How much a sweep's result depends on a parameter, by two measures."""

    @property
    def name(self) -> str: ...

    @property
    def importance(self) -> float: ...

    @property
    def deviation(self) -> float: ...

    @property
    def correlation(self) -> float | None: ...


def importance(shares: Sequence[Share], path: Path, metric: str, r2: float, runs: int) -> None:
    """Draw the importance and the correlation of each parameter, the first at the top.

    Args:
        shares: none where no dependence was found, which the picture then says.
        r2: the share of the results' variance that is explained in runs that were held out.
    """
    figure = Figure(figsize=(8.0, 1.4 + 0.42 * max(len(shares), 1)), layout="constrained")
    if not shares:
        text = f"no dependence of {metric} found: held-out R² = {r2:.2f}, {runs} runs"
        figure.text(0.5, 0.5, text, ha="center", va="center", fontsize=11)
        save(figure, path)
        return
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(1, 1))
    places = list(range(len(shares)))
    left.barh(
        places,
        [share.importance for share in shares],
        xerr=[share.deviation for share in shares],
        color=_EVALUATION,
        ecolor="0.4",
        height=0.6,
    )
    left.set_xlabel("importance (PED-ANOVA)\nwith its deviation over parts of the runs")
    left.set_yticks(places, [share.name for share in shares])
    left.invert_yaxis()
    known = [
        (place, share.correlation) for place, share in enumerate(shares) if share.correlation is not None
    ]
    colours = [COLOURS[2] if value >= 0 else COLOURS[1] for _, value in known]
    right.barh([place for place, _ in known], [value for _, value in known], color=colours, height=0.6)
    right.set_xlim(-1.05, 1.05)
    right.axvline(0, color="0.4", linewidth=0.8)
    right.set_xlabel("rank correlation\n(where values are ordered)")
    for axes in (left, right):
        axes.grid(axis="x", alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
    figure.suptitle(f"Dependence of {metric} on settings: held-out R² = {r2:.2f}, {runs} runs", fontsize=11)
    save(figure, path)


class Parameter(Protocol):
    """The values of a setting that were tried."""

    @property
    def name(self) -> str: ...

    @property
    def positions(self) -> Sequence[float]:
        """One a run."""
        ...

    @property
    def ticks(self) -> Sequence[tuple[float, str]]: ...


def by_parameter(
    parameters: Sequence[Parameter], values: Sequence[float], path: Path, metric: str, best: int
) -> None:
    """Draw every run's result against each parameter, a panel a parameter, in the given order.

    Args:
        values: the results of the runs.
        metric: what they are.
        best: the run that is marked in all panels.
    """
    columns = min(len(parameters), 4)
    rows = -(-len(parameters) // columns)
    figure = Figure(figsize=(max(2.7 * columns, 5.0) + 0.4, 2.3 * rows + 0.5), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel()
    for axes in grid[len(parameters) :]:
        axes.set_visible(False)
    for axes, parameter in zip(grid, parameters, strict=False):
        axes.scatter(parameter.positions, values, s=16, color=_EVALUATION, alpha=0.6, linewidth=0)
        axes.scatter(
            parameter.positions[best],
            values[best],
            s=44,
            facecolor="none",
            edgecolor=_TRAINING,
            linewidth=1.8,
        )
        places, texts = zip(*parameter.ticks, strict=True)
        axes.set_xticks(places, texts, fontsize=8)
        axes.margins(x=0.12)
        axes.tick_params(axis="y", labelsize=8)
        axes.set_title(parameter.name, fontsize=9)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    figure.supylabel(metric, fontsize=10)
    figure.suptitle(f"{len(values)} runs; ringed: the best single one", fontsize=11)
    save(figure, path)


class DependenceMap(NamedTuple):
    """An episode of T decisions, for a picture."""

    title: str
    values: np.ndarray
    """[T, T] of the decision at t (row) on step k (column)."""
    marked: Sequence[int] | None
    """Steps that show the cue; None where the task names none."""


def dependence_maps(maps: Sequence[DependenceMap], path: Path, title: str) -> None:
    """Draw what each decision hangs on, an episode a panel, all in one scale."""
    columns = min(len(maps), 2)
    rows = -(-len(maps) // columns)
    figure = Figure(figsize=(4.4 * columns + 0.6, 4.0 * rows + 0.5), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in grid[len(maps) :]:
        axes.set_visible(False)
    highest = max(float(x.values.max()) for x in maps)
    scale = min(highest, 1.0) or 1.0
    for axes, of in zip(grid, maps, strict=False):
        length = len(of.values)
        lower = np.ma.masked_where(np.triu(np.ones((length, length), bool), 1), of.values)
        picture = axes.imshow(lower, cmap="viridis", vmin=0, vmax=scale, interpolation="nearest")
        for step in of.marked or ():
            axes.plot(step, length - 0.5, marker="^", color=_TRAINING, markersize=7, clip_on=False, zorder=3)
        axes.set_title(of.title, fontsize=10)
        axes.set_xlabel("step that showed something else" + (" (triangle: the cue)" if of.marked else ""))
        axes.set_ylabel("decision at step")
        axes.spines[["top", "right"]].set_visible(False)
    bar = figure.colorbar(
        picture, ax=list(grid[: len(maps)]), shrink=0.8, extend="max" if highest > scale else "neither"
    )
    bar.set_label("change of advantages, share of the episode's range of Q")
    figure.suptitle(title, fontsize=11)
    save(figure, path)
