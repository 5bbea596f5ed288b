"""Learner updates of this checkout beside those of another one, say of an earlier commit, in turns.

    git worktree add ../before b129e82
    python -m benchmarks.checkouts ../before [--seconds S] [--json FILE] [--SETTING VALUE ...]

Each side is a run's learner as its settings make it (`--new.threads 2`: with the process beside it), on
batches of its own replay, which its random steps have filled. Settings are for both sides; those that begin
with `new.`, such as `--new.learner.precision bfloat16`, are for this one alone. The machine must be idle, as
seconds are of the clock.
The other checkout must have `machine`, `trainer_of`, `Turns` and `rate` in `benchmarks/agent.py`.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CHUNKS, FILL_ENV_STEPS = 9, 20_000
HERE = Path(__file__).resolve().parents[1]


def serve(flags: Mapping[str, str]) -> None:
    """The process of a side: for each number of seconds on standard input, updates per second."""
    import torch

    from benchmarks.agent import Turns, machine, rate, trainer_of

    machine.prepare()
    torch.manual_seed(0)
    try:
        turns = Turns(trainer_of(FILL_ENV_STEPS, **flags))
    except ValueError as error:  # settings that this side does not have
        sys.exit(f"error: {error}")
    rate(turns.update, 1.0)
    print("ready", flush=True)
    for seconds in sys.stdin:
        print(rate(turns.update, float(seconds))[1], flush=True)


class Side:
    """A checkout's learner in a process of its own."""

    def __init__(self, checkout: Path, flags: Mapping[str, str]) -> None:
        self._name = checkout.name
        environment = os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
        words, pipe = [sys.executable, "-P", __file__, "--serve", json.dumps(flags)], subprocess.PIPE
        self._process = subprocess.Popen(
            words, cwd=checkout, env=environment, stdin=pipe, stdout=pipe, text=True
        )
        while (line := self._answer()) != "ready":
            print(f"{self._name}: {line}")

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"error: the learner of {self._name} has ended")
        return line.strip()

    def rate(self, seconds: float) -> float:
        """Updates per second."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        return float(self._answer())

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def commit_of(checkout: Path) -> str:
    command = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def measure(before: Path, seconds: float, both: Mapping[str, str], new: Mapping[str, str]) -> dict[str, Any]:
    """Milliseconds of an update, medians over chunks of `seconds / CHUNKS`, and the ratio chunk by chunk."""
    from dtqn.training import machine

    sides = [Side(before.resolve(), both), Side(HERE, {**both, **new})]
    try:
        pairs = [[side.rate(seconds / CHUNKS) for side in sides] for _ in range(CHUNKS)]
    finally:
        for side in sides:
            side.close()
    old_rates, new_rates = zip(*pairs, strict=True)
    return {
        "machine": machine.name(),
        "settings": {**both, **{f"new.{name}": value for name, value in new.items()}},
        "commits": {"before": commit_of(before), "new": commit_of(HERE)},
        "before_ms": 1000 / statistics.median(old_rates),
        "new_ms": 1000 / statistics.median(new_rates),
        "time_over_before": statistics.median(old / new for old, new in pairs),
    }


def main() -> None:
    from benchmarks.options import parser_of, settings_of, write
    from dtqn.settings.config import ConfigError

    parser = parser_of(__doc__)
    parser.add_argument("before", type=Path, help="the other checkout")
    parser.add_argument("--seconds", type=float, default=30.0, help="for each side")
    args, rest = parser.parse_known_args()
    if not (args.before / "benchmarks" / "agent.py").is_file():
        sys.exit(f"error: {args.before} is no checkout of this repository: it has no benchmarks/agent.py")
    try:
        settings = settings_of(rest)
    except ConfigError as error:
        sys.exit(f"error: {error}")
    new = {name.removeprefix("new."): value for name, value in settings.items() if name.startswith("new.")}
    both = {name: value for name, value in settings.items() if not name.startswith("new.")}
    result = measure(args.before, args.seconds, both, new)
    print("\n".join(f"{name:<18}{value}" for name, value in result.items()))
    write(args.json, result)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(json.loads(sys.argv[2]))
    else:
        main()
