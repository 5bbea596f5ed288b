"""A run from its start to its end: the loop around the `Trainer`, checkpoints, signals and reports."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

import numpy as np
import torch
from torch import nn

import dtqn
import envs
from dtqn import checkpoint, machine
from dtqn.checkpoint import CheckpointError
from dtqn.config import Config, ConfigError, MisfitError
from dtqn.evaluation import EvaluationResult, evaluate
from dtqn.live import View, clock, number, open_view, outcome
from dtqn.metrics import MetricsFile, Row, Tracker, in_sweep, open_tracker, read_rows
from dtqn.plots import learning_curve
from dtqn.rundir import RunDir, ends_at, resolved
from dtqn.train import Trainer, device_of, make_env, make_network, plan_bytes, task_spec
from dtqn.types import NonFiniteError


def start(config: Config, directory: RunDir, out: TextIO | None = None) -> int:
    """Train a new run, which `check` has passed, in a directory that holds none; the program's exit code."""
    directory.claim()
    trainer = _make_trainer(config)
    directory.write_config(config)
    return _Run(config, directory, trainer, out or sys.stdout).train()


def resume(config: Config, directory: RunDir, out: TextIO | None = None) -> int:
    """Go on with the run in `directory` from its last checkpoint, or from the start where it has none."""
    out = out or sys.stdout
    directory.writable()
    if not checkpoint.exists(directory.checkpoints):
        if directory.metrics_file.exists():
            print(f"{directory.path} has no checkpoint yet: the run starts anew", file=out)
        (directory.checkpoints / "best.safetensors").unlink(missing_ok=True)
        run = _Run(config, directory, _make_trainer(config), out)
    else:
        about = checkpoint.read_about(directory.checkpoints)
        if about["finished"] and about["ends_at"] == ends_at(config):
            directory.write_config(config)
            directory.write_result(_result_of(about))  # a kill may have come before it
            _say_finished(directory, about, out)
            if in_sweep():
                _report_finished(config, directory, about, out)
            return 0
        run = _Run(config, directory, _restored_trainer(config, directory), out, about)
    directory.write_config(config)
    return run.train()


def evaluate_run(directory: RunDir, episodes: int, seed: int, weights: str) -> EvaluationResult:
    """Greedy episodes of a run's `last` or `best` weights, on seeds of their own."""
    config = directory.read_config()
    machine.prepare()
    # A run of a machine with a GPU can be evaluated on one without.
    device = "auto" if config.device == "cuda" else config.device
    network = make_network(config).to(device_of(config.model_copy(update={"device": device})))
    load = checkpoint.load_best if weights == "best" else checkpoint.load_weights
    try:
        network.load_state_dict(load(directory.checkpoints))
    except RuntimeError as error:
        raise CheckpointError(
            f"{directory.checkpoints}: its weights do not fit config.yaml ({_short(error)})"
        ) from None
    env = make_env(config, min(episodes, config.evaluation.num_envs), np.random.SeedSequence(seed))
    return evaluate(network, env, episodes, task_spec(config).has_success)


def available_bytes() -> int | None:
    """The machine's memory, or the container's share where that is less; none where it cannot be told."""
    try:
        limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, ValueError, OSError):
        return None
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            limits.append(int(Path(path).read_text()))
        except (OSError, ValueError):  # absent, or "max"
            continue
    return min(limits)


def check(config: Config) -> None:
    """What settings alone do not tell, before anything is made.

    Raises:
        ConfigError: where the device is not there, the task's actions cannot be counted, or a task that is
            not this project's own fails a trial.
        MisfitError: where the network cannot read the task, or memory is too small.
    """
    device_of(config)
    try:
        envs.try_task(config.env, **config.task.model_dump())
    except envs.TaskError as error:
        raise ConfigError(str(error)) from None
    plan, available = plan_bytes(config), available_bytes()
    if available is None or sum(plan.values()) <= available:
        return
    it_takes = f"the run would take {_size(sum(plan.values()))} and the machine has {_size(available)}"
    if plan["networks"] > available / 2:
        raise MisfitError(f"network.width is {config.network.width}: {it_takes}; try a smaller network")
    fitting = int(config.replay.capacity * 0.8 * (available - plan["networks"]) / plan["replay"])
    raise MisfitError(f"replay.capacity is {config.replay.capacity}: {it_takes}; try {fitting}")


def _make_trainer(config: Config) -> Trainer:
    machine.prepare()
    return Trainer(config)


def _restored_trainer(config: Config, directory: RunDir) -> Trainer:
    trainer = _make_trainer(config)
    try:
        trainer.set_state(checkpoint.load_state(directory.checkpoints))
    except CheckpointError:
        raise
    except (KeyError, ValueError, TypeError, RuntimeError) as error:
        raise CheckpointError(
            f"{directory.checkpoints}: does not fit this version ({_short(error)})"
        ) from error
    return trainer


class _Signals:
    """Ctrl-C and SIGTERM, remembered until the tick is done; a second one takes effect at once."""

    def __init__(self) -> None:
        self.caught: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Signals:
        for signum in (signal.SIGINT, signal.SIGTERM):
            self._before[signum] = signal.signal(signum, self._catch)
        return self

    def _catch(self, signum: int, frame: FrameType | None) -> None:
        self.caught = signum
        self._restore()

    def _restore(self) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)

    def __exit__(self, *_: object) -> None:
        self._restore()


class _Run:
    """One stretch of a run, from its start or a resume to its end or an interruption."""

    def __init__(
        self,
        config: Config,
        directory: RunDir,
        trainer: Trainer,
        out: TextIO,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        """`about` is what the checkpoint says that the run goes on from; none for a run that starts."""
        self.config, self.directory, self.trainer, self.out = config, directory, trainer, out
        self._resumed = about is not None
        self._wandb_id = about["wandb_id"] if about and not in_sweep() else directory.wandb_id
        self._seconds_before = float(about["seconds"]) if about else 0.0
        self._started = time.monotonic()
        self._metrics = MetricsFile(directory.metrics_file, int(about["rows"]) if about else 0)
        self._last_evaluation: Row = dict(about["last_evaluation"]) if about else {}
        self._best = checkpoint.best_figures(directory.checkpoints) or {}
        self._evaluated: dict[str, list[float]] = {"success": [], "return": []}
        for row in read_rows(directory.metrics_file):
            self._tally(row)
        self._speed_mark = (self._seconds, trainer.env_steps, trainer.learner_steps)

    def train(self) -> int:
        """The loop; the program's exit code."""
        print(self._introduction(), file=self.out, flush=True)
        trainer = self.trainer
        self._view: View = open_view(
            self.out, self.config.total_env_steps, trainer.env_steps, trainer.learner_steps
        )
        self._tracker = open_tracker(
            self.config,
            self.directory.path,
            self._wandb_id,
            read_rows(self.directory.metrics_file),
            self._view.say,
            {"parameters": _parameters(trainer.network), "device_used": device_of(self.config).type},
        )
        self._wandb_id = self.directory.wandb_id = self._tracker.id
        self._tracker.summary(_best_summary(self._best))
        exit_code, signals = 1, _Signals()
        try:
            with signals:
                exit_code = self._loop(signals)
        except NonFiniteError as error:
            self._view.say(f"error: {error}")
        except envs.TaskError as error:  # what has been learned is sound, and new copies can go on from it
            self._save(finished=False)
            if signals.caught is not None:  # it came to the copies too
                exit_code = 128 + signals.caught
            else:
                self._view.say(f"error: {error}; saved; to go on: {self.directory.resume_command}")
        finally:
            self._view.close()
            self._tracker.close(exit_code)
            self._metrics.close()
        if exit_code == 0:
            print(self._result(), file=self.out, flush=True)
        elif exit_code > 128:
            print(
                f"interrupted and saved; to go on: {self.directory.resume_command}", file=self.out, flush=True
            )
        return exit_code

    def _loop(self, signals: _Signals) -> int:
        trainer = self.trainer
        while not trainer.finished and not self._succeeded():
            if signals.caught is not None:
                self._save(finished=False)
                return 128 + signals.caught
            before = trainer.env_steps
            row = trainer.advance()
            if row is not None:
                self._record(row)
            self._view.tick(trainer.env_steps, trainer.learner_steps)
            every = self.config.checkpoint_every
            if trainer.env_steps // every > before // every and not trainer.finished:
                self._save(finished=False)
        for row in trainer.finish():
            self._record(row)
        try:
            trainer.film(self.directory.film)
        except Exception as error:  # whatever a task's own renderer raises
            self._view.say(f"no film of an episode: {_short(error)}")
        self._save(finished=True)
        _send_files(self._tracker, self.directory)
        return 0

    def _succeeded(self) -> bool:
        """Whether the last evaluation is what `stop_at_success` asks for."""
        bound, low = self.config.stop_at_success, self._last_evaluation.get("eval/success_low")
        return bound is not None and low is not None and low >= bound

    @property
    def _seconds(self) -> float:
        return self._seconds_before + time.monotonic() - self._started

    def _record(self, row: Row) -> None:
        env_steps, learner_steps = int(row["env_steps"] or 0), int(row["learner_steps"] or 0)
        then, env_then, learner_then = self._speed_mark
        seconds = self._seconds
        passed = max(seconds - then, 1e-9)
        self._speed_mark = (seconds, env_steps, learner_steps)
        full: Row = {
            "env_steps": env_steps,
            "learner_steps": learner_steps,
            "seconds": seconds,
            "speed/env_steps_per_second": (env_steps - env_then) / passed,
            "speed/learner_steps_per_second": (learner_steps - learner_then) / passed,
        }
        full |= row | self._tally(row)
        self._tracker.log(self._metrics.rows, full)
        self._metrics.append(full)
        self._view.row(full)
        if "eval/return" in full:
            keys = [key for key in full if key.startswith("eval/")]
            self._last_evaluation = {key: full[key] for key in ["env_steps", *keys]}
            self._keep_best()

    def _tally(self, row: Row) -> Row:
        """Best and mean of all evaluations so far: what the run as a whole came to, for sweeps.

        They are columns of their own, since a sweep reads one name both as the run's figure and over time.
        """
        figures: Row = {}
        for name, seen in self._evaluated.items():
            if (value := row.get(f"eval/{name}")) is not None:
                seen.append(value)
                figures |= {f"best_{name}": max(seen), f"mean_{name}": sum(seen) / len(seen)}
        return figures

    def _keep_best(self) -> None:
        evaluation = self._last_evaluation
        if not self._best or _score(evaluation) > _score(self._best):
            self._best = dict(evaluation)
            checkpoint.save_best(self.directory.checkpoints, self.trainer.network.state_dict(), self._best)
            self._tracker.summary(_best_summary(self._best))

    def _save(self, finished: bool) -> None:
        self._metrics.sync()
        about = {
            "program": {"dtqn": dtqn.__version__, "torch": torch.__version__, "numpy": np.__version__},
            "config": resolved(self.config).model_dump(mode="json"),
            "env_steps": self.trainer.env_steps,
            "learner_steps": self.trainer.learner_steps,
            "seconds": self._seconds,
            "rows": self._metrics.rows,
            "wandb_id": self._wandb_id,
            "last_evaluation": self._last_evaluation,
            "finished": finished,
            "ends_at": ends_at(self.config),
            "parameters": _parameters(self.trainer.network),
            "threads": self.config.threads,
            "device": device_of(self.config).type,
        }
        weights = self.trainer.network.state_dict()
        checkpoint.save(
            self.directory.checkpoints, self.trainer.env_steps, weights, self.trainer.get_state(), about
        )
        title = f"{self.config.env}, {self.config.agent}, seed {self.config.seed}"
        ceiling = task_spec(self.config).success_ceiling
        learning_curve(read_rows(self.directory.metrics_file), self.directory.curve, title, ceiling)
        if finished:
            self.directory.write_result(_result_of(about))

    def _introduction(self) -> str:
        config, memory, available = self.config, plan_bytes(self.config), available_bytes()
        machine_has = f" of the machine's {_size(available)}" if available else ""
        threads = "1 thread" if config.threads == 1 else f"{config.threads} threads"
        lines = {
            "task": f"{config.env}, {config.actor.num_envs} copies",
            "agent": f"{config.agent}, {number(_parameters(self.trainer.network))} parameters",
            "memory": ", ".join(f"{name} {_size(size)}" for name, size in memory.items()) + machine_has,
            "replay": f"{number(config.replay.capacity)} steps",
            "device": f"{device_of(config).type}, {threads}",
            "steps": f"{number(config.total_env_steps)} env steps, {number(config.warmup)} of them at random",
            "run": str(self.directory.path),
        }
        if self._resumed:
            lines["resumed"] = f"at {number(self.trainer.env_steps)} env steps"
            if not self.trainer.resume_is_exact:
                lines["resumed"] += ", not exact: with new episodes, as the task's state cannot be saved"
        if unread := config.unread():
            lines["unread"] = f"{', '.join(unread)}: not read, given the other settings"
        return "\n".join(f"{name:<8} {text}" for name, text in lines.items())

    def _result(self) -> str:
        last, best = self._last_evaluation, self._best
        better = ""
        if best and _score(best) > _score(last):
            better = f"; best: {outcome(best)} at {number(best['env_steps'])} (eval --checkpoint best)"
        note = task_spec(self.config).ceiling_note
        return (
            f"done in {clock(self._seconds)}: {outcome(last)} over {last['eval/episodes']} episodes{note} at "
            f"{number(self.trainer.env_steps)} env steps{better}; in {self.directory.path}; "
            f"next: {self.directory.eval_command}"
        )


def _best_summary(figures: Mapping[str, Any]) -> dict[str, Any]:
    """The best weights' evaluation. Keys of their own: W&B's `summary="max"` makes dictionaries."""
    renamed = {f"best/{key.replace('/', '_')}": value for key, value in figures.items()}
    return {key: value for key, value in renamed.items() if value is not None}


def _send_files(tracker: Tracker, directory: RunDir) -> None:
    rows = read_rows(directory.metrics_file)
    pictures = {"learning_curve": directory.curve, "evaluation_film": directory.film}
    pictures = {name: file for name, file in pictures.items() if file.exists()}
    tracker.pictures(len(rows) - 1, rows[-1], pictures)
    tracker.artifact(directory.kept_files())


def _report_finished(config: Config, directory: RunDir, about: Mapping[str, Any], out: TextIO) -> None:
    """Send a finished run to the new run that a W&B sweep has made for the same configuration."""
    rows = read_rows(directory.metrics_file)
    figures = {"parameters": about.get("parameters"), "device_used": device_of(config).type}
    tracker = open_tracker(
        config, directory.path, directory.wandb_id, rows, lambda text: print(text, file=out), figures
    )
    directory.wandb_id = tracker.id
    tracker.summary(_best_summary(checkpoint.best_figures(directory.checkpoints) or {}))
    _send_files(tracker, directory)
    tracker.close()


def _say_finished(directory: RunDir, about: Mapping[str, Any], out: TextIO) -> None:
    print(
        f"{directory.path} has finished at {number(about['env_steps'])} env steps: "
        f"{outcome(about['last_evaluation'])}; a larger --total-env-steps extends it; "
        f"next: {directory.eval_command}",
        file=out,
    )


def _result_of(about: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept beside the run of a finished checkpoint's description."""
    names = ["ends_at", "env_steps", "learner_steps", "seconds", "parameters", "threads", "device"]
    return {name: about.get(name) for name in [*names, "last_evaluation", "program"]}


def _score(evaluation: Mapping[str, Any]) -> float:
    success = evaluation.get("eval/success")
    return float(evaluation["eval/return"] if success is None else success)


def _parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def _size(size: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} TB"


def _short(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
