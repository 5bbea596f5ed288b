"""Variants of a stage of the recipe by the areas under their curves (docs/benchmarks/recipe/protocol.md).

    python -m benchmarks.areas SUITE.yaml RECORDS.jsonl [RECORDS.jsonl ...] --baseline AGENT

A run's area is the mean of its evaluations' score over its env steps, 0 for random play and 1 for the best. A
variant's difference to the baseline is paired by task and seed; its error comes from the paired differences'
deviation within tasks, pooled over these. Its time is the median over these pairs, a share of the baseline's.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.options import one_line_errors
from dtqn.experiments.scores import Score
from dtqn.settings import record_files
from dtqn.settings.config import ConfigError
from dtqn.settings.layers import read_yaml
from dtqn.text import columns

ByRun = Mapping[tuple[str, str, int], float]
"""By task, agent and seed."""
STAYS, FALLS, TOLERANCE = 2.0, -2.0, 0.05
"""Errors above zero from which on a part stays; below which, and by at least how much, a task falls."""


def area(evaluations: Mapping[str, Sequence[float]], score: Score) -> float:
    """The mean of a score over a run's env steps, on straight lines between its evaluations."""
    steps, values = evaluations["env_steps"], evaluations[f"eval/{score.of}"]
    shares = [value if (x := score.normalised(value)) is None else x for value in values]
    parts = [(b - a) * (y + z) / 2 for (a, b), (y, z) in zip(pairwise(steps), pairwise(shares), strict=True)]
    return sum(parts) / (steps[-1] - steps[0])


class Difference(NamedTuple):
    """A variant beside the baseline."""

    by_task: dict[str, float]
    """The mean over seeds."""
    mean: float
    error: float
    """Of the mean over tasks; nan with a single seed."""
    error_of_task: float

    @classmethod
    def of(cls, areas: ByRun, agent: str, baseline: str) -> Difference:
        paired: dict[str, list[float]] = {}
        for (task, name, seed), value in areas.items():
            if name == agent and (task, baseline, seed) in areas:
                paired.setdefault(task, []).append(value - areas[task, baseline, seed])
        means = {task: statistics.fmean(values) for task, values in paired.items()}
        squares = sum((x - means[task]) ** 2 for task, values in paired.items() for x in values)
        free = sum(len(values) - 1 for values in paired.values())
        deviation = math.sqrt(squares / free) if free else math.nan
        seeds = statistics.harmonic_mean([len(values) for values in paired.values()])
        of_task = deviation / math.sqrt(seeds)
        return cls(means, statistics.fmean(means.values()), of_task / math.sqrt(len(means)), of_task)

    @property
    def verdict(self) -> str:
        """By the protocol's rule."""
        if math.isnan(self.error):
            return "one seed tells nothing"
        bar = min(-TOLERANCE, FALLS * self.error_of_task)
        if fallen := [task for task, mean in self.by_task.items() if mean < bar]:
            return f"goes: {', '.join(fallen)} {'fall' if len(fallen) > 1 else 'falls'}"
        errors = self.mean / self.error if self.error else math.inf * self.mean
        return "stays" if errors > STAYS else "more seeds" if errors > 1 else "goes"


def scores_of(suite: Path) -> dict[str, Score]:
    """The first score of each task of a suite."""
    return {task["name"]: Score(**task["scores"][0]) for task in read_yaml(suite, "a suite")["tasks"]}


def runs_of(suite: Path, records: Sequence[Path]) -> list[tuple[dict[str, Any], Score]]:
    """The records of a suite's tasks, each with its task's score; a ConfigError if there are none."""
    scores = scores_of(suite)
    lines = [line for file in records for line in record_files.lines(file)]
    runs = [run for run in map(record_files.parsed, lines) if run.get("env") in scores]
    if not runs:
        raise ConfigError(f"{', '.join(map(str, records))}: has no run of {suite}")
    return [(run, scores[run["env"]]) for run in runs]


def read(suite: Path, records: Sequence[Path]) -> tuple[ByRun, ByRun]:
    """The areas of a suite's runs, and their seconds; errors as of `runs_of`."""
    runs = {(run["env"], run["agent"], run["seed"]): (run, score) for run, score in runs_of(suite, records)}
    areas = {key: area(run["evaluations"], score) for key, (run, score) in runs.items()}
    return areas, {key: run["result"]["seconds"] for key, (run, _) in runs.items()}


def table(areas: ByRun, seconds: ByRun, baseline: str) -> str:
    """A line a variant: its mean area, its difference to the baseline by task and in the mean, its time."""
    tasks, agents = (list(dict.fromkeys(key[place] for key in areas)) for place in (0, 1))
    if baseline not in agents:
        raise ConfigError(f"--baseline is {baseline}; there are {', '.join(agents)}")
    rows = [
        ["agent", "area", *(task.rpartition(":")[2] for task in tasks), "mean", "error", "time", "verdict"]
    ]
    for agent in agents:
        own = f"{statistics.fmean(x for (_, name, _), x in areas.items() if name == agent):.3f}"
        if agent == baseline:
            rows.append([agent, own, *[""] * (len(tasks) + 3), "the baseline"])
            continue
        pairs = [((task, agent, seed), (task, baseline, seed)) for task, name, seed in areas if name == agent]
        shares = [seconds[own] / seconds[other] for own, other in pairs if other in areas]
        if not shares:
            rows.append([agent, own, *[""] * (len(tasks) + 3), "no run in common"])
            continue
        found = Difference.of(areas, agent, baseline)
        each = [f"{found.by_task[task]:+.3f}" if task in found.by_task else "-" for task in tasks]
        time = f"{statistics.median(shares):.2f}"
        rows.append([agent, own, *each, f"{found.mean:+.3f}", f"{found.error:.3f}", time, found.verdict])
    return "\n".join(columns(rows))


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("suite", type=Path)
    parser.add_argument("records", type=Path, nargs="+")
    parser.add_argument("--baseline", required=True)
    given = parser.parse_args(arguments)
    print(table(*read(given.suite, given.records), given.baseline))


if __name__ == "__main__":
    raise SystemExit(main())
