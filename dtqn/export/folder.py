"""The folder of an exported agent, which `dtqn.load` and `eval` take for a run's, and its certificate.

README.md               the model card, in the form of the Hugging Face Hub (`dtqn.export.card`)
certificate.json        how the agent came about, its scores, the digests of all other files
config.yaml, task.json  the run's own
metrics.jsonl           its rows up to the checkpoint
model.safetensors       the weights of the last checkpoint
best.safetensors        those that did best in an evaluation, if there was one
learning_curve.png, evaluation.gif    if the run has them

The certificate is a claim that anyone can test (`dtqn.export.verify`), and no signature: whoever can change
the files can change it too.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dtqn.acting.evaluation import EvaluationResult
from dtqn.export import card
from dtqn.files import write_whole
from dtqn.program import code_digest, versions
from dtqn.settings.config import Config, ConfigError, wrong
from dtqn.settings.faults import first_fault
from dtqn.text import one_line
from dtqn.training import checkpoint, machine, trained
from dtqn.training.directory import RunDir, file_errors
from dtqn.training.metrics import check_counted

CERTIFICATE = "certificate.json"
_FORMAT = 2
"""Format 1 had no digests of the card and of the rows, but of what training anew was compared with."""
_PICTURES = ("learning_curve.png", "evaluation.gif")
_PACKAGES = ("dtqn", "torch", "numpy", "gymnasium")
"""Those that decide the digits of an agent's episodes."""
_TRAINED = (
    "env_steps learner_steps changed_at seconds finished parameters threads device machine code program"
)
"""What a certificate says of the training, as its checkpoint does."""

Scores = Mapping[str, EvaluationResult]
"""By `last` and `best` weights."""


class Score(BaseModel):
    """In a certificate: that of episodes which were played at the export."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)
    success: float | None
    success_low: float | None
    success_high: float | None
    episode_return: float
    length: float
    episodes: int = Field(ge=1, le=10_000_000)  # as many are played again
    return_error: float
    seed: int = Field(ge=0)

    @property
    def result(self) -> EvaluationResult:
        return EvaluationResult(**self.model_dump(exclude={"seed"}))


class Certificate(BaseModel):
    """What is read of `certificate.json`."""

    model_config = ConfigDict(strict=True)
    format: Literal[1, 2]
    exported: dict[str, Any]
    """`made_here`, of the export."""
    scores: dict[str, Score]
    """By `last` and `best` weights."""
    files: dict[str, str]
    """`digests` of the folder."""


def export(directory: RunDir, to: Path, episodes: int, seed: int) -> Scores:
    """Write a run's agent to the folder `to`, whole or not at all; its scores.

    Args:
        episodes: episodes that the agent's score is of.
        seed: of these episodes.

    Raises:
        ConfigError: the run has no checkpoint or lacks rows, or the folder is there and not empty.
    """
    if directory.is_exported:
        raise ConfigError(f"{directory.path}: is an exported agent already; copy the folder")
    config = directory.read_config()
    about, weights = checkpoint.load_weights(directory.checkpoints)
    directory.check_trained(config, about)
    kept = {"last": ({"env_steps": about["env_steps"]}, weights)}
    if checkpoint.best_figures(directory.checkpoints):
        kept["best"] = checkpoint.load_weights(directory.checkpoints, "best")
    # Rows after those that the checkpoint counts on are not of its weights.
    rows = check_counted(directory.metrics_file, about["rows"])
    with _new(to) as folder:
        for name in ("config.yaml", "task.json", *_PICTURES):
            if (directory.path / name).is_file():
                shutil.copyfile(directory.path / name, folder / name)
        (folder / "metrics.jsonl").write_bytes(b"".join(row + b"\n" for row in rows))
        for name, (figures, tensors) in kept.items():
            checkpoint.save_weights(folder, name, tensors, figures)
        # Those of the folder, not of the run, which may have trained on by now.
        scores = {name: trained.evaluate_run(RunDir(folder), episodes, seed, name) for name in kept}
        pictures = [name for name in _PICTURES if (folder / name).exists()]
        write_whole(folder / "README.md", card.text(config, about, scores, seed, pictures))
        certificate = {
            "format": _FORMAT,
            "command": card.command(config),
            "trained": {name: about.get(name) for name in _TRAINED.split()},
            "exported": made_here(config),
            "scores": {name: result._asdict() | {"seed": seed} for name, result in scores.items()},
            "files": digests(folder),
        }
        write_whole(folder / CERTIFICATE, json.dumps(certificate, indent=1) + "\n")
    return scores


@contextlib.contextmanager
def _new(to: Path) -> Iterator[Path]:
    """A new folder, or an empty one, to be filled in the block; as it was before where the block fails."""
    with file_errors(to, "cannot be written"):
        is_there = to.exists()
        if is_there and (not to.is_dir() or any(to.iterdir())):
            raise wrong("--to", to, "it is there already; must be a new folder, or an empty one")
        to.mkdir(parents=True, exist_ok=True)
        try:
            yield to
        except BaseException:
            for path in to.iterdir():
                path.unlink()
            if not is_there:
                to.rmdir()
            raise


def made_here(config: Config) -> dict[str, Any]:
    """What the digits of an agent's episodes depend on beside its files: program, libraries, machine."""
    device = trained.device_here(config).type
    return {"code": code_digest(), "versions": versions(_PACKAGES), "machine": machine.name(device)}


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file in a folder but the certificate, in hexadecimal, by name."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != CERTIFICATE)
    with file_errors(folder, "cannot be read"):
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def read(folder: Path) -> Certificate:
    """The certificate in a folder.

    Raises:
        ConfigError: there is none, or it is damaged, in one line.
    """
    path = folder / CERTIFICATE
    if not path.exists():
        raise ConfigError(f"{folder}: is no exported agent (there is no {CERTIFICATE})")
    with file_errors(path, "cannot be read"):
        content = path.read_bytes()
    try:
        return Certificate.model_validate_json(content)
    except ValidationError as error:
        why = f"is no certificate of this program, or damaged: {one_line(first_fault(error))}"
        raise ConfigError(f"{path}: {why}") from None
