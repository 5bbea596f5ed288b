"""The output of a run while it runs: parts of a terminal that are redrawn in place, plain lines elsewhere."""

from __future__ import annotations

import bisect
import contextlib
import heapq
import math
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TextIO, cast

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dtqn.text import clock, counted, number, shortened
from dtqn.training.metrics import Row, outcome

_BROAD = 110
"""Columns of a terminal that has room for all that is known of a run."""


class Output:
    """A text stream whose reader may go away, as a closed terminal or `head` does.

    Text that is written after that is lost, and raises nothing: the run sees `lost` and saves.
    """

    def __init__(self, stream: TextIO | None) -> None:
        """`stream` is none where the program was started without an output."""
        self._stream = stream
        self.lost = False

    def write(self, text: str) -> int:
        self._try(lambda stream: stream.write(text))
        return len(text)

    def flush(self) -> None:
        self._try(lambda stream: stream.flush())

    def isatty(self) -> bool:
        return self._stream is not None and not self.lost and self._stream.isatty()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _try(self, action: Callable[[TextIO], object]) -> None:
        if self._stream is None or self.lost:
            return
        try:
            action(self._stream)
        except OSError:
            self.lost = True
            # Else the interpreter would fail at its end to write what the stream still holds.
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())


class _Shown:
    """A part of a terminal, redrawn in place until it is closed, below what is said; elsewhere lines."""

    def __init__(self, out: TextIO | Output, every_seconds: float = 30.0) -> None:
        self._out, self._every, self._told = cast(TextIO, out), every_seconds, time.monotonic()
        self._console = Console(file=self._out)
        self._live: Live | None = None
        """None: the output is no terminal."""
        if out.isatty():
            self._live = Live(
                console=self._console,
                get_renderable=self._render,
                transient=True,
                refresh_per_second=4,
                redirect_stderr=False,
            )
            self._live.start()

    def _render(self) -> RenderableType:
        raise NotImplementedError

    def say(self, text: str) -> None:
        if self._live is None:
            print(text, file=self._out, flush=True)
        else:
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()

    def _is_due(self) -> bool:
        """Whether lines are to tell again how things are."""
        return self._live is None and time.monotonic() - self._told > self._every


def _bar(total: int, env_steps: int, width: int) -> ProgressBar:
    return ProgressBar(total=total, completed=min(env_steps, total), width=width)


class Watched(Protocol):
    """A run among several."""

    @property
    def name(self) -> str: ...

    @property
    def state(self) -> str: ...

    @property
    def rows(self) -> Sequence[Row]: ...

    @property
    def total_env_steps(self) -> int: ...


class RunFacts:
    """The figures of one run that are shown."""

    def __init__(self, run: Watched) -> None:
        last: Row = {}
        for row in run.rows:
            last |= {key: value for key, value in row.items() if value is not None}
        self.name, self.state = run.name, run.state
        self.total, self.env_steps = run.total_env_steps, int(last.get("env_steps") or 0)
        self.speed = float(last.get("speed/env_steps_per_second") or 0) if run.state == "running" else 0.0
        self.seconds = float(last.get("seconds") or 0)
        self.pace = _pace(_marks(run.rows))
        if self.state == "finished" and self.env_steps:
            self.pace = self.seconds / self.env_steps
        self.outcome = outcome(last) if "eval/return" in last else ""

    @property
    def left(self) -> int:
        return max(self.total - self.env_steps, 0) if self.state in ("waiting", "running") else 0

    @property
    def line(self) -> str:
        state = f"finished in {clock(self.seconds)}" if self.state == "finished" else self.state
        return f"{self.name}: {state}  {_steps(self.env_steps, self.total)}  {self.outcome}".rstrip()


def _steps(env_steps: int, total: int) -> str:
    return f"{number(env_steps)}/{number(total)} env steps ({min(1.0, env_steps / total):.0%})"


def _marks(rows: Sequence[Row]) -> list[tuple[int, float]]:
    """Env steps and seconds of the rows since learning began; both only grow."""
    learned = (row for row in rows if row.get("learner_steps") and "seconds" in row)
    return [(int(row["env_steps"] or 0), float(row["seconds"] or 0)) for row in learned]


def _pace(marks: Sequence[tuple[int, float]]) -> float:
    """Seconds of an env step over the later half of the steps so far, without warm-up; 0 if not known yet.

    The last row alone may hold an evaluation, or none of the updates where these come many at once.
    """
    if not marks or marks[0][0] == marks[-1][0]:
        return 0.0
    env_steps, seconds = marks[-1]
    then = marks[max(bisect.bisect(marks, (env_steps / 2, math.inf)) - 1, 0)]
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


class View(_Shown):
    """One run: bar and figures below its evaluations, or a line for each and one about every 30 seconds."""

    def __init__(self, out: TextIO | Output, total: int, env_steps: int) -> None:
        """The run begins at these steps."""
        self._total, self._env_steps = total, env_steps
        self._marks: list[tuple[int, float]] = []
        """Of all rows; a long run has too many to keep them."""
        self._last: Row = {}
        """Of each metric the last value."""
        super().__init__(out)

    def _render(self) -> RenderableType:
        line = Table.grid(padding=(0, 1))
        line.add_row(_bar(self._total, self._env_steps, 24), Text(self._progress))
        return Group(line, Text(self._figures))

    def progress(self, env_steps: int) -> None:
        self._env_steps = env_steps
        if self._is_due():
            self._tell()

    def row(self, row: Row) -> None:
        self._marks += _marks([row])
        self._last |= {key: value for key, value in row.items() if value is not None}
        self._env_steps = int(row["env_steps"] or 0)
        if "eval/return" not in row:
            return
        if self._live is not None:
            self.say(f"{number(row['env_steps'] or 0)} env steps: {outcome(row)}")
        else:
            self._tell()

    def _tell(self) -> None:
        self._told = time.monotonic()
        self.say(f"{self._progress}  {self._figures}")

    @property
    def _progress(self) -> str:
        left, pace = max(self._total - self._env_steps, 0), _pace(self._marks)
        eta = clock(left * pace) if pace or not left else "-:--"
        return f"{_steps(self._env_steps, self._total)}  eta {eta}"

    @property
    def _figures(self) -> str:
        last = self._last
        env_speed, learner_speed = (
            last.get(f"speed/{of}_steps_per_second") or 0 for of in ("env", "learner")
        )
        parts = [f"{number(env_speed)} env steps/s", f"{learner_speed:.1f} learner steps/s"]
        if "train/success" in last:
            parts.append(f"train {last['train/success']:.0%}")
        elif "train/return" in last:
            parts.append(f"train return {last['train/return']:.2f}")
        if "eval/return" in last:
            parts.append(f"eval {outcome(last)}")
        if "learner/loss" in last:
            parts.append(f"loss {last['learner/loss']:.4g}")
        return "  ".join(parts)


class RunsView(_Shown):
    """Several runs: a table of all, or a line when one changes its state and about every 30 seconds."""

    _ORDER = ("running", "failed", "stopped", "interrupted", "waiting", "finished")

    def __init__(self, out: TextIO, runs: Sequence[Watched], every_seconds: float = 30.0) -> None:
        """`runs`: all of them; more may be appended later."""
        self._runs = runs
        self._facts: dict[str, RunFacts] = {}
        super().__init__(out, every_seconds)

    def update(self, changed: Sequence[Watched]) -> None:
        """Show anew those that have another state or more rows."""
        for run in changed:
            before = self._facts[run.name].state if run.name in self._facts else "waiting"
            fact = self._facts[run.name] = RunFacts(run)
            if self._live is None and fact.state != before:
                self.say(fact.line)
        if self._is_due():
            self._told = time.monotonic()
            facts = [RunFacts(run) for run in self._runs]
            for fact in facts:
                if fact.state == "running" and fact.env_steps:  # the first line of it has been said
                    self.say(fact.line)
            self.say(overview(facts))

    def _render(self) -> RenderableType:
        facts, console = [self._facts.get(run.name) or RunFacts(run) for run in self._runs], self._console
        shown = self._fitting(facts, max(console.height - 3, 1))
        broad = console.width >= _BROAD
        room = max(console.width - (90 if broad else 54), 10)  # what the other columns leave
        table = Table.grid(padding=(0, 2))
        is_one_task = len({fact.name.partition(" ")[0] for fact in facts}) == 1
        for fact in shown:
            name = fact.name.partition(" ")[2] if is_one_task and len(fact.name) > room else fact.name
            speed = f"{number(fact.speed)}{' env steps' * broad}/s" if fact.speed else ""
            table.add_row(
                Text(shortened(name, room)),
                Text(fact.state, style="red" if fact.state == "failed" else ""),
                _bar(fact.total, fact.env_steps, 16 if broad else 8),
                Text(f"{min(1.0, fact.env_steps / fact.total):.0%}", justify="right"),
                Text(speed, justify="right"),
                Text(fact.outcome if broad else fact.outcome.partition(" [")[0]),
            )
        hidden = [Text(f"and {len(facts) - len(shown)} more")] if len(shown) < len(facts) else []
        return Group(table, *hidden, Text(overview(facts)))

    def _fitting(self, facts: list[RunFacts], room: int) -> list[RunFacts]:
        """Where not all have room, the most telling ones in their places."""
        if len(facts) <= room:
            return facts
        kept = sorted(facts, key=lambda fact: self._ORDER.index(fact.state))[: room - 1]
        return [fact for fact in facts if fact in kept]


class FilmView(_Shown):
    """An episode step by step: the picture with text to its right, or one line for each step."""

    _step: RenderableType = ""

    def _render(self) -> RenderableType:
        return self._step

    def show(self, picture: np.ndarray | None, beside: Sequence[str], line: str, keep: bool) -> None:
        """Show a step: its `picture`, uint8 [height, width, 3], and to its right the lines `beside`.

        Args:
            line: the step in one line.
            keep: whether that line outlasts the next step.
        """
        if self._live is not None:
            self._step = grid = Table.grid(padding=(0, 2))
            grid.add_row(*([] if picture is None else [_half_blocks(picture)]), Text("\n".join(beside)))
            self._live.refresh()
        if keep or self._live is None:
            self.say(line)


def _half_blocks(picture: np.ndarray) -> Text:
    """Two lines of pixels for each line of text; a last line alone has black below it."""
    even = np.pad(picture, ((0, len(picture) % 2), (0, 0), (0, 0)))
    style = "rgb({},{},{}) on rgb({},{},{})"
    lines = (
        Text("").join(Text("▀", style.format(*upper, *lower)) for upper, lower in zip(*pair, strict=True))
        for pair in zip(even[::2], even[1::2], strict=True)
    )
    return Text("\n", no_wrap=True).join(lines)
