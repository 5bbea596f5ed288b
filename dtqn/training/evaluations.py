"""The results of a run's evaluations so far: the last, the best, and the columns that sweeps read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor

from dtqn.acting.episode_intervals import NORMAL_QUANTILE
from dtqn.acting.evaluation import Goal
from dtqn.text import number
from dtqn.training import checkpoint
from dtqn.training.checkpoint import CheckpointError
from dtqn.training.metrics import Row, is_full_evaluation, score


class Evaluations:
    """The bookkeeping of one run; `keep_best` is the only part that writes."""

    def __init__(self, folder: Path, rows: Sequence[Row], last: Row, is_exact: bool) -> None:
        """
        Args:
            folder: the run's checkpoints, for the best weights.
            rows: the metrics so far.
            last: the last evaluation so far; empty before the first.
            is_exact: evaluations that a killed run played after its last checkpoint come out again.
        """
        self.last = last
        self.best_is_lost = False
        """Whether the best weights were found damaged; then those of an equal evaluation take their place."""
        self.problem: str | None = None
        """The fault of the best weights, in one line; None where they are whole."""
        self._folder = folder
        self._seen: dict[str, list[tuple[float, bool]]] = {"success": [], "return": []}
        for row in rows:
            self.tally(row)
        full = [_evaluation(row) for row in rows if is_full_evaluation(row)]
        self.best = self._best_of(full, is_exact)

    def _best_of(self, evaluations: Sequence[Row], is_exact: bool) -> Row:
        """The evaluation that the best weights are of, or were."""
        if not evaluations:
            return {}
        try:
            figures = checkpoint.best_figures(self._folder)
            if figures is None:
                problem = f"{self._folder} has no best.safetensors"
            elif is_exact or _is_of(figures, evaluations):
                return figures
            else:
                problem = f"{self._folder} has a best.safetensors of rows that are gone"
        except CheckpointError as error:
            problem = str(error)
        best = max(evaluations, key=score)
        self.best_is_lost = True
        self.problem = (
            f"{problem}; the best weights, of {number(best['env_steps'] or 0)} env steps, are lost: "
            "the run goes on, and keeps the next ones that are as good"
        )
        return best

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

    def keep_best(self, row: Row, weights: Mapping[str, Tensor]) -> bool:
        """Take a row's evaluation for the last one; keep its weights if it is the best one, and say so."""
        self.last = _evaluation(row)
        if not is_full_evaluation(row):
            return False
        as_good = self.best_is_lost and score(self.last) == score(self.best)
        if self.best and not as_good and score(self.last) <= score(self.best):
            return False
        self.best, self.best_is_lost = dict(self.last), False
        checkpoint.save_weights(self._folder, "best", weights, self.best)
        return True

    def reached(self, goal: Goal) -> bool:
        """Whether the last evaluation is full and its interval lies at or above a goal."""
        row = self.last
        if not is_full_evaluation(row):
            return False
        of_return, error = (row.get(f"eval/{name}") or 0.0 for name in ("return", "return_error"))
        return goal.is_met(row.get("eval/success_low"), of_return - NORMAL_QUANTILE * error)


def _is_of(figures: Row, evaluations: Sequence[Row]) -> bool:
    """Whether the figures beside the best weights are one of the evaluations."""
    known = {(one["env_steps"], score(one)) for one in evaluations}
    return (figures.get("env_steps"), score(figures)) in known


def _evaluation(row: Row) -> Row:
    """The part of a row that an evaluation made, and its env steps."""
    return {key: value for key, value in row.items() if key == "env_steps" or key.startswith("eval/")}
