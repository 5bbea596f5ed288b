"""Where rows of metrics go: `metrics.jsonl`, always, and Weights & Biases where it is wanted and works."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from dtqn.config import Config

Row = dict[str, float | int | None]
CLOCK_KEYS = ("seconds", "speed/env_steps_per_second", "speed/learner_steps_per_second")
"""The only keys in which a run and its killed and resumed twin may differ."""
_WAIT_SECONDS = 10


class MetricsFile:
    """`metrics.jsonl`: one JSON object a line, in the order of the run."""

    def __init__(self, path: Path, rows: int | None = 0) -> None:
        """Open for appending, keeping the first `rows` whole lines of what is there; none: all of them."""
        kept = list(_whole_lines(path))[:rows]
        self.rows = len(kept)
        self._file = path.open("ab")
        self._file.truncate(sum(map(len, kept)))

    def append(self, row: Mapping[str, float | int | None]) -> None:
        self._file.write(json.dumps(row).encode() + b"\n")
        self._file.flush()
        self.rows += 1

    def sync(self) -> None:
        """Wait until all rows are on the disk, so that a checkpoint may count on them."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def read_rows(path: Path) -> list[Row]:
    """All whole rows of a metrics file, an unfinished last line left out."""
    return [json.loads(line) for line in _whole_lines(path)]


def _whole_lines(path: Path) -> Iterator[bytes]:
    if not path.exists():
        return
    for line in path.read_bytes().splitlines(keepends=True):
        if not line.endswith(b"\n"):
            return
        try:
            json.loads(line)
        except ValueError:  # a machine that lost power can leave anything at the end
            return
        yield line


class Tracker(Protocol):
    """An experiment tracker beside the metrics file."""

    def log(self, number: int, row: Mapping[str, Any]) -> None:
        """Send row `number` of the metrics file."""

    def summary(self, values: Mapping[str, Any]) -> None:
        """Set figures of the run as a whole."""

    def close(self, exit_code: int = 0) -> None: ...


class NoTracker:
    """Nothing beside the metrics file."""

    def log(self, number: int, row: Mapping[str, Any]) -> None:
        pass

    def summary(self, values: Mapping[str, Any]) -> None:
        pass

    def close(self, exit_code: int = 0) -> None:
        pass


class WandbTracker:
    """A W&B run. Whatever breaks in it is said in one line, and the training goes on without it."""

    def __init__(self, run: Any, say: Callable[[str], None]) -> None:
        self._run, self._say = run, say

    def log(self, number: int, row: Mapping[str, Any]) -> None:
        # W&B's own step is the row's number: a row that is sent a second time is known as the same one.
        values = {key: value for key, value in row.items() if value is not None}
        self._try(lambda run: run.log(values, step=number, commit=True))

    def summary(self, values: Mapping[str, Any]) -> None:
        self._try(lambda run: run.summary.update(dict(values)))

    def close(self, exit_code: int = 0) -> None:
        self._try(lambda run: run.finish(exit_code=exit_code))

    def _try(self, action: Callable[[Any], object]) -> None:
        if self._run is None:
            return
        try:
            action(self._run)
        except (Exception, SystemExit) as error:
            self._run = None
            self._say(f"W&B stopped working, the run goes on without it: {_one_line(error)}")


def open_tracker(
    config: Config, directory: Path, run_id: str, rows: Sequence[Row], say: Callable[[str], None]
) -> Tracker:
    """Start or continue the run at W&B and send it the rows that it lacks; never asks, waits 10 s at most.

    Args:
        directory: the run's directory, for W&B's files.
        run_id: the same after a resume.
        rows: the metrics file so far.
        say: for the one line where W&B is not to be had.
    """
    if config.wandb == "disabled":
        return NoTracker()
    try:
        run = _start(config, directory, run_id, say)
        # Online, W&B knows how far it got. An offline file stands for itself, so it gets every row.
        for number in range(int(run.starting_step), len(rows)):
            WandbTracker(run, say).log(number, rows[number])
    except (Exception, SystemExit) as error:
        say(f"W&B could not be started, the run goes on without it: {_one_line(error)}")
        return NoTracker()
    return WandbTracker(run, say)


def _start(config: Config, directory: Path, run_id: str, say: Callable[[str], None]) -> Any:
    # WANDB_MODE is in `config.wandb` by now. Error reporting would wait at exit for a server that is away.
    os.environ.pop("WANDB_MODE", None)
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    import wandb

    settings = wandb.Settings(
        silent=True,
        console="off",
        init_timeout=_WAIT_SECONDS,
        finish_timeout=_WAIT_SECONDS,
        x_transaction_log_flush_interval=0.5,  # a run that is killed early is on the disk all the same
    )
    wandb.setup(settings=settings)
    mode = config.wandb
    if mode == "auto":
        mode = "online" if wandb.login(prompt=False, verify=False) else "offline"

    def init(mode: Any) -> Any:
        return wandb.init(
            project=os.environ.get("WANDB_PROJECT", "dtqn"),
            id=run_id,
            resume="allow",
            name=f"{config.env}-{config.agent}-seed{config.seed}",
            group=os.environ.get("WANDB_RUN_GROUP", f"{config.env}-{config.agent}"),
            config=config.model_dump(),
            dir=str(directory),
            mode=mode,
            settings=settings,
        )

    try:
        run = init(mode)
    except Exception as error:
        if mode == "offline":
            raise
        wandb.teardown()  # else the id counts as in use
        run = init("offline")
        say(f"W&B is not to be reached, its files are kept under {directory / 'wandb'}: {_one_line(error)}")
    run.define_metric("*", step_metric="env_steps")
    return run


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__} {error}".split())[:200]
