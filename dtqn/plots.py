"""Pictures of a run, and of several side by side."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib import get_data_path, rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator, NullFormatter, PercentFormatter

from dtqn.files import replacing

Row = Mapping[str, float | int | None]
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7A5195")
"""Told apart without seeing red from green (Okabe and Ito 2008, whose yellow is too faint for lines)."""
MONOSPACE = Path(get_data_path(), "fonts/ttf/DejaVuSansMono.ttf")
"""The file of a font of one width that has bars, for text in pictures that are not drawn here."""
_DASHES = ("-", "--", ":", "-.")
SHARE_OF_RUNS = "share of runs"
"""The y of a performance profile."""
_COLUMNS = 3
_MANY = 12
"""Beyond so many panels there are twice as many columns."""
_PUBLISHED = (0, (4, 1.5, 1, 1.5, 1, 1.5))
"""A line for figures of others: a dash and two points."""
_LETTERS_AN_INCH = 15
"""Of a note below panels; so no line of it is wider than the picture."""
_LETTERS_OF_A_LABEL = 30
"""In a line of the legend next to panels."""
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
    published: Mapping[str, float] = {}
    """Figures of others, by the label of their line."""


def learning_curve(
    rows: Sequence[Row],
    path: Path,
    title: str,
    ceiling: float = 1.0,
    chance: float | None = None,
    policy: str = "greedy",
) -> None:
    """Draw success, or the return where the task defines none, against environment steps.

    Args:
        rows: the metrics file's rows.
        path: the PNG, replaced atomically.
        title: the task, agent and seed.
        ceiling: the success rate that no agent can exceed.
        chance: what uniformly random actions reach, on the scale of y; None where that is not known.
        policy: the policy of evaluations (`EvaluationConfig.policy`).
    """
    name = "success" if any(row.get("eval/success") is not None for row in rows) else "return"
    evaluation = f"{policy} evaluation{_episodes(rows)}"
    training = Curve("training, exploring", *points(rows, f"train/{name}"), None, None, [])
    curves = [evaluations(evaluation, rows, name)._replace(marker="o"), training]
    panel = Panel(title, name, [curve for curve in curves if curve.x], ceiling, chance)
    notes = ["band: 95 % interval of its episodes (Wilson)"] if curves[0].low else []
    if chance is not None:
        notes.append(
            f"random actions: {chance:.1%}" if name == "success" else f"random actions: {chance:.3g}"
        )
    comparison([panel], path, "environment steps", "; ".join(notes))


def evaluations(label: str, rows: Sequence[Row], name: str) -> Curve:
    """The success, or the return, of one run's evaluations; a success has the band of its episodes."""
    low, high = (points(rows, f"eval/success_{edge}")[1] for edge in ("low", "high"))
    x, y = points(rows, f"eval/{name}")
    if name != "success" or not len(low) == len(high) == len(x):
        return Curve(label, x, y, None, None, [])
    return Curve(label, x, y, low, high, [])


def _episodes(rows: Sequence[Row]) -> str:
    """How many episodes an evaluation had, for the legend."""
    counts = [int(count) for count in points(rows, "eval/episodes")[1]]
    if not counts:
        return ""
    low, high = min(counts), max(counts)
    return f", n = {low}" if low == high else f", n = {low} to {high}"


def points(rows: Sequence[Row], key: str, axis: str = "env_steps") -> tuple[list[float], list[float]]:
    """`axis` and values of the rows that have `key`.

    Of two at one env step, as where a short evaluation is followed by the run's last one, the later counts.
    """
    kept = {row["env_steps"]: row for row in rows if row.get(key) is not None}.values()
    return [float(row[axis] or 0) for row in kept], [float(row[key] or 0) for row in kept]


def comparison(panels: Sequence[Panel], path: Path, clock: str, note: str, log: bool = False) -> None:
    """Draw every agent's curve in every task, a panel for each task, with one legend next to them.

    Args:
        path: the PNG or SVG, by its suffix; replaced atomically.
        clock: what x is, such as `environment steps` or `minutes`.
        note: what lines and bands are; below the panels.
        log: draw x by its logarithm.
    """
    figure, grid = _grid(len(panels))
    styles = _styles(panels)
    for axes, panel in zip(grid, panels, strict=True):
        for above, curve in zip(reversed(range(len(panel.curves))), panel.curves, strict=True):
            _comparison_curve(axes, curve, styles[curve.label], above)
        for level, line, width, label in (
            (panel.chance, ":", 1.2, "random actions"),
            (panel.solved, "-.", 1.0, "solved above"),
            (panel.observation_alone, "--", 1.0, "best by the observation alone"),
        ):
            if level is not None:
                axes.axhline(level, color="0.4", linestyle=line, linewidth=width, label=label)
        for label, level in panel.published.items():
            axes.axhline(level, color="black", linestyle=_PUBLISHED, linewidth=1.0, label=label)
        _dress(axes, panel)
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
    """Draw a line and its band, or a point and its bar for a single evaluation.

    Points of several agents often coincide. All stay in place; the more curves are drawn `above` a point or
    a line with markers, the wider it is, so that it shows around them.
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


def _dress(axes: Axes, panel: Panel) -> None:
    """Draw all but what depends on x: the title, the axis of y, and lines of a grid without a frame."""
    name, ceiling = panel.name, panel.ceiling
    if name.endswith("success") or name == SHARE_OF_RUNS:
        axes.set_ylim(0, 1.02)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        if ceiling < 1:
            axes.axhline(ceiling, color="0.4", linestyle="--", linewidth=1, label=f"ceiling {ceiling:.1%}")
    axes.set_ylabel({"success": "success rate", "return": "episode return"}.get(name, name))
    axes.set_title(panel.title, fontsize=11)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def _grid(count: int) -> tuple[Figure, list[Axes]]:
    """A picture of `count` panels, with room for the legend and the note."""
    columns = min(count, _COLUMNS if count <= _MANY else 2 * _COLUMNS)
    rows = -(-count // columns)
    figure = Figure(figsize=(5.2 * columns + 1.6, 3.7 * rows + 0.3), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in grid[count:]:
        axes.set_visible(False)
    return figure, list(grid[:count])


class Map(NamedTuple):
    """What decisions depend on in an episode."""

    title: str
    values: Any
    """[T, T], an array: of the decision at t on step k; nan where there is none."""
    cue: Sequence[float]
    """Steps to mark."""
    brightest: float
    """The value of the brightest colour."""


def maps(rows: Mapping[str, Sequence[Map]], path: Path) -> None:
    """Write rows of maps, with their names, into an image."""
    columns = max(map(len, rows.values()))
    figure = Figure(figsize=(2.6 * columns, 2.8 * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for axes_of_row, (name, row) in zip(grid, rows.items(), strict=True):
        axes_of_row[0].set_ylabel(f"{name}\ndecision at step t", fontsize=8)
        for axes in axes_of_row[len(row) :]:
            axes.set_axis_off()
        for axes, one in zip(axes_of_row, row, strict=False):
            _map(axes, one)
    for axes in grid[-1]:
        axes.set_xlabel("step k", fontsize=8)
    save(figure, path)


def _map(axes: Axes, of: Map) -> None:
    axes.imshow(of.values, cmap="viridis", vmin=0, vmax=of.brightest)
    for step in of.cue:
        axes.axvline(step, color="tab:red", linewidth=1, linestyle=":")
    axes.set_title(of.title, fontsize=8)
    axes.tick_params(labelsize=7)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5, integer=True))


def save(figure: Figure, path: Path) -> None:
    """Write the picture whole, the same bytes for the same picture."""
    kind = path.suffix.lstrip(".")
    no_date: dict[str, Any] | None = {"Date": None} if kind == "svg" else None
    with replacing(path) as temporary, rc_context({"svg.hashsalt": "dtqn"}):
        figure.savefig(temporary, format=kind, dpi=120, metadata=no_date)
