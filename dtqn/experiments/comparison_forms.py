"""The table of a comparison as text, Markdown and JSON."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dtqn.experiments.comparison_table import AgentFigures, RunFigures
from dtqn.experiments.intervals import LEAST_RUNS, Estimate
from dtqn.experiments.scores import NORMALISED, SHARES
from dtqn.text import columns, number

MANY_RUNS = 20
"""Runs from which on an interval covers nearly what it says."""
_OF_ALL = ("agent", "runs", "success", NORMALISED, "tasks solved")
_NEEDS_RUNS = "[95 %]"
_OF_RUNS = ("min to max", _NEEDS_RUNS)
_WHOLE_RUN = ("env steps", "updates", "minutes")
_MAY_BE_EMPTY = (_NEEDS_RUNS, "tasks solved", "success", "to 90 %", *_WHOLE_RUN)
"""Ends of the names of columns that are left out where no line has a figure."""


class Table(NamedTuple):
    """The content of the table's files, whatever their form."""

    lines: list[AgentFigures]
    """A task's together, with `all tasks` at the end where there are several."""
    baseline: str | None
    under: Mapping[str, Sequence[str]]
    """By task, what stands right below its table."""
    notes: Sequence[str]

    @property
    def parts(self) -> list[tuple[str, list[list[str]], list[str]]]:
        """For each task its name, its header and rows, and what stands below it."""
        found = []
        for env in dict.fromkeys(line.env for line in self.lines):
            lines = [line for line in self.lines if line.env == env]
            found.append(
                (
                    env,
                    _rows(lines, self.baseline),
                    [*self.under.get(env, ()), *_few_runs(lines, self.baseline)],
                )
            )
        return found


def to_text(table: Table) -> str:
    """A table for each task, each with what is to be known right below it, and the notes."""
    parts = [[env, *columns(rows), *under, ""] for env, rows, under in table.parts]
    return "\n".join([*itertools.chain(*parts), *table.notes]) + "\n"


def to_markdown(table: Table, command: str = "") -> str:
    """A table for each task, and the notes.

    Args:
        command: what has made it, to be told as the last note; empty to leave it out.
    """
    parts = []
    for env, rows, under in table.parts:
        parts += [f"### {env}", "", *markdown_table(rows), ""]
        parts += [text for note in under for text in (note, "")]
    notes = [*table.notes, *([f"Command: `{command}`"] if command else [])]
    return "\n".join([*parts, *(f"- {note}" for note in notes)]) + "\n"


def markdown_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Its lines; the first row is the header."""
    header, *cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *cells]
    return [f"| {' | '.join(line)} |" for line in lines]


def figure(value: float, score: str) -> str:
    """A value of the score of this name."""
    return f"{value:{_form(score)}}"


def to_json(table: Table, runs: Sequence[RunFigures]) -> str:
    """The table, every run behind it and the notes."""

    def plain(figures: AgentFigures | RunFigures) -> dict[str, Any]:
        return {
            name.replace("episode_return", "return"): value._asdict()
            if isinstance(value, Estimate)
            else value
            for name, value in figures._asdict().items()
        }

    content = {
        "baseline": table.baseline,
        "table": [plain(line) for line in table.lines],
        "runs": [plain(run) for run in runs],
        "under": {env: under for env, _, under in table.parts},
        "notes": list(table.notes),
    }
    return json.dumps(content, indent=2) + "\n"


def cells(line: AgentFigures, baseline: str | None) -> dict[str, str]:
    """A line as people read it, by column."""
    reached = "" if line.reached_90 is None else f" ({line.reached_90}/{line.finished})"
    form = _form(line.score)
    count = str(line.runs) if line.finished == line.runs else f"{line.finished} of {line.runs}"
    texts = {
        "agent": line.agent,
        "runs": "-" if line.runs == 0 else count,
        "success": "-" if line.success is None else f"{line.success:.1%}",
        "return": "-" if line.episode_return is None else f"{line.episode_return:.3g}",
        **{name: "-" if value is None else figure(value, name) for name, value in line.beside.items()},
        "tasks solved": "-"
        if line.solved is None
        else f"{line.solved} of {line.tasks} ({line.solved / line.tasks:.2f})",
        f"{line.score}, min to max": _range(line, form),
        f"IQM of {line.score} [95 %]": _show(line.iqm, form),
        f"P(better than {baseline}) [95 %]": _show(line.improvement, ".2f"),
        "env steps to 90 %": "-" if line.env_steps_to_90 is None else number(line.env_steps_to_90),
        "minutes to 90 %": "-" if line.minutes_to_90 is None else f"{line.minutes_to_90:.1f}",
        "env steps": "-" if line.env_steps is None else number(line.env_steps),
        "updates": "-" if line.learner_steps is None else number(line.learner_steps),
        "minutes": "-" if line.minutes is None else f"{line.minutes:.1f}",
        "parameters": "-" if line.parameters is None else number(line.parameters),
        "updates/s": "-" if line.updates_per_second is None else f"{line.updates_per_second:.3g}",
    }
    texts["env steps to 90 %"] += reached
    if line.tasks > 1:
        texts = {name: texts[name] for name in texts if name in _OF_ALL or name.endswith(_OF_RUNS)}
    return texts


def _form(score: str) -> str:
    return ".1%" if score in SHARES else ".3f" if score == NORMALISED else ".3g"


def _range(line: AgentFigures, form: str) -> str:
    if line.minimum is None or line.maximum is None:
        return "-"
    return f"{line.minimum:{form}} to {line.maximum:{form}}"


def _show(figure: Estimate | None, form: str) -> str:
    return "-" if figure is None else f"{figure.value:{form}} [{figure.low:{form}}, {figure.high:{form}}]"


def _rows(lines: Sequence[AgentFigures], baseline: str | None) -> list[list[str]]:
    """The header and a row a line, without the columns that no line has runs enough for."""
    texts = [cells(line, baseline) for line in lines]
    kept = [
        name
        for name in texts[0]
        if not (name.endswith(_MAY_BE_EMPTY) and all(text[name] == "-" for text in texts))
    ]
    return [kept, *([text[name] for name in kept] for text in texts)]


def _few_runs(lines: Sequence[AgentFigures], baseline: str | None) -> list[str]:
    """Lines that say how far the numbers of runs let a reader trust a table."""
    agents = [line for line in lines if line.runs]
    where = " on a task" if lines[0].tasks > 1 else ""
    notes = []
    if few := [line.agent for line in agents if line.fewest < LEAST_RUNS]:
        notes.append(
            f"Fewer than {LEAST_RUNS} runs{where} of {', '.join(few)}: minimum and maximum, no interval"
            f"{'' if baseline is None else ', no P(better)'}. "
            "These figures do not tell which agent is better."
        )
    if uneven := [line.agent for line in agents if 0 < line.fewest * line.tasks < line.finished]:
        notes.append(f"No figures of {', '.join(uneven)}: more runs on some of these tasks than on others.")
    some = [line.agent for line in agents if LEAST_RUNS <= line.fewest < MANY_RUNS]
    if some := [agent for agent in some if agent not in uneven]:
        notes.append(
            f"Fewer than {MANY_RUNS} runs{where} of {', '.join(some)}: intervals are narrower than they say. "
            f"With {LEAST_RUNS} runs, nominal 95 % cover 80 to 90 % for an IQM, and for a probability "
            "less the nearer it is to 0 or 1, two thirds where it is 0.9 (docs/compare.md)."
        )
    return notes
