"""The table of results: how many runs of each agent solved each family of tasks, by the records.

    python -m benchmarks.summary             # all rows, as in docs/results.md
    python -m benchmarks.summary --rows 5    # the first ones, as in README.md

A cell pools the runs of all tasks of its row: solved runs of all, with the exact binomial interval at 95 %
(Clopper and Pearson 1934), as if its tasks were equally hard. `docs/results/summary.yaml` has the rows.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

import yaml
from scipy.stats import binomtest

from benchmarks.options import one_line_errors
from dtqn.experiments.scores import SOLVED, SUCCESS, first_solved
from dtqn.settings.config import ConfigError, leaves

RESULTS: Final = Path("docs/results")
COLUMNS: Final = ("gtrxl", "lstm", "mingru", "no memory")
STEPS_OF: Final = COLUMNS[:2]
Recorded = Mapping[str, Any]
"""A record of a run, with the fields of `dtqn.experiments.records.Record`."""


def read(path: Path) -> list[Recorded]:
    """The records of a file of JSON Lines, or of all files in a folder and below; each run once."""
    files = [path] if path.is_file() else sorted([*path.rglob("*.json"), *path.rglob("*.jsonl")])
    found: dict[tuple[Any, ...], Recorded] = {}
    for file in files:
        text = file.read_text(encoding="utf-8")
        for one in text.splitlines() if file.suffix == ".jsonl" else [text]:
            content = json.loads(one)
            if isinstance(content, dict) and "settings_hash" in content:  # beside tables and episodes
                key = tuple(content[name] for name in ("env", "agent", "seed", "settings_hash"))
                found.setdefault(key, content)
    return list(found.values())


def setting(record: Recorded, name: str) -> Any:
    """The value that a run had of a setting with a dotted name; None where its record does not tell."""
    told: dict[str, Any] = dict(leaves(record.get("defaults", {}))) | dict(leaves(record["settings"]))
    return told.get(name)


def chosen(
    records: Iterable[Recorded], row: Mapping[str, Any], agent: str, **settings: Any
) -> list[Recorded]:
    """The runs behind a cell: those of an agent with these settings, on the row's tasks and seeds.

    Raises:
        ConfigError: two of them are of one task and seed, so the settings do not name the runs.
    """
    first, last = row["seeds"]
    found: dict[tuple[str, int], Recorded] = {}
    for record in records:
        env, seed = record["env"], record["seed"]
        if record["agent"] != agent or not first <= seed <= last:
            continue
        if not any(fnmatch(env, task) for task in row["tasks"]):
            continue
        if any(setting(record, name) != value for name, value in settings.items()):
            continue
        if (env, seed) in found:
            raise ConfigError(f"{row['title']}: there are two runs of {agent} on {env} with seed {seed}")
        found[env, seed] = record
    return list(found.values())


def is_solved(record: Recorded) -> bool:
    """Whether a run solved its task; in a task without success, whether it ended with a return of 0.9."""
    success, total = (record["evaluations"][f"eval/{name}"][-1] for name in ("success", "return"))
    return bool(total >= SOLVED) if success is None else steps_to_solved(record) < math.inf


def steps_to_solved(record: Recorded) -> float:
    """Env steps at which a run solved its task, by success; infinite where it did not."""
    columns = record["evaluations"]
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    first = first_solved(rows, SUCCESS, setting(record, "total_env_steps"))
    return math.inf if first is None else float(first["env_steps"] or 0)


def _share(value: float) -> str:
    return f"{value:.0f}" if value in (0, 1) else f"{value:.2f}".removeprefix("0")


def cell(records: Sequence[Recorded]) -> str:
    """Solved runs of all, and the exact interval of their share; empty where there are no runs."""
    if not records:
        return ""
    solved = sum(map(is_solved, records))
    low, high = binomtest(solved, len(records)).proportion_ci(0.95, method="exact")
    return f"{solved}/{len(records)} [{_share(low)}, {_share(high)}]"


def _steps(records: Sequence[Recorded]) -> str:
    """The median over runs; where there are several tasks, the least and the greatest median of a task."""
    of_task: dict[str, list[float]] = {}
    for record in records:
        if record["evaluations"]["eval/success"][-1] is not None:
            of_task.setdefault(record["env"], []).append(steps_to_solved(record))
    medians = list(map(statistics.median, of_task.values()))
    ends = dict.fromkeys((min(medians), max(medians))) if medians else ()
    return " to ".join("never" if steps == math.inf else f"{steps / 1000:.0f} k" for steps in ends)


def table(records: Sequence[Recorded], rows: Sequence[Mapping[str, Any]]) -> str:
    """The table in Markdown, below a line that says how its runs ended."""
    lines, counted = [], list[Recorded]()
    for row in rows:
        cells = {column: chosen(records, row, **wanted) for column, wanted in row["runs"].items()}
        counted += [record for found in cells.values() for record in found]
        steps = " / ".join(filter(None, (_steps(cells.get(column, [])) for column in STEPS_OF)))
        words = [row["title"], *(cell(cells.get(column, [])) for column in COLUMNS), steps]
        lines.append("".join(f"| {word} " if word else "| " for word in [*words, row.get("published")]) + "|")
    early = sum(record["result"]["env_steps"] < setting(record, "total_env_steps") for record in counted)
    head = ["task (env steps)", *COLUMNS, f"steps to solved: {' / '.join(STEPS_OF)}", "published"]
    note = (
        f"{early} of these {len(counted)} runs were stopped on reaching their goal, so their result is their "
    )
    note += "best moment; whether it would have lasted is unknown."
    top = f"{note}\n\n| {' | '.join(head)} |\n{'|---' * len(head)}|\n"
    return top + "\n".join(lines)


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, metavar="N", help="the first N rows alone")
    args = parser.parse_args(arguments)
    rows = yaml.safe_load((RESULTS / "summary.yaml").read_text(encoding="utf-8"))
    print(table(read(RESULTS), rows[: args.rows]))


if __name__ == "__main__":
    raise SystemExit(main(None))
