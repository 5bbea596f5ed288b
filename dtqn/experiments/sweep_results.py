"""What a sweep came to: its leaderboard and its best configuration."""

from __future__ import annotations

import csv
import json
import math
import shlex
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dtqn.experiments.intervals import LEAST_RUNS
from dtqn.experiments.sweep_file import SweepFile
from dtqn.experiments.sweep_study import Trial
from dtqn.files import replacing, write_whole
from dtqn.program import program
from dtqn.settings.config import Config
from dtqn.settings.layers import to_yaml
from dtqn.text import columns, terminal_width
from dtqn.training.directory import RunDir

_SHOWN = 5
"""Lines of the leaderboard that are told."""
_COLUMNS = 5
"""Parameters in them."""


class Line(NamedTuple):
    """A line of the leaderboard: runs that differ in nothing but their seed."""

    parameters: dict[str, Any]
    trials: list[Trial]
    value: float | None
    """The mean over its runs that have ended; None where one is open or has failed."""
    rank: int | None
    """From 1 on; those with the same value share one. None where there is no value."""

    def cells(self, names: Sequence[str]) -> list[str]:
        """The line of a table with these parameters."""
        runs = [f"{one.number}" + f" ({one.state})" * (one.state != "finished") for one in self.trials]
        values = [_cell(self.parameters[name]) for name in names]
        return [f"{self.rank}.", f"{self.value:.4f}", ", ".join(runs), *values]


class Results(NamedTuple):
    """The trials of a sweep and the folder that they are told in."""

    file: SweepFile
    folder: Path
    trials: Sequence[Trial]

    def leaderboard(self) -> list[Line]:
        """All configurations, the best first, those without a result last."""
        groups: dict[str, list[Trial]] = {}
        for trial in self.trials:
            parameters = {name: trial.parameters[name] for name in self.file.searched if name != "seed"}
            groups.setdefault(json.dumps(parameters), []).append(trial)
        means = [_mean(trials) for trials in groups.values()]
        known = sorted((mean for mean in means if mean is not None), reverse=self.file.goal == "maximize")
        ranks = [None if mean is None else 1 + known.index(mean) for mean in means]
        lines = map(Line, map(json.loads, groups), groups.values(), means, ranks)
        return sorted(lines, key=lambda line: line.rank or math.inf)

    def ranked(self) -> list[Line]:
        """The lines that have a result."""
        return [line for line in self.leaderboard() if line.value is not None]

    def table(self) -> list[str]:
        """The top of the leaderboard, with the first of the parameters that vary."""
        board = self.ranked()
        names = [name for name in self.file.searched if name != "seed"]
        varied = [name for name in names if len({_cell(line.parameters[name]) for line in board}) > 1]
        varied = varied[:_COLUMNS]
        rows = [["", self.file.metric, "run", *varied], *(line.cells(varied) for line in board[:_SHOWN])]
        return columns(rows, terminal_width(sys.stdout)) if board else []

    def write_board(self) -> None:
        """Write `leaderboard.csv`."""
        metric = self.file.metric
        header = ["rank", metric, *self.file.searched, "number", "state", "env_steps", "run_dir", "error"]
        rows = [
            trial._asdict() | trial.parameters | {"rank": line.rank, metric: trial.value}
            for line in self.leaderboard()
            for trial in line.trials
        ]
        rows.sort(key=lambda row: (row["rank"] or math.inf, row["number"]))
        with (
            replacing(self.folder / "leaderboard.csv") as temporary,
            temporary.open("w", encoding="utf-8", newline="") as file,
        ):
            writer = csv.DictWriter(file, header, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)

    def write_best(self, config: Config) -> list[str]:
        """Write `best.yaml` with the best configuration; the lines that tell of it."""
        file, board = self.folder / "best.yaml", self.ranked()
        best = board[0]
        settings = ", ".join(f"{name} {_cell(value)}" for name, value in best.parameters.items())
        text = f"{self.file.metric} {best.value:.4f}" + (f" with {settings}" if settings else "")
        write_whole(file, f"# {text}\n{to_yaml(config)}")
        told = [f"best: {text}"]
        if min(len(line.trials) for line in board) < LEAST_RUNS:
            right = "these ranks do not tell which settings are better"
            told.append(f"fewer than {LEAST_RUNS} runs a line: {right}")
        report = RunDir(Path(best.trials[0].run_dir)).command("report")
        again = f"again with another seed: {program()} --config {shlex.quote(str(file))} --seed N"
        return [*told, again, f"report   {report}"]


def _mean(trials: Sequence[Trial]) -> float | None:
    """What runs came to, if all have ended."""
    ended = [one.value for one in trials if one.state in ("finished", "stopped") and one.value is not None]
    return statistics.fmean(ended) if len(ended) == len(trials) else None


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
