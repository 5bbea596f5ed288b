"""Objects for processes beside a run, in a module that imports little."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path


class TwoPartError(Exception):
    """It pickles and cannot be made again, as it gives its base one of two arguments."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what}: {why}")


class Counter:
    def __init__(self, start: int) -> None:
        if start < 0:
            raise ValueError(f"start is {start}")
        self.count = start

    def add(self, number: int) -> int:
        print("what a served object prints is no answer")
        self.count += number
        return self.count

    def fail(self, why: str) -> None:
        raise KeyError(why)

    def fail_oddly(self) -> None:
        raise TwoPartError("a", "b")

    def sleep_guarded(self, begun: Path) -> None:
        """For a minute, in the hands of what takes a `sys.exit` for a fault, as a task's guard does."""
        with contextlib.suppress(Exception, SystemExit):
            begun.touch()
            time.sleep(60)

    def sleep(self, begun: Path, ended: Path) -> None:
        """For a minute; tells by files that it has begun and that it was let to clean up."""
        try:
            begun.touch()
            time.sleep(60)
        finally:
            ended.touch()
