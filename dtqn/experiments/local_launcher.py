"""Trainings on this machine: processes, dealt out over its GPUs, and threads of this one."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import subprocess
import threading
from collections.abc import Sequence

from dtqn.experiments.launcher import Command, Launcher
from dtqn.settings import trust
from dtqn.settings.config import Config, ConfigError
from dtqn.signals import ends_with_stdin
from dtqn.training import objects
from dtqn.training.plan import plan
from envs.entry_points import located
from envs.errors import ANY_FAULT


class Process:
    """A training in a process of its own, which saves and ends when this one has gone, however it went."""

    lost = False
    where: str | None = ""

    def __init__(self, command: Command) -> None:
        """Begin or go on; the output is added to the log."""
        with command.log.open("ab") as log:
            self._process = subprocess.Popen(
                command.arguments,
                stdin=subprocess.PIPE,  # which the system closes when this process has gone
                stdout=log,
                stderr=subprocess.STDOUT,
                env=ends_with_stdin(command.environment),
                cwd=command.folder,
                start_new_session=True,  # a Ctrl-C reaches this process only, which passes on one signal
            )

    def poll(self) -> int | None:
        code = self._process.poll()
        if code is not None and self._process.stdin is not None:
            self._process.stdin.close()
        return code

    def wait(self, seconds: float | None = None) -> int | None:
        """The exit code, once it has ended; None where it has not after so many seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def end(self, number: int = signal.SIGTERM) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it and its children; what it has not saved is lost."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


class Thread:
    """A training in this process, for objects that no other one finds; it goes when this process does."""

    lost = False
    where: str | None = ""

    def __init__(self, command: Command) -> None:
        from dtqn.training.callbacks import Callbacks  # only here, as it imports torch

        self._callbacks, self._code = Callbacks(), 1
        self._thread = threading.Thread(target=self._run, args=(command,), daemon=True)
        self._thread.start()

    def _run(self, command: Command) -> None:
        with command.log.open("a", encoding="utf-8", buffering=1) as log, trust.given(True):
            try:
                self._code = plan({}, resume=command.directory).train(log, self._callbacks)
            except ANY_FAULT as error:
                print(f"error: {error if isinstance(error, ConfigError) else located(error)}", file=log)

    def poll(self) -> int | None:
        return None if self._thread.is_alive() else self._code

    def end(self) -> None:
        self._callbacks.stops = True

    kill = end  # it saves all the same: a thread cannot be ended


_VISIBLE = "CUDA_VISIBLE_DEVICES"


def visible_gpus() -> list[str]:
    """The GPUs that a process started now would see, by the names of CUDA's own variable.

    Where a GPU is shared out (MIG) these are its parts, of which a process sees one at most. Torch knows GPUs
    too, but takes seconds to import, and nothing else here needs it.
    """
    named = os.environ.get(_VISIBLE)
    return _of_the_driver() if named is None else [name for name in named.split(",") if name]


@functools.cache
def _of_the_driver() -> list[str]:
    """Those of the machine, asked for once."""
    try:
        listed = subprocess.run(
            ["nvidia-smi", "--list-gpus"], stdout=subprocess.PIPE, text=True, timeout=60, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    if parts := re.findall(r"\(UUID: (MIG-[^)]+)\)", listed):
        return parts
    return [str(number) for number in range(len(re.findall("^GPU ", listed, re.MULTILINE)))]


class LocalLauncher(Launcher):
    """Of several GPUs a training sees the one with the fewest trainings; alone it would take the first."""

    def __init__(self) -> None:
        self._on: list[tuple[str, Process]] = []

    def start(self, works: Sequence[tuple[Command, Config]]) -> list[Process | Thread]:
        return [self._started(command, config) for command, config in works]

    def _started(self, command: Command, config: Config) -> Process | Thread:
        if objects.kept(config):  # no other process would find them
            return Thread(command)
        gpus = [] if config.device == "cpu" else visible_gpus()
        if len(gpus) < 2:
            return Process(command)
        self._on = [(gpu, process) for gpu, process in self._on if process.poll() is None]
        busy = [gpu for gpu, _ in self._on]
        gpu = min(gpus, key=busy.count)
        process = Process(command._replace(environment={**command.environment, _VISIBLE: gpu}))
        self._on.append((gpu, process))
        return process
