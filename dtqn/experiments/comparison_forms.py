"""The table of a comparison as text, Markdown and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dtqn.experiments.comparison_table import Figures, cells
from dtqn.experiments.intervals import Estimate
from dtqn.text import columns


class Table(NamedTuple):
    """The content of the table's files, whatever their form."""

    lines: Sequence[Figures]
    """A task's together, with `all tasks` at the end where there are several."""
    baseline: str | None
    under: Mapping[str, Sequence[str]]
    """By task, what stands right below its table."""
    notes: Sequence[str]

    @property
    def parts(self) -> dict[str, list[list[str]]]:
        """For each task its header and rows, without the columns in which no row has a figure."""
        found: dict[str, list[list[str]]] = {}
        for env in dict.fromkeys(line["env"] for line in self.lines):
            texts = [cells(line, self.baseline) for line in self.lines if line["env"] == env]
            kept = [name for name in texts[0] if any(text[name] != "-" for text in texts)]
            found[env] = [kept, *([text[name] for name in kept] for text in texts)]
        return found


def to_text(table: Table) -> str:
    """A table for each task, each with what is to be known right below it, and the notes."""
    lines = []
    for env, rows in table.parts.items():
        lines += [env, *columns(rows), *table.under[env], ""]
    return "\n".join([*lines, *table.notes]) + "\n"


def to_markdown(table: Table, command: str = "") -> str:
    """A table for each task, and the notes.

    Args:
        command: what has made it, to be told as the last note; empty to leave it out.
    """
    lines = []
    for env, rows in table.parts.items():
        lines += [f"### {env}", "", *markdown_table(rows), ""]
        lines += [text for note in table.under[env] for text in (note, "")]
    notes = [*table.notes, *([f"Command: `{command}`"] if command else [])]
    return "\n".join([*lines, *(f"- {note}" for note in notes)]) + "\n"


def markdown_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Its lines; the first row is the header."""
    header, *cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *cells]
    return [f"| {' | '.join(line)} |" for line in lines]


def to_json(table: Table, runs: Sequence[Figures]) -> str:
    """The table, every run behind it and the notes."""

    def plain(line: Figures) -> Figures:
        return {
            name: value._asdict() if isinstance(value, Estimate) else value for name, value in line.items()
        }

    content = {
        "baseline": table.baseline,
        "table": [plain(line) for line in table.lines],
        "runs": list(runs),
        "under": table.under,
        "notes": list(table.notes),
    }
    return json.dumps(content, indent=2) + "\n"
