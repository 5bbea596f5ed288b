"""Two questions with three answers each: yes, no, cannot tell.

*Does this agent use its memory?* Its score with memory emptied every few steps, or taken from another
episode at the same step, is held beside the score with memory as it is.

*Does the task need memory?* The score of this agent is held beside that of the best agent without memory that
the user has trained, with the same encoder and budget.

A difference counts where intervals lie apart by more than `MARGIN` of the range from random actions to the
best result that is known; there is none where they lie within it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from dtqn.acting.evaluation import NORMAL_QUANTILE, wilson_interval
from dtqn.debugging.episodes import Episode, Outcome

MARGIN = 0.05

Answer = Literal["yes", "no", "cannot tell"]


class Score(NamedTuple):
    """Success, or the return where the task defines none, with its 95 % interval."""

    value: float
    low: float
    high: float
    episodes: int


class Verdict(NamedTuple):
    answer: Answer
    because: str


def score(episodes: Sequence[Episode] | Sequence[Outcome], has_success: bool) -> Score:
    """Wilson's interval of a success rate; of a mean return the normal one."""
    count = len(episodes)
    if has_success:
        wins = sum(x.success for x in episodes)
        return Score(wins / count, *wilson_interval(wins, count), count)
    returns = np.array([x.episode_return for x in episodes])
    half = NORMAL_QUANTILE * returns.std(ddof=1) / math.sqrt(count) if count > 1 else math.inf
    return Score(float(returns.mean()), float(returns.mean() - half), float(returns.mean() + half), count)


def uses_memory(intact: Score, disturbed: dict[str, Score], random: Score, best: float) -> Verdict:
    """`disturbed`: what was done to the memory -> the score."""
    if intact.low <= random.high:
        return Verdict("cannot tell", "the agent is not better than random actions")
    margin = MARGIN * (max(best, intact.value) - random.value)
    worst = min(disturbed, key=lambda name: disturbed[name].high)
    if disturbed[worst].high < intact.low - margin:
        return Verdict("yes", f"memory {worst}: {disturbed[worst].value:.3g}, as it is: {intact.value:.3g}")
    if all(x.low > intact.high - margin for x in disturbed.values()):
        return Verdict("no", f"no disturbance of its memory costs more than {MARGIN:.0%} of the range")
    return Verdict("cannot tell", "intervals overlap; more episodes would tell (--episodes)")


def needs_memory(best_agent: Score, memoryless: dict[str, Score], random: Score, best: float) -> Verdict:
    """`memoryless`: a run without memory -> its score."""
    if not memoryless:
        return Verdict("cannot tell", "no run without memory is given (--memoryless RUN)")
    if best_agent.low <= random.high:
        return Verdict("cannot tell", "the agent is not better than random actions")
    margin = MARGIN * (max(best, best_agent.value) - random.value)
    name = max(memoryless, key=lambda run: memoryless[run].high)
    found = memoryless[name]
    text = f"{name} without memory: {found.value:.3g}, this agent: {best_agent.value:.3g}"
    if best_agent.low > found.high + margin:
        return Verdict("yes", text)
    if found.low >= best_agent.high - margin:
        return Verdict("no", text)
    return Verdict("cannot tell", f"{text}; the intervals do not lie apart")
