"""Work in another process, which holds an object and calls its methods, one after the other.

    worker = Worker("plays evaluations", Player, config)     # the process makes Player(config)
    worker.ask("play", asked, weights)                       # begins; returns at once
    if worker.answered(timeout=0.0):
        result = worker.answer()
    worker.close()

The process is a Python started anew, so functions, classes and values that go there must pickle. A fork would
start faster, but torch, its threads and an experiment tracker's threads must not be forked. The process ends
with the pipe to the run, so nothing is left behind however the run ends. It ignores signals that are meant
for the run. This module imports nothing slow, so that all this holds before torch is there.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

from dtqn.program import worker_environment
from dtqn.signals import cause

_CLOSE_SECONDS = 10.0
"""How long a worker may take to close what it has open, such as environments, before it is killed."""
_LOOK_SECONDS = 1.0
"""How often a process that is waited for is looked at: its own children may hold its pipe open."""
_END = b""
"""The request to end."""
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


class WorkerError(Exception):
    """A worker that is no more, in one line."""


class Worker:
    """An object in a process of its own; `WorkerError` if the process has ended unasked."""

    def __init__(
        self, task: str, make: Callable[..., object], *arguments: Any, descriptors: Sequence[int] = ()
    ) -> None:
        """
        Args:
            task: what the process does, in the words of an error: "plays evaluations".
            make: called there with `arguments`, for the object that serves. An error that it raises is the
                answer to each call.
            descriptors: open files that the process gets under the same numbers.
        """
        self._task = task
        ours, theirs = socket.socketpair()
        code = f"from dtqn.training.worker import serve; serve({theirs.fileno()})"
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", code],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno(), *descriptors],
                env=worker_environment(),
            )
        except OSError as error:
            raise WorkerError(f"the process that {task} cannot be started: {error.strerror}") from None
        finally:
            theirs.close()
        self._pipe = Connection(ours.detach())
        self._poller = select.poll()  # what `Connection.poll` makes anew each time
        self._poller.register(self._pipe, select.POLLIN)
        self._send(make, arguments)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, method: str, *arguments: Any) -> None:
        """Begin a call of the object's method."""
        self._send(method, arguments)

    def answered(self, timeout: float) -> bool:
        """Whether its answer is there, after so many seconds at most."""
        deadline = time.monotonic() + timeout
        while not self._has_data(min(_LOOK_SECONDS, timeout)):
            if self._process.poll() is not None:
                return True
            timeout = deadline - time.monotonic()
            if timeout <= 0:
                return False
        return True

    def _has_data(self, timeout: float) -> bool:
        """Whether the pipe has something to read after so many seconds at most, its end included."""
        return bool(self._poller.poll(1000 * timeout))

    def answer(self) -> Any:
        """The answer, which is there; what the call raised is raised here."""
        try:
            if not self._has_data(0.0):  # its own children may hold the pipe open after its end
                raise EOFError
            data = self._pipe.recv_bytes()
        except (EOFError, OSError):
            raise self._lost() from None
        value, error = pickle.loads(data)
        if error is not None:
            raise error
        return value

    def end(self) -> None:
        """Let it end, without waiting for that; `close` follows."""
        with contextlib.suppress(OSError):
            self._pipe.send_bytes(_END)  # children of this process may hold the pipe open
        self._close_pipe()

    def close(self) -> None:
        """End it, in the midst of a call too."""
        self.end()
        try:
            self._process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it by force: it hangs, or is no more."""
        self._process.kill()
        self._process.wait()
        self._close_pipe()

    def _close_pipe(self) -> None:
        if not self._pipe.closed:
            self._poller.unregister(self._pipe)
            self._pipe.close()

    def _send(self, what: Any, arguments: tuple[Any, ...]) -> None:
        request = pickle.dumps((what, arguments))
        try:
            self._pipe.send_bytes(request)
        except OSError:
            raise self._lost() from None

    def _lost(self) -> WorkerError:
        try:
            code = self._process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:  # it has closed its pipe and goes on
            return WorkerError(f"the process that {self._task} does not answer")
        return WorkerError(f"the process that {self._task} has ended: {cause(code)}")


class _Ended(BaseException):
    """Ends a worker. No SystemExit, which would be taken for a fault of the task that is being stepped."""


def serve(descriptor: int) -> None:
    """The life of a worker: make the object, answer calls, end with the pipe."""
    with contextlib.suppress(_Ended):
        _serve(descriptor)
    for name in _SIGNALS:  # nor may they interrupt what is closed at the process's end
        signal.signal(getattr(signal, name), signal.SIG_IGN)


def _serve(descriptor: int) -> None:
    pipe, ended = Connection(descriptor), threading.Event()
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    main = threading.get_ident()

    def end(*_: object) -> None:
        if ended.is_set():  # by `listen`; any other signal is for the run, which decides what becomes of this
            raise _Ended

    def listen() -> None:
        with contextlib.suppress(EOFError, OSError):
            while (request := pipe.recv_bytes()) != _END:
                requests.put(request)
        ended.set()
        signal.pthread_kill(main, signal.SIGTERM)  # within an episode too: its environments are closed
        time.sleep(_CLOSE_SECONDS)
        os._exit(1)

    for name in _SIGNALS:
        signal.signal(getattr(signal, name), end)
    threading.Thread(target=listen, daemon=True).start()
    served, fault = _outcome(lambda make, arguments: make(*arguments), requests.get())
    while True:
        request = requests.get()
        answer = _outcome(lambda name, given: getattr(served, name)(*given), request)
        if fault is not None:
            answer = None, fault
        with contextlib.suppress(OSError):  # the run is gone, as `listen` will see
            pipe.send_bytes(_packed(*answer))


def _outcome(call: Callable[[Any, tuple[Any, ...]], Any], request: bytes) -> tuple[Any, Exception | None]:
    """The result of a call of a request's two parts, or its error."""
    try:
        return call(*pickle.loads(request)), None
    except Exception as error:
        error.add_note(f"in another process of the run:\n{traceback.format_exc()}")
        return None, error


def _packed(value: Any, error: Exception | None) -> bytes:
    try:
        data = pickle.dumps((value, error))
        pickle.loads(data)  # some errors pickle, but cannot be made again
    except Exception:
        data = pickle.dumps((None, RuntimeError(f"{type(error).__name__}: {error}")))
    return data
