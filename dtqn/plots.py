"""Pictures of a run, and of several side by side."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, PercentFormatter

from dtqn.files import replacing

Row = Mapping[str, float | int | None]
_EVALUATION, _TRAINING = "#1f5fa8", "#e07b39"
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7A5195")
"""Told apart without seeing red from green (Okabe and Ito 2008, whose yellow is too faint for lines)."""
_DASHES = ("-", "--", ":", "-.")
_COLUMNS = 3


class Curve(NamedTuple):
    """An agent's way through one task."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None
    """Lower edge of the band; none for a line alone."""
    high: Sequence[float] | None


class Panel(NamedTuple):
    """One task."""

    title: str
    name: str
    """`success` or `return`."""
    curves: Sequence[Curve]
    ceiling: float = 1.0


def learning_curve(
    rows: Sequence[Row], path: Path, title: str, ceiling: float = 1.0, chance: float | None = None
) -> None:
    """Draw success, or the return where the task defines none, against environment steps.

    Both axes of a success begin at 0, and the steps do in any case.

    Args:
        rows: the metrics file's rows.
        path: the PNG, replaced atomically.
        title: the task, agent and seed.
        ceiling: the success rate that no agent can exceed.
        chance: what uniformly random actions reach, on the scale of y; none where that is not known.
    """
    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    axes = figure.subplots()
    name = "success" if any(row.get("eval/success") is not None for row in rows) else "return"
    _training_curve(axes, rows, name)
    _evaluation_curve(axes, rows, name)
    if chance is not None:
        text = f"random actions, {chance:.1%}" if name == "success" else f"random actions, {chance:.3g}"
        axes.axhline(chance, color="0.4", linestyle=":", linewidth=1, label=text)
    _dress(axes, name, title, ceiling)
    if name == "success":
        axes.set_ylim(0.0, 1.02)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlabel("environment steps")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, loc="best")
    _save(figure, path)


def comparison(panels: Sequence[Panel], path: Path, clock: str, note: str) -> None:
    """Draw every agent's curve in every task, a panel a task, with one legend for all beside them.

    Args:
        path: the PNG or SVG, by its suffix; replaced atomically.
        clock: what x is, `environment steps` or `minutes`.
        note: what lines and bands are; below the panels.
    """
    columns = min(len(panels), _COLUMNS)
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(5.2 * columns + 1.6, 3.7 * rows + 0.3), layout="constrained")
    labels = list(dict.fromkeys(curve.label for panel in panels for curve in panel.curves))
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    for axes, panel in zip(grid, panels, strict=False):
        for curve in panel.curves:
            index = labels.index(curve.label)
            colour, dash = _COLOURS[index % len(_COLOURS)], _DASHES[index // len(_COLOURS) % len(_DASHES)]
            axes.plot(curve.x, curve.y, color=colour, linestyle=dash, linewidth=1.8, label=curve.label)
            if curve.low is not None and curve.high is not None:
                axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.16, linewidth=0)
        _dress(axes, panel.name, panel.title, panel.ceiling)
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
        figure.legend(handles.values(), handles.keys(), loc="outside right upper", frameon=False)
    figure.supxlabel(note, fontsize=8, color="0.35")
    _save(figure, path)


def _dress(axes: Axes, name: str, title: str, ceiling: float) -> None:
    """What all pictures of success or return have."""
    if name == "success":
        axes.set_ylim(-0.02, 1.02)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        if ceiling < 1:
            axes.axhline(ceiling, color="0.4", linestyle="--", linewidth=1, label=f"ceiling {ceiling:.1%}")
    axes.set_ylabel("success rate" if name == "success" else "episode return")
    axes.set_title(title, fontsize=11)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def _save(figure: Figure, path: Path) -> None:
    """Write the picture whole, the same bytes for the same picture."""
    kind = path.suffix.lstrip(".")
    with replacing(path) as temporary, rc_context({"svg.hashsalt": "dtqn"}):
        figure.savefig(temporary, format=kind, dpi=120, metadata={"Date": None} if kind == "svg" else None)


def _evaluation_curve(axes: Axes, rows: Sequence[Row], name: str) -> None:
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
        label=f"greedy evaluation{_episodes(rows)}",
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


def importance(shares: Sequence[Share], path: Path, metric: str) -> None:
    """Draw the importance and the correlation of each parameter, the first at the top."""
    figure = Figure(figsize=(8.0, 1.4 + 0.42 * len(shares)), layout="constrained")
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
    left.set_xlabel("permutation importance\n(drop in R² of a random forest)")
    left.set_yticks(places, [share.name for share in shares])
    left.invert_yaxis()
    known = [
        (place, share.correlation) for place, share in enumerate(shares) if share.correlation is not None
    ]
    colours = [_COLOURS[2] if value >= 0 else _COLOURS[1] for _, value in known]
    right.barh([place for place, _ in known], [value for _, value in known], color=colours, height=0.6)
    right.set_xlim(-1.05, 1.05)
    right.axvline(0, color="0.4", linewidth=0.8)
    right.set_xlabel("rank correlation\n(where values are ordered)")
    for axes in (left, right):
        axes.grid(axis="x", alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
    figure.suptitle(f"What {metric} depends on", fontsize=11)
    _save(figure, path)


class Coordinate(NamedTuple):
    """A vertical axis that every run's line crosses."""

    name: str
    positions: Sequence[float]
    """One a run."""
    ticks: Sequence[tuple[float, str]]


class Parameter(Protocol):
    """What `Coordinate` says, of a parameter."""

    @property
    def name(self) -> str: ...

    @property
    def positions(self) -> Sequence[float]: ...

    @property
    def ticks(self) -> Sequence[tuple[float, str]]: ...


def parallel_coordinates(
    parameters: Sequence[Parameter],
    values: Sequence[float],
    path: Path,
    metric: str,
    larger_is_better: bool,
) -> None:
    """Draw each run as a line through its parameters to its result, the better the darker and on top.

    Args:
        values: the results of the runs.
        metric: what they are.
    """
    low, high = min(values), max(values)
    ticks = [(low + (high - low) * share / 4, f"{low + (high - low) * share / 4:.3g}") for share in range(5)]
    result = Coordinate(metric, values, ticks if high > low else ticks[:1])
    columns: list[Parameter] = [*parameters, result]
    figure = Figure(figsize=(2.0 + 1.35 * len(columns), 4.8), layout="constrained")
    axes = figure.subplots()
    scales = [_unit([*column.positions, *(tick for tick, _ in column.ticks)]) for column in columns]
    shades = _unit(values)
    for run in sorted(range(len(values)), key=lambda run: values[run], reverse=not larger_is_better):
        heights = [scale(column.positions[run]) for scale, column in zip(scales, columns, strict=True)]
        share = shades(values[run]) if larger_is_better else 1 - shades(values[run])
        colour = colormaps["viridis_r"](share)
        axes.plot(range(len(columns)), heights, color=colour, linewidth=1.0 + 1.6 * share, alpha=0.85)
    for place, (scale, column) in enumerate(zip(scales, columns, strict=True)):
        axes.axvline(place, color="0.3", linewidth=0.9)
        for tick, text in column.ticks:
            axes.plot([place - 0.03, place], [scale(tick)] * 2, color="0.3", linewidth=0.9)
            label = axes.text(place - 0.06, scale(tick), text, ha="right", va="center", fontsize=8)
            label.set_bbox({"facecolor": "white", "alpha": 0.85, "linewidth": 0, "pad": 1.0})
    names = [_broken(column.name) for column in columns]
    axes.set_xticks(range(len(columns)), names, fontsize=8)
    axes.set_xlim(-0.45, len(columns) - 0.65)
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    axes.tick_params(axis="x", length=0, pad=8)
    axes.set_title(f"{len(values)} runs; darker: better {metric}", fontsize=11)
    _save(figure, path)


def _broken(name: str) -> str:
    """A setting's name on lines that fit below an axis."""
    spaced = name.replace(".", ". ").replace("_", "_ ")
    return textwrap.fill(spaced, 20).replace(". ", ".").replace("_ ", "_")


def _unit(values: Sequence[float]) -> Callable[[float], float]:
    """The map of the values' range to 0..1; to the middle where they are all the same."""
    low, high = min(values), max(values)
    return lambda value: (value - low) / (high - low) if high > low else 0.5
