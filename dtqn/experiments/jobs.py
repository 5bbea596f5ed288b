"""Many runs at once, each a process of its own.

This module does not import torch.

A run is a directory that holds its configuration, so one command both starts and continues it:

    directory = RunDir.of_config(config, Path("runs"))      # found by its settings
    directory.prepare(config)
    with RunQueue(at_once=2) as queue:
        queue.add(Job("gtrxl seed 1", directory))
        for changed in queue.changes():                     # every half second, until nothing is left to do
            for job in changed:                             # jobs whose state or rows are new; may be none
                if job.rows and hopeless(job.rows[-1]):
                    queue.stop(job)                         # ends early; its checkpoint stays
            # draw queue.jobs; queue.add(...) more, as a search does that learns from what it has seen

After Ctrl-C or SIGTERM the queue starts nothing more and asks each run to write its checkpoint and end.
`changes` goes on until they have; then `queue.caught` is the signal. A second signal takes effect at once.
A finished run is not run again. An interrupted run goes on from its checkpoint when another queue gets it. A
killed run is run once more. If this process itself is killed, its runs save and end.

Several queues, on one machine or on many that share the folder of the runs, may hold the same jobs. The queue
that takes a run first trains it; the others wait for its result or go on with it.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Literal

from dtqn.program import WORKER, worker_environment
from dtqn.settings import trust
from dtqn.settings.config import Config, ConfigError
from dtqn.signals import Signals, cause, ends_with_stdin, signal_of
from dtqn.training import machine, objects
from dtqn.training.directory import RunDir
from dtqn.training.metrics import Row, read_rows
from dtqn.training.plan import plan
from envs.entry_points import located
from envs.errors import ANY_FAULT

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_VISIBLE = "CUDA_VISIBLE_DEVICES"


class Process:
    """A run in a process of its own, which saves and ends when this one has gone, however it went."""

    def __init__(self, program: Sequence[str], directory: RunDir, threads: int, gpu: str) -> None:
        """Begin or go on by `program --resume DIRECTORY`; its log has its output.

        Args:
            gpu: that it sees alone; empty for all.
        """
        environment = worker_environment() | dict.fromkeys(_THREADS, str(threads))
        environment |= {_VISIBLE: gpu} if gpu else {}
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
                print(f"error: {error if isinstance(error, ConfigError) else located(error)}", file=log)

    def poll(self) -> int | None:
        """The exit code; None as long as it has not ended."""
        return None if self._thread.is_alive() else self._code

    def end(self) -> None:
        """Let it write a checkpoint and end."""
        self._callbacks.stops = True

    kill = end  # it saves all the same: a thread cannot be ended


def visible_gpus() -> list[str]:
    """The GPUs that a process started now would see, as CUDA's own variable names them.

    If a GPU is divided (MIG), these are its parts, and a process sees one at most. Torch knows GPUs too, but
    takes seconds to import, and nothing else here needs it.
    """
    named = os.environ.get(_VISIBLE)
    return _of_the_driver() if named is None else [name for name in named.split(",") if name]


@functools.cache
def _of_the_driver() -> list[str]:
    """The machine's GPUs, asked for once."""
    try:
        listed = subprocess.run(
            ["nvidia-smi", "--list-gpus"], stdout=subprocess.PIPE, text=True, timeout=60, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    if parts := re.findall(r"\(UUID: (MIG-[^)]+)\)", listed):
        return parts
    return [str(number) for number in range(len(re.findall("^GPU ", listed, re.MULTILINE)))]


State = Literal["waiting", "running", "finished", "failed", "stopped", "interrupted"]
"""`stopped` by `RunQueue.stop`, `interrupted` by a signal to this process; both can be gone on with."""
_ENDED = ("finished", "failed", "stopped", "interrupted")
_POLL_SECONDS = 0.5
_PATIENCE_SECONDS = 60.0


def fitting(config: Config) -> int:
    """Runs at a time, so that each has a CPU for every thread of its own and, if it uses one, a GPU."""
    if objects.kept(config):  # they run in this process
        return 1
    cores = max(1, machine.cores() // (config.num_threads + config.num_workers))
    gpus = [] if config.device == "cpu" else visible_gpus()
    if not gpus:
        return cores
    from dtqn.training import setup  # only here, as it imports torch, whose build may be for CPUs alone

    return cores if setup.device_of(config).type == "cpu" else min(cores, len(gpus))


class Job:
    """One run and what is known of it."""

    def __init__(self, name: str, directory: RunDir) -> None:
        """
        Args:
            name: what people read.
            directory: `RunDir.prepare` has put the configuration there.
        """
        self.name, self.directory = name, directory
        self.config = directory.read_config()
        self.state: State = "waiting"
        self.exit_code: int | None = None
        self.news = ""
        """Why it is run again after it has ended before its time."""
        self.killed = ""
        """By what its process was ended the first time, after which it is run once more."""
        self.rows: list[Row] = []
        """The rows of the metrics file so far, an earlier stretch's included."""
        self.gpu = ""
        """Of several GPUs that which its process sees."""
        self._process: Process | Thread | None = None
        self._asked: State | None = None
        self._size = -1

    @property
    def total_env_steps(self) -> int:
        return self.config.total_env_steps

    @property
    def ended(self) -> bool:
        return self.state in _ENDED

    @property
    def error(self) -> str:
        """How a failed run ended, and the last line that it printed."""
        early = ", but it ended without a result" if self.exit_code == 0 else ""  # its task has ended it, say
        text = self.directory.log.read_text(errors="replace") if self.directory.log.exists() else ""
        last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no output")
        return f"{cause(self.exit_code)}{early}: {last}"

    def _has_finished(self) -> bool:
        """Whether it has a result, without which it is begun."""
        if self.directory.read_result() is None:
            return False
        self.state, self.exit_code = "finished", 0
        return True

    def _start(self, program: Sequence[str], busy: Sequence[str]) -> None:
        """Start the run. Of several GPUs it sees that with the fewest runs; alone it would take the first.

        Args:
            busy: the GPU of each run that is running.
        """
        self.state = "running"
        if objects.kept(self.config):  # no other process would find them
            self._process = Thread(self.directory)
            return
        gpus = [] if self.config.device == "cpu" else visible_gpus()
        self.gpu = min(gpus, key=busy.count) if len(gpus) > 1 else ""
        self._process = Process(program, self.directory, self.config.num_threads, self.gpu)

    def _ask(self, state: State) -> None:
        """Let the run save and end, which is then in `state`."""
        if self._process is None:
            self.state = state
        elif self._asked is None and self._process.poll() is None:
            self._asked = state
            self._process.end()

    def _update(self) -> bool:
        """Look after the process and its metrics; whether anything is new."""
        code = None if self._process is None else self._process.poll()
        grown = self._read()
        if code is None:
            return grown
        self.exit_code, self._process = code, None
        self.state = self._state_after()
        return True

    def _state_after(self) -> State:
        """The state now that its process has ended."""
        if self.directory.read_result() is not None:  # another queue may have trained it, a moment faster
            return "finished"
        if self._asked is None and not self.killed and signal_of(self.exit_code) is not None:
            self.killed = cause(self.exit_code)
            self.news = f"{self.killed}; it is run once more"
            return "waiting"
        if self.directory.in_use:  # another queue was a moment faster; its run is this one
            return self._asked or "waiting"
        return self._asked or "failed"

    def _read(self) -> bool:
        file = self.directory.metrics_file
        size = file.stat().st_size if file.exists() else 0
        if size == self._size:
            return False
        self._size, self.rows = size, read_rows(file)
        return True

    def _kill(self) -> None:
        """End the process and its children; what it has not saved is lost."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._asked = self._asked or "interrupted"
            self._update()


class RunQueue:
    """Runs, some at a time, in the order in which they were added; what was killed goes on last."""

    def __init__(self, at_once: int, program: Sequence[str] = WORKER) -> None:
        """
        Args:
            at_once: how many run at a time.
            program: the command that `--resume DIRECTORY` is added to.
        """
        self.at_once, self.jobs = at_once, list[Job]()
        self.news: list[str] = []
        """Lines for people about the present changes, such as a run that was killed."""
        self._program = program
        self._signals = Signals()

    def __enter__(self) -> RunQueue:
        self._signals.__enter__()
        return self

    @property
    def caught(self) -> int | None:
        """The signal that ended it, if one did."""
        return self._signals.caught

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Let no run outlive its queue, however the block ends.

        After an error the runs save before they end, even if a signal came first: a Ctrl-C to a pipe also
        ends the program that reads the output. A second Ctrl-C takes effect at once.
        """
        self._signals.__exit__()
        try:
            if kind is not KeyboardInterrupt:
                self._wait_for_saving()
        finally:
            for job in self.jobs:
                job._kill()

    def _wait_for_saving(self) -> None:
        self._interrupt()
        until = time.monotonic() + _PATIENCE_SECONDS
        while any(job.state == "running" for job in self.jobs) and time.monotonic() < until:
            time.sleep(0.05)
            for job in self.jobs:
                job._update()

    @property
    def has_room(self) -> bool:
        """Whether another job, if there were one, could begin."""
        return sum(not job.ended for job in self.jobs) < self.at_once

    def add(self, job: Job) -> None:
        """Run this one too; a finished one is only read."""
        self.jobs.append(job)

    def stop(self, job: Job) -> None:
        """End a run early, with a checkpoint; it is `stopped` once its process has gone."""
        if not job.ended:
            job._ask("stopped")

    def changes(self) -> Iterator[list[Job]]:
        """Run everything; the jobs that are new in state or rows, about every half second.

        Ends when all have ended, those included that the caller adds on the way; after a signal, when those
        that ran have.
        """
        known: dict[int, State] = {}
        while True:
            grown = [job for job in self.jobs if job._update()]
            if self.caught is None:
                self._start()
            else:  # let the runs save and end
                self._interrupt()
            changed = [job for job in self.jobs if job in grown or known.get(id(job)) != job.state]
            known = {id(job): job.state for job in self.jobs}
            self.news = [f"{job.name}: {job.news}" for job in self.jobs if job.news]
            for job in self.jobs:
                job.news = ""
            yield changed
            if all(job.ended if self.caught is None else job.state != "running" for job in self.jobs):
                return
            if not any(job.ended for job in changed):  # where one has ended the next starts at once
                self._pause()

    def _pause(self) -> None:
        """Until the next look, or a signal."""
        before, until = self.caught, time.monotonic() + _POLL_SECONDS
        while self.caught == before and time.monotonic() < until:
            time.sleep(min(0.05, _POLL_SECONDS))

    def _start(self) -> None:
        waiting = [job for job in self.jobs if job.state == "waiting" and not job._has_finished()]
        waiting.sort(key=lambda job: job.killed != "")
        room = self.at_once - sum(job.state == "running" for job in self.jobs)
        untouched = (job for job in waiting if not job.directory.in_use)  # by another queue
        for job in itertools.islice(untouched, max(0, room)):
            job._start(self._program, [one.gpu for one in self.jobs if one.state == "running"])

    def _interrupt(self) -> None:
        for job in self.jobs:
            if job.state == "running":
                job._ask("interrupted")
