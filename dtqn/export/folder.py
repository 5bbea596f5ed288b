"""The folder of an exported agent, which `dtqn.load` and `eval` take for a run's, and its certificate.

README.md               the model card, in the form of the Hugging Face Hub
certificate.json        how the agent came about, its scores, the digests of all other files
config.yaml, task.json  the run's own
metrics.jsonl           its rows up to the checkpoint
model.safetensors       the weights of the last checkpoint
best.safetensors        the weights that did best in an evaluation, if there was one
learning_curve.png, evaluation.gif    if the run has them

The certificate is a claim that anyone can test (`dtqn.export.verify`), but no signature: a person who can
change the files can change it too.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dtqn.acting.evaluation import EvaluationResult
from dtqn.files import write_whole
from dtqn.program import code_digest, versions
from dtqn.settings import presets
from dtqn.settings.config import Config, ConfigError, wrong
from dtqn.settings.faults import first_fault
from dtqn.settings.names import name_of
from dtqn.text import counted, number, one_line
from dtqn.training import checkpoint, machine, trained
from dtqn.training.directory import RunDir, file_errors, own_networks, task_identity
from dtqn.training.metrics import check_counted, interval
from dtqn.training.setup import task_spec

_HEADER_TAGS = ("reinforcement-learning", "deep-reinforcement-learning", "partially-observable", "dtqn")
_CARD = """\
---
{header}---

# {title}

| | |
|---|---|
{table}
{pictures}
Scores are of {config.evaluation.policy} episodes on seed {seed}, played at the export. `policy.act` is greedy
in any case. Intervals are of 95 %: Wilson's for success, 1.96 standard errors for the return.

## Load

```python
import dtqn

folder = "FOLDER"  # of these files; huggingface_hub.snapshot_download fetches those of the Hub
policy = dtqn.load(folder)  # weights="best": those that did best in training
policy.reset()
action = policy.act(observation)          # at an episode's first observation
action = policy.act(observation, reward)  # at each one after it
```
{needed}
## Train

    {command}

trains it again. `config.yaml` holds every setting, `certificate.json` how it came about.

## Verify

    python -m dtqn verify FOLDER

compares the files with `certificate.json` and plays the episodes again to compare the score.
"""


def text(
    config: Config,
    about: Mapping[str, Any],
    scores: Mapping[str, EvaluationResult],
    seed: int,
    pictures: Sequence[str],
) -> str:
    """The content of `README.md`.

    Args:
        about: what the checkpoint says of the run.
        scores: by `last` and `best` weights.
        seed: the seed of their episodes.
        pictures: names of the files in its folder that it shows.
    """
    rows = {name: _cell(value) for name, value in _rows(config, about, scores).items()}
    return _CARD.format(
        header=yaml.safe_dump(_header(config, scores["last"]), sort_keys=False),
        title=_cell(f"{name_of(config).agent} on {name_of(config).task}"),
        config=config,
        table="\n".join(f"| {name} | {value} |" for name, value in rows.items()),
        pictures="".join(f"\n![{name.partition('.')[0].replace('_', ' ')}]({name})\n" for name in pictures),
        seed=seed,
        needed=_needed(config),
        command=command(config),
    )


def _cell(value: str) -> str:
    """Text that a Markdown table takes for one cell, even from a stranger's file."""
    return one_line(value, 500).replace("|", "\\|").replace("<", "&lt;")


def _rows(config: Config, about: Mapping[str, Any], scores: Mapping[str, EvaluationResult]) -> dict[str, str]:
    """The lines of the table, by name."""
    ceiling = task_spec(config).ceiling_note
    rows = {
        "task": f"`{name_of(config).task}` ({task_identity(config).made_of})",
        "agent": f"`{name_of(config).agent}`, core `{config.network.core.name}`",
        "parameters": number(about.get("parameters") or 0),
        **{f"score, {name} weights": score(result) + ceiling for name, result in scores.items()},
        "environment steps": number(about["env_steps"]),
        "seed": str(config.seed),
    }
    if not about["finished"]:
        rows["state"] = f"not finished: {number(config.total_env_steps)} environment steps were planned"
    return rows


def score(result: EvaluationResult) -> str:
    """With 95 % intervals: `success 99.8% [98.9%, 100.0%], return 4.450 ± 0.004, of 500 episodes`."""
    success = "" if result.success is None else f"{interval(*result[:3])}, "
    return f"{success}return {_mean_return(result)}, of {counted(result.episodes, 'episode')}"


def _mean_return(result: EvaluationResult) -> str:
    """With half of its 95 % interval, which one episode does not have."""
    half = f" ± {result.return_half_width:.3f}" if result.episodes > 1 else ""
    return f"{result.episode_return:.3f}{half}"


def command(config: Config) -> str:
    """The command that trains the run again, in the folder of its `config.yaml`."""
    shipped = config.agent in presets.agents()
    # Every setting is in the file, so an agent of the user's own needs only its name.
    agent = "" if shipped else f" --agent {shlex.quote(f'{config.agent}=gtrxl')}"
    return f"python -m dtqn --config config.yaml{agent}"


def _header(config: Config, last: EvaluationResult) -> dict[str, Any]:
    metrics: dict[str, float | str] = {"mean_reward": _mean_return(last).replace("±", "+/-")}
    if last.success is not None:
        metrics = {"success_rate": round(float(last.success), 4), **metrics}
    result = {
        "task": {"type": "reinforcement-learning", "name": "reinforcement learning"},
        "dataset": {"type": config.env, "name": config.env},
        "metrics": [{"type": name, "value": value, "verified": False} for name, value in metrics.items()],
    }
    return {
        "library_name": "dtqn",
        "pipeline_tag": "reinforcement-learning",
        "tags": list(dict.fromkeys([*_HEADER_TAGS, config.env, config.agent, config.network.core.name])),
        "model-index": [{"name": f"{config.agent}-{config.env}-seed{config.seed}", "results": [result]}],
    }


def _needed(config: Config) -> str:
    """A note on what loading needs besides dtqn."""
    task = task_identity(config)
    needed = [] if task.is_native else [f"the task ({task.made_of})"]
    needed += [f"`{name}`" for name in own_networks(config)]
    return f"\nNot in these files, and needed to load it: {', '.join(needed)}.\n" if needed else ""


CERTIFICATE = "certificate.json"
_FORMAT = 2
_PICTURES = ("learning_curve.png", "evaluation.gif")
_PACKAGES = ("dtqn", "torch", "numpy", "gymnasium")
"""Those that decide the digits of an agent's episodes."""
_TRAINED = (
    "env_steps learner_steps changed_at seconds finished parameters threads device machine code program"
)
"""What a certificate says of the training, as its checkpoint does."""


class Score(BaseModel):
    """A certificate's score, of episodes played at the export."""

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
    format: Literal[2]
    exported: dict[str, Any]
    """`made_here`, of the export."""
    scores: dict[str, Score]
    """By `last` and `best` weights."""
    files: dict[str, str]
    """`digests` of the folder."""


def export(directory: RunDir, to: Path, episodes: int, seed: int) -> dict[str, EvaluationResult]:
    """Write a run's agent to the folder `to`, whole or not at all; its scores by weights.

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
        write_whole(folder / "README.md", text(config, about, scores, seed, pictures))
        certificate = {
            "format": _FORMAT,
            "command": command(config),
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
    """What the digits of an agent's episodes depend on besides its files: program, libraries, machine."""
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
        raise ConfigError(f"{folder}: is not an exported agent (there is no {CERTIFICATE})")
    with file_errors(path, "cannot be read"):
        content = path.read_bytes()
    try:
        return Certificate.model_validate_json(content)
    except ValidationError as error:
        why = f"is no certificate of this program, or damaged: {one_line(first_fault(error))}"
        raise ConfigError(f"{path}: {why}") from None
