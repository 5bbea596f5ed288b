"""The command `report`: one page about runs, and pictures of an episode for print."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dtqn
from dtqn.files import write_whole
from dtqn.inspection import curves, facts, figures, page, played, sending, sources
from dtqn.inspection.album import Album
from dtqn.inspection.played import Played
from dtqn.inspection.sources import Run, Sources
from dtqn.program import code_digest
from dtqn.settings.config import ConfigError
from dtqn.text import counted, one_line, size
from dtqn.training import machine
from dtqn.training.directory import file_errors

MOST_PLAYERS = 8
"""Runs with episodes on the page."""
FILE = "report.html"


class Made(NamedTuple):
    file: Path
    figures: list[Path]
    problems: list[str]
    """A line for each run that is not on the page, or without episodes, and should be."""


def report(
    paths: Sequence[Path],
    asked: played.Asked,
    out: Path | None,
    figures_dir: Path | None,
    wandb: str | None,
    say: Callable[[str], None],
) -> Made:
    """Write the page, and the pictures where there is a folder for them.

    Args:
        wandb: how W&B gets the page, one of `--wandb`; None: as it got the run.
        say: is told what takes time.

    Raises:
        ConfigError: for runs that cannot be reported and for files that cannot be written.
    """
    machine.prepare()
    found = sources.read(paths)
    file = found.home / FILE if out is None else out
    to_play = _to_play(found.runs)
    if figures_dir is not None:  # before the page, which cannot be a file where this is a folder
        _can_hold_figures(figures_dir, to_play)
    _writable(file)
    album = Album()
    runs: list[dict[str, Any]] = []
    problems: list[str] = []
    first: Played | None = None
    for run in to_play:
        assert run.directory is not None
        if warning := run.directory.task_warning(run.config):
            problems.append(warning)
        say(f"playing {asked.played} episodes of {run.label}")
        try:
            of_run = played.greedy(run.directory, asked, album)
        except ConfigError as error:
            problems.append(f"{run.label} has no episodes on the page: {one_line(str(error))}")
            continue
        first = of_run if first is None else first
        runs.append({"label": run.label} | played.as_data(of_run, asked.seed, album))
    content = page.build(
        _title(found.runs),
        _subtitle(found.runs),
        [*facts.comparison(found.table, found.notes), facts.results(found.runs)],
        [facts.times(found.runs), facts.settings(found.runs), facts.made_with(found.runs, _own())],
        curves.charts(found),
        {"runs": runs, "pictures": album.links(), "unit": played.MILLE},
        [*_notes(asked, found, runs), *problems],
    )
    with file_errors(file, "cannot be written"):
        write_whole(file, content)
    sending.send(found.runs, file, _title(found.runs), wandb, say)
    drawn = []
    if figures_dir is not None:
        if first is None:
            raise ConfigError(f"--figures is {figures_dir}: no run has episodes; {problems[-1]}")
        with file_errors(figures_dir, "cannot be written"):
            drawn = figures.draw(first, asked.seed, figures_dir)
    return Made(file, drawn, [*found.notes, *problems])


def told(made: Made) -> list[str]:
    """The lines that the command prints."""
    lines = [f"report: {made.file} ({size(made.file.stat().st_size)}); open it in a browser"]
    if made.figures:
        names = ", ".join(file.name for file in made.figures)
        lines.append(f"figures in {made.figures[0].parent}: {names}")
    return lines


def _writable(file: Path) -> None:
    """Whether the file can be written is known before any episode is played."""
    with file_errors(file, "cannot be written"):
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.is_dir():
            raise ConfigError(f"--out is {file}: a folder; must be a file such as {file / FILE}")
        _probe(file)


def _can_hold_figures(folder: Path, to_play: Sequence[Run]) -> None:
    """As for the page: known before any episode is played."""
    if not to_play:
        raise ConfigError(f"--figures is {folder}: no run has a directory to play episodes of; leave it out")
    with file_errors(folder, "cannot be written"):
        folder.mkdir(parents=True, exist_ok=True)
        _probe(folder / "figures")


def _probe(file: Path) -> None:
    """Write beside the file, and take it away again."""
    probe = file.with_name(f".{file.name}.tmp")
    probe.write_bytes(b"")
    probe.unlink()


def _to_play(runs: Sequence[Run]) -> list[Run]:
    """All that have a directory, or one an agent and task where they are many: that of the middle result."""
    able = [run for run in runs if run.directory is not None]
    if len(able) <= MOST_PLAYERS:
        return able
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in able:
        groups.setdefault((run.config.env, run.config.agent), []).append(run)
    middle = [sorted(group, key=_last_return)[len(group) // 2] for group in groups.values()]
    return middle[:MOST_PLAYERS]


def _last_return(run: Run) -> float:
    known = [value for row in run.outcome.rows if (value := row.get("eval/return")) is not None]
    return float(known[-1])


def _title(runs: Sequence[Run]) -> str:
    return f"{_listed([run.config.agent for run in runs])} on {_listed([run.config.env for run in runs])}"


def _listed(names: Sequence[str]) -> str:
    each = list(dict.fromkeys(names))
    return ", ".join(each) if len(each) <= 4 else f"{', '.join(each[:3])} and {len(each) - 3} more"


def _subtitle(runs: Sequence[Run]) -> str:
    open_ones = [run for run in runs if run.outcome.state != "finished"]
    unfinished = f", {len(open_ones)} unfinished" if open_ones else ""
    seeds = sorted({run.config.seed for run in runs})
    count = counted(len(runs), "run")
    return f"{count}{unfinished}; seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"


def _own() -> dict[str, str]:
    """Machine, device, versions and code that the page was made with."""
    import torch

    versions = f"dtqn {dtqn.__version__}, torch {torch.__version__}, numpy {np.__version__}"
    return {"machine": machine.name(), "device": "cpu", "versions": versions, "code": code_digest()}


def _notes(asked: played.Asked, found: Sources, runs: Sequence[dict[str, Any]]) -> list[str]:
    """How the episodes and their maps were made."""
    able = [run for run in found.runs if run.directory is not None]
    if not able:
        return ["No episodes were played: of all runs there are records alone."]
    notes = [
        f"{asked.played} greedy episodes were played ({asked.weights} weights, seed {asked.seed}); "
        f"{asked.shown} are shown: the first failures and the first successes, half of each where there are "
        "as many. A task without success shows its lowest and its highest returns.",
        'The map "what was shown" has the change of the decision\'s advantages (Q minus its mean over '
        "actions), as a share of the episode's range of Q, where the step showed what another episode "
        f"showed; the mean over {min(played.REPLACEMENTS, asked.played - 1)} of them. "
        "It is exact for the network; the changed "
        "history need not be one that the task can produce.",
    ]
    if len(able) > MOST_PLAYERS:
        notes.append(
            f"The page plays {len(runs)} of {len(able)} runs: of each agent in each task the one whose last "
            f"return is in the middle, {MOST_PLAYERS} at most."
        )
    for run in runs:
        if run["no_pictures"]:
            notes.append(f"{run['label']} has no pictures of the world: {run['no_pictures']}.")
        for episode in run["episodes"]:
            if len(episode["steps"]) < episode["length"]:
                notes.append(
                    f"{run['label']}, episode {episode['number']}: {len(episode['steps'])} of its "
                    f"{episode['length']} steps are shown."
                )
    return notes
