"""What a launcher is, what it starts, and what a training needs.

Every launcher starts the same command, which goes on from the run's checkpoint where there is one, so that a
training that has ended before its time is started again and is the same run.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from dtqn.program import worker_environment
from dtqn.settings import trust
from dtqn.settings.config import Config
from dtqn.training.directory import RunDir

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Command(NamedTuple):
    """The command that starts a training or goes on with it; it can be sent to another machine."""

    program: tuple[str, ...]
    directory: Path
    log: Path
    """To which its output is added."""
    environment: Mapping[str, str]
    folder: Path
    """The working directory, from which a task's file is named, say."""

    @classmethod
    def of(cls, program: Sequence[str], directory: RunDir, threads: int) -> Command:
        """That of a training with so many threads, whose settings have been looked at here."""
        environment = worker_environment() | dict.fromkeys(_THREAD_VARIABLES, str(threads))
        environment[trust.VARIABLE] = "1"
        return cls(tuple(program), directory.path, directory.log, environment, Path.cwd())

    @property
    def arguments(self) -> list[str]:
        return [*self.program, "--resume", str(self.directory)]

    def for_another_machine(self) -> Command:
        """The same with names that do not depend on this process, and of its environment what must go along.

        That is Python's path, numbers of threads and what W&B reads; the rest is the other machine's own.
        """
        kept = ("PYTHONPATH", trust.VARIABLE, *_THREAD_VARIABLES)
        environment = {
            name: value
            for name, value in self.environment.items()
            if name in kept or name.startswith("WANDB_")
        }
        return self._replace(
            directory=self.directory.absolute(), log=self.log.absolute(), environment=environment
        )

    def here(self) -> Command:
        """The command that `for_another_machine` has made, on that machine."""
        folder = self.folder if self.folder.is_dir() else Path.cwd()
        return self._replace(environment={**os.environ, **self.environment}, folder=folder)


@functools.cache
def _process_bytes() -> int | None:
    """One figure for all trainings, so that those alike need the same."""
    from dtqn.training import machine

    return machine.resident_bytes()


class Needs(NamedTuple):
    """Resources that a training takes of a machine."""

    cpus: int
    gpus: float
    memory_bytes: int

    @classmethod
    def of(cls, config: Config) -> Needs:
        """CPUs are the threads; a GPU is asked for where `device` says cuda."""
        from dtqn.training import preflight

        memory = sum(preflight.memory(config, _process_bytes()).values())
        return cls(config.num_threads + config.num_workers, float(config.device == "cuda"), memory)

    @property
    def memory_gigabytes(self) -> int:
        """Whole ones, with half as much again to spare, for a place that ends what takes more."""
        return max(2, math.ceil(1.5 * self.memory_bytes / 2**30))


class Handle(Protocol):
    """A training that a launcher has taken on."""

    lost: bool
    """It has ended because its machine has gone."""
    where: str | None
    """The machine that it runs on; empty for this one, None while it waits for one."""

    def poll(self) -> int | None:
        """The exit code, or -n after signal n; None as long as it has not ended."""

    def end(self) -> None:
        """Let it write a checkpoint and end; one that still waits for a machine ends without."""

    def kill(self) -> None:
        """End it now."""


class Launcher(Protocol):
    """A place where trainings run."""

    def start(self, works: Sequence[tuple[Command, Config]]) -> Sequence[Handle]:
        """Begin all of them, or let them wait there for a machine."""

    def close(self) -> None:
        """Leave the place; all trainings have ended."""
        return None
