"""The main job for several seeds, and each run's greedy success over 500 episodes on seeds of their own.

    python -m benchmarks.learning [--seeds 1 2 3 4 5] [--jobs 1] [--folder runs/learning] [--json FILE]

Every run is `python run.py --env gridverse-memory-7x7 --seed K` with default settings; one that the
folder holds already is not run again, one that was interrupted goes on. A run is solved at the first of two
successive evaluations with 95 % success or more, that one of 500 episodes; all minutes are from the start of
training, evaluations and pictures included.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.options import write
from dtqn.commands import argtypes
from dtqn.experiments.compare import train
from dtqn.experiments.jobs import Job
from dtqn.settings.presets import resolve
from dtqn.training import machine
from dtqn.training.directory import RunDir
from dtqn.training.metrics import is_full_evaluation, read_rows
from dtqn.training.setup import device_of

TASK, SOLVED = "gridverse-memory-7x7", 0.95


def solved_at(evaluations: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The first full evaluation that reaches `SOLVED`, as the next one of any length does too."""
    for row, following in pairwise(evaluations):
        if is_full_evaluation(row) and min(row["eval/success"], following["eval/success"]) >= SOLVED:
            return row
    return None


def measure(job: Job) -> dict[str, Any]:
    """Evaluate what a run ended with."""
    directory = job.directory
    command = [sys.executable, "run.py", "eval", str(directory.path), "--episodes", "500", "--seed", "7"]
    command += ["--checkpoint", "last", "--json"]
    result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    rows: list[dict[str, Any]] = read_rows(directory.metrics_file)
    solved = solved_at([row for row in rows if row.get("eval/success") is not None])
    return {
        **result,
        "seed": job.config.seed,
        "env_steps": rows[-1]["env_steps"],
        "learner_steps": rows[-1]["learner_steps"],
        "minutes": round(rows[-1]["seconds"] / 60, 2),
        "solved_at_env_steps": solved["env_steps"] if solved else None,
        "solved_at_learner_steps": solved["learner_steps"] if solved else None,
        "solved_at_minutes": round(solved["seconds"] / 60, 2) if solved else None,
    }


def _job(folder: Path, seed: int) -> Job:
    directory = RunDir(folder / f"seed{seed}")
    directory.prepare(resolve(None, {"env": TASK, "seed": seed, "wandb": "disabled"}, {}))
    return Job(f"seed {seed}", directory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=argtypes.natural, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--jobs", type=argtypes.positive, default=1, help="runs at a time, one thread each")
    parser.add_argument("--folder", type=Path, default=Path("runs/learning"))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    args = parser.parse_args()
    jobs = [_job(args.folder, seed) for seed in args.seeds]
    train(jobs, args.jobs, sys.stdout)
    unfinished = [f"{job.name} {job.state}" for job in jobs if job.state != "finished"]
    if unfinished:
        sys.exit(f"{', '.join(unfinished)}; the same command goes on")
    results = [measure(job) for job in jobs]
    for result in results:
        print(
            f"seed {result['seed']}: success {result['success']:.1%} "
            f"[{result['success_low']:.1%}, {result['success_high']:.1%}] after "
            f"{result['env_steps']:,} env steps and {result['minutes']:.1f} minutes; "
            f"solved at {result['solved_at_env_steps']} env steps, "
            f"{result['solved_at_learner_steps']} updates and {result['solved_at_minutes']} minutes"
        )
    for name in ("minutes", "solved_at_env_steps", "solved_at_learner_steps", "solved_at_minutes"):
        print(f"median {name}: {statistics.median(result[name] or math.inf for result in results):,}")
    device = device_of(jobs[0].config).type
    write(args.json, {"jobs": args.jobs, "machine": machine.name(device), "runs": results})


if __name__ == "__main__":
    main()
