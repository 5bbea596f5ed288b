"""Runs on this machine: processes, dealt out over its GPUs, and threads of this one."""

from __future__ import annotations

import functools
import os
import re
import signal
import subprocess
import threading
from collections.abc import Sequence

from dtqn.program import worker_environment
from dtqn.settings import trust
from dtqn.settings.config import Config
from dtqn.signals import ends_with_stdin
from dtqn.training import objects
from dtqn.training.directory import RunDir
from dtqn.training.plan import plan
from envs.entry_points import located
from envs.errors import ANY_FAULT

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_VISIBLE = "CUDA_VISIBLE_DEVICES"


class Process:
    """A run in a process of its own, which saves and ends when this one has gone, however it went."""

    def __init__(
        self, program: Sequence[str], directory: RunDir, threads: int, more: dict[str, str] | None = None
    ) -> None:
        """Begin the run or go on with it; its output is added to its log.

        Args:
            program: the command that `--resume DIRECTORY` is added to.
            more: variables of its environment beside this process's own.
        """
        environment = worker_environment() | dict.fromkeys(_THREADS, str(threads)) | (more or {})
        environment[trust.VARIABLE] = "1"  # its settings have been looked at here
        with directory.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*program, "--resume", str(directory.path)],
                stdin=subprocess.PIPE,  # which the system closes when this process has gone
                stdout=log,
                stderr=subprocess.STDOUT,
                env=ends_with_stdin(environment),
                start_new_session=True,  # a Ctrl-C reaches this process only, which passes on one signal
            )

    def poll(self) -> int | None:
        """The exit code, or -n after signal n; None as long as it has not ended."""
        code = self._process.poll()
        if code is not None and self._process.stdin is not None:
            self._process.stdin.close()
        return code

    def end(self) -> None:
        """Let it write a checkpoint and end."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it and its children; what it has not saved is lost."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


class Thread:
    """A run in this process, for objects that no other one finds; it goes when this process does."""

    def __init__(self, directory: RunDir) -> None:
        from dtqn.training.callbacks import Callbacks  # only here, as it imports torch

        self._callbacks, self._code = Callbacks(), 1
        self._thread = threading.Thread(target=self._run, args=(directory,), daemon=True)
        self._thread.start()

    def _run(self, directory: RunDir) -> None:
        with directory.log.open("a", encoding="utf-8", buffering=1) as log, trust.given(True):
            try:
                self._code = plan({}, resume=directory.path).train(log, self._callbacks)
            except ANY_FAULT as error:
                print(f"error: {located(error)}", file=log)

    def poll(self) -> int | None:
        """The exit code; None as long as it has not ended."""
        return None if self._thread.is_alive() else self._code

    def end(self) -> None:
        """Let it write a checkpoint and end."""
        self._callbacks.stops = True

    kill = end  # it saves all the same: a thread cannot be ended


class Starter:
    """Starts runs. Of several GPUs one sees that with the fewest runs; alone it would take the first."""

    def __init__(self, program: Sequence[str]) -> None:
        self._program = program
        self._on: list[tuple[str, Process]] = []

    def start(self, directory: RunDir, config: Config) -> Process | Thread:
        if objects.kept(config):  # no other process would find them
            return Thread(directory)
        gpus = [] if config.device == "cpu" else visible_gpus()
        if len(gpus) < 2:
            return Process(self._program, directory, config.num_threads)
        self._on = [(gpu, process) for gpu, process in self._on if process.poll() is None]
        gpu = min(gpus, key=[gpu for gpu, _ in self._on].count)
        process = Process(self._program, directory, config.num_threads, {_VISIBLE: gpu})
        self._on.append((gpu, process))
        return process


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
