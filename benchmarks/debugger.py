"""The debugger's figures for several runs, without the maps, and the seconds that each took.

    python -m benchmarks.debugger RUN... [--episodes 100] [--json FILE]

`untrained` is a network of initial parameters on the first run's task, debugged in the same way: the findings
on an agent that remembers nothing. Another control is an agent that has learned where the cue tells nothing:

    python run.py --config configs/families/gridverse-memory.yaml --env benchmarks.shuffled:Shuffled

`bars` says of each run what it has to show; a control has to fail some of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.options import parser_of, write
from dtqn.commands import argtypes
from dtqn.settings.presets import resolve
from dtqn.training import machine
from dtqn.training.directory import RunDir

_NO_FIGURES = ("maps", "contracts")


LEAST_CHANGED, MOST_BY_OTHERS, LEAST_SHARE, LEAST_OTHER_WAY = 0.95, 0.05, 3.0, 0.95


def bars(found: dict[str, Any]) -> dict[str, bool]:
    """Signs of an agent that uses the cue, by the values of its debug.json."""
    figures = {
        name: one["value"]
        for name, one in [*found.get("cue", {}).items(), *found["dependence"].items()]
        if one
    }
    changed = figures.get("changes_the_last_decision", 0.0)
    by_others = figures.get("other_rows_change_the_last_decision", 1.0)
    share = figures.get("cue_times_its_share", 0.0)
    other_way = 1 - figures.get("score_when_the_other_is_shown", 1.0)
    return {
        "the other cue changes the last decision": changed >= LEAST_CHANGED,
        "as many other rows do not": by_others <= MOST_BY_OTHERS,
        "the cue's rows hold more than their share": share >= LEAST_SHARE,
        "it goes one way, and shown the other cue the other": min(found["score"]["value"], other_way)
        >= LEAST_OTHER_WAY,
        "it uses its memory": found["uses_memory"]["answer"] == "yes",
    }


def figures(run: Path, episodes: int) -> dict[str, Any]:
    """The debug.json of a run without its maps; `broken` names the contracts that do not hold."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        command = [sys.executable, "run.py", "debug", str(run), "--episodes", str(episodes), "--out", folder]
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - began
        file = Path(folder) / "debug.json"
        if not file.exists():
            sys.exit(2)  # the command has told why
        found = json.loads(file.read_text())
    kept = {name: value for name, value in found.items() if name not in _NO_FIGURES}
    broken = [check["name"] for check in found["contracts"] if not check["holds"]]
    told = {"run": str(run), "bars": bars(found), "broken": broken, "seconds": round(seconds, 1)}
    return told | kept


def untrained(like: Path, folder: Path) -> Path:
    """A run of the same task and agent that ends before it has learned anything."""
    config = RunDir(like).read_config()
    flags = {"total_env_steps": "100", "warmup_env_steps": "0", "evaluation.period": "100"}
    flags |= {"evaluation.episodes": "10", "wandb": "disabled", "learner.batches.env_steps_per_update": "100"}
    base = resolve(None, {"env": config.env, "agent": config.agent, "seed": str(config.seed)} | flags, {})
    directory = RunDir(folder / "untrained")
    directory.prepare(base)
    command = [sys.executable, "run.py", "--resume", str(directory.path)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return directory.path


def line(found: dict[str, Any]) -> str:
    """What a run lacks of an agent that uses the cue; the file has its figures."""
    fails = ", ".join(name for name, holds in found["bars"].items() if not holds) or "none"
    return f"{found['run']}: score {found['score']['value']:.3g}; {found['seconds']} s; fails: {fails}"


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--episodes", type=argtypes.several, default=100)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = [figures(run, args.episodes) for run in args.runs]
        found.append(figures(untrained(args.runs[0], Path(folder)), args.episodes) | {"run": "untrained"})
    for each in found:
        print(line(each))
    write(args.json, {"machine": machine.name(), "runs": found})


if __name__ == "__main__":
    main()
