"""Trainings as jobs of Slurm, through submitit: one array for those that need the same.

A job that is preempted, or whose time is up, has its training write a checkpoint and is queued again by the
same number. `SlurmHandle.end` sends a SIGINT, which nothing else in Slurm does.
"""

from __future__ import annotations

import contextlib
import getpass
import io
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import submitit
from submitit.core.utils import FailedJobError, FailedSubmissionError, UncompletedJobError

from dtqn.experiments.launcher import Command, Launcher, Needs
from dtqn.experiments.local_launcher import Process
from dtqn.settings.config import Config, ConfigError, wrong
from dtqn.text import one_line

_MINUTES = 240
"""Time of a job that is given none; a training that needs more is queued again."""
_MOST_TIMEOUTS = 10_000
_OURS = ("array", "output", "error", "signal", "open_mode", "requeue")
"""Options of sbatch that the launcher sets."""
_LOOK_SECONDS, _ENDING_LOOK_SECONDS = 10.0, 1.0
_ABSENT_SECONDS = 30.0
"""How long a job is awaited that is in no queue and has left no result: file systems of clusters are slow."""
_ATTEMPTS = 6
_BUSY = re.compile(r"timed out|Unable to contact|temporarily|Resource busy", re.IGNORECASE)


class Training:
    """The job that Slurm runs: the training's process, and the effect of signals on it."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self._process: Process | None = None
        self._code: int | None = None

    def __call__(self) -> int:
        """The exit code of the training, if it has ended by itself or by `SlurmHandle.end`."""
        signal.signal(signal.SIGTERM, self._terminated)
        signal.signal(signal.SIGINT, lambda number, frame: self._ask())
        self._process = Process(self.command.here())
        threading.Thread(target=self._wait, args=(self._process,), daemon=True).start()
        return self._ended()

    def _wait(self, process: Process) -> None:
        self._code = process.wait()

    def _ask(self) -> None:
        """Let it save and end. Slurm may have sent it a SIGTERM too, with which a SIGUSR1 does no harm."""
        if self._process is not None:
            self._process.end(signal.SIGUSR1)

    def _ended(self) -> int:
        """The exit code, once there is one. No lock: a signal's handler may come amid the same wait."""
        while self._process is not None and self._code is None:
            time.sleep(0.05)
        return self._code or 0

    def checkpoint(self) -> submitit.helpers.DelayedSubmission:
        """The submission that submitit queues again before the time is up, or when the job is preempted."""
        self._ask()
        self._ended()
        return submitit.helpers.DelayedSubmission(Training(self.command))

    def _terminated(self, number: int, frame: FrameType | None) -> None:
        """Slurm takes the machine: it has queued or cancelled the job already, or it gives a time of grace.

        A job that ends in its time of grace counts as failed, so it is queued again from here.
        """
        self._ask()
        self._ended()
        if _state_here() == "RUNNING":
            signal.raise_signal(getattr(signal, f"SIG{submitit.JobEnvironment.USR_SIG}"))
        sys.exit(128 + number)


def _state_here() -> str:
    """Slurm's word for the job that this process is in; empty where that is not known."""
    numbers = (os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID"))
    job = "_".join(filter(None, numbers)) or os.environ.get("SLURM_JOB_ID", "")
    return (_output("squeue", "-h", "-j", job, "-o", "%T") or "").strip()


def _output(*command: str) -> str | None:
    """The output of a command; None where it fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None


class _Queue:
    """This user's jobs as Slurm knows them, asked for by one command for all of them."""

    def __init__(self) -> None:
        self._jobs: dict[str, tuple[str, str]] = {}
        self.looked_at = self._asked_at = -float("inf")
        self.hurry = False

    def answers(self) -> bool:
        """Whether there is a Slurm to be asked."""
        self._look()
        return self.looked_at == self._asked_at

    def find(self, job_id: str) -> tuple[str, str] | None:
        """The job's state and node; None where it is in no queue."""
        pause = _ENDING_LOOK_SECONDS if self.hurry else _LOOK_SECONDS
        if time.monotonic() - self._asked_at > pause:
            self._look()
        return self._jobs.get(job_id)

    def _look(self) -> None:
        self._asked_at = began = time.monotonic()
        answer = _output("squeue", "-h", "-r", "-u", getpass.getuser(), "-o", "%i|%T|%N")
        if answer is not None:  # else Slurm is busy, and what it said before holds
            lines = [line.split("|") for line in answer.splitlines()]
            self._jobs = {job_id: (state, node) for job_id, state, node in lines}
            self.looked_at = began


class SlurmHandle:
    """A job of Slurm."""

    def __init__(self, job: submitit.Job[int], queue: _Queue, command: Command) -> None:
        self._job, self._queue = job, queue
        self._log = command.log
        self._submitted = self._seen = time.monotonic()
        self.where: str | None = None
        self._code: int | None = None
        self._asked = False
        self.lost = False

    def poll(self) -> int | None:
        if self._code is None and self._job.paths.result_pickle.exists():
            self._code = self._result()
        elif self._code is None:
            self._look()
        return self._code

    def _result(self) -> int:
        try:
            return self._job.result()
        except (FailedJobError, UncompletedJobError) as error:  # of the job; a training's failure is a code
            lines = [
                line for line in str(error).splitlines() if re.match(r"\w+(\.\w+)*(Error|Exception)", line)
            ]
            self._note(lines[-1] if lines else error)
            return 1

    def _note(self, text: object) -> None:
        """Add a line to where the training's own error would be."""
        with self._log.open("a") as log:
            print(f"Slurm job {self._job.job_id}: {one_line(text, 300)}", file=log)

    def _look(self) -> None:
        found = self._queue.find(self._job.job_id)
        now = time.monotonic()
        if found is not None:
            self._seen, self.where = now, found[1] if found[0] == "RUNNING" else None
        elif self._queue.looked_at > self._submitted:
            patience = 0.0 if self._asked and self.where is None else _ABSENT_SECONDS
            if now - self._seen > patience:
                self._code = self._verdict()

    def _verdict(self) -> int:
        """The end of a job that has left no result."""
        told = _output("scontrol", "show", "job", "-o", self._job.job_id) or ""
        facts = dict(re.findall(r"(JobState|ExitCode)=(\S+)", told))
        state = facts.get("JobState", "")
        self.lost = state in ("NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "TIMEOUT", "DEADLINE")
        code, _, number = facts.get("ExitCode", "0:0").partition(":")
        if state == "FAILED" and code.isdigit() and int(code):
            self._note_last_line()
            return int(code)
        if state == "CANCELLED":
            return -int(signal.SIGTERM)
        return -(int(number) if number.isdigit() and int(number) else int(signal.SIGKILL))

    def _note_last_line(self) -> None:
        """Note what the job itself printed last."""
        text = self._job.paths.stdout.read_text(errors="replace") if self._job.paths.stdout.exists() else ""
        lines = [line for line in text.splitlines() if line.strip()]
        self._note(lines[-1] if lines else "no output")

    def end(self) -> None:
        self._asked = self._queue.hurry = True
        subprocess.run(["scancel", "--state=PENDING", self._job.job_id], capture_output=True)
        subprocess.run(["scancel", "--signal=INT", self._job.job_id], capture_output=True)

    def kill(self) -> None:
        self._job.cancel(check=False)
        self._code = -int(signal.SIGKILL)


class SlurmLauncher(Launcher):
    """The Slurm of this machine, which must share the folder of the runs with its nodes."""

    def __init__(self, folder: Path, options: Mapping[str, str]) -> None:
        """
        Args:
            folder: for submitit's files.
            options: of sbatch, by name, and `max_num_timeout`, `array_parallelism`, `signal_delay_s` and
                `setup` of submitit.

        Raises:
            ConfigError: where there is no Slurm, or an option is wrong.
        """
        if shutil.which("sbatch") is None:
            raise ConfigError(
                "--launcher is slurm: there is no sbatch here; start it where jobs are submitted"
            )
        self._folder, self._options = folder, dict(options)
        for name in _OURS:
            if name in options:
                raise wrong(f"--slurm.{name}", options[name], "leave it out: the launcher sets it")
        self._minutes = _minutes(self._options.pop("time", str(_MINUTES)))
        self._most_timeouts = _count("max_num_timeout", self._options, _MOST_TIMEOUTS)
        self._own = {
            name: _count(name, self._options, default)
            for name, default in (("array_parallelism", 256), ("signal_delay_s", 90))
        }
        self._setup = [self._options.pop("setup")] if "setup" in self._options else []
        self._queue = _Queue()
        if not self._queue.answers():
            raise ConfigError("--launcher is slurm: no Slurm answers here (squeue fails)")

    def start(self, works: Sequence[tuple[Command, Config]]) -> list[SlurmHandle]:
        commands = [command.for_another_machine() for command, _ in works]
        needs = [Needs.of(config) for _, config in works]
        handles: dict[int, SlurmHandle] = {}
        for need in dict.fromkeys(needs):
            alike = [index for index, other in enumerate(needs) if other == need]
            jobs = self._submit([commands[index] for index in alike], need)
            for index, job in zip(alike, jobs, strict=True):
                handles[index] = SlurmHandle(job, self._queue, commands[index])
        return [handles[index] for index in range(len(works))]

    def _submit(self, commands: Sequence[Command], needs: Needs) -> list[submitit.Job[int]]:
        """One job, or an array of several."""
        executor = submitit.AutoExecutor(
            self._folder, cluster="slurm", slurm_max_num_timeout=self._most_timeouts
        )
        executor.update_parameters(**dict(self._parameters(commands[0], needs)))
        # sbatch hands on this process's environment, with the keys that are in it and belong in no file.
        plain = [_without_wandb(command) for command in commands]
        for attempt in range(_ATTEMPTS):
            said = io.StringIO()
            try:
                with contextlib.redirect_stderr(said), executor.batch():  # submitit prints what sbatch says
                    jobs = [executor.submit(Training(command)) for command in plain]
                return jobs
            except (FailedJobError, FailedSubmissionError, OSError, ValueError) as error:
                text = f"{said.getvalue()}\n{error}"
                if attempt == _ATTEMPTS - 1 or not _BUSY.search(text):
                    lines = [line for line in text.splitlines() if line.strip()]
                    first = next((line for line in lines if "error" in line), lines[0])
                    raise ConfigError(f"--launcher is slurm: {one_line(first, 300)}") from None
                time.sleep(2.0**attempt)
        raise AssertionError

    def _parameters(self, command: Command, needs: Needs) -> Iterator[tuple[str, Any]]:
        given = self._options
        yield "name", "dtqn"
        yield "timeout_min", self._minutes
        yield "cpus_per_task", needs.cpus
        yield "stderr_to_stdout", True
        if not given.keys() & {"mem", "mem_per_cpu", "mem_per_gpu"}:
            yield "mem_gb", needs.memory_gigabytes
        if needs.gpus and "gres" not in given and not any(name.startswith("gpus") for name in given):
            yield "gpus_per_node", int(needs.gpus)
        path = f"export PYTHONPATH={shlex.quote(command.environment['PYTHONPATH'])}"
        yield "slurm_setup", [*self._setup, path]
        for name, value in self._own.items():
            yield f"slurm_{name}", value
        others = {"requeue": True} | {
            name: True if value == "true" else value for name, value in given.items()
        }
        yield "slurm_additional_parameters", others


def _without_wandb(command: Command) -> Command:
    kept = {name: value for name, value in command.environment.items() if not name.startswith("WANDB_")}
    return command._replace(environment=kept)


def _count(name: str, options: dict[str, str], default: int) -> int:
    text = options.pop(name, str(default))
    if not text.isdigit() or int(text) < 1:
        raise wrong(f"--slurm.{name}", text, "must be an integer of at least 1")
    return int(text)


def _minutes(text: str) -> int:
    """Minutes of a time as sbatch takes it: minutes, M:S, H:M:S, D-H, D-H:M or D-H:M:S."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", text)
    if match is None:
        raise wrong("--slurm.time", text, "must be minutes, H:M:S or D-H:M:S")
    days, first, second, third = (int(part or 0) for part in match.groups())
    if match[1] is not None:
        minutes = (24 * days + first) * 60 + second + (third > 0)
    elif match[4] is not None:
        minutes = 60 * first + second + (third > 0)
    else:
        minutes = first + (second > 0)
    if minutes < 1:
        raise wrong("--slurm.time", text, "must be a minute at least")
    return minutes
