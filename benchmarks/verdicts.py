"""Whether the debugger's verdicts are right: tasks that need memory and tasks that do not.

    python -m benchmarks.verdicts [--tasks lamp,taxi] [--json docs/benchmarks/verdicts.json]

For each task a gtrxl agent is trained, and two agents without memory of the same encoder, head and budget:
one that sees the observation alone, and one that sees the previous action and reward too. Where memory turns
out to be needed, agents without memory that see stacks of 2, 4 and 16 steps say how much. The best weights of
all are played again for the verdicts (docs/debug.md).

Work in the folder is kept: a run that was interrupted goes on, a task that is done is read.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import envs
from benchmarks.options import chosen, one_line_errors, parser_of, write
from dtqn.inspection import trials
from dtqn.training import machine
from dtqn.training.directory import RunDir

EPISODES = 300
SEED = 1
STACKS = (2, 4, 16)
_AGENT = ["--agent", "gtrxl"]
_MEMORYLESS = ["--agent", "dqn", "--network.dueling", "true"]
_PREVIOUS = ["--network.encoder.use_prev_action", "true", "--network.encoder.use_prev_reward", "true"]
_RIVALS = {"none": _MEMORYLESS, "none-with-previous": [*_MEMORYLESS, *_PREVIOUS]}


class Case(NamedTuple):
    env: str
    env_steps: int
    needs: str
    """The right answer."""
    flags: Sequence[str] = ()
    most_steps: int | None = None
    """The longest stack that has to do where memory is needed; None: any, or none."""


_LAMP = "benchmarks.verdict_tasks:Lamp"
CASES = {
    "lamp": Case(_LAMP, 40_000, "yes"),
    "lamp-20": Case(_LAMP, 200_000, "yes", ["--task.kwargs", "{delay: 20}"]),
    "lamp-shown-again": Case(_LAMP, 40_000, "no", ["--task.kwargs", "{shown_again: true}"]),
    "memory-size-3": Case("bsuite-memory-size-3", 40_000, "yes"),
    "memory-size-5": Case("bsuite-memory-size-5", 40_000, "yes"),
    "t-maze-passive-5": Case("t-maze-passive-5", 60_000, "yes"),
    "t-maze-passive-10": Case("t-maze-passive-10", 100_000, "yes"),
    "t-maze-passive-20": Case("t-maze-passive-20", 100_000, "yes"),
    "repeat-previous": Case("popgym-repeat-previous-easy", 100_000, "yes"),
    "memory-cards": Case("memory-cards", 100_000, "yes"),
    # The beacon and an exit can be in view at once (docs/tasks/gridverse.md).
    "gridverse-5x5": Case("gridverse-memory-5x5", 200_000, "no"),
    "gridverse-7x7": Case("gridverse-memory-7x7", 150_000, "yes"),
    "cart-pole": Case("CartPole-v1", 100_000, "no"),
    "cart-pole-hidden": Case("CartPole-v1", 100_000, "yes", ["--task.hide", "1,3"], most_steps=4),
    "frozen-lake": Case("FrozenLake-v1", 100_000, "no"),
    "taxi": Case("Taxi-v4", 150_000, "no"),
}


def train(case: Case, flags: Sequence[str], folder: Path, env_steps: int) -> float:
    """Train a run, or the rest of it; the seconds that this took."""
    began = time.perf_counter()
    if (folder / "result.json").exists():
        return 0.0
    if (folder / "config.yaml").exists():
        asked = ["--resume", str(folder)]
    else:
        budget = ["--total-env-steps", str(env_steps), "--seed", str(SEED)]
        if envs.spec(case.env).has_success:
            budget += ["--stop-at-success", "0.95"]
        asked = ["--env", case.env, *case.flags, *flags, *budget, "--run-dir", str(folder)]
        asked += ["--wandb", "disabled", "--threads", "1"]
    folder.parent.mkdir(parents=True, exist_ok=True)
    log = folder.parent / f"{folder.name}.log"
    with log.open("a") as file:
        done = subprocess.run([sys.executable, "run.py", *asked], stdout=file, stderr=file)
    if done.returncode:
        raise SystemExit(f"{log}: {log.read_text().splitlines()[-1]}")
    return time.perf_counter() - began


def verdicts(folder: Path, rivals: Sequence[str], episodes: int) -> dict[str, Any]:
    """Those of the agent in a task's folder beside these rivals, by their names."""
    asked = trials.Asked(episodes, 0, SEED, "best", [folder / name for name in rivals])
    return trials.verdicts(*trials.subject(RunDir(folder / "agent"), asked), asked)


def measure(name: str, out: Path, episodes: int = EPISODES) -> dict[str, Any]:
    """A task's runs and verdicts, from the folder where they are done."""
    case, folder = CASES[name], out / name
    file = folder / "verdict.json"
    if file.exists():
        found: dict[str, Any] = json.loads(file.read_text())
        return found
    seconds = {"agent": train(case, _AGENT, folder / "agent", case.env_steps)}
    for rival, flags in _RIVALS.items():
        seconds[rival] = train(case, flags, folder / rival, case.env_steps)
    of = verdicts(folder, list(_RIVALS), episodes)
    if of["needs_memory"].answer == "yes":
        for stack in STACKS:
            flags = [*_MEMORYLESS, "--task.frame_stack", str(stack)]
            seconds[f"stack-{stack}"] = train(case, flags, folder / f"stack-{stack}", case.env_steps)
        of = verdicts(folder, [*_RIVALS, *(f"stack-{stack}" for stack in STACKS)], episodes)
    found = told(case, of, folder) | {"seconds": {rival: round(x) for rival, x in seconds.items()}}
    write(file, found)
    return found


def told(case: Case, of: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The file's content for a task."""
    needs, uses = of["needs_memory"], of["uses_memory"]
    short = case.most_steps is None or (needs.stack is not None and needs.stack <= case.most_steps)
    best = max(of["memoryless"], key=lambda run: of["memoryless"][run].value)
    return {
        "env": case.env,
        "flags": list(case.flags),
        "right_answer": case.needs,
        "needs_memory": needs.answer,
        "right": needs.answer == case.needs and short,
        "stack": needs.stack,
        "because": needs.because.replace(f"{folder}/", ""),
        "uses_memory": uses.answer,
        "score": of["score"],
        "random": of["random"],
        "memoryless": of["memoryless"][best],
        "best_memoryless": best.replace(f"{folder}/", ""),
        "stacked": of["stacked"],
    }


def line(name: str, found: Mapping[str, Any]) -> str:
    right = "right" if found["right"] else "WRONG"
    minutes = sum(found["seconds"].values()) / 60
    return (
        f"{right}: {name} needs memory: {found['needs_memory']} ({found['because']}); "
        f"it uses its memory: {found['uses_memory']}; trained in {minutes:.1f} min"
    )


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/verdicts"), help="folder of the runs")
    parser.add_argument("--tasks", default=",".join(CASES), metavar="NAME,...")
    args = parser.parse_args(arguments)
    for name in chosen("--tasks", args.tasks, CASES):
        print(line(name, measure(name, args.out)), flush=True)
    done = {name: measure(name, args.out) for name in CASES if (args.out / name / "verdict.json").exists()}
    print(f"{sum(found['right'] for found in done.values())} of {len(done)} verdicts are right")
    write(args.json, {"machine": machine.name(), "tasks": done})


if __name__ == "__main__":
    raise SystemExit(main())
