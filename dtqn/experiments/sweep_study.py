"""The trials of a sweep in Optuna's journal, a file that several processes may work on at once.

A trial carries its claim: the host and the number of the process whose run it is. Claims are made under the
journal's own lock, so no two processes make one for the same trial, or draw the same point of a grid.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState, create_trial
from pydantic import TypeAdapter

from dtqn.experiments.sweep_file import Parameter, SweepFile
from dtqn.files import lock_file, locked
from dtqn.settings.config import ConfigError
from dtqn.training.checkpoint import FOREIGN

optuna.logging.set_verbosity(optuna.logging.ERROR)
_JOURNAL = "journal.log"
_ATTEMPTS = 50
"""Draws of a configuration that was not tried before, until the space counts as exhausted."""

State = Literal["open", "finished", "stopped", "failed", "refused"]
"""`open`: waiting, running or interrupted; `stopped`: by early termination; `refused`: no legal settings.
Optuna knows them as RUNNING, COMPLETE, PRUNED and FAIL. A failed one stays RUNNING, as it is tried again."""


class Trial(NamedTuple):
    """One configuration that was tried, or is being tried."""

    number: int
    """From 1 on."""
    parameters: dict[str, Any]
    state: State = "open"
    run_dir: str = ""
    error: str = ""
    value: float | None = None
    """The run's result, once it has ended."""
    env_steps: int | None = None
    claim: str = ""
    """The process whose run it is."""

    @classmethod
    def of(cls, frozen: FrozenTrial) -> Trial:
        return cls(frozen.number + 1, state=_state(frozen), value=frozen.value, **frozen.user_attrs["trial"])


_TRIAL = TypeAdapter(Trial)


def _state(frozen: FrozenTrial) -> State:
    failed = frozen.user_attrs["trial"]["error"] != ""
    if frozen.state == TrialState.RUNNING:
        return "failed" if failed else "open"
    if frozen.state == TrialState.PRUNED:
        return "stopped"
    return "refused" if failed else "finished"


class Draw(NamedTuple):
    """A configuration that the search has chosen and nobody has tried."""

    parameters: dict[str, Any]
    frozen: FrozenTrial


def draws(file: SweepFile, seed: int, trials: Sequence[FrozenTrial] = ()) -> Iterator[Draw]:
    """Configurations for a search to go on with, none of them tried; endless, or until no other is found.

    They are asked of a copy in memory, so that a draw that is not taken leaves no trace.
    """
    study = optuna.create_study(sampler=_sampler(file, seed, len(trials)), direction=file.goal)
    study.add_trials(trials)
    spaces = {name: _distribution(file.parameters[name]) for name in file.searched}
    seen = {json.dumps(Trial.of(trial).parameters) for trial in trials}
    repeated = 0
    while repeated < _ATTEMPTS:
        parameters = file.settings(study.ask(spaces).params)
        if (text := json.dumps(parameters)) in seen:
            repeated += 1
            continue
        seen.add(text)
        repeated = 0
        yield Draw(parameters, study.get_trials(deepcopy=False)[-1])


def _sampler(file: SweepFile, seed: int, number: int) -> optuna.samplers.BaseSampler:
    """A generator of its own for each choice, but of a grid, which is shuffled once."""
    if file.method == "grid":
        places = {name: range(len(file.parameters[name].listed or ())) for name in file.searched}
        return optuna.samplers.GridSampler(places, seed)
    own = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
    if file.method == "bayes":
        return optuna.samplers.TPESampler(seed=own)
    return optuna.samplers.RandomSampler(own)


def _distribution(parameter: Parameter) -> BaseDistribution:
    if parameter.listed is not None:
        return CategoricalDistribution(range(len(parameter.listed)))
    return FloatDistribution(0, 1)


class _JournalLock:
    """The lock of the journal for Optuna and for claims; the system frees it with its process."""

    def __init__(self, path: Path) -> None:
        self._path, self._depth = path, 0
        self._held = contextlib.ExitStack()

    def acquire(self) -> bool:
        if self._depth == 0:
            journal = self._held.enter_context(locked(self._path))
            journal.seek(0)
            # Half a line may be left of a process that was killed while it wrote.
            journal.truncate(journal.read().rfind(b"\n") + 1)
        self._depth += 1
        return True

    def release(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._held.close()

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        self.release()


def _opened(journal: Path, lock: _JournalLock, file: SweepFile) -> optuna.Study:
    """The study that the journal holds, or a new one."""
    pruner = None
    if rungs := file.early_terminate:
        # Optuna's Hyperband would not compare all runs at a rung, as W&B's does.
        pruner = optuna.pruners.SuccessiveHalvingPruner(rungs.min_iter, rungs.eta)
    try:
        storage = JournalStorage(JournalFileBackend(str(journal), lock))  # type: ignore[arg-type]
        if storage.get_all_studies():
            for line in journal.read_bytes().splitlines():
                json.loads(line)  # Optuna forgives the last one, until another is added
            study = optuna.load_study(study_name=None, storage=storage, pruner=pruner)
            for frozen in study.get_trials(deepcopy=False):
                _TRIAL.validate_python(Trial.of(frozen)._asdict())
                optuna.trial.Trial(study, frozen._trial_id)  # reads the attributes of Optuna's own
            next(draws(file, 0, study.get_trials(deepcopy=False)), None)  # reads all the rest
            return study
        return optuna.create_study(storage=storage, pruner=pruner, direction=file.goal)
    except (*FOREIGN, AssertionError) as error:
        raise ConfigError(
            f"{journal}: is no record of a sweep ({type(error).__name__}); move it away, "
            "what has been run is found again"
        ) from None


class Study:
    """A sweep's record, open for this process too."""

    def __init__(self, file: SweepFile, folder: Path, seed: int, digest: str) -> None:
        """
        Args:
            digest: of the search, which a folder has one of.

        Raises:
            ConfigError: the folder's record is of another search, or of none.
        """
        self.file, self.folder, self._seed = file, folder, seed
        self.alone = _JournalLock(folder / _JOURNAL)
        """No other process makes a claim, or writes, in a `with` block of it."""
        with self.alone:
            self._study = _opened(folder / _JOURNAL, self.alone, file)
            self._check_search(digest)
        # The number of a process may come again.
        self._me = f"{socket.gethostname()}-{os.getpid()}-{time.time_ns()}"
        (folder / "processes").mkdir(exist_ok=True)
        self._alive = (folder / "processes" / self._me).open("wb")
        lock_file(self._alive.fileno())

    def close(self) -> None:
        """Free the trials that are open."""
        (self.folder / "processes" / self._me).unlink(missing_ok=True)
        self._alive.close()

    def _check_search(self, digest: str) -> None:
        then = self._study.user_attrs.get("digest")
        if then is None:
            self._study.set_user_attr("digest", digest)
        elif then != digest:
            why = "the sweep file, a setting or the task has changed since"
            raise ConfigError(f"{self.folder}: is of another search ({why}); give another --out")

    def trials(self) -> list[Trial]:
        return [Trial.of(frozen) for frozen in self._frozen()]

    def _frozen(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False)

    def draws(self) -> Iterator[Draw]:
        return draws(self.file, self._seed, self._frozen())

    def add(self, draw: Draw, run_dir: str = "", refused: str = "") -> Trial:
        """Note a new trial of this process down, in one line of the journal.

        Args:
            refused: why it cannot be run.
        """
        frozen = create_trial(
            state=TrialState.FAIL if refused else TrialState.RUNNING,
            params=draw.frozen.params,
            distributions=draw.frozen.distributions,
            system_attrs=draw.frozen.system_attrs,  # the point of a grid
        )
        about = {"parameters": draw.parameters, "run_dir": run_dir, "error": refused, "claim": self._me}
        frozen.set_user_attr("trial", about)
        self._study.add_trial(frozen)
        return self.trials()[-1]

    def is_left(self, trial: Trial) -> bool:
        """Whether a trial has not ended and the process whose it was is gone."""
        is_mine = trial.claim == self._me
        return trial.state in ("open", "failed") and not is_mine and not self._lives(trial.claim)

    def _lives(self, process: str) -> bool:
        """Whether a process, on whatever machine, holds the lock of the file that it opened."""
        try:
            with (self.folder / "processes" / process).open("r+b") as file:
                return not lock_file(file.fileno())
        except (FileNotFoundError, ValueError):  # or it is no name of a file
            return False

    def take(self, number: int, run_dir: str) -> Trial:
        """Make a trial that was left this process's, under its number."""
        self._note(number, run_dir=run_dir, error="", claim=self._me)
        return self.trials()[number - 1]

    def _note(self, number: int, **changes: Any) -> optuna.trial.Trial:
        frozen = self._frozen()[number - 1]
        handle = optuna.trial.Trial(self._study, frozen._trial_id)
        if changes:
            handle.set_user_attr("trial", frozen.user_attrs["trial"] | changes)
        return handle

    def is_hopeless(self, number: int, history: Sequence[float]) -> bool:
        """Whether early termination ends a run with these evaluations, one of them a rung that it fails."""
        if self.file.early_terminate is None:
            return False
        handle, known = self._note(number), self._frozen()[number - 1]
        hopeless = bool(known.user_attrs.get("hopeless"))
        for step in range(len(known.intermediate_values) + 1, len(history) + 1):
            handle.report(history[step - 1], step)
            if handle.should_prune() and not hopeless:
                hopeless = True
                handle.set_user_attr("hopeless", True)
        return hopeless

    def end(self, number: int, state: State, value: float | None, env_steps: int, error: str = "") -> None:
        """Note down how a run of this process has ended."""
        self._note(number, env_steps=env_steps, error=error)
        if state == "failed":
            return
        if state == "stopped":
            self._study.tell(number - 1, state=TrialState.PRUNED)  # its value is the last that was reported
        else:
            self._study.tell(number - 1, value, TrialState.FAIL if value is None else TrialState.COMPLETE)
