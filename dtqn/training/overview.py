"""Several runs at a glance: where each of them is, and when all will be done."""

from __future__ import annotations

import heapq
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from dtqn.text import clock, counted, number
from dtqn.training.metrics import Row, outcome


class Watched(Protocol):
    """A run among several."""

    @property
    def name(self) -> str: ...

    @property
    def state(self) -> str: ...

    @property
    def where(self) -> str:
        """The machine that it runs on; empty for this one."""

    @property
    def rows(self) -> Sequence[Row]: ...

    @property
    def total_env_steps(self) -> int: ...


class RunFacts:
    """The figures of one run that are shown."""

    def __init__(self, run: Watched) -> None:
        last: dict[str, float | int | None] = {}
        for row in run.rows:
            last |= {key: value for key, value in row.items() if value is not None}
        self.name, self.state = run.name, run.state
        self.place = f"{run.state} on {run.where}" if run.where else run.state
        """The state, with the machine if it is another one."""
        self.total, self.env_steps = run.total_env_steps, int(last.get("env_steps") or 0)
        self.speed = float(last.get("speed/env_steps_per_second") or 0) if run.state == "running" else 0.0
        self.seconds = float(last.get("seconds") or 0)
        self.pace = _pace(run.rows)
        if self.state == "finished" and self.env_steps:
            self.pace = self.seconds / self.env_steps
        self.outcome = outcome(last) if "eval/return" in last else ""

    @property
    def left(self) -> int:
        return max(self.total - self.env_steps, 0) if self.state in ("waiting", "running") else 0

    @property
    def line(self) -> str:
        share = min(1.0, self.env_steps / self.total)
        steps = f"{number(self.env_steps)}/{number(self.total)} env steps ({share:.0%})"
        state = f"finished in {clock(self.seconds)}" if self.state == "finished" else self.place
        return f"{self.name}: {state}  {steps}  {self.outcome}".rstrip()


def _pace(rows: Sequence[Row]) -> float:
    """Seconds of an env step over the later half of the steps so far, without warm-up; 0 if not known yet.

    The last row alone may hold an evaluation, or none of the updates where these come many at once.
    """
    learned = [row for row in rows if row.get("learner_steps") and "seconds" in row]
    marks = [(int(row["env_steps"] or 0), float(row["seconds"] or 0)) for row in learned]
    if not marks or marks[0][0] == marks[-1][0]:
        return 0.0
    env_steps, seconds = marks[-1]
    then = max((marks[0], *(mark for mark in marks if mark[0] <= env_steps / 2)))
    return (seconds - then[1]) / (env_steps - then[0])


def overview(facts: Sequence[RunFacts]) -> str:
    """How many runs are in which state, and when all will be done.

    As many run at a time as do now, and each that waits follows on the first to end, at the mean pace.
    """
    counts = Counter(fact.state for fact in facts)
    eta = "-:--"
    if any(fact.pace for fact in facts) and any(fact.state == "running" for fact in facts):
        usual = statistics.fmean(fact.pace for fact in facts if fact.pace)
        seconds = [fact.left * (fact.pace or usual) for fact in facts]
        ends = [left for fact, left in zip(facts, seconds, strict=True) if fact.state == "running"]
        heapq.heapify(ends)
        for fact, left in zip(facts, seconds, strict=True):
            if fact.state == "waiting":
                heapq.heapreplace(ends, ends[0] + left)
        eta = clock(max(ends))
    states = ", ".join(f"{count} {state}" for state, count in counts.items())
    count = counted(len(facts), "run")
    return f"{count}: {states}  eta {eta if any(fact.left for fact in facts) else '0:00'}"
