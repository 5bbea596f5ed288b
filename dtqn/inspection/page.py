"""The page: one HTML file that holds its styles, its programs and its data."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from importlib import resources
from string import Template
from typing import Any

from dtqn.inspection import charts
from dtqn.inspection.curves import Chart
from dtqn.inspection.facts import Grid

_LONG = 30
"""Characters of a cell from which on the cells of its table are wrapped."""


def build(
    title: str,
    subtitle: str,
    tables: Sequence[Grid],
    more_tables: Sequence[Grid],
    drawn: Sequence[Chart],
    player: dict[str, Any],
    notes: Sequence[str],
) -> str:
    """The page's text.

    Args:
        tables: the results, above the player.
        more_tables: below the curves.
        player: what `player.js` reads; runs none of which has an episode leave the player out.
        notes: how the episodes and their maps were made.
    """
    parts = {
        "title": html.escape(title),
        "subtitle": html.escape(subtitle),
        "style": _file("style.css"),
        "results": "\n".join(map(_table, tables)),
        "player_hidden": "" if player["runs"] else "hidden",
        "player_notes": "".join(f"<li>{html.escape(note)}</li>" for note in notes),
        "curves": _curves(drawn),
        "more": "\n".join(map(_table, more_tables)),
        "player_data": _json(player),
        "chart_data": _json([charts.item(chart) for chart in drawn]),
        "player_program": _file("player.js"),
        "library": charts.library(),
        "charts_program": _file("charts.js"),
    }
    return Template(_file("page.html")).substitute(parts)


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _json(data: Any) -> str:
    """For a script element, which the text `</script` would end."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _table(grid: Grid) -> str:
    header = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in grid.header)
    rows = "\n".join(
        f'<tr><th scope="row">{html.escape(row[0])}</th>'
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in grid.rows
    )
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in grid.notes)
    is_prose = any(len(cell) > _LONG for row in grid.rows for cell in row)
    kind = "wide prose" if is_prose else "wide"
    return (
        f"<h3>{html.escape(grid.title)}</h3>\n"
        f'<div class="{kind}" tabindex="0"><table><thead><tr>{header}</tr></thead><tbody>\n{rows}\n'
        f'</tbody></table></div>\n<div class="notes">{notes}</div>'
    )


def _curves(drawn: Sequence[Chart]) -> str:
    """A place for each chart, a heading for each task where there are several."""
    tasks = list(dict.fromkeys(chart.task for chart in drawn))
    parts = []
    for task in tasks:
        if len(tasks) > 1:
            parts.append(f"<h3>{html.escape(task)}</h3>")
        places = "".join(
            f"<figure><figcaption><b>{html.escape(chart.title)}</b> {html.escape(chart.note)}</figcaption>"
            f'<div class="chart" data-chart="{number}" role="img" '
            f'aria-label="{html.escape(f"{chart.title}, {chart.y}, by environment steps")}"></div></figure>'
            for number, chart in enumerate(drawn)
            if chart.task == task
        )
        parts.append(f'<div class="charts">{places}</div>')
    return "\n".join(parts)
