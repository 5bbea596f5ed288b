"""Trainings as processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence

from dtqn.experiments.launchers import Command
from dtqn.settings.config import Config
from dtqn.signals import ends_with_stdin


class Process:
    """A training in a process of its own, which saves and ends when this one has gone, however it went."""

    lost = False
    where = ""

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

    def wait(self) -> int:
        """The exit code, once it has ended."""
        self._process.wait()
        return self._process.returncode

    def end(self, number: int = signal.SIGTERM) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it and its children; what it has not saved is lost."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


class LocalLauncher:
    detached = False

    def adopt(self, command: Command) -> Process | None:
        return None

    def start(self, works: Sequence[tuple[Command, Config]]) -> list[Process]:
        return [Process(command) for command, _ in works]

    def close(self) -> None:
        pass
