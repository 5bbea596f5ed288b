"""Signals that ask a program to end: remembered until the work at hand is done."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


class Signals:
    """Ctrl-C, SIGTERM and SIGHUP inside of a `with` block; a second one takes effect at once.

    A SIGHUP that is ignored stays so: `nohup` asks for that. A terminal that goes away may send several, from
    the system and from the shell, so none after the first takes effect.
    """

    def __init__(self) -> None:
        self.caught: int | None = None
        """The number of the signal that came."""
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        for signum in (getattr(signal, name) for name in _NAMES if hasattr(signal, name)):
            if signum in (signal.SIGINT, signal.SIGTERM) or signal.getsignal(signum) != signal.SIG_IGN:
                self._before[signum] = signal.signal(signum, self._catch)
        return self

    def _catch(self, signum: int, frame: FrameType | None) -> None:
        self.caught = signum
        for other, handler in self._before.items():
            if other != signum or other != getattr(signal, "SIGHUP", None):
                signal.signal(other, handler)

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)
