"""Scores: the one number that a run of a task is judged by, and its place between random and optimal play."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from dtqn.acting.statistics import wilson_interval
from dtqn.training.metrics import Row, is_full_evaluation

Kind = Literal["success", "return", "bsuite", "mmer"]
COLUMNS: dict[Kind, str] = {
    "success": "success",
    "return": "return",
    "bsuite": "training success",
    "mmer": "MMER",
}
"""The name of each kind in tables."""
SHARES = ("success", "training success")
"""Names of scores that are shares of episodes."""
NORMALISED = "normalised score"
"""The name of scores that are pooled over tasks."""
SOLVED = 0.9
"""The success that `env_steps_to_90` and `minutes_to_90` are about."""


class Score(NamedTuple):
    """A way to judge a run of a task."""

    kind: Kind
    random: float | None = None
    """The score of uniformly random actions; None, as the next one, where there is no normalisation."""
    optimal: float | None = None
    """The score of the best policy."""
    episodes: int = 10_000
    """Training episodes that `bsuite` looks at."""
    epoch_env_steps: int = 65_536
    """Environment steps of an epoch of `mmer`."""
    solved_above: float | None = None
    """The normalised score above which a task counts as solved; None where nothing is counted."""
    observation_alone: float | None = None
    """The best score of a policy that sees the present observation alone; None where it is not known."""

    @property
    def name(self) -> str:
        return COLUMNS[self.kind]

    @property
    def is_normalised(self) -> bool:
        """Whether the score is its own normalised score."""
        return (self.random, self.optimal) == (0.0, 1.0)

    def of(self, rows: Sequence[Row], total_env_steps: int) -> float | None:
        """The score of a finished run by the rows of its metrics; None where they do not tell.

        A run that ended before `total_env_steps` may have had its best epoch before it, so it has no MMER:
        the sooner it was solved and ended, the lower that would be.
        """
        match self.kind:
            case "bsuite":
                return first_episodes(rows, self.episodes)
            case "mmer":
                ended = int(rows[-1]["env_steps"] or 0) if rows else 0
                return best_epoch(rows, self.epoch_env_steps) if ended >= total_env_steps else None
        last = next((row for row in reversed(rows) if row.get("eval/return") is not None), {})
        return last.get(f"eval/{self.kind}")

    @property
    def explained(self) -> str:
        """In words, for the lines below a table."""
        match self.kind:
            case "bsuite":
                what = f"success of the first {self.episodes} training episodes, exploration included"
            case "mmer":
                what = (
                    f"the best mean return of the training episodes of {self.epoch_env_steps} env steps "
                    "of runs that used their whole budget"
                )
            case _:
                what = "of the last evaluation"
        scale = (
            "" if self.random is None else f", from {self.random:g} (random) to {self.optimal:g} (optimal)"
        )
        solved = "" if self.solved_above is None else f", solved above {self.solved_above:g} of that way"
        blind = (
            ""
            if self.observation_alone is None
            else f", at best {self.observation_alone:g} by the observation alone"
        )
        return f"{self.name}, {what}{scale}{solved}{blind}"

    @property
    def lacking(self) -> str:
        """Why there is no such score of a run that has finished, and what would be right."""
        if self.kind == "mmer":
            return f"it ended before its budget, or has no whole epoch of {self.epoch_env_steps} env steps"
        if self.kind != "bsuite":
            return "its metrics do not tell"
        return (
            f"its first row of metrics has more than {self.episodes} training episodes; "
            "give a smaller metrics_every"
        )

    @property
    def solved_value(self) -> float | None:
        """The score above which a task counts as solved; None where nothing is counted."""
        if self.solved_above is None or self.random is None or self.optimal is None:
            return None
        return self.random + self.solved_above * (self.optimal - self.random)

    def normalised(self, value: float) -> float | None:
        """0 for random actions, 1 for the best policy."""
        if self.random is None or self.optimal is None:
            return None
        return (value - self.random) / (self.optimal - self.random)


SUCCESS, RETURN = Score("success", 0.0, 1.0), Score("return")
"""The scores of a comparison without a suite: success where the task defines it, else the return."""


def first_solved(rows: Sequence[Row]) -> Row | None:
    """The first evaluation that shows 90 % success; None where there is none.

    A full one shows it by its success, a shorter one by the lower end of its 95 % interval, as 50 successes
    of 50 do. If full ones alone counted, the first moment at which a run could pay for one would be the
    figure of every agent that learns before it.
    """
    return next((row for row in rows if _shows_solved(row)), None)


def _shows_solved(row: Row) -> bool:
    success, episodes = row.get("eval/success"), int(row.get("eval/episodes") or 0)
    if success is None:
        return False
    if is_full_evaluation(row):
        return success >= SOLVED
    return episodes > 0 and wilson_interval(round(success * episodes), episodes)[0] >= SOLVED


def first_episodes(rows: Sequence[Row], episodes: int) -> float | None:
    """Success of the first `episodes` episodes of training, in the order of their ends, exploration included.

    As bsuite does with its own log, the last row is taken that has not more of them (memory_len's
    `analysis.py`: `total_perfect` at `max_eps`). With the regret ratio of that file,

        (episodes - total_perfect) / 0.5 / episodes < 0.75

    is `Score.normalised` above 0.25, where random actions have 0.5 and the best policy 1.
    """
    counted = [row for row in rows if 0 < (row.get("train/episodes") or 0) <= episodes]
    if not counted or counted[-1].get("train/total_success") is None:
        return None
    last = counted[-1]
    return float(last["train/total_success"] or 0) / float(last["train/episodes"] or 1)


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
