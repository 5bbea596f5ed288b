"""Many trainings at once, each a process of its own. This module does not import torch.

A run is a directory that holds its configuration, so one command both starts and continues it:

    directory = RunDir.of_config(config, Path("runs"))      # found by its settings
    directory.prepare(config)
    with Pool(parallel=2) as pool:
        pool.add(Job("gtrxl seed 1", directory))
        for changed in pool.changes():                      # every half second, until nothing is left to do
            for job in changed:                             # jobs whose state or rows are new; may be none
                if job.rows and hopeless(job.rows[-1]):
                    pool.stop(job)                          # ends early; its checkpoint stays
            # draw pool.jobs; pool.add(...) more, as a search does that learns from what it has seen

After Ctrl-C or SIGTERM the pool starts nothing more and asks each training to write its checkpoint and end;
`changes` goes on until they have, then `pool.caught` is the signal. A second signal takes effect at once. A
finished run is not run again; an interrupted one goes on from its checkpoint when another pool gets it.

A training that is killed is run once more. If this process itself is killed, its trainings save and end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from typing import Literal

from dtqn.program import WORKER, worker_environment
from dtqn.settings.config import Config
from dtqn.signals import Signals, cause, ends_with_stdin, signal_of
from dtqn.training import machine
from dtqn.training.directory import RunDir
from dtqn.training.metrics import Row, read_rows

State = Literal["waiting", "running", "finished", "failed", "stopped", "interrupted"]
"""`stopped` by `Pool.stop`, `interrupted` by a signal to this process; both can be gone on with."""
_ENDED = ("finished", "failed", "stopped", "interrupted")
_POLL_SECONDS = 0.5
_PATIENCE_SECONDS = 60.0
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def fitting(config: Config) -> int:
    """Trainings at a time, so that each has a CPU of this process for every thread of its own."""
    return max(1, machine.cores() // config.num_threads)


class Job:
    """One training and what is known of it."""

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
        self.killed = ""
        """By what its process was ended the first time, after which it is run once more."""
        self.rows: list[Row] = []
        """The metrics file so far, those of an earlier stretch included."""
        self._process: subprocess.Popen[bytes] | None = None
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
        text = self.directory.log.read_text(errors="replace") if self.directory.log.exists() else ""
        last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no output")
        return f"{self.cause}: {last}"

    @property
    def cause(self) -> str:
        """The exit code, or the signal that ended the process."""
        return cause(self.exit_code)

    def _start(self, program: Sequence[str]) -> None:
        """Begin or go on; the output is added to the directory's log."""
        threads = str(self.config.num_threads)
        with self.directory.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*program, "--resume", str(self.directory.path)],
                stdin=subprocess.PIPE,  # which the system closes when this process has gone
                stdout=log,
                stderr=subprocess.STDOUT,
                env=ends_with_stdin(worker_environment() | dict.fromkeys(_THREAD_VARIABLES, threads)),
                start_new_session=True,  # a Ctrl-C reaches this process only, which passes on one signal
            )
        self.state = "running"

    def _ask(self, state: State) -> None:
        """Let the training save and end, which is then in `state`."""
        if self._process is None:
            self.state = state
        elif self._asked is None and self._process.poll() is None:
            self._asked = state
            self._process.terminate()

    def _update(self) -> bool:
        """Look after the process and its metrics; whether anything is new."""
        ended = self._process is not None and self._process.poll() is not None
        grown = self._read()
        if ended and self._process is not None:
            if self._process.stdin is not None:
                self._process.stdin.close()
            self.exit_code, self._process = self._process.returncode, None
            if self.exit_code == 0:
                self.state = "finished"
            elif self._asked is None and not self.killed and signal_of(self.exit_code) is not None:
                self.state, self.killed = "waiting", self.cause
            elif self.directory.in_use:  # another pool was a moment faster; its run is this one
                self.state = self._asked or "waiting"
            else:
                self.state = self._asked or "failed"
        return grown or ended

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
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._asked = self._asked or "interrupted"
            self._update()


class Pool:
    """Trainings, some at a time, in the order in which they were added; what was killed goes on last."""

    def __init__(self, parallel: int, program: Sequence[str] = WORKER) -> None:
        """
        Args:
            parallel: trainings at a time.
            program: the command that `--resume DIRECTORY` is added to.
        """
        self.parallel, self.jobs = parallel, list[Job]()
        self.news: list[str] = []
        """Lines for people about the present changes, such as a training that was killed."""
        self._program = program
        self._signals = Signals()

    def __enter__(self) -> Pool:
        self._signals.__enter__()
        return self

    @property
    def caught(self) -> int | None:
        """The signal that ended it, if one did."""
        return self._signals.caught

    def __exit__(self, *_: object) -> None:
        """Let no training outlive its pool, however that is left."""
        self._signals.__exit__()
        if self.caught is None:
            self._interrupt()
            until = time.monotonic() + _PATIENCE_SECONDS
            while any(job.state == "running" for job in self.jobs) and time.monotonic() < until:
                time.sleep(0.05)
                for job in self.jobs:
                    job._update()
        for job in self.jobs:
            job._kill()

    def add(self, job: Job) -> None:
        """Run this one too; a finished one is only read."""
        self.jobs.append(job)

    def stop(self, job: Job) -> None:
        """End a training early, with a checkpoint; it is `stopped` once its process has gone."""
        if not job.ended:
            job._ask("stopped")

    def changes(self) -> Iterator[list[Job]]:
        """Run everything; the jobs that are new in state or rows, about every half second.

        Ends when all have ended, those included that the caller adds on the way; after a signal, when those
        that ran have.
        """
        known: dict[int, State] = {}
        told: set[int] = set()
        while True:
            grown = [job for job in self.jobs if job._update()]
            if self.caught is None:
                self._start()
            else:
                self._interrupt()
            changed = [job for job in self.jobs if job in grown or known.get(id(job)) != job.state]
            self.news = [
                f"{job.name}: {job.killed}; it is run once more"
                for job in self.jobs
                if job.killed and id(job) not in told
            ]
            told |= {id(job) for job in self.jobs if job.killed}
            known = {id(job): job.state for job in self.jobs}
            yield changed
            left = {job.state for job in self.jobs} - set(_ENDED)
            if not left or (self.caught is not None and left == {"waiting"}):
                return
            if not any(job.ended for job in changed):  # where one has ended the next starts at once
                self._pause()

    def _pause(self) -> None:
        """Until the next look, or a signal."""
        before, until = self.caught, time.monotonic() + _POLL_SECONDS
        while self.caught == before and time.monotonic() < until:
            time.sleep(min(0.05, _POLL_SECONDS))

    def _start(self) -> None:
        """Start as many as there is room for."""
        free = self.parallel - sum(job.state == "running" for job in self.jobs)
        for job in sorted(self.jobs, key=lambda job: job.killed != ""):
            if job.state != "waiting":
                continue
            if job.directory.read_result() is not None:
                job.state, job.exit_code = "finished", 0
            elif free > 0 and not job.directory.in_use:  # by a training whose pool was killed, say
                job._start(self._program)
                free -= 1

    def _interrupt(self) -> None:
        for job in self.jobs:
            if job.state == "running":
                job._ask("interrupted")
