"""Pictures of a run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, PercentFormatter

Row = Mapping[str, float | int | None]
_EVALUATION, _TRAINING = "#1f5fa8", "#e07b39"


def learning_curve(rows: Sequence[Row], path: Path, title: str, ceiling: float = 1.0) -> None:
    """Draw success, or the return where the task defines none, against environment steps.

    Args:
        rows: the metrics file's rows.
        path: the PNG, replaced atomically.
        title: the task, agent and seed.
        ceiling: the success rate that no agent can exceed.
    """
    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    axes = figure.subplots()
    name = "success" if any(row.get("eval/success") is not None for row in rows) else "return"
    _training_curve(axes, rows, name)
    _evaluation_curve(axes, rows, name)
    if name == "success":
        axes.set_ylim(-0.02, 1.02)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        if ceiling < 1:
            axes.axhline(ceiling, color="0.4", linestyle="--", linewidth=1, label=f"ceiling {ceiling:.1%}")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlabel("environment steps")
    axes.set_ylabel("success rate" if name == "success" else "episode return")
    axes.set_title(title, fontsize=11)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, loc="best")
    temporary = path.with_suffix(".tmp")
    figure.savefig(temporary, format="png", dpi=120)
    os.replace(temporary, path)


def _evaluation_curve(axes: Axes, rows: Sequence[Row], name: str) -> None:
    steps, values = _points(rows, f"eval/{name}")
    if not steps:
        return
    axes.plot(
        steps, values, color=_EVALUATION, marker="o", markersize=4, linewidth=1.8, label="greedy evaluation"
    )
    low, high = _points(rows, "eval/success_low")[1], _points(rows, "eval/success_high")[1]
    if name == "success" and len(low) == len(high) == len(steps):
        axes.fill_between(
            steps, low, high, color=_EVALUATION, alpha=0.18, linewidth=0, label="95 % interval (Wilson)"
        )


def _training_curve(axes: Axes, rows: Sequence[Row], name: str) -> None:
    steps, values = _points(rows, f"train/{name}")
    if steps:
        axes.plot(steps, values, color=_TRAINING, linewidth=1.2, label="training, exploring")


def _points(rows: Sequence[Row], key: str) -> tuple[list[float], list[float]]:
    """Environment steps and values of the rows that have `key`."""
    pairs = [(row["env_steps"], value) for row in rows if (value := row.get(key)) is not None]
    return [float(steps or 0) for steps, _ in pairs], [float(value) for _, value in pairs]
