"""The results of a run's evaluations so far: the last, the best, and the columns that sweeps read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor

from dtqn.acting.episode_intervals import NORMAL_QUANTILE
from dtqn.acting.evaluation import Goal
from dtqn.training import checkpoint
from dtqn.training.metrics import Row, is_full_evaluation, score


class Evaluations:
    """The bookkeeping of one run; `keep_best` is the only part that writes."""

    def __init__(self, folder: Path, rows: Sequence[Row], last: Row, best: Row) -> None:
        """`rows` are of earlier stretches; `last`, and `best` for the weights in `folder`, may be empty."""
        self.last, self.best, self._folder = last, best, folder
        self._seen: dict[str, list[tuple[float, bool]]] = {"success": [], "return": []}
        for row in rows:
            self.tally(row)

    def tally(self, row: Row) -> Row:
        """The best of the full evaluations and the mean of all, so far: a sweep's figures of the whole run.

        They are columns of their own, since a sweep reads one name both as the run's figure and over time.
        """
        figures: Row = {}
        for name, seen in self._seen.items():
            if (value := row.get(f"eval/{name}")) is not None:
                seen.append((value, is_full_evaluation(row)))
                figures[f"mean_{name}"] = sum(value for value, _ in seen) / len(seen)
                if full := [value for value, is_full in seen if is_full]:
                    figures[f"best_{name}"] = max(full)
        return figures

    def keep_best(self, row: Row, weights: Mapping[str, Tensor]) -> None:
        """Take a row's evaluation for the last one; keep its weights if it is the best one."""
        self.last = {key: row[key] for key in row if key == "env_steps" or key.startswith("eval/")}
        if is_full_evaluation(row) and (not self.best or score(self.last) > score(self.best)):
            self.best = dict(self.last)
            checkpoint.save_weights(self._folder, "best", weights, self.best)

    def reached(self, goal: Goal) -> bool:
        """Whether the last evaluation is full and its interval lies at or above a goal."""
        row = self.last
        if not is_full_evaluation(row):
            return False
        of_return, error = (row.get(f"eval/{name}") or 0.0 for name in ("return", "return_error"))
        return goal.is_met(row.get("eval/success_low"), of_return - NORMAL_QUANTILE * error)
