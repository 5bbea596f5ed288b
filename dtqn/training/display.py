"""The output of a run while it runs: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import heapq
import os
import statistics
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TextIO, cast

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dtqn.text import clock, counted, number

if TYPE_CHECKING:
    from dtqn.acting.evaluation import EvaluationResult
    from envs import TaskSpec

Row = Mapping[str, float | int | None]
_WINDOW_SECONDS = 30.0


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


class View(Protocol):
    """The place that a run reports to."""

    def tick(self, env_steps: int, learner_steps: int) -> None: ...

    def row(self, row: Row) -> None: ...

    def say(self, text: str) -> None: ...

    def close(self) -> None: ...


class Rates:
    """Speeds over the last half minute."""

    def __init__(self, env_steps: int, learner_steps: int) -> None:
        self._marks = deque([(time.monotonic(), env_steps, learner_steps)])
        self.env, self.learner = 0.0, 0.0

    def update(self, env_steps: int, learner_steps: int) -> None:
        if env_steps < self._marks[-1][1]:  # a row that has waited for its evaluation
            return
        now = time.monotonic()
        self._marks.append((now, env_steps, learner_steps))
        while len(self._marks) > 2 and now - self._marks[0][0] > _WINDOW_SECONDS:
            self._marks.popleft()
        then, env_then, learner_then = self._marks[0]
        seconds = max(now - then, 1e-9)
        self.env, self.learner = (env_steps - env_then) / seconds, (learner_steps - learner_then) / seconds


class Status:
    """The figures that both views show."""

    def __init__(self, total: int, env_steps: int, learner_steps: int) -> None:
        self.total, self.env_steps = total, env_steps
        self.rates = Rates(env_steps, learner_steps)
        self.last: dict[str, float | int | None] = {}

    def tick(self, env_steps: int, learner_steps: int) -> None:
        self.env_steps = env_steps
        self.rates.update(env_steps, learner_steps)

    def row(self, row: Row) -> None:
        self.last |= {key: value for key, value in row.items() if value is not None}

    @property
    def eta(self) -> str:
        left = max(self.total - self.env_steps, 0)
        return clock(left / self.rates.env) if self.rates.env > 0 else "-:--"

    @property
    def steps(self) -> str:
        return f"{number(self.env_steps)}/{number(self.total)} env steps"

    @property
    def figures(self) -> str:
        last, parts = (
            self.last,
            [f"{number(self.rates.env)} env steps/s", f"{self.rates.learner:.1f} learner steps/s"],
        )
        if "train/success" in last:
            parts.append(f"train {last['train/success']:.0%}")
        elif "train/return" in last:
            parts.append(f"train return {last['train/return']:.2f}")
        if "eval/return" in last:
            parts.append(f"eval {outcome(last)}")
        if "learner/loss" in last:
            parts.append(f"loss {last['learner/loss']:.4g}")
        return "  ".join(parts)


class PlainView:
    """A line for each evaluation, and one about every 30 seconds."""

    def __init__(
        self, out: TextIO, total: int, env_steps: int, learner_steps: int, every_seconds: float = 30.0
    ) -> None:
        self._out, self._every = out, every_seconds
        self._status = Status(total, env_steps, learner_steps)
        self._shown = self._updated = time.monotonic()

    def tick(self, env_steps: int, learner_steps: int) -> None:
        now = time.monotonic()
        if now - self._updated > 1:
            self._updated = now
            self._status.tick(env_steps, learner_steps)
        if now - self._shown > self._every:
            self._show()

    def row(self, row: Row) -> None:
        self._status.row(row)
        if "eval/return" in row:
            self._status.tick(int(row["env_steps"] or 0), int(row["learner_steps"] or 0))
            self._show()

    def _show(self) -> None:
        self._shown = time.monotonic()
        status = self._status
        self.say(
            f"{status.steps} ({status.env_steps / status.total:.0%})  eta {status.eta}  {status.figures}"
        )

    def say(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    def close(self) -> None:
        pass


class TerminalView:
    """A bar and the figures, redrawn in place; evaluations stay above them."""

    def __init__(self, console: Console, total: int, env_steps: int, learner_steps: int) -> None:
        self._status = Status(total, env_steps, learner_steps)
        self._updated = 0.0
        self._live = Live(
            console=console,
            get_renderable=self._render,
            transient=True,
            refresh_per_second=4,
            redirect_stderr=False,
        )
        self._live.start()

    def _render(self) -> RenderableType:
        status = self._status
        line = Table.grid(padding=(0, 1))
        line.add_row(
            ProgressBar(total=status.total, completed=min(status.env_steps, status.total), width=24),
            Text(f"{status.env_steps / status.total:.0%}  {status.steps}  eta {status.eta}"),
        )
        return Group(line, Text(status.figures))

    def tick(self, env_steps: int, learner_steps: int) -> None:
        now = time.monotonic()
        if now - self._updated > 0.25:
            self._updated = now
            self._status.tick(env_steps, learner_steps)

    def row(self, row: Row) -> None:
        self._status.row(row)
        if "eval/return" in row:
            self.say(f"{number(row['env_steps'] or 0)} env steps: {outcome(row)}")

    def say(self, text: str) -> None:
        self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        self._live.stop()


def open_view(out: TextIO | Output, total: int, env_steps: int, learner_steps: int) -> View:
    """The live view where `out` is a terminal, plain lines where it is not."""
    out = cast(TextIO, out)
    if out.isatty():
        return TerminalView(Console(file=out), total, env_steps, learner_steps)
    return PlainView(out, total, env_steps, learner_steps)


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


class RunsView(Protocol):
    """The place where several runs are shown."""

    def update(self, changed: Sequence[Watched]) -> None:
        """Draw anew; `changed` are the runs that are new in state or rows."""

    def say(self, text: str) -> None: ...

    def close(self) -> None: ...


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
        self.outcome = outcome(last) if "eval/return" in last else ""

    @property
    def left(self) -> int:
        return max(self.total - self.env_steps, 0) if self.state in ("waiting", "running") else 0

    @property
    def line(self) -> str:
        steps = f"{number(self.env_steps)}/{number(self.total)} env steps ({self.env_steps / self.total:.0%})"
        state = f"finished in {clock(self.seconds)}" if self.state == "finished" else self.place
        return f"{self.name}: {state}  {steps}  {self.outcome}".rstrip()


def _pace(rows: Sequence[Row]) -> float:
    """Seconds of an env step over the later half of the steps so far; 0 where it is not known yet.

    The last row alone may hold an evaluation, or none of the updates where these come many at once.
    """
    marks = [(int(row["env_steps"] or 0), float(row["seconds"] or 0)) for row in rows if "seconds" in row]
    if not marks or not marks[-1][0]:
        return 0.0
    env_steps, seconds = marks[-1]
    then = max(((0, 0.0), *(mark for mark in marks if mark[0] <= env_steps / 2)))
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


class PlainRunsView:
    """A line when a run changes its state; about every 30 seconds one for each that runs and one for all."""

    def __init__(self, out: TextIO, runs: Sequence[Watched], every_seconds: float = 30.0) -> None:
        """`runs` may grow."""
        self._out, self._runs, self._every = out, runs, every_seconds
        self._states: dict[str, str] = {}
        self._shown = time.monotonic()

    def update(self, changed: Sequence[Watched]) -> None:
        for run in changed:
            if self._states.get(run.name, "waiting") != run.state:
                self.say(RunFacts(run).line)
            self._states[run.name] = run.state
        if time.monotonic() - self._shown > self._every:
            self._shown = time.monotonic()
            facts = [RunFacts(run) for run in self._runs]
            for fact in facts:
                if fact.state == "running":
                    self.say(fact.line)
            self.say(overview(facts))

    def say(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    def close(self) -> None:
        pass


class TerminalRunsView:
    """A table of all runs, redrawn in place."""

    _ORDER = ("running", "failed", "stopped", "interrupted", "waiting", "finished")

    def __init__(self, console: Console, runs: Sequence[Watched]) -> None:
        self._console, self._facts = console, {run.name: RunFacts(run) for run in runs}
        self._live = Live(
            console=console,
            get_renderable=self._render,
            transient=True,
            refresh_per_second=4,
            redirect_stderr=False,
        )
        self._live.start()

    def update(self, changed: Sequence[Watched]) -> None:
        for run in changed:
            self._facts[run.name] = RunFacts(run)

    def _render(self) -> RenderableType:
        facts = list(self._facts.values())
        room = max(self._console.height - 3, 1)
        shown = facts
        if len(facts) > room:  # the most telling ones, in their places
            kept = sorted(facts, key=lambda fact: self._ORDER.index(fact.state))[: room - 1]
            shown = [fact for fact in facts if fact in kept]
        table = Table.grid(padding=(0, 2))
        for fact in shown:
            table.add_row(
                Text(fact.name),
                Text(fact.place, style="red" if fact.state == "failed" else ""),
                ProgressBar(total=fact.total, completed=min(fact.env_steps, fact.total), width=16),
                Text(f"{fact.env_steps / fact.total:.0%}", justify="right"),
                Text(f"{number(fact.speed)} env steps/s" if fact.speed else "", justify="right"),
                Text(fact.outcome),
            )
        hidden = [Text(f"and {len(facts) - len(shown)} more")] if len(shown) < len(facts) else []
        return Group(table, *hidden, Text(overview(facts)))

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        self._live.stop()


def open_runs_view(out: TextIO, runs: Sequence[Watched]) -> RunsView:
    """The live view over several runs where `out` is a terminal, plain lines where it is not.

    Args:
        runs: all of them; more may be appended later.
    """
    return TerminalRunsView(Console(file=out), runs) if out.isatty() else PlainRunsView(out, runs)


Colours = Sequence[Sequence[tuple[str, str]]]
"""Lines of (upper, lower) colours, `#rrggbb` each: a picture of two pixels a character."""


class FilmView(Protocol):
    """The place where an episode is shown, picture by picture; a context."""

    def show(self, picture: Colours | None, beside: Sequence[str], line: str, keep: bool) -> None:
        """Show a step.

        Args:
            beside: lines that stand beside the picture.
            line: the step in one line.
            keep: whether that line outlasts the next step.
        """

    def __enter__(self) -> FilmView: ...

    def __exit__(self, *error: object) -> None: ...


class PlainFilmView:
    """A line a step."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def show(self, picture: Colours | None, beside: Sequence[str], line: str, keep: bool) -> None:
        print(line, file=self._out, flush=True)

    def __enter__(self) -> FilmView:
        return self

    def __exit__(self, *error: object) -> None:
        pass


class TerminalFilmView:
    """The picture with what stands beside it, redrawn in place; lines that are kept stay above it."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False, transient=True, redirect_stderr=False)

    def show(self, picture: Colours | None, beside: Sequence[str], line: str, keep: bool) -> None:
        grid = Table.grid(padding=(0, 2))
        text = Text("\n".join(beside), no_wrap=True)
        grid.add_row(*([] if picture is None else [_half_blocks(picture)]), text)
        self._live.update(grid, refresh=True)
        if keep:
            self._live.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def __enter__(self) -> FilmView:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()


def _half_blocks(picture: Colours) -> Text:
    lines = (
        Text("").join(Text("▀", style=f"{upper} on {lower}") for upper, lower in line) for line in picture
    )
    return Text("\n", no_wrap=True).join(lines)


def open_film(out: TextIO) -> FilmView:
    """Pictures where `out` is a terminal, plain lines where it is not."""
    return TerminalFilmView(Console(file=out)) if out.isatty() else PlainFilmView(out)


def outcome(row: Row) -> str:
    """An evaluation in words: success with its interval, or the return where the task defines no success."""
    if row.get("eval/success") is None:
        return f"return {row['eval/return']:.3g}"
    return interval(row["eval/success"], row["eval/success_low"], row["eval/success_high"])


def interval(success: Any, low: Any, high: Any) -> str:
    """A success rate with its 95 % interval."""
    return f"success {success:.1%} [{low:.1%}, {high:.1%}]"


def evaluation_figures(result: EvaluationResult, task: TaskSpec) -> dict[str, float | None]:
    """The figures that `eval` prints, by name."""
    return {
        "success": result.success,
        "success_low": result.success_low,
        "success_high": result.success_high,
        "success_ceiling": task.success_ceiling if task.has_success else None,
        "return": result.episode_return,
        "length": result.length,
        "episodes": result.episodes,
    }


def evaluation_line(result: EvaluationResult, task: TaskSpec) -> str:
    """The same for people."""
    rate = "" if result.success is None else f"{interval(*result[:3])}{task.ceiling_note}, "
    episodes = counted(result.episodes, "episode")
    return f"{episodes}: {rate}return {result.episode_return:.3f}, length {result.length:.1f}"
