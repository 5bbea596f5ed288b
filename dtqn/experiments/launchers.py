"""Where trainings run: what a launcher is, and the choice of one.

`local_launcher.py` starts processes of this machine, `ray_launcher.py` actors of a Ray cluster and
`slurm_launcher.py` jobs of Slurm. Each starts the same command, which goes on from the run's checkpoint where
there is one, so that a training that has ended before its time is started again and is the same run.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, get_args

from dtqn.settings.config import Config, ConfigError, wrong
from dtqn.settings.values import meant

Name = Literal["local", "ray", "slurm"]
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

    @property
    def arguments(self) -> list[str]:
        return [*self.program, "--resume", str(self.directory)]

    def for_another_machine(self) -> Command:
        """The same with names that do not hang on this process, and of its environment what must go along.

        That is Python's path, numbers of threads and what W&B reads; the rest is the other machine's own.
        """
        kept = ("PYTHONPATH", *_THREAD_VARIABLES)
        environment = {
            name: value
            for name, value in self.environment.items()
            if name in kept or name.startswith("WANDB_")
        }
        return self._replace(
            directory=self.directory.absolute(), log=self.log.absolute(), environment=environment
        )

    def here(self, directory: Path | None = None) -> Command:
        """The command that `for_another_machine` has made, on that machine.

        Args:
            directory: in place of the run's own.
        """
        place = self.directory if directory is None else directory
        folder = self.folder if self.folder.is_dir() else Path.cwd()
        environment = {**os.environ, **self.environment}
        return self._replace(
            directory=place, log=place / self.log.name, environment=environment, folder=folder
        )


def command(
    program: Sequence[str], directory: Path, log: Path, environment: Mapping[str, str], threads: int
) -> Command:
    """The command of a training with so many threads."""
    counts = dict.fromkeys(_THREAD_VARIABLES, str(threads))
    return Command(tuple(program), directory, log, {**environment, **counts}, Path.cwd())


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

    @property
    def where(self) -> str | None:
        """The machine that it runs on; empty for this one, None while it waits for one."""

    def poll(self) -> int | None:
        """The exit code, or -n after signal n; None as long as it has not ended."""

    def end(self) -> None:
        """Let it write a checkpoint and end; one that still waits for a machine ends without."""

    def kill(self) -> None:
        """End it now."""


class Launcher(Protocol):
    """A place where trainings run."""

    detached: bool
    """Its trainings go on where this process has gone."""

    def adopt(self, command: Command) -> Handle | None:
        """The training that an earlier process has left running there, if there is one."""

    def start(self, works: Sequence[tuple[Command, Config]]) -> Sequence[Handle]:
        """Begin all of them, or let them wait there for a machine."""

    def close(self) -> None:
        """Leave the place; all trainings have ended, but those that are left behind."""


class Asked(NamedTuple):
    """The options of the command line that choose a launcher."""

    name: str = "local"
    ray_address: str | None = None
    ray_gpus: float | None = None
    slurm: Mapping[str, str] = {}
    """`--slurm.NAME` by name."""

    def check(self) -> None:
        """A ConfigError where the options do not go together, or the launcher's library is missing."""
        if self.name not in get_args(Name):
            known = get_args(Name)
            raise wrong(
                "--launcher", self.name, f"must be one of {', '.join(known)}{meant(self.name, known)}"
            )
        others = {
            "--ray-address": ("ray", self.ray_address),
            "--ray-gpus": ("ray", self.ray_gpus),
            **{f"--slurm.{name}": ("slurm", value) for name, value in self.slurm.items()},
        }
        for option, (launcher, value) in others.items():
            if value is not None and self.name != launcher:
                raise wrong(option, value, f"leave it out, or give --launcher {launcher}")
        for launcher, package in (("ray", "ray"), ("slurm", "submitit")):
            if self.name == launcher and importlib.util.find_spec(package) is None:
                raise ConfigError(
                    f"--launcher {launcher} needs {package}, which is not installed; "
                    f'pip install "dtqn[{launcher}]"'
                )

    @property
    def is_local(self) -> bool:
        return self.name == "local"

    @property
    def is_here(self) -> bool:
        """Trainings run on this machine, if only in a Ray of its own."""
        return self.is_local or (self.name == "ray" and self.ray_address is None)


@contextlib.contextmanager
def opened(asked: Asked, runs_dir: Path) -> Iterator[Launcher]:
    """The launcher that the options ask for, inside of a `with` block.

    Args:
        runs_dir: where a launcher may keep files of its own.

    Raises:
        ConfigError: where there is no such place.
    """
    asked.check()
    launcher = _made(asked, runs_dir)
    try:
        yield launcher
    finally:
        launcher.close()


def _made(asked: Asked, runs_dir: Path) -> Launcher:
    if asked.name == "ray":
        from dtqn.experiments.ray_launcher import RayLauncher

        return RayLauncher(asked.ray_address, asked.ray_gpus)
    if asked.name == "slurm":
        from dtqn.experiments.slurm_launcher import SlurmLauncher

        return SlurmLauncher(runs_dir / "slurm", asked.slurm)
    from dtqn.experiments.local_launcher import LocalLauncher

    return LocalLauncher()
