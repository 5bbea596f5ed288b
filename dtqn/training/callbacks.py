"""What a caller wants to be told of a run. Nothing that it does changes a number of the run."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from dtqn.settings.config import wrong
from dtqn.training.metrics import Row
from envs.adapters.plain import kept

EVENTS = ("on_start", "on_metrics", "on_evaluation", "on_checkpoint", "on_end")


class Callbacks:
    """A caller's objects, and whether one of them has asked the run to stop.

    Each may have any of `on_start(run)`, `on_metrics(run, row)`, `on_evaluation(run, row)`,
    `on_checkpoint(run)` and `on_end(run)`; a function stands for `on_metrics`. What returns True asks the run
    to stop, and so does what raises: the run is saved first.
    """

    def __init__(self, callbacks: Any = (), run: Any = None) -> None:
        """One or several, told of `run`; a ConfigError where one is no function and has no such method."""
        self._run = run
        several = callbacks if isinstance(callbacks, Sequence) else [callbacks]
        self._callbacks = [_methods(callback) for callback in several]
        self.stops = False
        self.error: BaseException | None = None
        """What ended the run: the first error of a callback, or of the task."""

    def tell(self, event: str, row: Row | None = None) -> None:
        """Call all that want to know of one of `EVENTS`."""
        view = [] if row is None else [MappingProxyType(dict(row))]
        for method in (methods[event] for methods in self._callbacks if event in methods):
            try:
                with _own_random_numbers(), kept():
                    self.stops |= method(self._run, *view) is True
            except Exception as error:
                self.fail(error)

    def fail(self, error: BaseException) -> None:
        """The run ends by an error."""
        self.error, self.stops = self.error or error, True


def _methods(callback: Any) -> dict[str, Any]:
    found = {event: getattr(callback, event) for event in EVENTS if hasattr(callback, event)}
    if not found and not callable(callback):
        raise wrong("callbacks", repr(callback), f"it must be a function, or have any of {', '.join(EVENTS)}")
    return found or {"on_metrics": callback}


@contextlib.contextmanager
def _own_random_numbers() -> Iterator[None]:
    """A block after which the process's own generators are as before."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002  # what a task may draw from
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002
