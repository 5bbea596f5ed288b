"""How the recipe does on the tasks of a suite, by the records of its runs (docs/results.md).

    python -m benchmarks.recipe SUITE.yaml RECORDS.jsonl

A score is success or return, as the suite says, divided by the best. A run has solved its task if its last
weights score 0.9.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import areas
from benchmarks.options import one_line_errors
from dtqn.experiments.scores import LAST, SOLVED, Score
from dtqn.settings.layers import read_yaml

MAY_PROMISE = 0.2
"""How far Q-values may lie above what they earn, as a share of that or, if larger, of the returns' spread."""


class Run(NamedTuple):
    """What a record tells of a run."""

    task: str
    agent: str
    scores: Sequence[float]
    """Of all evaluations."""
    full: Sequence[float]
    """Of the full evaluations."""
    promised: float
    """By how much the last Q-values are above what they earn, as `MAY_PROMISE` counts it."""

    @classmethod
    def of(cls, record: Mapping[str, Any], score: Score) -> Run:
        columns, metrics = record["evaluations"], record["metrics"]
        scores = [value / (score.optimal or 1.0) for value in columns[f"eval/{score.of}"]]
        full = [value for value, stage in zip(scores, columns["eval/stage"], strict=True) if stage == 2]
        earned, spread = metrics["eval/discounted_return"], 1 / record["result"]["reward_scale"]
        promised = (metrics["eval/value_estimate"] - earned) / max(abs(earned), spread)
        return cls(record["env"], record["agent"], scores, full, promised)

    @property
    def late(self) -> float:
        """The mean of the last evaluations."""
        return statistics.fmean(self.scores[-LAST:])

    @property
    def is_solved(self) -> bool:
        return self.scores[-1] >= SOLVED

    @property
    def lost(self) -> float | None:
        """The share of full evaluations below 0.9 after the first that is not; None where none follows."""
        after = iter(self.full)
        any(value >= SOLVED for value in after)  # takes the evaluations up to the first of these
        rest = [value < SOLVED for value in after]
        return statistics.fmean(rest) if rest else None


def read(suite: Path, records: Path) -> list[Run]:
    """The runs of a suite's tasks; a ConfigError if there are none."""
    return [Run.of(record, score) for record, score in areas.runs_of(suite, [records])]


def _cell(runs: Sequence[Run]) -> str:
    """Solved runs of all, and what the last weights score, from the worst run to the best."""
    if not runs:
        return ""
    ends = sorted(round(run.scores[-1], 3) for run in runs)
    span = dict.fromkeys(f"{end:g}" for end in (ends[0], ends[-1]))
    return f"{sum(run.is_solved for run in runs)}/{len(runs)}: {' to '.join(span)}"


def _by_task(runs: Sequence[Run], value: Callable[[Run], float | None]) -> dict[str, float]:
    """The mean over a task's runs, of those that have a value."""
    found: dict[str, list[float]] = {}
    for run in runs:
        if (one := value(run)) is not None:
            found.setdefault(run.task, []).append(one)
    return {task: statistics.fmean(values) for task, values in found.items()}


def _told(agent: str, runs: Sequence[Run]) -> str:
    """How an agent's runs stay solved and promise; means are over tasks."""
    lost = _by_task(runs, lambda run: run.lost).values()
    later = "of full evaluations after a run's first at 0.9 fall below it, and "
    stays = f"{statistics.fmean(lost):.1%} {later}" if lost else ""
    late = statistics.fmean(_by_task(runs, lambda run: run.scores[-1] - run.late).values())
    promised = _by_task(runs, lambda run: run.promised)
    above = [task for task, value in promised.items() if value > MAY_PROMISE]
    return (
        f"`{agent}`: {sum(run.is_solved for run in runs)} of {len(runs)} runs solved their task. Averaged "
        f"over tasks, {stays}the last weights "
        f"score {100 * late:.1f} points above the mean of the last {LAST} evaluations. Q-values are "
        f"too high on {len(above)} of {len(promised)} tasks{': ' * bool(above)}{', '.join(above)}."
    )


def table(runs: Sequence[Run], budgets: Mapping[str, int]) -> str:
    """The table in Markdown, a row for each task with a budget, and below it a paragraph for each agent."""
    agents = sorted({run.agent for run in runs})
    lines = [["task", "env steps", *agents], ["---"] * (2 + len(agents))]
    for task, budget in budgets.items():
        of_task = [run for run in runs if run.task == task]
        cells = [_cell([run for run in of_task if run.agent == agent]) for agent in agents]
        lines.append([task, f"{budget / 1000:.0f} k", *cells])
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return "\n\n".join([text, *(_told(name, [run for run in runs if run.agent == name]) for name in agents)])


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("suite", type=Path)
    parser.add_argument("records", type=Path)
    given = parser.parse_args(arguments)
    budgets = {task["name"]: task["env_steps"] for task in read_yaml(given.suite, "a suite")["tasks"]}
    print(table(read(given.suite, given.records), budgets))


if __name__ == "__main__":
    raise SystemExit(main(None))
