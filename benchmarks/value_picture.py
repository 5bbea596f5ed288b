"""The picture of `benchmarks.value_of_information`: values by cell, and named places over training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter
from numpy.typing import NDArray

from dtqn.plots import COLOURS, save

Point = Mapping[str, Any]

MAPS = 6
"""Moments that have maps, at most."""
_CUES = {"seen": COLOURS[0], "unseen": COLOURS[1]}
_LINES = {
    "value": ("-", "V = max Q"),
    "greedy_return": ("--", "real greedy return"),
    "optimum": (":", "optimum"),
}
_PANELS = 4


def draw(points: Sequence[Point], title: str, path: Path) -> None:
    """Draw all measurements of a run.

    Where places are cells, there are three maps for each of at most `MAPS` moments (V with the cue seen, V
    with it unseen, the difference) and for the optimum, which is averaged over the samples of all moments.

    Args:
        points: as in the JSON file, at least one.
        path: the PNG or SVG, by its suffix; replaced atomically.
    """
    names = list(points[0]["places"])
    rows = -(-len(names) // _PANELS)
    columns = -(-len(names) // rows)
    moments = sorted({round(i) for i in np.linspace(0, len(points) - 1, min(MAPS, len(points)))})
    mapped = bool(points[0]["cells"])
    height = [3 * 1.75 + 0.9] * mapped + [2.4 * rows + 0.7]
    width = max(3.0 * columns, 1.75 * (len(moments) + 1) + 1.3 if mapped else 0.0)
    figure = Figure(figsize=(width, sum(height) + 0.4), layout="constrained")
    figure.suptitle(f"Value of information: {title} (scaled returns)", fontsize=12)
    parts = figure.subfigures(len(height), 1, height_ratios=height, squeeze=False).ravel()
    if mapped:
        _maps(parts[0], [points[i] for i in moments], points)
    _lines(parts[-1], points, names, rows, columns)
    save(figure, path)


def _maps(figure: SubFigure, shown: Sequence[Point], points: Sequence[Point]) -> None:
    columns = {
        f"{EngFormatter(sep='', places=0)(point['env_steps'])} steps": _pair([point], "value")
        for point in shown
    }
    columns["optimum"] = _pair(points, "optimum")
    maps = {name: [seen, unseen, seen - unseen] for name, (seen, unseen) in columns.items()}
    largest = max(
        (np.nanmax(np.abs(x)) for all in maps.values() for x in all if not np.isnan(x).all()), default=1
    )
    norm = Normalize(-largest, largest)
    grid = figure.subplots(3, len(maps), squeeze=False)
    inside = np.isfinite(_grid(points[0], dict.fromkeys(points[0]["cells"], 0.0)))
    for column, (name, values) in enumerate(maps.items()):
        for row, label in enumerate(("V, cue seen", "V, cue unseen", "difference")):
            axes = grid[row, column]
            _map(axes, values[row], inside, norm)
            if row == 0:
                axes.set_title(name, fontsize=10)
            if column == 0:
                axes.set_ylabel(label, fontsize=10)
    figure.colorbar(ScalarMappable(norm, "RdBu"), ax=grid, shrink=0.6, aspect=40)


def _map(axes: Axes, values: NDArray[np.float64], inside: NDArray[np.bool_], norm: Normalize) -> None:
    axes.imshow(np.where(inside, 1.0, 0.8), cmap="gray", vmin=0, vmax=1)
    axes.imshow(values, cmap="RdBu", norm=norm)
    for y, x in np.argwhere(np.isfinite(values)):
        text = f"{values[y, x]:.2f}".replace("0.", ".", 1)
        colour = "white" if abs(values[y, x]) > 0.6 * (norm.vmax or 1) else "black"
        axes.text(x, y, text, ha="center", va="center", fontsize=6.5, color=colour)
    axes.set(xticks=[], yticks=[])


def _pair(points: Sequence[Point], name: str) -> list[NDArray[np.float64]]:
    """Maps of `name` with the cue seen and unseen, over the samples of some points."""
    maps = []
    for cue in _CUES:
        of_cells = {}
        for cell in points[0]["cells"]:
            found = [point["cells"][cell][cue] for point in points]
            counted = [(x[name], x["samples"]) for x in found if x[name] is not None]
            if counted:
                of_cells[cell] = sum(x * n for x, n in counted) / sum(n for _, n in counted)
        maps.append(_grid(points[0], of_cells))
    return maps


def _grid(point: Point, values: Mapping[str, float]) -> NDArray[np.float64]:
    """[rows, columns] with a wall around all cells; NaN where there is no value."""
    size = 2 + np.array([[int(part) for part in cell.split(",")] for cell in point["cells"]]).max(axis=0)
    grid = np.full(size, np.nan)
    for cell, value in values.items():
        y, x = map(int, cell.split(","))
        grid[y, x] = value
    return grid


def _lines(figure: SubFigure, points: Sequence[Point], names: Sequence[str], rows: int, columns: int) -> None:
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel()
    drawn: set[str] = set()
    for axes in grid[len(names) :]:
        axes.set_visible(False)
    for axes, name in zip(grid, names, strict=False):
        for cue, colour in _CUES.items():
            found = [point["places"][name][cue] for point in points]
            for kind, (dashes, _) in _LINES.items():
                known = [
                    (p["env_steps"], x[kind])
                    for p, x in zip(points, found, strict=True)
                    if x[kind] is not None
                ]
                if known:
                    drawn.add(kind)
                    marker = {"marker": "o", "markersize": 4} if kind != "optimum" else {}
                    axes.plot(*zip(*known, strict=True), dashes, color=colour, linewidth=1.5, **marker)
        axes.set_title(name, fontsize=10)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    for axes in grid[len(names) - columns : len(names)]:
        axes.set_xlabel("environment steps")
    handles = [Line2D([], [], color=colour, label=f"cue {cue}") for cue, colour in _CUES.items()]
    handles += [
        Line2D([], [], color="0.3", linestyle=d, label=t) for k, (d, t) in _LINES.items() if k in drawn
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
