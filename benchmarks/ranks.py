"""Learner updates and env steps a second of one process and of several ranks, with the same settings.

    python -m benchmarks.ranks [--ranks 2] [--rounds 3] [--updates 100] [--json FILE] [--SETTING X ...]

One process and the ranks take turns, round by round, on a machine that does nothing else. A run's settings
mean the same however many ranks it has, so both do the same work.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.options import write
from dtqn.commands import argtypes
from dtqn.program import launch
from dtqn.ranks import ALONE, Group
from dtqn.settings.presets import resolve
from dtqn.text import counted
from dtqn.training import machine
from dtqn.training.trainer import Trainer

_WARM_UP = 5
"""Updates before the clock starts."""


def timed(flags: dict[str, str], updates: int) -> dict[str, float]:
    """Figures of so many updates of this process, or of the run that it is a rank of, acting included."""
    machine.prepare()
    ranks = Group() if launch().ranks > 1 else ALONE
    trainer = Trainer(resolve(None, flags | {"evaluator": "inline", "threads": "1"}, {}), ranks)
    while trainer.learner_steps < _WARM_UP:
        trainer.advance()
    env_steps, learner_steps, began = trainer.env_steps, trainer.learner_steps, time.perf_counter()
    while trainer.learner_steps < learner_steps + updates:
        trainer.advance()
    seconds = time.perf_counter() - began
    return {
        "updates_per_second": (trainer.learner_steps - learner_steps) / seconds,
        "env_steps_per_second": (trainer.env_steps - env_steps) / seconds,
    }


def measure(ranks: int, rounds: int, updates: int, settings: list[str]) -> dict[str, Any]:
    """The medians over rounds, and the ratio of the ranks' updates a second to those of one process."""
    own = ["-m", "benchmarks.ranks", "--child", "--updates", str(updates), *settings]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    commands = {"one": [sys.executable, *own], "ranks": [*torchrun, *own]}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            found[name].append(json.loads(printed))
    medians = {
        name: {
            figure: statistics.median(row[figure] for row in rows)
            for figure in ("updates_per_second", "env_steps_per_second")
        }
        for name, rows in found.items()
    }
    ratio = medians["ranks"]["updates_per_second"] / medians["one"]["updates_per_second"]
    return {"ranks": ranks, "settings": settings, "machine": machine.name(), "ratio": ratio, **medians}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ranks", type=argtypes.positive, default=2)
    parser.add_argument("--rounds", type=argtypes.positive, default=3)
    parser.add_argument("--updates", type=argtypes.positive, default=100)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args, settings = parser.parse_known_args()
    if args.child:
        flags = {
            name.removeprefix("--"): value for name, value in zip(settings[::2], settings[1::2], strict=True)
        }
        figures = timed(flags, args.updates)
        if launch().rank == 0:
            print(json.dumps(figures), flush=True)
        return
    result = measure(args.ranks, args.rounds, args.updates, settings)
    for name, count in (("one", 1), ("ranks", args.ranks)):
        figures = result[name]
        print(
            f"{counted(count, 'rank')}: {figures['updates_per_second']:.2f} updates/s, "
            f"{figures['env_steps_per_second']:.0f} env steps/s"
        )
    print(f"ratio {result['ratio']:.2f}")
    write(args.json, result)


if __name__ == "__main__":
    main()
