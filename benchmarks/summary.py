"""The table of results: how many runs with the recipe solved each group of tasks (docs/results.md).

    python -m benchmarks.summary             # all rows
    python -m benchmarks.summary --rows 5    # the first ones, as in README.md

A cell counts the solved runs of all tasks of its row, with the exact binomial interval at 95 % (Clopper and
Pearson 1934), as if its tasks were equally hard. `docs/results/summary.yaml` has the rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml
from scipy.stats import binomtest

from benchmarks import areas, recipe
from benchmarks.options import one_line_errors

ROWS: Final = Path("docs/results/summary.yaml")
SUITES: Final = (Path("docs/benchmarks/recipe/held-out.yaml"), Path("docs/benchmarks/catalogue.yaml"))
"""The tasks and their budgets; the records of each stand next to it."""
LATER: Final = (Path("docs/benchmarks/recipe/second.yaml"), Path("docs/benchmarks/recipe/third.yaml"))
"""The tasks that a later recipe changes: only runs with that one count there."""
COLUMNS: Final = {"gtrxl": "gtrxl", "lstm": "lstm", "drqn": "drqn", "dqn": "no memory"}
"""By agent, the head of its column."""
NO_BREAK: Final = "\N{NO-BREAK SPACE}"


def _share(value: float) -> str:
    return f"{value:.0f}" if value in (0, 1) else f"{value:.2f}".removeprefix("0")


def cell(runs: Sequence[recipe.Run]) -> str:
    """Solved runs of all, and the exact interval of their share; empty where there are no runs."""
    if not runs:
        return ""
    solved = sum(run.is_solved for run in runs)
    low, high = binomtest(solved, len(runs)).proportion_ci(0.95, method="exact")
    return f"{solved}/{len(runs)} [{_share(low)}, {_share(high)}]".replace(" ", NO_BREAK)


def table(runs: Sequence[recipe.Run], rows: Sequence[Mapping[str, Any]]) -> str:
    """The table in Markdown, without the rows that have no runs."""
    head = ["task (env steps)", *COLUMNS.values(), "published"]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        if not (of_row := [run for run in runs if run.task in row["tasks"]]):
            continue
        cells = [cell([run for run in of_row if run.agent == agent]) for agent in COLUMNS]
        lines.append([row["title"], *cells, row.get("published", "")])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, metavar="N", help="the first N rows alone")
    args = parser.parse_args(arguments)
    rows = yaml.safe_load(ROWS.read_text(encoding="utf-8"))
    runs = [run for suite in SUITES for run in recipe.read(suite, suite.with_suffix(".jsonl"))]
    for suite in LATER:
        changed = areas.scores_of(suite)
        runs = [run for run in runs if run.task not in changed]
        runs += recipe.read(suite, suite.with_suffix(".jsonl"))
    print(table(runs, rows[: args.rows]))


if __name__ == "__main__":
    raise SystemExit(main(None))
