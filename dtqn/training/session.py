"""A run from its start to its end: the loop around the `Trainer`, checkpoints, signals and reports."""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TextIO

import numpy as np
import torch

import dtqn
import envs
from dtqn.acting.evaluation import Goal
from dtqn.program import code_digest
from dtqn.settings import named_code
from dtqn.settings.config import Config, ConfigError
from dtqn.settings.names import name_of
from dtqn.signals import Signals
from dtqn.text import gpu_is_full, number, one_line
from dtqn.training import chance_level, checkpoint, machine, messages, random_play
from dtqn.training.callbacks import Callbacks
from dtqn.training.checkpoint import CheckpointError
from dtqn.training.directory import RunDir, ends_at, resolved, run_identity, task_identity
from dtqn.training.display import Output, View
from dtqn.training.evaluations import Evaluations
from dtqn.training.metrics import MetricsFile, Row, check_counted, fault, is_evaluation, read_rows
from dtqn.training.setup import device_of, task_spec
from dtqn.training.trained import misfit
from dtqn.training.trainer import Trainer
from dtqn.training.wandb_tracker import Tracker, in_sweep, open_tracker
from dtqn.training.worker import WorkerError
from dtqn.types import NonFiniteError
from envs.errors import ANY_FAULT

_OUTPUT_LOST = 141
"""The exit code of a program whose reader has gone, 128 + SIGPIPE."""
STOPPED = 128
"""The exit code of a run that a callback has stopped; with the number of a signal added, of that."""
_PAUSE_SECONDS = 0.2
"""How often a run that waits for its evaluation looks whether a signal has come."""


def start(
    config: Config, directory: RunDir, out: TextIO | None = None, callbacks: Callbacks | None = None
) -> int:
    """Train a new run, whose settings are checked, in a directory that holds none; the exit code."""
    directory.claim()
    trainer = _make_trainer(config)
    directory.write_config(config)
    shown = Output(out or sys.stdout)
    return _Run(config, directory, trainer, shown, callbacks=callbacks).train()


def resume(
    config: Config,
    directory: RunDir,
    out: TextIO | None = None,
    accept_changed_code: bool = False,
    callbacks: Callbacks | None = None,
) -> int:
    """Go on with the run in `directory` from its last checkpoint, or from the start where it has none.

    Args:
        accept_changed_code: go on though its task, or a network of the user's own, has changed.

    Raises:
        ConfigError: where a file of the run is damaged; nothing has been changed.
    """
    shown = Output(out or sys.stdout)
    about = _checkpointed(config, directory)
    _check_code(config, directory, about.get("task"), accept_changed_code, shown)
    if about and about["finished"] and about["ends_at"] == ends_at(config):
        check_counted(directory.metrics_file, int(about["rows"]))
        if not accept_changed_code:  # else the run has used none of the changed code
            directory.write_config(config)
        _tell_finished(config, directory, about, shown)
        return 0
    if not about:
        if directory.metrics_file.exists():
            print(f"{directory.path} has no checkpoint yet: the run starts anew", file=shown)
        checkpoint.remove_best(directory.checkpoints)
    trainer = restored_trainer(config, directory, about) if about else _make_trainer(config)
    run = _Run(config, directory, trainer, shown, about, callbacks)
    directory.write_config(config)
    return run.train()


def _checkpointed(config: Config, directory: RunDir) -> dict[str, Any]:
    """What the run's last checkpoint says of it, which fits its settings; empty where it has had none."""
    if checkpoint.exists(directory.checkpoints):
        about = checkpoint.read_about(directory.checkpoints)
        directory.check_trained(config, about)
        last = about.get("last_evaluation") or {"env_steps": 0}
        why = next(filter(None, map(fault, [last, *about.get("held", ())])), "")
        if why or (about["finished"] and not is_evaluation(last)):
            why = why or "last_evaluation must have eval/return"
            raise CheckpointError(f"{directory.checkpoints}: is damaged: {why}")
        return about
    if directory.result_file.exists():
        raise ConfigError(
            f"{directory.path} has finished once, as its result.json says, but has no checkpoint; "
            "to train it again, move the folder away"
        )
    return {}


def _check_code(config: Config, directory: RunDir, trained: str | None, accepts: bool, out: Output) -> None:
    """Tell that the task or a network of the user's own has changed; a ConfigError unless it is accepted."""
    change = directory.task_change(config, trained)
    if change and not accepts:
        anew = "move the run away, start anew with another --run-dir"
        raise ConfigError(f"{change}; {anew}, or go on with what is there now: --accept-changed-code")
    if change:
        print(f"{change}; what is there now is accepted", file=out)


def _tell_finished(config: Config, directory: RunDir, about: Mapping[str, Any], out: Output) -> None:
    """Answer for a run that has finished before."""
    directory.write_result(_result_of(about))  # a kill may have come before it
    print(messages.finished(directory, about["env_steps"], about["last_evaluation"]), file=out)
    if in_sweep():  # which has made a new run for the same configuration
        say = functools.partial(print, file=out)
        tracker = open_tracker(config, directory, directory.wandb_id, say, about.get("parameters"))
        directory.wandb_id = tracker.id
        _send_files(tracker, directory)
        tracker.close()


def _make_trainer(config: Config, is_new: bool = True) -> Trainer:
    machine.prepare()
    try:
        return Trainer(config, is_new)
    except torch.OutOfMemoryError as error:
        raise ConfigError(f"device is {config.device}, but {gpu_is_full(error)}; try cpu") from None


def restored_trainer(config: Config, directory: RunDir, about: Mapping[str, Any]) -> Trainer:
    """The run as its last checkpoint, which says `about` of it, has it; a CheckpointError where it cannot."""
    for name in random_play.SETTLED:
        if getattr(config.learner, name) == "auto" and about.get(name) is not None:
            config = config.replaced(f"learner.{name}", about[name])
    trainer = _make_trainer(config, is_new=False)
    try:
        state = checkpoint.load_state(directory.checkpoints)
        checkpoint.check_kinds(state, trainer.get_state(lazily=True))
        trainer.set_state(state)
    except CheckpointError:
        raise
    except envs.TaskError as error:
        raise CheckpointError(
            f"{directory.checkpoints}: cannot be resumed from: {one_line(str(error))}"
        ) from error
    except checkpoint.FOREIGN as error:
        problem = misfit(config, directory) or f"does not fit this version ({one_line(error)})"
        raise CheckpointError(f"{directory.checkpoints}: {problem}") from error
    return trainer


class _Run:
    """One stretch of a run, from its start or a resume to its end or an interruption."""

    def __init__(
        self,
        config: Config,
        directory: RunDir,
        trainer: Trainer,
        out: Output,
        about: Mapping[str, Any] = MappingProxyType({}),
        callbacks: Callbacks | None = None,
    ) -> None:
        """`about` is what the checkpoint says; a ConfigError where rows that it counts on are not there."""
        self.config, self.directory, self.trainer, self.out = config, directory, trainer, out
        self._signals, self._callbacks = Signals(), callbacks or Callbacks()
        self._task_digest = run_identity(config).digest
        self._saved_at: int | None = about.get("env_steps")
        self._told_promise = False
        self._changed_at: list[int] = list(about.get("changed_at") or ())
        """Env steps at which the code of the task, or of a network of the user's own, became another."""
        has_changed = about.get("task") not in (None, self._task_digest)
        if has_changed:
            self._changed_at.append(int(about["env_steps"]))
            trainer.evaluator.forget_scores()
        known_id = None if in_sweep() else about.get("wandb_id")
        self._tracker = Tracker(known_id or directory.wandb_id)
        self._code = list(dict.fromkeys([*about.get("code", ()), code_digest()]))
        """Digests of the sources that it has run, several where they changed between two stretches."""
        self._seconds_before = float(about.get("seconds", 0.0))
        self._started = time.monotonic()
        best = checkpoint.best_figures(directory.checkpoints) or {}
        self._metrics = MetricsFile(directory.metrics_file, int(about.get("rows", 0)))
        last = {} if has_changed else dict(about.get("last_evaluation", {}))
        self._evaluations = self._evaluations_so_far(last, best)
        self._held: list[Row] = list(about.get("held", ()))
        """Rows that wait for an evaluation, their own or the first row's: rows are written in order."""
        self._speed_mark = (self._seconds, trainer.env_steps, trainer.learner_steps)

    def _evaluations_so_far(self, last: Row, best: Row) -> Evaluations:
        """What another task was worth is no bar for this one, and no goal that was reached."""
        changed, path = max(self._changed_at, default=-1), self.directory.metrics_file
        rows = [row for row in read_rows(path) if int(row["env_steps"] or 0) > changed]
        still_best = best if int(best.get("env_steps") or 0) > changed else {}
        return Evaluations(self.directory.checkpoints, rows, last, still_best)

    def train(self) -> int:
        """The loop: the exit code, or a ConfigError where a file cannot be written."""
        trainer, resumed = self.trainer, self._saved_at is not None
        about = messages.introduction(self.config, self.directory, trainer, resumed)
        print(about, file=self.out, flush=True)
        self._view = View(self.out, self.config.total_env_steps, trainer.env_steps)
        exit_code, caught = 1, contextlib.ExitStack()
        try:
            parameters = messages.parameters_of(trainer.network)
            say, known_id = self._view.say, self._tracker.id
            self._tracker = open_tracker(self.config, self.directory, known_id, say, parameters)
            self.directory.wandb_id = self._tracker.id
            caught.enter_context(self._signals)
            self._callbacks.tell("on_start")
            exit_code = self._loop()
        except (envs.TaskError, WorkerError) as error:
            exit_code = self._saved_after(error)
        except ConfigError as error:
            resume = self.directory.command("--resume")
            raise ConfigError(f"{error}; {self._kept}; to continue: {resume}") from None
        except ANY_FAULT as error:
            if (told := self._told(error)) is None:
                raise
            self._view.say(f"error: {told}")
            self._callbacks.fail(error)
        finally:
            with caught:  # a run that has finished is not ended by a signal that comes now
                self._view.close()
                self.trainer.close()
                self._tracker.close(exit_code)
                self._metrics.close()
            self._callbacks.tell("on_end")
        if exit_code == 0:
            note = task_spec(self.config).ceiling_note
            told = messages.result(self.directory, trainer.env_steps, self._seconds, self._evaluations, note)
            print(f"{told}\nreport   {self.directory.command('report')}", file=self.out, flush=True)
        elif exit_code >= STOPPED:
            resume = self.directory.command("--resume")
            print(f"interrupted and saved; to continue: {resume}", file=self.out, flush=True)
        return exit_code

    def _saved_after(self, error: Exception) -> int:
        """Save after a fault of the task or of a worker: what has been learned is sound. The exit code."""
        self._tell_news()
        self._save(finished=False)
        if self._signals.caught is not None:  # it came to the environments and the worker too
            return 128 + self._signals.caught
        resume = self.directory.command("--resume")
        if not task_identity(self.config).is_native:
            resume += " (with --accept-changed-code once the task has been edited)"
        self._view.say(f"error: {error}; saved; to continue: {resume}")
        self._callbacks.fail(error)
        return 1

    def _told(self, error: BaseException) -> str | None:
        """An error after which nothing is saved, in words; None for one of this program's own."""
        resume = self.directory.command("--resume")
        if isinstance(error, NonFiniteError):
            return f"{error}; {self._kept}"
        if isinstance(error, torch.OutOfMemoryError):
            resume += " --device cpu" + (" --cuda-graphs false" if self.config.cuda_graphs is True else "")
            return f"{gpu_is_full(error)}; {self._kept}; to continue without it: {resume}"
        fault = named_code.fault(error)
        return None if fault is None else f"{fault}; {self._kept}; to continue: {resume}"

    @property
    def _kept(self) -> str:
        if self._saved_at is None:
            return "nothing has been saved yet"
        return f"what the run had at {number(self._saved_at)} env steps is kept"

    def _loop(self) -> int:
        trainer, every = self.trainer, self.config.checkpoint_every
        goal = Goal(self.config.stop_at_success, self.config.stop_at_return)
        self._record()  # what was under way at the end of the last stretch
        while not trainer.finished and not self._evaluations.reached(goal):
            if code := self._interrupted():
                return code
            before = trainer.env_steps
            self._advance()
            if trainer.env_steps // every > before // every and not trainer.finished:
                self._save(finished=False)
        return self._end()

    def _advance(self) -> None:
        """One vector step, and what is to be told of it."""
        row = self.trainer.advance()
        if row is not None:
            self._hold(row)
        self._tell_news()
        self._record()
        self._view.progress(self.trainer.env_steps)

    def _end(self) -> int:
        """Do what the run owes at its end; the exit code."""
        trainer = self.trainer
        if code := self._awaited():
            return code
        for row in trainer.finish():
            self._hold(row)
        if code := self._awaited():
            return code
        if left_out := trainer.learner.skipped_updates:
            self._view.say(messages.skipped(left_out, trainer.learner_steps))
        try:
            trainer.film(self.directory.film)
        except envs.NoPictureError:
            pass
        except Exception as error:  # whatever a task's own renderer raises
            self._view.say(f"no film of an episode: {one_line(error)}")
        self._save(finished=True)
        _send_files(self._tracker, self.directory)
        return 0

    def _awaited(self) -> int | None:
        """Wait for the evaluations that are under way; the exit code where that was interrupted."""
        self._record(wait=True)
        return self._interrupted() if self.trainer.evaluator.waiting else None

    def _tell_news(self) -> None:
        for line in self.trainer.news():
            self._view.say(line)

    @property
    def _seconds(self) -> float:
        return self._seconds_before + time.monotonic() - self._started

    def _interrupted(self) -> int | None:
        """Save where a signal has come, nobody reads any more or a callback asks; the exit code then."""
        caught = self._signals.caught
        if caught is None and not self.out.lost and not self._callbacks.stops:
            return None
        self._save(finished=False)
        return _OUTPUT_LOST if self.out.lost and caught is None else STOPPED + (caught or 0)

    def _hold(self, row: Row) -> None:
        """Add the run's clocks to a row; `_record` writes it."""
        env_steps, learner_steps = int(row["env_steps"] or 0), int(row["learner_steps"] or 0)
        then, env_then, learner_then = self._speed_mark
        seconds = self._seconds
        # A row of the end may have no step of its own, and so no speed.
        passed = seconds - then if env_steps > env_then else None
        self._speed_mark = (seconds, env_steps, learner_steps)
        clocks: Row = {
            "seconds": seconds,
            "speed/env_steps_per_second": (env_steps - env_then) / passed if passed else None,
            "speed/learner_steps_per_second": (learner_steps - learner_then) / passed if passed else None,
        }
        self._held.append(row | clocks)

    def _record(self, wait: bool = False) -> None:
        """Write the rows that are complete, in order.

        An evaluation that is under way is waited for, until a signal, where another one is due or `wait` says
        so. Nothing that decides how the run goes on is read from it before. One that the run itself plays is
        given up at a signal, and played anew after a resume.
        """
        evaluator = self.trainer.evaluator

        def ends() -> bool:
            return self._signals.caught is not None or self.out.lost

        while True:
            while self._held and self._held[0]["env_steps"] not in evaluator.waiting[:1]:
                self._write(self._held.pop(0))
            patient = len(evaluator.waiting) > (0 if wait else 1)
            pause = _PAUSE_SECONDS if patient and not ends() else 0.0
            evaluated = evaluator.evaluated(pause, ends)
            if evaluated is not None:
                row = self._held.pop(0) | evaluated.metrics
                self._write(row)
                self._evaluations.keep_best(row, evaluated.weights)
                self._tell_promise(row)
            elif not pause:
                return

    def _tell_promise(self, row: Row) -> None:
        """Say once, in the second half of learning, that Q-values promise what is not earned."""
        learned = self.trainer.env_steps - self.config.warmup
        is_late = learned * 2 >= self.config.total_env_steps - self.config.warmup
        if is_late and not self._told_promise:
            if line := messages.runs_away(self.trainer.config.learner, row):
                self._view.say(line)
            self._told_promise = bool(line)

    def _write(self, row: Row) -> None:
        row |= self._evaluations.tally(row)
        self._tracker.log(self._metrics.rows, row)
        self._metrics.append(row)
        self._view.row(row)
        self._callbacks.tell("on_metrics", row)
        if is_evaluation(row):
            self._callbacks.tell("on_evaluation", row)

    def _save(self, finished: bool) -> None:
        self._metrics.sync()
        about = {
            "program": {"dtqn": dtqn.__version__, "torch": torch.__version__, "numpy": np.__version__},
            "config": resolved(self.config).model_dump(mode="json"),
            "task": self._task_digest,
            "env_steps": self.trainer.env_steps,
            "learner_steps": self.trainer.learner_steps,
            "changed_at": self._changed_at,
            "seconds": self._seconds,
            "rows": self._metrics.rows,
            "held": self._held,
            "wandb_id": self._tracker.id,
            "last_evaluation": self._evaluations.last,
            "finished": finished,
            "ends_at": ends_at(self.config),
            "parameters": messages.parameters_of(self.trainer.network),
            **{name: getattr(self.trainer.config.learner, name) for name in random_play.SETTLED},
            "threads": self.config.num_threads,
            "device": device_of(self.config).type,
            "code": self._code,
            "machine": machine.name(device_of(self.config).type),
        }
        weights = self.trainer.network.state_dict()
        checkpoint.save(
            self.directory.checkpoints,
            self.trainer.env_steps,
            weights,
            self.trainer.get_state(lazily=True),
            about,
        )
        self._saved_at = self.trainer.env_steps
        self._draw(finished)
        if finished:
            self.directory.write_result(_result_of(about))
        self._callbacks.tell("on_checkpoint")

    def _draw(self, finished: bool) -> None:
        """Draw the learning curve so far; if it cannot be drawn or written, the run goes on without it.

        A finished run's curve shows what random actions reach, in as many episodes as its last evaluation
        had. They take at most a second or two in the suite's own tasks, and are not played in others.
        """
        from dtqn.plots import learning_curve  # half a second that a run need not begin with

        title = f"{', '.join(name_of(self.config))}, seed {self.config.seed}"
        ceiling = task_spec(self.config).success_ceiling
        try:
            floor = None
            if finished and task_identity(self.config).is_native:
                episodes = int(self._evaluations.last["eval/episodes"] or 1)
                floor = chance_level.play(self.config, episodes).score
            rows = read_rows(self.directory.metrics_file)
            policy = self.config.evaluation.policy
            learning_curve(rows, self.directory.curve, title, ceiling, floor, policy)
        except Exception as error:  # a picture is worth no run
            self._view.say(f"no learning curve: {one_line(error)}")


def _send_files(tracker: Tracker, directory: RunDir) -> None:
    rows = read_rows(directory.metrics_file)
    pictures = {"learning_curve": directory.curve, "evaluation_film": directory.film}
    pictures = {name: file for name, file in pictures.items() if file.is_file()}
    tracker.pictures(len(rows) - 1, rows[-1], pictures)
    tracker.artifact(directory.kept_files())


def _result_of(about: Mapping[str, Any]) -> dict[str, Any]:
    """The content of `result.json`, from the last checkpoint's description."""
    names = "task ends_at env_steps learner_steps seconds parameters gamma reward_scale threads device"
    also = ["last_evaluation", "program", "code", "machine", "changed_at"]
    return {name: about.get(name) for name in [*names.split(), *also]}
