"""Scores: the one number that a run of a task is judged by, and its place between random and optimal play."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from dtqn.acting.episode_intervals import NORMAL_QUANTILE, wilson_interval
from dtqn.training.metrics import Row, is_evaluation, is_full_evaluation

Kind = Literal["success", "return", "mmer"]
COLUMNS: dict[Kind, str] = {
    "success": "success",
    "return": "return",
    "mmer": "MMER",
}
"""The name of each kind in tables."""
_EXPLAINED = {
    "success": "of the last evaluation",
    "return": "of the last evaluation",
    "mmer": "the best mean return of the training episodes of {0.epoch_env_steps} env steps of runs that used"
    " their whole budget",
}
NORMALISED = "normalised score"
"""The name of scores that are pooled over tasks."""
SOLVED = 0.9
"""The success that a solved task has."""
LAST = 10
"""Tables also show the mean of this many evaluations at a run's end."""


class Part(BaseModel):
    """What the file of a suite or a sweep may say in one place."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False, strict=True
    )


class Score(Part):
    """A way to judge a run of a task. Without `random` and `optimal` there is no normalised score."""

    of: Kind
    """one of success, return, mmer"""
    random: float | None = None
    """a number, the score of random actions"""
    optimal: float | None = None
    """a number, the score of the best policy"""
    epoch_env_steps: int = Field(65_536, ge=1)
    """an integer of at least 1, steps of an epoch of `mmer`"""
    solved_above: float | None = None
    """a number, the normalised score above which the task counts as solved"""
    observation_alone: float | None = None
    """a number, the best score of a policy that sees the present observation alone"""

    @model_validator(mode="after")
    def _has_two_ends(self) -> Score:
        if (self.random is None) != (self.optimal is None):
            raise ValueError(f"random is {self.random}, optimal {self.optimal}: must be both numbers")
        if self.random is not None and self.random == self.optimal:
            raise ValueError(f"optimal is {self.optimal:g}, as random is: must be another number")
        return self

    @property
    def name(self) -> str:
        return COLUMNS[self.of]

    @property
    def bar(self) -> float | None:
        """The score that a solved task has; None where there is no such."""
        if self.solved_above is None or self.random is None or self.optimal is None:
            return SOLVED if self.of == "success" else None
        return self.random + self.solved_above * (self.optimal - self.random)

    def scaled(self, share: float) -> Score:
        """This score for runs with a share of the budget."""
        return self.model_copy(update={"epoch_env_steps": max(1, round(self.epoch_env_steps * share))})

    def value(self, rows: Sequence[Row], total_env_steps: int) -> float | None:
        """The score of a finished run by the rows of its metrics; None where they do not tell.

        A run that ended before `total_env_steps` may have had its best epoch before it, so it has no MMER:
        the sooner it was solved and ended, the lower that would be.
        """
        if self.of == "mmer":
            ended = int(rows[-1]["env_steps"] or 0) if rows else 0
            return best_epoch(rows, self.epoch_env_steps) if ended >= total_env_steps else None
        last = next((row for row in reversed(rows) if is_evaluation(row)), {})
        return last.get(f"eval/{self.of}")

    @property
    def explained(self) -> str:
        """In words, for the lines below a table."""
        parts = [self.name, _EXPLAINED[self.of].format(self)]
        if self.random is not None:
            parts.append(f"from {self.random:g} (random) to {self.optimal:g} (optimal)")
        if self.solved_above is not None:
            parts.append(f"solved above {self.solved_above:g} of that way")
        if self.observation_alone is not None:
            parts.append(f"at best {self.observation_alone:g} by the observation alone")
        return ", ".join(parts)

    def normalised(self, value: float) -> float | None:
        """0 for random actions, 1 for the best policy."""
        if self.random is None or self.optimal is None:
            return None
        return (value - self.random) / (self.optimal - self.random)


SUCCESS, RETURN = Score(of="success", random=0.0, optimal=1.0), Score(of="return")
"""The scores of a comparison without a suite: success where the task defines it, else the return."""


def judged_by(scores: Sequence[Score]) -> Score | None:
    """The first of a task's scores by which evaluations can show it solved; None if there is none."""
    return next((each for each in scores if each.of in ("success", "return") and each.bar is not None), None)


def first_solved(rows: Sequence[Row], score: Score, total_env_steps: int) -> Row | None:
    """The first of two successive full evaluations that both show the bar; None where there is none.

    An evaluation shows the bar by the lower end of its 95 % interval. If a run ended before
    `total_env_steps`, no evaluation follows its last one, so that one counts alone.

    Args:
        rows: a run's, in order.
        score: of kind success or return, with a bar.
    """
    full = [row for row in rows if is_full_evaluation(row)]
    found = (one for one, next_one in pairwise(full) if shows(one, score) and shows(next_one, score))
    ended_early = bool(full) and int(full[-1]["env_steps"] or 0) < total_env_steps
    return next(found, full[-1] if ended_early and shows(full[-1], score) else None)


def shows(row: Row, score: Score) -> bool:
    """Whether the 95 % interval of an evaluation lies at or above the score's bar."""
    value, bar, episodes = row.get(f"eval/{score.of}"), score.bar, int(row.get("eval/episodes") or 0)
    if value is None or bar is None or not episodes:
        return False
    if score.of == "success":
        return wilson_interval(round(value * episodes), episodes)[0] >= bar
    error = row.get("eval/return_error")
    return error is not None and value - NORMAL_QUANTILE * error >= bar


def last_evaluations(rows: Sequence[Row], of: str) -> float | None:
    """The mean of `success` or `return` over a run's last ten evaluations, or over all if it has fewer."""
    found = [row.get(f"eval/{of}") for row in rows if is_evaluation(row)][-LAST:]
    values = [value for value in found if value is not None]
    return statistics.fmean(values) if values else None


def best_epoch(rows: Sequence[Row], epoch_env_steps: int) -> float | None:
    """POPGym's MMER (Morad et al. 2023, arXiv 2303.01859): the best epoch's mean episodic return in training.

    The mean is over the episodes that end in an epoch, exploration included; its epochs are batches of 65 536
    env steps. An epoch ends here with the first row at or beyond its end. One that the run's end cut short
    does not count, as it may be of random actions for the most part; None where there is no whole one.
    """
    best: float | None = None
    episodes, total, end = 0.0, 0.0, epoch_env_steps
    for row in rows:
        env_steps = int(row["env_steps"] or 0)
        if row.get("train/episodes") is None or env_steps < end:
            continue
        ended = float(row["train/episodes"] or 0) - episodes
        if ended > 0:
            mean = (float(row["train/total_return"] or 0) - total) / ended
            best = mean if best is None else max(best, mean)
        episodes, total = float(row["train/episodes"] or 0), float(row["train/total_return"] or 0)
        end = (env_steps // epoch_env_steps + 1) * epoch_env_steps
    return best
