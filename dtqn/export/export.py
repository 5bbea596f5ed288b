"""The command `export`: what others need of a run, in a folder that `dtqn.load` and `eval` take for one.

README.md               the model card, in the form of the Hugging Face Hub
certificate.json        what the agent is and how it came about (`dtqn.export.certificate`)
config.yaml, task.json  the run's own
metrics.jsonl           its rows up to the checkpoint
model.safetensors       the weights of the last checkpoint
best.safetensors        those that did best in an evaluation, if there was one
learning_curve.png, evaluation.gif    if the run has them
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dtqn.export import card, certificate
from dtqn.files import write_whole
from dtqn.program import program
from dtqn.settings.config import ConfigError, wrong
from dtqn.training import checkpoint, trained
from dtqn.training.directory import RunDir, file_errors
from dtqn.training.metrics import Row, check_counted, read_rows
from dtqn.training.setup import task_spec

_COPIED = ("config.yaml", "task.json", "learning_curve.png", "evaluation.gif")
_FOR_ALL = 0o644
"""Others may read the weights; safetensors writes them for their owner alone."""
_UNFINISHED = ".export.tmp"
_NOT_CERTIFIED = ("README.md", "metrics.jsonl")
"""The card is there to be edited; the rows of metrics have a digest of their own."""


def export(
    directory: RunDir, to: Path, episodes: int, seed: int, repository: str | None = None
) -> dict[str, Any]:
    """Write a run's agent to the folder `to`, whole or not at all; its certificate.

    Args:
        episodes: episodes that the agent's score is of.
        seed: of these episodes.
        repository: where the Hugging Face Hub will have it, for the card; None where nowhere.

    Raises:
        ConfigError: the run has no checkpoint or lacks rows, or the folder is there and not empty.
    """
    if directory.is_exported:
        raise ConfigError(f"{directory.path}: is an exported agent already; copy the folder")
    config = directory.read_config()
    kept = {"last": checkpoint.load_described(directory.checkpoints)}
    about = kept["last"][0]
    directory.check_trained(config, about["config"])
    figures = {"last": {"env_steps": about["env_steps"]}}
    if checkpoint.best_figures(directory.checkpoints):
        kept["best"] = checkpoint.load_best_with_figures(directory.checkpoints)
        figures["best"] = kept["best"][0]
    rows = _rows(directory, about["rows"])
    with _folder(to) as folder:
        for name in _COPIED:
            if (directory.path / name).is_file():
                shutil.copyfile(directory.path / name, folder / name)
        metrics = "".join(f"{json.dumps(row)}\n" for row in rows)
        write_whole(folder / "metrics.jsonl", metrics)
        for name, (_, weights) in kept.items():
            checkpoint.save_exported(folder, name, weights, figures[name]).chmod(_FOR_ALL)
        # Those of the folder, not of the run, which may have trained on by now.
        scores = {name: trained.evaluate_run(RunDir(folder), episodes, seed, name) for name in kept}
        files = {
            path.name: certificate.file_digest(path)
            for path in sorted(folder.iterdir())
            if path.name not in _NOT_CERTIFIED
        }
        made = certificate.make(config, _task(folder, config.env), about, rows, scores, seed, files)
        write_whole(folder / certificate.FILE, json.dumps(made, indent=1) + "\n")
        pictures = [name for name in ("learning_curve.png", "evaluation.gif") if (folder / name).exists()]
        text = card.text(config, made, pictures, task_spec(config).ceiling_note, repository)
        write_whole(folder / "README.md", text)
    return made


def _task(folder: Path, env: str) -> dict[str, Any]:
    """The content of `task.json`; of a run of an earlier version, or a damaged one, the id alone."""
    try:
        content = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        content = None
    return content if isinstance(content, dict) else {"id": env}


def _rows(directory: RunDir, count: int) -> list[Row]:
    """The rows that the checkpoint counts on; those after them are not of its weights."""
    check_counted(directory.metrics_file, count)
    return read_rows(directory.metrics_file)[:count]


@contextlib.contextmanager
def _folder(to: Path) -> Iterator[Path]:
    """A folder whose files are in `to` when the block ends, and which is removed where it fails.

    An empty folder is filled: one that somebody is in, or that is mounted, cannot be replaced by another.
    """
    with file_errors(to, "cannot be read"):
        place = Path(os.path.realpath(to))  # `.` and `..` have no name beside which another could be
        fills = place.exists()
        if fills and (not place.is_dir() or any(path.name != _UNFINISHED for path in place.iterdir())):
            raise wrong("--to", to, "it is there already; must be a new folder, or an empty one")
    temporary = place / _UNFINISHED if fills else place.with_name(f".{place.name}.tmp")
    with file_errors(to, "cannot be written"):
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        try:
            yield temporary
            if fills:
                _move_up(temporary)
            else:
                temporary.rename(place)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def _move_up(folder: Path) -> None:
    """Put a folder's files in its place; none of them where that fails."""
    moved = [folder.with_name(path.name) for path in folder.iterdir()]
    try:
        for path in moved:
            (folder / path.name).rename(path)
        folder.rmdir()
    except BaseException:
        for path in moved:
            path.unlink(missing_ok=True)
        raise


def lines(made: dict[str, Any], to: Path) -> list[str]:
    """A summary of the export, for the terminal."""
    scores = [f"{name} weights: {card.score(certificate.score_of(made, name))}" for name in made["scores"]]
    return [*scores, f"exported to {to}; next: {program()} verify {shlex.quote(str(to))}"]
