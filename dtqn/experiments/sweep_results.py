"""What a sweep came to: its leaderboard, its best configuration, and what the result depends on."""

from __future__ import annotations

import csv
import itertools
import json
import shlex
import shutil
import statistics
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dtqn import plots
from dtqn.experiments.importance import LEAST_RUNS, axis_of, dependence
from dtqn.experiments.intervals import LEAST_RUNS as COMPARABLE
from dtqn.experiments.sweep_file import SweepFile
from dtqn.experiments.sweep_study import Trial
from dtqn.files import replacing, write_whole
from dtqn.program import program
from dtqn.settings.config import Config
from dtqn.settings.layers import to_yaml
from dtqn.text import columns
from dtqn.training.directory import report_command

_SHOWN = 5


class Line(NamedTuple):
    """A line of the leaderboard: runs that differ in nothing but their seed."""

    parameters: dict[str, Any]
    trials: list[Trial]
    value: float | None
    """The mean over its runs that have ended; None where one is open or has failed."""
    rank: int | None
    """From 1 on; those with the same value share one. None where there is no value."""


class Results(NamedTuple):
    """The trials of a sweep and the folder that they are told in."""

    file: SweepFile
    folder: Path
    trials: Sequence[Trial]

    def leaderboard(self) -> list[Line]:
        """All configurations, the best first, those without a result last."""
        groups: dict[str, Line] = {}
        for trial in self.trials:
            parameters = {name: trial.parameters[name] for name in self.file.searched if name != "seed"}
            group = groups.setdefault(json.dumps(parameters), Line(parameters, [], None, None))
            group.trials.append(trial)
        lines = [group._replace(value=_mean(group.trials)) for group in groups.values()]
        known = sorted(-self.file.sign * line.value for line in lines if line.value is not None)
        lines = [
            line if line.value is None else line._replace(rank=1 + known.index(-self.file.sign * line.value))
            for line in lines
        ]
        return sorted(lines, key=lambda line: (line.rank is None, line.rank or 0))

    def table(self) -> list[str]:
        """The top of the leaderboard with the parameters that vary, as many as the terminal is wide for."""
        board = [line for line in self.leaderboard() if line.value is not None]
        if not board:
            return []
        names = [
            name for name in board[0].parameters if len({_cell(line.parameters[name]) for line in board}) > 1
        ]
        rows = [["", self.file.metric, "run", *(_leaf(name, names) for name in names)]]
        for line in board[:_SHOWN]:
            runs = ", ".join(map(_told, line.trials))
            cells = [_cell(line.parameters[name]) for name in names]
            rows.append([f"{line.rank}.", f"{line.value:.4f}", runs, *cells])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        ends = itertools.accumulate(widths, lambda end, width: end + 2 + width)
        shown = max(3, sum(end <= _width() for end in ends))
        lines = columns([row[:shown] for row in rows])
        hidden = len(widths) - shown
        more = [f"{hidden} more parameters in {self.folder / 'leaderboard.csv'}"] if hidden else []
        return [*lines, *more]

    def write_board(self) -> None:
        """Write `leaderboard.csv`."""
        ranks = {trial.number: line.rank for line in self.leaderboard() for trial in line.trials}
        rows = [trial._asdict() | {"rank": ranks[trial.number]} | trial.parameters for trial in self.trials]
        metric = self.file.metric
        header = ["rank", metric, *self.file.searched, "number", "state", "env_steps", "run_dir", "error"]
        with (
            replacing(self.folder / "leaderboard.csv") as temporary,
            temporary.open("w", encoding="utf-8", newline="") as file,
        ):
            writer = csv.writer(file)
            writer.writerow(header)
            for row in sorted(rows, key=lambda row: (row["rank"] is None, row["rank"] or 0, row["number"])):
                writer.writerow([(row | {metric: row["value"]})[name] for name in header])

    def write_best(self, best: Line, config: Config) -> list[str]:
        """Write `best.yaml`; the lines that tell of it."""
        file = self.folder / "best.yaml"
        settings = ", ".join(f"{name} {_cell(value)}" for name, value in best.parameters.items())
        text = f"{self.file.metric} {best.value:.4f}" + (f" with {settings}" if settings else "")
        write_whole(file, f"# {text}\n{to_yaml(config)}")
        ranked = [line for line in self.leaderboard() if line.rank is not None]
        told = [textwrap.fill(f"best: {text}", _width(), subsequent_indent="  ", break_on_hyphens=False)]
        if tied := sum(line.rank == 1 for line in ranked) - 1:
            told.append(f"{tied} other{'s' if tied > 1 else ''} came to the same")
        if min(len(line.trials) for line in ranked) < COMPARABLE:
            right = "these ranks do not tell which settings are better"
            told.append(f"fewer than {COMPARABLE} runs a line: {right}")
        again = f"again with another seed: {program()} --config {shlex.quote(str(file))} --seed N"
        return [*told, *self.draw(), again, f"report   {report_command(Path(best.trials[0].run_dir))}"]

    def draw(self) -> list[str]:
        """Draw the pictures; what is missing of them."""
        ended = [trial for trial in self.trials if _has_result(trial)]
        values = [float(trial.value or 0) for trial in ended]
        metric, sign = self.file.metric, self.file.sign
        axes = [
            axis_of(name, self.file.parameters[name].spec, [trial.parameters[name] for trial in ended])
            for name in self.file.searched
        ]
        if not axes:
            return []
        found = dependence(axes, values, sign)
        shares = found.shares if found else []
        ranks = {share.name: rank for rank, share in enumerate(shares)}
        ordered = sorted(axes, key=lambda axis: ranks.get(axis.name, len(ranks)))
        best = max(range(len(values)), key=lambda run: sign * values[run])
        plots.by_parameter(ordered, values, self.folder / "by_parameter.png", metric, best)
        if found is None:
            return [f"no parameter importance: it needs {LEAST_RUNS} runs with different results"]
        about = {"runs": found.runs, "held_out_r2": found.r2, "dependence_found": found.found}
        content = about | {"parameters": [share._asdict() for share in shares]}
        write_whole(self.folder / "importance.json", json.dumps(content, indent=2) + "\n")
        plots.importance(shares, self.folder / "importance.png", metric, found.r2, found.runs)
        if not found.found:
            return [f"no dependence of {metric} on the parameters found (held-out R² {found.r2:.2f})"]
        return []


def _has_result(trial: Trial) -> bool:
    return trial.state in ("finished", "stopped") and trial.value is not None


def _mean(trials: Sequence[Trial]) -> float | None:
    known = [trial.value for trial in trials if trial.value is not None and _has_result(trial)]
    return statistics.fmean(known) if len(known) == len(trials) else None


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _leaf(name: str, names: Sequence[str]) -> str:
    """The name without its group, where no other ends alike."""
    leaf = name.rpartition(".")[2]
    return leaf if [other.rpartition(".")[2] for other in names].count(leaf) == 1 else name


def _told(trial: Trial) -> str:
    return str(trial.number) if trial.state == "finished" else f"{trial.number} ({trial.state})"


def _width() -> int:
    return shutil.get_terminal_size((100, 24)).columns
