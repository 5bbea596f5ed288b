"""Kills of workers and of runs at random moments: no run is lost, no process is left, nothing hangs.

    python -m benchmarks.kills [--kills 50] [--seed 1] [--workers 2] [--json FILE]

A short run with workers is hit again and again: a worker is killed or stopped for good, the run itself is
killed or asked to end. After each end of the run it is seen that none of its processes is left, and it is
resumed; once it has finished, another one follows until there were enough kills. Linux only.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.options import parser_of, write
from dtqn.commands import argtypes

HITS = ("kill worker", "stop worker", "kill run", "end run")
PATIENCE_SECONDS = 600.0
"""How long anything that is waited for may take, on a busy machine too."""
FLAGS = {
    "env": "t-maze-passive-2",
    "agent": "gru",
    "total-env-steps": 20_000,
    "warmup-env-steps": 1000,
    "checkpoint-every": 2_000,
    "metrics-every": 500,
    "evaluation.period": 10_000,
    "evaluation.episodes": 10,
    "evaluator": "inline",
    "wandb": "disabled",
    "network.width": 16,
    "network.core.num_layers": 1,
    "learner.batches.size": 4,
    "replay.capacity": 20_000,
    "actor.num_envs": 4,
    "actor.pool": "process",
    "actor.pool.step_timeout": 5,
}


class Endured:
    """A run that is hit."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.folder = folder
        flags = FLAGS | {"actor.pool.num_workers": workers, "run-dir": folder}
        self._start = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
        self._process: subprocess.Popen[bytes] | None = None
        self._log = folder.with_suffix(".log")

    def begin(self) -> subprocess.Popen[bytes]:
        """Start or resume it; returns once it is acting, or over."""
        has_checkpoint = (self.folder / "config.yaml").exists()
        flags = ["--resume", str(self.folder)] if has_checkpoint else self._start
        rows = self.rows
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "dtqn", *flags], stdout=log, stderr=subprocess.STDOUT
            )
        wait(lambda: self.rows != rows or self._ended)
        return self._process

    @property
    def _ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    @property
    def ended_anyway(self) -> bool:
        """Whether a SIGTERM came while Python itself was ending, after the run had finished."""
        finished = (self.folder / "result.json").exists()
        return finished and self._process is not None and self._process.poll() == -signal.SIGTERM

    @property
    def rows(self) -> int:
        """Bytes of metrics so far."""
        file = self.folder / "metrics.jsonl"
        return file.stat().st_size if file.exists() else 0

    @property
    def text(self) -> str:
        """All that it has printed."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def restarts(self) -> int:
        return self.text.count("; started anew, the open episodes of")

    def hit(self, what: str, choice: random.Random) -> list[int]:
        """Do that to the run, and wait until it has shown its effect; processes that it has left behind."""
        assert self._process is not None
        family = [self._process.pid, *children(self._process.pid)]
        if what.endswith("worker"):
            restarts = self.restarts
            number = signal.SIGKILL if what == "kill worker" else signal.SIGSTOP
            with contextlib.suppress(ProcessLookupError):
                os.kill(choice.choice(family[1:]), number)
            wait(lambda: self.restarts > restarts or self._ended)
            return []
        os.kill(self._process.pid, signal.SIGKILL if what == "kill run" else signal.SIGTERM)
        self._process.wait(PATIENCE_SECONDS)
        with contextlib.suppress(TimeoutError):
            wait(lambda: not any(map(alive, family)), 20)
        return [pid for pid in family if alive(pid)]

    def end(self) -> None:
        """Leave nothing behind, however the test went."""
        if self._process is not None and self._process.poll() is None:
            for pid in [*children(self._process.pid), self._process.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()


def endure(hits: Sequence[str], choice: random.Random, folder: Path, workers: int = 2) -> dict[str, Any]:
    """Runs in `folder` that are hit in this order, at random moments, and end where there are no more hits.

    Raises:
        AssertionError: a run was lost, or left a process behind.
        TimeoutError: something hangs.
    """
    began, runs, restarts, left = time.monotonic(), 0, 0, list(hits)
    while left:
        runs += 1
        run = Endured(folder / f"run{runs}", workers)
        try:
            process = run.begin()
            while process.poll() is None and left:
                time.sleep(choice.uniform(0, 2))
                if not children(process.pid):  # it has finished meanwhile
                    break
                orphans = run.hit(what := left.pop(0), choice)
                assert not orphans, f"{what} left {len(orphans)} processes behind"
                print(f"{what}: {len(left)} to go", flush=True)
                if process.poll() in (-signal.SIGKILL, 128 + signal.SIGTERM) or run.ended_anyway:
                    process = run.begin()
            process.wait(PATIENCE_SECONDS)
            assert process.returncode == 0, f"a run was lost: exit code {process.returncode}\n{run.text}"
            restarts += run.restarts
        finally:
            run.end()
    return {"hits": len(hits), "runs": runs, "restarts": restarts, "seconds": time.monotonic() - began}


def children(pid: int) -> list[int]:
    """Processes that a process has started."""
    return [int(child) for task in Path(f"/proc/{pid}/task").glob("*") for child in _children(task)]


def _children(task: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):
        yield from (task / "children").read_text().split()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait(until: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not until():
        if time.monotonic() > deadline:
            raise TimeoutError("a run hangs")
        time.sleep(0.02)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--kills", type=argtypes.positive, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=argtypes.positive, default=2)
    args = parser.parse_args()
    choice = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        hits = [choice.choice(HITS) for _ in range(args.kills)]
        result = endure(hits, choice, Path(folder), args.workers) | {
            "hit": {hit: hits.count(hit) for hit in HITS}
        }
    print(json.dumps(result, indent=2))
    write(args.json, result)


if __name__ == "__main__":
    main()
