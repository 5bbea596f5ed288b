"""Charts by bokeh, whose own JavaScript goes into the page. The only file that imports it.

Colours of text and grid are the page's, set by `charts.js`, as they follow the reader's light or dark scheme.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from bokeh.embed import json_item
from bokeh.models.annotations import Legend, LegendItem
from bokeh.models.formatters import CustomJSTickFormatter, NumeralTickFormatter
from bokeh.models.ranges import DataRange1d, Range1d
from bokeh.models.tools import HoverTool
from bokeh.plotting import figure
from bokeh.resources import Resources

from dtqn.inspection.curves import Chart, Line

COLOURS = ("#3b82c4", "#d9622b", "#1f9d74", "#c06aa8", "#c99a17", "#7a6fd0", "#4fb3d9", "#8a8a8a")
"""Told apart without seeing red from green, on white and on black."""
_HEIGHT = 270
_DASHES = ("solid", (7, 3), (2, 3))
"""Of lines whose colours come a second and a third time."""
_MOST_IN_LEGEND = 3 * len(COLOURS) + 1
# 250000 as 250k; the shortest that tells ticks apart.
_COUNT = """
const [unit, name] = Math.abs(tick) >= 1e6 ? [1e6, "M"] : Math.abs(tick) >= 1e3 ? [1e3, "k"] : [1, ""]
return String(+(tick / unit).toPrecision(4)) + name
"""


def library() -> str:
    """BokehJS, as far as these charts need it."""
    resources = Resources(mode="inline", components=["bokeh"])
    return "\n".join(resources.js_raw)


def item(chart: Chart) -> dict[str, Any]:
    """The chart as JSON, which `Bokeh.embed.embed_item` draws."""
    level_too = [] if chart.level is None else [chart.level[1]]
    highest = 1.04 * max([*(max(line.high or line.y) for line in chart.lines), *level_too])
    plot = figure(
        y_range=Range1d(start=0, end=max(0.02, highest)) if chart.is_share else DataRange1d(),
        height=_HEIGHT,
        sizing_mode="stretch_width",
        tools="pan,box_zoom,wheel_zoom,save,reset",
        active_drag="box_zoom",
        active_scroll=None,
        x_axis_label="environment steps",
        y_axis_label=chart.y,
        background_fill_alpha=0,
        border_fill_alpha=0,
        outline_line_alpha=0,
        min_border_right=16,
    )
    plot.toolbar.autohide = True
    plot.toolbar_inner = True
    plot.toolbar.logo = None
    plot.xaxis.formatter = CustomJSTickFormatter(code=_COUNT)
    plot.yaxis.formatter = (
        NumeralTickFormatter(format="0.[00]%") if chart.is_share else CustomJSTickFormatter(code=_COUNT)
    )
    drawn: dict[int, list[Any]] = {}
    grouped: dict[int, list[Line]] = {}
    for line in chart.lines:
        drawn.setdefault(line.group, []).extend(_draw(plot, line, chart))
        grouped.setdefault(line.group, []).append(line)
    items = [LegendItem(label=_name(grouped[group]), renderers=found) for group, found in drawn.items()]
    if chart.level is not None:
        ends = [min(min(line.x) for line in chart.lines), max(max(line.x) for line in chart.lines)]
        level: Any = plot.line(
            ends, [chart.level[1]] * 2, line_dash="dotted", line_color="gray", name="level"
        )
        items.append(LegendItem(label=chart.level[0], renderers=[level]))
    if 1 < len(items) <= _MOST_IN_LEGEND:
        legend = Legend(items=items, orientation="horizontal", ncols="auto", click_policy="hide")
        legend.update(background_fill_alpha=0, border_line_alpha=0, padding=2, spacing=6, margin=0)
        legend.label_text_font_size = "11px"
        plot.add_layout(legend, "above")
    found: dict[str, Any] = json.loads(json.dumps(json_item(plot)))
    return found


def _name(lines: Sequence[Line]) -> str:
    """The label of one colour: that of the mean, if it is drawn, or the agent's whose runs they are."""
    whole = [line.label for line in lines if not line.is_thin]
    agents = {line.label.rpartition(" seed ")[0] for line in lines}
    if whole or len(lines) == 1 or len(agents) > 1:
        return whole[-1] if whole else lines[0].label
    return agents.pop() or lines[0].label


def _draw(plot: Any, line: Line, chart: Chart) -> list[Any]:
    """The line, and its band below it."""
    colour = COLOURS[line.group % len(COLOURS)]
    found = []
    if line.low is not None and line.high is not None:
        found.append(plot.varea(line.x, line.low, line.high, fill_color=colour, fill_alpha=0.2))
    again = _DASHES[line.group // len(COLOURS) % len(_DASHES)]
    style = {"line_color": colour, "line_dash": "dashed" if line.is_dashed else again}
    width, alpha = (1.3, 0.75) if line.is_thin else (2.2, 1.0)
    drawn = plot.line(line.x, line.y, line_width=width, line_alpha=alpha, name=line.label, **style)
    found.append(drawn)
    if len(line.x) == 1 or (not line.is_thin and len(line.x) < 40):
        found.append(plot.scatter(line.x, line.y, size=5, color=colour, name=line.label))
    value = "@y{0.0%}" if chart.is_share else "@y{0.[0000]a}"
    tips = [("", "$name"), ("steps", "@x{0,0}"), (chart.y, value)]
    plot.add_tools(HoverTool(renderers=[drawn], tooltips=tips, mode="mouse", line_policy="nearest"))
    return found
