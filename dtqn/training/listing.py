"""The runs that lie in a folder, which may be somebody else's: where each is, and what it came to."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dtqn.files import fault
from dtqn.settings import presets
from dtqn.settings.config import ConfigError
from dtqn.settings.names import name_of
from dtqn.text import columns, number, one_line, shortened
from dtqn.training.directory import RunDir
from dtqn.training.metrics import is_evaluation, outcome, read_run

Found = dict[str, Any]
"""A run as JSON has it: `run_dir`, `task`, `agent` (with `+` before each setting that is not its preset's),
`seed`, `state` (finished, running, stopped or exported), `env_steps` of `total_env_steps`, the figures of the
last `evaluation` and its `score` in words, and the `command` that goes on with a stopped one."""


def runs_in(folder: Path) -> tuple[list[Found], dict[str, str]]:
    """The runs in a folder and below it, and by path why others cannot be read. No link is followed.

    Raises:
        ConfigError: there is no such folder.
    """
    if not folder.is_dir():
        raise ConfigError(f"DIR is {folder}: there is no such folder; must be a folder of runs")
    found, broken, waiting = list[Found](), dict[str, str](), [folder]
    while waiting:
        path = waiting.pop()
        try:
            if problem := fault(path, folder):
                raise ConfigError(problem)
            if path != folder and path.is_symlink():  # to what is listed where it lies
                continue
            if RunDir(path).holds_run:
                found.append(_found(RunDir(path)))
            else:
                waiting += sorted((below for below in path.iterdir() if below.is_dir()), reverse=True)
        except (OSError, ValueError, LookupError, ArithmeticError) as error:  # as a stranger's rows may raise
            why = str(error) if isinstance(error, ConfigError) else one_line(error)
            broken[str(path)] = one_line(why.removeprefix(str(path)).lstrip(":/ "))
    return found, broken


def _found(directory: RunDir) -> Found:
    config, (rows, result) = directory.read_config(), read_run(directory)
    steps = int(rows[-1]["env_steps"] or 0) if rows else 0
    is_over = result is not None or steps >= config.total_env_steps  # be its code another by now
    state = "exported" if directory.is_exported else "finished" if is_over else "stopped"
    state = "running" if state != "exported" and directory.in_use else state
    last = next(filter(is_evaluation, reversed(rows)), {})
    task, agent = name_of(config)
    return {
        **{"run_dir": str(directory.path), "task": task, "agent": agent, "seed": config.seed, "state": state},
        **{"env_steps": steps, "total_env_steps": config.total_env_steps},
        "evaluation": {name: value for name, value in last.items() if name.startswith("eval/")},
        "score": outcome(last) if last else "",
        "command": directory.command("--resume") if state == "stopped" else "",
    }


def lines(found: Sequence[Found], broken: Mapping[str, str], width: int) -> list[str]:
    """The list for people, `width` columns wide but for commands: runs below what they have in common."""
    settings = {run["agent"]: run["agent"].split("+") for run in found}
    known = [set(own) for name, *own in settings.values() if name in presets.agents()]
    shared = set[str].intersection(*known) if len(known) > 1 else set[str]()
    runs = sorted(found, key=lambda run: (run["task"], run["agent"], run["run_dir"]))
    header, *table = columns([("  run", "state", "env steps", "last evaluation"), *map(_cells, runs)])
    wrapped = partial(textwrap.wrap, width=width, subsequent_indent="    ", break_on_hyphens=False)
    told, before = [header] * bool(found), ""
    for run, line in zip(runs, table, strict=True):
        own = [each for each in settings[run["agent"]] if each not in shared]
        name = f"{' '.join([run['task'], *own])}, in {Path(run['run_dir']).parent}"
        if before != (before := name):
            told += wrapped(one_line(name, 1000))
        told += [line, *([f"    {one_line(run['command'], 1000)}"] if run["command"] else [])]
    for path, why in broken.items():
        told += wrapped(f"{one_line(path, 1000)}: broken: {why}")
    return told


def _cells(run: Found) -> tuple[str, ...]:
    of_total = f" of {number(run['total_env_steps'])}" if run["state"] in ("running", "stopped") else ""
    name = shortened(one_line(Path(run["run_dir"]).name), 16)
    return f"  {name}", run["state"], f"{number(run['env_steps'])}{of_total}", run["score"]
