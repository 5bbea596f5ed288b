"""Kills at random moments, of runs, of what works beside them, of comparisons and of sweeps: nothing is lost.

    python -m benchmarks.kills [--hits 9] [--cases NAME,...] [--json FILE]

A command, or a process that it has started, is killed, asked to end or stopped. Where it has ended it is
given again, and goes on. Once all is done, its folder is put beside one of the same command that nobody hit.
Linux only.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from benchmarks.checkouts import HERE, commit_of
from benchmarks.options import chosen, one_line_errors, parser_of, write
from dtqn.commands import argtypes
from dtqn.program import worker_environment
from dtqn.text import columns
from dtqn.training import checkpoint, machine
from dtqn.training.metrics import CLOCK_KEYS, read_rows

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP)
PATIENCE_SECONDS = 600.0
"""After so long without news a command counts as hung, on a busy machine too."""
MOST_STARTS = 5
"""A command that ends so often without a hit in between has lost what it was asked for."""
EVERY = 250
_FLAGS = f"""--env t-maze-passive-2 --warmup-env-steps 1000 --checkpoint-every 500 --metrics-every {EVERY}
    --evaluation.period 1000 --evaluation.episodes 10 --wandb disabled --device cpu --threads 1
    --network.width 16 --network.core.num_layers 1 --learner.batches.size 4 --replay.capacity 20000
    --actor.num_envs 4 --runs-dir runs"""
_RUN = f"--resume auto --agent gru --total-env-steps 3000 {_FLAGS}"
_WORKERS = "--evaluator inline --actor.pool.num_workers 2 --actor.pool.step_timeout 10 --actor.pool"
_MANY = f"--out out --jobs 2 --total-env-steps 2000 --evaluator inline {_FLAGS}"
_SWEEP = """method: grid
metric: {name: mean_success, goal: maximize}
parameters: {agent: {value: gru}, learner.n_step: {values: [1, 3]}, seed: {values: [1, 2, 3]}}
"""
_CLOCKS = "minutes|per_second|run_dir"
"""What the clock or the place decides, in lines of tables."""
Found: TypeAlias = tuple[list[Any], list[Any]]
"""Parts, each of which is there once however a run went, and all that it has come to."""
_NOTHING: Found = ([], [])
FIGURES = ("hits", "given again", "replaced", "lost", "different", "left", "hangs", "tracebacks")


class Case(NamedTuple):
    """A command, and whom of it the hits reach."""

    words: str
    child: bool = False
    """A process that it has started, not the command itself."""
    is_replaced: bool = False
    """Who is hit is replaced with new episodes, also where it only says nothing."""
    copies: int = 1
    """So many processes are given the command at once."""
    on_ray: bool = False


CASES = {
    "inline run": Case(f"--evaluator inline {_RUN}"),
    "run with an evaluator": Case(f"--evaluator process {_RUN}"),
    "its evaluator": Case(f"--evaluator process {_RUN}", child=True),
    "run with a pool": Case(f"{_WORKERS} process {_RUN}"),
    "its workers": Case(f"{_WORKERS} process {_RUN}", child=True, is_replaced=True),
    "run with Ray's pool": Case(f"{_WORKERS} ray {_RUN}", on_ray=True),
    "Ray's workers": Case(f"{_WORKERS} ray {_RUN}", child=True, is_replaced=True, on_ray=True),
    "compare of two processes": Case(f"compare --agents gru,lstm --seeds 2 {_MANY}", copies=2),
    "their runs": Case(f"compare --agents gru,lstm --seeds 2 {_MANY}", child=True, copies=2),
    "sweep of two processes": Case(f"sweep sweep.yaml {_MANY}", copies=2),
    "the sweep's runs": Case(f"sweep sweep.yaml {_MANY}", child=True, copies=2),
}


class Endured:
    """A command that is hit, in a folder of its own."""

    def __init__(self, folder: Path, case: Case) -> None:
        self.folder, self.case = folder, case
        self.figures: Counter[str] = Counter()
        self.processes: list[subprocess.Popen[bytes]] = []
        folder.mkdir(parents=True)
        (folder / "sweep.yaml").write_text(_SWEEP)

    def give(self) -> None:
        """Give the command, again where it has ended before all was done."""
        words = [sys.executable, "-m", "dtqn", *self.case.words.split()]
        kept = [process for process in self.processes if process.poll() in (None, 0)]
        self.figures["given again"] += len(self.processes) - len(kept)
        for _ in range(self.case.copies - len(kept)):
            with (self.folder / "printed.log").open("ab") as log:
                about = {"cwd": self.folder, "env": worker_environment(), "stdout": log}
                kept.append(subprocess.Popen(words, stderr=subprocess.STDOUT, **about))  # type: ignore[call-overload]
        self.processes = kept

    def endure(self, hits: list[signal.Signals], choice: random.Random) -> None:
        """Send it these signals at random moments until it is done, or TimeoutError; the others are left."""
        starts = 0
        while starts < MOST_STARTS and not self.is_done:
            self.give()
            starts += 1
            self._let_pass(choice)
            if hits and self.hit(hits[0], choice):
                hits.pop(0)
                starts = 0
            elif not hits:
                wait(lambda: not self._is_working)

    @property
    def is_done(self) -> bool:
        return bool(self.processes) and all(process.poll() == 0 for process in self.processes)

    @property
    def _is_working(self) -> bool:
        return not self.is_done and all(process.poll() in (None, 0) for process in self.processes)

    def _let_pass(self, choice: random.Random) -> None:
        """Some time, mostly after there is something new of its runs."""
        before = self._written()
        if choice.random() < 0.75:
            wait(lambda: self._written() != before or not self._is_working)
        time.sleep(choice.uniform(0, 2))

    def _written(self) -> int:
        return sum(file.stat().st_size for file in self.folder.glob("runs/*/*/*/metrics.jsonl"))

    def hit(self, number: signal.Signals, choice: random.Random) -> bool:
        """Send a signal to the command or to a child of it, and wait for its effect; False: there is none."""
        if not (running := [process for process in self.processes if process.poll() is None]):
            return False
        command = choice.choice(running)
        family = [command.pid, *(actors(os.getpid()) if self.case.on_ray else children(command.pid))]
        if not (victims := family[1:] if self.case.child else family[:1]):
            return False
        victim = choice.choice(victims)
        send(victim, number)
        if self.case.is_replaced and number != signal.SIGTERM:
            wait(lambda: not alive(victim) or command.poll() is not None)
        elif number == signal.SIGSTOP:
            time.sleep(1)
            send(victim, signal.SIGCONT)
        elif victim == command.pid:
            wait(lambda: command.poll() is not None)
            with contextlib.suppress(TimeoutError):
                wait(lambda: not any(map(alive, family)), 60)
            self.figures["left"] += sum(map(alive, family))
        self.figures["hits"] += 1
        return True

    def end(self) -> None:
        """Leave nothing behind, however it went, and count what was printed."""
        for process in self.processes:
            for pid in (*children(process.pid), process.pid):
                send(pid, signal.SIGKILL)
            process.wait()
        printed = [file.read_text(errors="replace") for file in self.folder.rglob("*.log")]
        self.figures["tracebacks"] += sum(text.count("Traceback") for text in printed)
        self.figures["replaced"] += sum(text.count("; restarted, and the open") for text in printed)

    def compare(self, twin: dict[str, Found]) -> None:
        """Count what of the twin's is not here once, and what is not equal to it."""
        found = found_in(self.folder)
        for name in found.keys() | twin.keys():
            ours, theirs = found.get(name, _NOTHING), twin.get(name, _NOTHING)
            self.figures["lost"] += ours[0] != theirs[0]
            self.figures["different"] += ours != theirs and not self.case.is_replaced


def _timeless(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in CLOCK_KEYS}


def found_in(folder: Path) -> dict[str, Found]:
    """What a command has made, by the names of files, without what the clock decides."""
    found: dict[str, Found] = {}
    for file in folder.glob("runs/*/*/*/metrics.jsonl"):
        rows, saved = [_timeless(row) for row in read_rows(file)], file.parent / "checkpoint"
        arrays = [path.read_bytes() for path in sorted(checkpoint.current(saved).glob("*.safetensors"))]
        figures, best = checkpoint.load_weights(saved, "best")
        weights = {key: weight.numpy().tobytes() for key, weight in best.items()}
        once = [
            *(int(row["env_steps"] or 0) // EVERY for row in rows),
            (file.parent / "result.json").exists(),
        ]
        found[str(file.relative_to(folder))] = once, [rows, arrays, _timeless(figures), weights]
    for file in folder.glob("out/*[de]*.[jc]s*"):
        lines = [line for line in file.read_text().splitlines() if not re.search(_CLOCKS, line)]
        found[file.name] = lines, []
    return found


def endured(names: Sequence[str], hits: int, folder: Path) -> dict[str, Counter[str]]:
    """The figures of cases of one command, which is given anew, in another folder, while hits are left."""
    folder, figures = folder / names[0], {name: Counter[str]() for name in names}
    twin = Endured(folder / "twin", CASES[names[0]])
    twin.endure([], random.Random(1))
    for name in names:
        choice = random.Random(name)
        left = [SIGNALS[number % len(SIGNALS)] for number in range(hits)]
        choice.shuffle(left)
        while left:
            one = Endured(folder / f"{name}, {len(left)} left", CASES[name])
            try:
                one.endure(left, choice)
            except TimeoutError:
                one.figures["hangs"] += 1
            finally:
                one.end()
            one.compare(found_in(twin.folder))
            figures[name].update(one.figures)
            if not one.is_done:
                break
    return figures


def _read(file: Path) -> str:
    """A file of a process; empty once it has ended."""
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def children(pid: int) -> list[int]:
    """Processes that a process has started."""
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for file in files for child in _read(file).split()]


def actors(pid: int) -> list[int]:
    """Ray's actors among the processes that descend from one."""
    found = [actor for child in children(pid) for actor in actors(child)]
    return [*found, pid] if _read(Path(f"/proc/{pid}/cmdline")).startswith("ray::_Remote") else found


def alive(pid: int) -> bool:
    return _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2][1:2] not in ("", "Z")


def send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def wait(until: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not until():
        if time.monotonic() > deadline:
            raise TimeoutError("a command hangs")
        time.sleep(0.02)


def cluster() -> Any:
    """A Ray on this machine, for commands that are started here; what ends it."""
    from ray.cluster_utils import Cluster

    about = {"num_cpus": 2, "include_dashboard": False, "object_store_memory": 80 << 20}
    ray: Any = Cluster(initialize_head=True, head_node_args=about)
    os.environ["RAY_ADDRESS"] = ray.address
    return ray.shutdown


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--hits", type=argtypes.positive, default=9, help="of each case; default %(default)s")
    parser.add_argument("--cases", default=",".join(CASES), metavar="NAME,...")
    parser.add_argument("--jobs", type=argtypes.positive, default=3, help="commands at a time")
    args = parser.parse_args(arguments)
    groups: dict[str, list[str]] = {}
    for name in chosen("--cases", args.cases, CASES):
        groups.setdefault(CASES[name].words, []).append(name)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if any(CASES[name].on_ray for names in groups.values() for name in names):
            stack.callback(cluster())
        threads = stack.enter_context(ThreadPoolExecutor(args.jobs))
        cases: dict[str, Counter[str]] = {}
        for made in threads.map(lambda names: endured(names, args.hits, folder), groups.values()):
            cases |= made
            rows = [[name, *(str(case[figure]) for figure in FIGURES)] for name, case in cases.items()]
            print("", *columns([["", *FIGURES], *rows]), sep="\n", flush=True)
            write(args.json, {"machine": machine.name(), "commit": commit_of(HERE), "cases": cases})


if __name__ == "__main__":
    raise SystemExit(main(None))
