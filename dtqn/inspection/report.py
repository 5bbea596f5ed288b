"""The command `report`: one HTML file about runs, with episodes to step through, a curve and a table."""

from __future__ import annotations

import base64
import html
import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from dtqn import plots
from dtqn.experiments.comparison_pictures import curve
from dtqn.files import write_whole
from dtqn.inspection import dependence, page_episodes
from dtqn.inspection.page_episodes import Asked, Pictures
from dtqn.plots import Curve, Panel
from dtqn.settings.config import Config, ConfigError
from dtqn.settings.names import Name, name_of
from dtqn.settings.task import task_of
from dtqn.text import number, one_line, size
from dtqn.training import metrics
from dtqn.training.directory import RunDir, file_errors, make_writable, pages_of
from dtqn.training.metrics import Row, is_evaluation
from dtqn.training.setup import task_spec

_CLOCK = ("environment steps", "env_steps", 1.0)
NOTE = (
    "line and band: of one run its evaluations and the 95 % interval of their episodes; of several (n) "
    "interquartile mean, minimum and maximum"
)
HEADER = ("task", "agent", "seed", "score", "env steps", "minutes")


class Run(NamedTuple):
    """A run of the report."""

    label: str
    """Its name among the others."""
    name: Name
    config: Config
    rows: list[Row]
    """The metrics file; at least one row is of an evaluation."""
    is_finished: bool
    directory: RunDir


def read(paths: Sequence[Path]) -> list[Run]:
    """The runs in these directories; their labels have the directory where the rest is the same.

    Raises:
        ConfigError: where a path holds none, or a run has not been evaluated yet.
    """
    given = [path.resolve() for path in paths]
    if twice := [path for path, real in zip(paths, given, strict=True) if given.count(real) > 1]:
        raise ConfigError(f"{twice[0]}: is given twice; give each run once")
    runs = [_of_directory(path) for path in paths]
    counts = Counter(run.label for run in runs)
    return [
        run if counts[run.label] == 1 else run._replace(label=f"{run.label} ({run.directory.path})")
        for run in runs
    ]


def _of_directory(path: Path) -> Run:
    directory = RunDir(path)
    config = directory.read_config()
    task_of(config)
    rows, result = metrics.read_run(directory)
    if not any(is_evaluation(row) for row in rows):
        raise ConfigError(
            f"{path}: has not been evaluated yet, so there is nothing to report; "
            f"the first evaluation comes after {number(config.evaluation_period)} env steps"
        )
    name = name_of(config)
    label = f"{name.task} {name.agent} seed {config.seed}"
    return Run(label, name, config, rows, result is not None or directory.is_exported, directory)


def row(run: Run) -> list[str]:
    """The run's line of the table, under `HEADER`: its last evaluation, and what it took."""
    config, last = run.config, [row for row in run.rows if is_evaluation(row)][-1]
    unfinished = "" if run.is_finished else f" of {number(config.total_env_steps)}"
    steps = number(last["env_steps"] or 0) + unfinished
    minutes = f"{(last.get('seconds') or 0) / 60:.1f}"
    return [*run.name, str(config.seed), metrics.outcome(last), steps, minutes]


def panels(runs: Sequence[Run]) -> list[Panel]:
    """The score of evaluations against environment steps, a panel a task and a line an agent."""
    found = []
    for env in dict.fromkeys(run.name.task for run in runs):
        here = [run for run in runs if run.name.task == env]
        tasks = [task_spec(run.config) for run in here]
        name = "success" if all(task.has_success for task in tasks) else "return"
        agents = dict.fromkeys(run.name.agent for run in here)
        curves = [
            _of_agent(agent, [run.rows for run in here if run.name.agent == agent], name) for agent in agents
        ]
        found.append(Panel(env, name, curves, tasks[0].success_ceiling))
    return found


def _of_agent(agent: str, runs: Sequence[Sequence[Row]], name: str) -> Curve:
    if len(runs) == 1:
        return plots.evaluations(agent, runs[0], name)
    return curve(agent, runs, f"eval/{name}", _CLOCK)


FILE = "report.html"


def report(
    paths: Sequence[Path], asked: Asked, out: Path | None, say: Callable[[str], None]
) -> tuple[Path, list[str]]:
    """Write the page; its file, and a line for each run that has no episodes on it or whose task has changed.

    Args:
        say: is told what takes time.

    Raises:
        ConfigError: for runs that cannot be reported and for a file that cannot be written.
    """
    runs, problems = read(paths), list[str]()
    file = _home(paths) / FILE if out is None else out
    _writable(file)
    pictures = Pictures()
    played: list[dict[str, Any]] = []
    for run in runs:
        if warning := run.directory.task_warning(run.config):
            problems.append(warning)
        say(f"playing {asked.played} episodes of {run.label}")
        try:
            of_run = page_episodes.as_data(run.directory, asked, pictures)
        except ConfigError as error:
            problems.append(f"{run.label} has no episodes on the page: {one_line(str(error))}")
            continue
        played.append({"label": run.label} | of_run)
    player = {"runs": played, "pictures": pictures.links(), "unit": page_episodes.MILLE}
    with file_errors(file, "cannot be written"):
        write_whole(file, _page(runs, player, asked, [*_notes(asked, played), *problems]))
    return file, problems


def told(file: Path) -> str:
    """The line that the command prints."""
    return f"report: {file} ({size(file.stat().st_size)}); open it in a browser"


def _home(paths: Sequence[Path]) -> Path:
    """The folder where the page goes by default: a run's own, or the deepest that all runs are in."""
    if len(paths) == 1:
        return pages_of(paths[0])
    return Path(os.path.commonpath([path.resolve().parent for path in paths]))


def _writable(file: Path) -> None:
    """Whether the file can be written is known before any episode is played."""
    if file.is_dir():
        raise ConfigError(f"--out is {file}: a folder; must be a file such as {file / FILE}")
    make_writable("--out", file.parent)


def _listed(names: Sequence[str]) -> str:
    each = list(dict.fromkeys(names))
    return ", ".join(each) if len(each) <= 4 else f"{', '.join(each[:3])} and {len(each) - 3} more"


def _notes(asked: Asked, played: Sequence[dict[str, Any]]) -> list[str]:
    """How the episodes and their maps were made."""
    notes = [
        f"{asked.played} greedy episodes were played ({asked.weights} weights, seed {asked.seed}); "
        f"{asked.shown} are shown: the first failures and the first successes, half of each where there are "
        "as many. A task without success shows its lowest and its highest returns.",
    ]
    why = {run["label"]: run["no_pictures"] for run in played if run["no_pictures"]}
    return [*notes, *(f"{label} has no pictures of the world: {text}." for label, text in why.items())]


def _page(runs: Sequence[Run], player: dict[str, Any], asked: Asked, notes: Sequence[str]) -> str:
    """The page's text, with its styles, its program and the data that `player.js` reads."""
    agents, tasks = _listed([run.name.agent for run in runs]), _listed([run.name.task for run in runs])
    parts = {
        "title": html.escape(f"{agents} on {tasks}"),
        "style": _file("style.css"),
        "table": _table(HEADER, [row(run) for run in runs]),
        "curve": _curve(runs),
        "player_hidden": "" if player["runs"] else "hidden",
        "replacements": min(dependence.REPLACEMENTS, asked.played - 1),
        "player_notes": "".join(f"<li>{html.escape(note)}</li>" for note in notes),
        "player_data": _json(player),
        "player_program": _file("player.js"),
    }
    return Template(_file("page.html")).substitute(parts)


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _json(data: Any) -> str:
    """For a script element, which the text `</script` would end."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in header)
    body = "\n".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"


def _curve(runs: Sequence[Run]) -> str:
    """The picture of the score against environment steps, as a `data:` link."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "curve.svg"
        plots.comparison(panels(runs), file, "environment steps", NOTE)
        return f"data:image/svg+xml;base64,{base64.b64encode(file.read_bytes()).decode()}"
