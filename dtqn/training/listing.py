"""The runs that lie in a folder, which may be somebody else's: where each is, and what it came to."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dtqn.files import fault
from dtqn.settings import presets
from dtqn.settings.config import ConfigError
from dtqn.settings.names import Name, name_of
from dtqn.text import columns, number, one_line, packed
from dtqn.training.directory import RunDir
from dtqn.training.metrics import Row, read_run
from dtqn.training.overview import RunFacts, overview

_OF_EVALUATION = ("success", "success_low", "success_high", "return", "episodes")


class _Read(NamedTuple):
    """`Watched`, as its files say."""

    name: str
    state: str
    """`finished`, `running`, `stopped`, or `exported`."""
    rows: Sequence[Row]
    total_env_steps: int
    where: str = ""


class Found(NamedTuple):
    """A run in a folder."""

    directory: RunDir
    name: Name
    seed: int
    facts: RunFacts

    @property
    def command(self) -> str:
        """What goes on with it; empty where there is nothing to go on with."""
        return self.directory.command("--resume") if self.facts.state == "stopped" else ""

    @property
    def cells(self) -> list[str]:
        facts, steps = self.facts, number(self.facts.env_steps)
        of_total = f" of {number(facts.total)}" if facts.state in ("running", "stopped") else ""
        return [f"  seed {self.seed}", facts.state, f"{steps}{of_total} env steps", facts.outcome]

    @property
    def data(self) -> dict[str, Any]:
        """What a program reads of it; the figures of its last evaluation are None before the first."""
        told = {"run_dir": str(self.directory.path), **self.name._asdict(), "seed": self.seed}
        told |= {name: getattr(self.facts, name) for name in ("state", "env_steps")}
        told |= {"total_env_steps": self.facts.total}
        told |= {name: self.facts.last.get(f"eval/{name}") for name in _OF_EVALUATION}
        return told | {"command": self.command}


def runs_in(folder: Path) -> tuple[list[Found], dict[Path, str]]:
    """The runs in a folder and below it, by path, and why others cannot be read, a line each.

    Links are not followed; one that leads out of the folder is told of.

    Raises:
        ConfigError: there is no such folder.
    """
    if not folder.is_dir():
        raise ConfigError(f"DIR is {folder}: there is no such folder; must be one of runs")
    found, broken, waiting = list[Found](), dict[Path, str](), [folder]
    while waiting:
        path = waiting.pop()
        try:
            if problem := fault(path, folder):
                raise ConfigError(problem)
            if path != folder and path.is_symlink():
                continue
            if RunDir(path).holds_run:
                found.append(_found(RunDir(path)))
            else:
                waiting += sorted((below for below in path.iterdir() if below.is_dir()), reverse=True)
        except (OSError, ValueError, LookupError, ArithmeticError) as error:  # as a stranger's rows may raise
            text = str(error) if isinstance(error, ConfigError) else one_line(error)
            broken[path] = one_line(text.removeprefix(str(path)).lstrip(":/ "))
    return found, broken


def _found(directory: RunDir) -> Found:
    config = directory.read_config()
    rows, result = read_run(directory)
    state = "exported" if directory.is_exported else "finished" if result is not None else "stopped"
    if state == "stopped" and directory.in_use:
        state = "running"
    run = _Read(str(directory.path), state, rows, config.total_env_steps)
    return Found(directory, name_of(config), config.seed, RunFacts(run))


def lines(found: Sequence[Found], broken: Mapping[Path, str], width: int) -> list[str]:
    """The list for people: runs of several seeds together, below their task, agent, and what sets it apart.

    Args:
        width: of a line, but for commands, which are whole.
    """
    settings = {run.name: run.name.agent.split("+")[1:] for run in found}
    known = [set(own) for name, own in settings.items() if _preset(name) in presets.agents()]
    shared = set[str].intersection(*known) if len(known) > 1 else set[str]()
    rows: list[Sequence[str] | str] = []
    for name, own in settings.items():
        told = [name.task, _preset(name), *(each for each in own if each not in shared)]
        rows += packed([one_line(each, 80) for each in told], width, "    ")
        for run in (run for run in found if run.name == name):
            rows += [run.cells, *([f"    {one_line(run.command, 1000)}"] if run.command else [])]
    for path, why in broken.items():
        rows += textwrap.wrap(f"{one_line(path, 1000)}: broken: {why}", width, subsequent_indent="    ")
    return [*columns(rows), *([overview([run.facts for run in found])] if found else [])]


def _preset(name: Name) -> str:
    return name.agent.partition("+")[0]
