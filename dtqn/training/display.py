"""The output of a run while it runs: parts of a terminal that are redrawn in place, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TextIO, cast

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dtqn.text import clock, number, shortened
from dtqn.training.metrics import Row, outcome
from dtqn.training.overview import RunFacts, Watched, overview

_WINDOW_SECONDS = 30.0
_LEAST_SECONDS = 0.25
"""Between two looks at a run's steps."""
_FEWEST_UPDATES = 10
"""Before the time to go is told."""
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


class _Lines:
    """Plain lines, some of them only once in a while."""

    def __init__(self, out: TextIO, every_seconds: float = 30.0) -> None:
        self._out, self._every, self._shown = out, every_seconds, time.monotonic()

    def say(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    def close(self) -> None:
        pass

    def _is_due(self) -> bool:
        return time.monotonic() - self._shown > self._every


class _Screen:
    """A part of a terminal that is redrawn in place, until it is closed; what is said stays above it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(
            console=console,
            get_renderable=self._render,
            transient=True,
            refresh_per_second=4,
            redirect_stderr=False,
        )
        self._live.start()

    def _render(self) -> RenderableType:
        raise NotImplementedError

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        self._live.stop()


def _bar(total: int, env_steps: int, width: int) -> ProgressBar:
    return ProgressBar(total=total, completed=min(env_steps, total), width=width)


class _Status:
    """The figures of one run: speeds of the last half minute, the time to go by all since learning began."""

    def __init__(self, total: int, env_steps: int, learner_steps: int) -> None:
        self.total, self.env_steps = total, env_steps
        self._marks = deque([(time.monotonic(), env_steps, learner_steps)])
        self._learning = self._marks[0]
        """Where learning began."""
        self._env_speed = self._learner_speed = 0.0
        self._last: dict[str, float | int | None] = {}

    def tick(self, env_steps: int, learner_steps: int, least_seconds: float = _LEAST_SECONDS) -> None:
        self.env_steps, now = env_steps, time.monotonic()
        then, env_then, _ = self._marks[-1]
        # A row that has waited for its evaluation has fewer steps.
        if now - then <= least_seconds or env_steps < env_then:
            return
        self._marks.append((now, env_steps, learner_steps))
        if not self._learning[2]:
            self._learning = self._marks[-1]
        while len(self._marks) > 2 and now - self._marks[0][0] > _WINDOW_SECONDS:
            self._marks.popleft()
        then, env_then, learner_then = self._marks[0]
        seconds = max(now - then, 1e-9)
        self._env_speed = (env_steps - env_then) / seconds
        self._learner_speed = (learner_steps - learner_then) / seconds

    def row(self, row: Row) -> None:
        self._last |= {key: value for key, value in row.items() if value is not None}

    @property
    def share(self) -> str:
        return f"{min(1.0, self.env_steps / self.total):.0%}"

    @property
    def steps(self) -> str:
        return f"{number(self.env_steps)}/{number(self.total)} env steps"

    @property
    def eta(self) -> str:
        (then, env_then, learner_then), (now, env_now, learner_now) = self._learning, self._marks[-1]
        left = max(self.total - self.env_steps, 0)
        if left and (learner_now - learner_then < _FEWEST_UPDATES or env_now == env_then):
            return "eta -:--"
        return f"eta {clock(left and left * (now - then) / (env_now - env_then))}"

    @property
    def figures(self) -> str:
        last = self._last
        parts = [f"{number(self._env_speed)} env steps/s", f"{self._learner_speed:.1f} learner steps/s"]
        if "train/success" in last:
            parts.append(f"train {last['train/success']:.0%}")
        elif "train/return" in last:
            parts.append(f"train return {last['train/return']:.2f}")
        if "eval/return" in last:
            parts.append(f"eval {outcome(last)}")
        if "learner/loss" in last:
            parts.append(f"loss {last['learner/loss']:.4g}")
        return "  ".join(parts)


class PlainView(_Lines):
    """A line for each evaluation, and one about every 30 seconds."""

    def __init__(self, out: TextIO, total: int, env_steps: int, learner_steps: int) -> None:
        super().__init__(out)
        self._status = _Status(total, env_steps, learner_steps)

    def tick(self, env_steps: int, learner_steps: int) -> None:
        self._status.tick(env_steps, learner_steps)
        if self._is_due():
            self._show()

    def row(self, row: Row) -> None:
        self._status.row(row)
        if "eval/return" in row:
            self._status.tick(int(row["env_steps"] or 0), int(row["learner_steps"] or 0), 0.0)
            self._show()

    def _show(self) -> None:
        self._shown = time.monotonic()
        status = self._status
        self.say(f"{status.steps} ({status.share})  {status.eta}  {status.figures}")


class TerminalView(_Screen):
    """A bar and the figures; evaluations stay above them."""

    def __init__(self, console: Console, total: int, env_steps: int, learner_steps: int) -> None:
        self._status = _Status(total, env_steps, learner_steps)
        super().__init__(console)

    def _render(self) -> RenderableType:
        status = self._status
        line = Table.grid(padding=(0, 1))
        line.add_row(
            _bar(status.total, status.env_steps, 24), Text(f"{status.share}  {status.steps}  {status.eta}")
        )
        return Group(line, Text(status.figures))

    def tick(self, env_steps: int, learner_steps: int) -> None:
        self._status.tick(env_steps, learner_steps)

    def row(self, row: Row) -> None:
        self._status.row(row)
        if "eval/return" in row:
            self.say(f"{number(row['env_steps'] or 0)} env steps: {outcome(row)}")


View = PlainView | TerminalView


def open_view(out: TextIO | Output, total: int, env_steps: int, learner_steps: int) -> View:
    """The view over one run that begins at these steps."""
    out = cast(TextIO, out)
    if out.isatty():
        return TerminalView(Console(file=out), total, env_steps, learner_steps)
    return PlainView(out, total, env_steps, learner_steps)


class PlainRunsView(_Lines):
    """A line when a run changes its state; about every 30 seconds one for each that runs and one for all."""

    def __init__(self, out: TextIO, runs: Sequence[Watched], every_seconds: float = 30.0) -> None:
        super().__init__(out, every_seconds)
        self._runs = runs
        self._states: dict[str, str] = {}

    def update(self, changed: Sequence[Watched]) -> None:
        for run in changed:
            if self._states.get(run.name, "waiting") != run.state:
                self.say(RunFacts(run).line)
            self._states[run.name] = run.state
        if self._is_due():
            self._shown = time.monotonic()
            facts = [RunFacts(run) for run in self._runs]
            for fact in facts:
                if fact.state == "running" and fact.env_steps:  # the first line of it has been said
                    self.say(fact.line)
            self.say(overview(facts))


class TerminalRunsView(_Screen):
    """A table of all runs."""

    _ORDER = ("running", "failed", "stopped", "interrupted", "waiting", "finished")

    def __init__(self, console: Console, runs: Sequence[Watched]) -> None:
        self._facts = {run.name: RunFacts(run) for run in runs}
        super().__init__(console)

    def update(self, changed: Sequence[Watched]) -> None:
        for run in changed:
            self._facts[run.name] = RunFacts(run)

    def _render(self) -> RenderableType:
        facts = list(self._facts.values())
        shown = self._fitting(facts, max(self._console.height - 3, 1))
        broad = self._console.width >= _BROAD
        room = max(self._console.width - (90 if broad else 54), 10)  # beside what else is told
        table = Table.grid(padding=(0, 2))
        for fact in shown:
            speed = f"{number(fact.speed)}{' env steps' * broad}/s" if fact.speed else ""
            table.add_row(
                Text(shortened(fact.name, room)),
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


RunsView = PlainRunsView | TerminalRunsView


def open_runs_view(out: TextIO, runs: Sequence[Watched]) -> RunsView:
    """The view over several runs; `update` draws anew those that are new in state or rows.

    Args:
        runs: all of them; more may be appended later.
    """
    return TerminalRunsView(Console(file=out), runs) if out.isatty() else PlainRunsView(out, runs)


class PlainFilmView(_Lines):
    """A line a step."""

    def show(self, picture: np.ndarray | None, beside: Sequence[str], line: str, keep: bool) -> None:
        """As `TerminalFilmView.show`."""
        self.say(line)


class TerminalFilmView(_Screen):
    """The picture of a step, with what stands beside it."""

    def __init__(self, console: Console) -> None:
        self._step: RenderableType = ""
        super().__init__(console)

    def _render(self) -> RenderableType:
        return self._step

    def show(self, picture: np.ndarray | None, beside: Sequence[str], line: str, keep: bool) -> None:
        """Show a step.

        Args:
            picture: uint8 [height, width, 3].
            beside: lines that stand beside the picture.
            line: the step in one line.
            keep: whether that line outlasts the next step.
        """
        grid = Table.grid(padding=(0, 2))
        text = Text("\n".join(beside), no_wrap=True)
        grid.add_row(*([] if picture is None else [_half_blocks(picture)]), text)
        self._step = grid
        self._live.refresh()
        if keep:
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


def open_film(out: TextIO) -> PlainFilmView | TerminalFilmView:
    """The place where an episode is shown step by step."""
    return TerminalFilmView(Console(file=out)) if out.isatty() else PlainFilmView(out)
