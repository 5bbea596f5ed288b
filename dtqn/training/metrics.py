"""`metrics.jsonl`: what a run measured, one JSON object a line, in the order of the run."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dtqn.settings.config import ConfigError
from dtqn.settings.values import shown
from dtqn.training.directory import RunDir, file_errors

Row = dict[str, float | int | None]
METRICS = [
    group + name
    for group, names in {
        "": "best_success best_return mean_success mean_return env_steps learner_steps seconds",
        "eval/": "success success_low success_high return return_error discounted_return value_estimate "
        "length episodes stage",
        "train/": "success return length episodes total_return total_success",
        "learner/": "loss td_error q_mean q_max q_min target_max target_min grad_norm skipped_updates "
        "learning_rate auxiliary_loss recall_loss trace_length trace_cut_share trace_cut_greedy_share",
        "replay/": "steps sequences saturated priority_minimum priority_mean priority_maximum "
        "importance_weight_min learned_steps_per_update parameter_age memory_age delta_q_share delta_q_first "
        "delta_q_last stale_action_share stale_action_loss",
        "actor/": "epsilon lead parameter_age restarts",
        "speed/": "env_steps_per_second learner_steps_per_second",
    }.items()
    for name in names.split()
]
"""All that a row can hold, so that a misspelt metric is known before anything is trained. `docs/metrics.md`
says what each is."""
CLOCKS = ("seconds", "speed/env_steps_per_second", "speed/learner_steps_per_second")
"""Keys of each row whose values come from the clock."""
CLOCK_KEYS = (*CLOCKS, "actor/lead")
"""The only keys in which a run and its killed and resumed twin may differ."""
_SUMMARISED = ("learner/", "replay/", "actor/", "eval/value_estimate", "eval/discounted_return")
SUMMARISED = tuple(name for name in METRICS if name.startswith(_SUMMARISED) and name not in CLOCK_KEYS)
"""What `late_means` is of."""
_BOUNDS = {"eval/success": (0.0, 1.0), "train/success": (0.0, 1.0), "eval/episodes": (0.0, 1e15)}
SUMMARISED_IN_WORDS = f"metrics that begin with {', '.join(_SUMMARISED[:-1])} or {_SUMMARISED[-1]}"


class MetricsFile:
    """The file, open for appending; every write that fails is a `ConfigError` in one line."""

    def __init__(self, path: Path, rows: int = 0) -> None:
        """Keep the first `rows` rows of what is there, which the checkpoint counts on, and drop what follows.

        Raises:
            ConfigError: where these rows are not all there; the file is left as it was.
        """
        lines = check_counted(path, rows)
        self.rows = rows
        self._path = path
        with file_errors(path, "cannot be written"):
            self._file = path.open("ab")
            self._file.truncate(sum(len(line) + 1 for line in lines))

    def append(self, row: Mapping[str, float | int | None]) -> None:
        with file_errors(self._path, "cannot be written"):
            self._file.write(json.dumps(row).encode() + b"\n")
            self._file.flush()
        self.rows += 1

    def sync(self) -> None:
        """Wait until all rows are on the disk, so that a checkpoint may count on them."""
        with file_errors(self._path, "cannot be written"):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        with contextlib.suppress(OSError):  # a row that could not be written was told by `append`
            self._file.close()


def is_evaluation(row: Row) -> bool:
    """Whether a row has an evaluation."""
    return row.get("eval/return") is not None


def is_full_evaluation(row: Row) -> bool:
    """Whether a row has a full evaluation, which may count as a run's best; one without a stage is full."""
    return is_evaluation(row) and row.get("eval/stage") in (None, 2)


def late_means(rows: Sequence[Row]) -> dict[str, float]:
    """The mean of each metric in `SUMMARISED` over the second half of a run, as far as it is there.

    The half is of the environment steps of the last row, its first step included.
    """
    last = int(rows[-1]["env_steps"] or 0) if rows else 0
    late = [row for row in rows if 2 * int(row["env_steps"] or 0) >= last]
    values = {name: [value for row in late if (value := row.get(name)) is not None] for name in SUMMARISED}
    return {name: statistics.fmean(found) for name, found in values.items() if found}


def read_run(directory: RunDir) -> tuple[list[Row], dict[str, Any] | None]:
    """All rows of a run, which are `whole`, and its `result.json`; None where it has not finished."""
    path, result = directory.metrics_file, directory.read_result()
    return whole(path, read_rows(path), result), result


def whole(path: Path, rows: list[Row], result: Mapping[str, Any] | None) -> list[Row]:
    """The rows of the file `path`; a ConfigError where they end before the run did, by its `result.json`."""
    ended, last = (result or {}).get("env_steps"), rows[-1]["env_steps"] if rows else 0
    if isinstance(ended, int) and (last or 0) < ended:
        raise ConfigError(
            f"{path}: ends at {last} env steps, but the run has finished at {ended}; put the missing lines "
            "back, or move the run's folder away to train it again"
        )
    return rows


def check_counted(path: Path, rows: int) -> list[bytes]:
    """The first `rows` lines of a metrics file; a ConfigError where these are damaged, or not all there."""
    lines = _lines(path)[:rows]
    _checked(path, [parsed(line) for line in lines])
    if len(lines) < rows:
        raise ConfigError(
            f"{path}: ends after line {len(lines)}, but the checkpoint was made after {rows} rows; "
            "put the missing lines back to continue"
        )
    return lines


def read_rows(path: Path) -> list[Row]:
    """All whole rows of a metrics file.

    A line that is being written, and whatever a loss of power left at the end, are left out.

    Raises:
        ConfigError: where a line before the last row is damaged.
    """
    rows = [parsed(line) for line in _lines(path)]
    while rows and isinstance(rows[-1], str):
        rows.pop()
    return _checked(path, rows)


def _lines(path: Path) -> list[bytes]:
    """The lines that have an end, without it; empty where there is no file."""
    with file_errors(path, "cannot be read"):
        return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


def parsed(line: bytes | str) -> Row | str:
    """The row of metrics that a line holds, or why it holds none."""
    row: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        row = json.loads(line)
    return fault(row) or row


def fault(row: Any) -> str:
    """Why this is no row of metrics, and what would be right; empty where it is one."""
    types = {type(value) for value in row.values()} if isinstance(row, dict) else {dict}
    if not types <= {int, float, type(None)} or type(row.get("env_steps")) is not int:
        return "must be a JSON object of numbers, env_steps among them"
    return next(filter(None, (wrong_value(name, value) for name, value in row.items())), "")


def wrong_value(name: str, *values: float | None) -> str:
    """A value that a metric cannot have, and what it must be; means of what is learned may be any float."""
    low, high = _BOUNDS.get(name, (-1e308, 1e308))
    for value in values:
        is_free = type(value) is float and name.startswith(_SUMMARISED)
        if not (is_free or value is None or low <= value <= high):
            return f"{name} is {shown(value)}; must be a number from {low:g} to {high:g}"
    return ""


def _checked(path: Path, rows: list[Row | str]) -> list[Row]:
    """The rows, where none is damaged."""
    for number, row in enumerate(rows, 1):
        if isinstance(row, str):
            raise ConfigError(f"{path}: line {number} is damaged; {row}")
    return [row for row in rows if not isinstance(row, str)]


def frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """The rows as a `pandas.DataFrame`; a ConfigError where pandas is not installed."""
    try:
        from pandas import json_normalize
    except ImportError:
        raise ConfigError("to_pandas needs pandas: python -m pip install pandas") from None
    return json_normalize(rows)


def score(evaluation: Mapping[str, Any]) -> float:
    """The figure that evaluations are compared by: success, or the return where the task defines none."""
    success = evaluation.get("eval/success")
    return float(evaluation["eval/return"] if success is None else success)


def outcome(row: Mapping[str, float | int | None]) -> str:
    """An evaluation in words: success with its interval, or the return where the task defines no success."""
    if row.get("eval/success") is None:
        return f"return {row['eval/return']:.3g}"
    return interval(row["eval/success"], row.get("eval/success_low"), row.get("eval/success_high"))


def interval(success: Any, low: Any, high: Any) -> str:
    """A success rate with its 95 % interval, as far as that is known."""
    return f"success {success:.1%}" + ("" if None in (low, high) else f" [{low:.1%}, {high:.1%}]")
