"""Signals that ask a program to end: remembered until the work at hand is done."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from types import FrameType
from typing import Any

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
_SCHEDULERS = {getattr(signal, name) for name in ("SIGUSR1", "SIGUSR2") if hasattr(signal, name)}
_asked = threading.Event()
"""Set once a signal has been caught: the program is about to end."""


class Signals:
    """Signals that ask a program to end, inside of a `with` block; a second one takes effect at once.

    They are Ctrl-C, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2. A SIGHUP that is ignored stays so: `nohup` asks for
    that. A terminal that goes away may send several, from the system and from the shell, so none after the
    first takes effect. A scheduler such as Slurm warns by SIGUSR1 or SIGUSR2, with a SIGTERM before or after
    it: a warning never takes effect at once, and after it only Ctrl-C does.

    Python tells the main thread alone of signals: in any other one, none is caught.
    """

    def __init__(self) -> None:
        self.caught: int | None = None
        """The number of the signal that came."""
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is not threading.main_thread():
            return self
        for signum in (getattr(signal, name) for name in _NAMES if hasattr(signal, name)):
            if signum in (signal.SIGINT, signal.SIGTERM) or signal.getsignal(signum) != signal.SIG_IGN:
                self._before[signum] = signal.signal(signum, self._catch)
        return self

    def _catch(self, signum: int, frame: FrameType | None) -> None:
        self.caught = self.caught or signum
        _asked.set()
        for other, handler in self._before.items():
            repeated = other == signum == getattr(signal, "SIGHUP", None)
            warned = signum in _SCHEDULERS and other != signal.SIGINT
            if other not in _SCHEDULERS and not repeated and not warned:
                signal.signal(other, handler)

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)


def signal_of(exit_code: int | None) -> signal.Signals | None:
    """The signal that ended a process, directly or after a checkpoint (128 + n)."""
    code = exit_code or 0
    try:
        return signal.Signals(-code if code < 0 else code - 128)
    except ValueError:
        return None


def cause(exit_code: int | None) -> str:
    """The end of a process in words: its exit code, or the signal."""
    number = signal_of(exit_code)
    if number is None:
        return f"exit code {exit_code}"
    return f"killed by {number.name}" + (" (out of memory?)" if number.name == "SIGKILL" else "")


_PARENT = "DTQN_ENDS_WITH_STDIN"
_PATIENCE_SECONDS = 60.0


def ends_with_stdin(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program that ends when its standard input does, by `end_with_parent`."""
    return {**environment, _PARENT: "1"}


def end_with_parent() -> None:
    """Send this process a SIGTERM once its parent has gone, however it went, if the parent asked for it.

    After a signal that `Signals` has caught there is none, as a second one would take effect at once.
    Standard input is then a pipe into which nobody writes, and whose other end only the parent holds: the
    system closes it even when the parent is killed. A process that has not ended a minute later is killed.
    """
    if os.environ.pop(_PARENT, None) is None:
        return
    threading.Thread(target=_watch, args=(sys.stdin.fileno(),), daemon=True).start()


def _watch(descriptor: int) -> None:
    while os.read(descriptor, 1):
        pass
    if not _asked.is_set():
        os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_PATIENCE_SECONDS)
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
