"""A run that is asked for, by a command line or from Python: its settings, its directory, and its start."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from dtqn.settings import presets
from dtqn.settings.config import Config, ConfigError, wrong
from dtqn.settings.task import task_of
from dtqn.training.directory import RunDir

if TYPE_CHECKING:
    from dtqn.training.callbacks import Callbacks

AUTO = Path("auto")
"""The value of `resume` that finds a run by its settings."""


class Plan(NamedTuple):
    """A run that is to be started, or to be gone on with."""

    config: Config
    directory: RunDir
    resume: Path | None
    """None for a new run; `AUTO` or the directory for one that may be there."""
    accepts: bool = False
    """Whether a task or network of the user's own may have changed."""

    def train(self, out: TextIO | None = None, callbacks: Callbacks | None = None) -> int:
        """Train it, or go on with it: the exit code, or a ConfigError before anything has been changed."""
        from dtqn.training import machine, preflight, session

        auto = self.resume == AUTO
        config = machine.settled(self.directory.settled(self.config) if auto else self.config)
        preflight.check(config)  # before there is a folder
        with self.directory.lock():
            if self.resume is None:
                return session.start(config, self.directory, out, callbacks)
            if auto:
                self.directory.prepare(config)
            return session.resume(config, self.directory, out, self.accepts, callbacks)


def plan(
    given: Mapping[str, Any],
    file: Path | None = None,
    run_dir: Path | None = None,
    runs_dir: Path | None = None,
    resume: Path | None = None,
    accepts: bool = False,
) -> Plan:
    """The run that these settings and options ask for.

    Args:
        given: settings by dotted name, over presets and `file`.
        runs_dir: where a run without a `run_dir` gets its directory.
        resume: the directory of a run to go on with, or `AUTO`.
        accepts: go on though code of the user's own has changed.

    Raises:
        ConfigError: one line, in the words of the command line.
    """
    if accepts and resume in (None, AUTO):
        raise ConfigError("--accept-changed-code is for --resume RUN_DIR; leave it out")
    if resume in (None, AUTO):
        config = presets.resolve(file, given, os.environ)
        task_of(config)
        return Plan(config, _directory_for(config, run_dir, runs_dir, resume), resume)
    for name, value in (("--config", file), ("--run-dir", run_dir), ("--runs-dir", runs_dir)):
        if value is not None:
            raise wrong(name, value, f"leave it out with --resume, which reads {resume}/config.yaml")
    directory = RunDir(resume)
    config = directory.resumed_config(given, os.environ)
    task_of(config)
    return Plan(config, directory, resume, accepts)


def _directory_for(
    config: Config, run_dir: Path | None, runs_dir: Path | None, resume: Path | None
) -> RunDir:
    """The directory of a run that `--resume RUN_DIR` does not name."""
    if run_dir is None:
        make = RunDir.default if resume is None else RunDir.of_config
        return make(config, runs_dir or Path("runs"))
    for name, value in (("--runs-dir", runs_dir), ("--resume", resume)):
        if value is not None:
            raise wrong("--run-dir", run_dir, f"leave it out with {name}")
    return RunDir(run_dir)
