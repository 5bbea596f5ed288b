"""Several runs at a glance: where each of them is, and when all will be done."""

from __future__ import annotations

import heapq
import statistics
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
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
    def kind(self) -> Hashable:
        """Runs of one kind, such as those of a task and agent, take about as long."""

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
        self.name, self.state, self.kind = run.name, run.state, run.kind
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


def _mean_by_kind(values: Iterable[tuple[Hashable, float]]) -> dict[Hashable, float]:
    found: dict[Hashable, list[float]] = defaultdict(list)
    for kind, value in values:
        found[kind].append(value)
    return {kind: statistics.fmean(some) for kind, some in found.items()}


def _seconds_left(facts: Sequence[RunFacts]) -> list[float]:
    """What each will take; at least one has a pace.

    A run ends where the finished ones of its kind did in the mean, or at its budget if it is past that. One
    without a pace has the mean of its kind, or of all.
    """
    ends = _mean_by_kind((fact.kind, fact.env_steps) for fact in facts if fact.state == "finished")
    paces = _mean_by_kind((fact.kind, fact.pace) for fact in facts if fact.pace)
    usual = statistics.fmean(fact.pace for fact in facts if fact.pace)

    def seconds(fact: RunFacts) -> float:
        ahead = ends.get(fact.kind, fact.total) - fact.env_steps
        steps = min(ahead, fact.left) if ahead > 0 else fact.left
        return steps * (fact.pace or paces.get(fact.kind, usual))

    return [seconds(fact) for fact in facts]


def overview(facts: Sequence[RunFacts]) -> str:
    """How many runs are in which state, and when all will be done.

    As many run at a time as do now, and each that waits follows on the first to end.
    """
    counts = Counter(fact.state for fact in facts)
    eta = "-:--"
    if any(fact.pace for fact in facts) and any(fact.state == "running" for fact in facts):
        seconds = _seconds_left(facts)
        ends = [left for fact, left in zip(facts, seconds, strict=True) if fact.state == "running"]
        heapq.heapify(ends)
        for fact, left in zip(facts, seconds, strict=True):
            if fact.state == "waiting":
                heapq.heapreplace(ends, ends[0] + left)
        eta = clock(max(ends))
    states = ", ".join(f"{count} {state}" for state, count in counts.items())
    count = counted(len(facts), "run")
    return f"{count}: {states}  eta {eta if any(fact.left for fact in facts) else '0:00'}"
