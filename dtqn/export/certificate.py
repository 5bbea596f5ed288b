"""The certificate of an exported agent: what it is, how it came about, and digests of its files.

It is a claim that anyone can test (`dtqn.export.verify`), and no signature: whoever can change the files can
change it too.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from dtqn.acting.evaluation import EvaluationResult
from dtqn.program import code_digest, versions
from dtqn.settings.config import Config, ConfigError
from dtqn.settings.values import is_own, shown
from dtqn.text import one_line
from dtqn.training import machine
from dtqn.training.directory import file_errors, resolved
from dtqn.training.metrics import CLOCK_KEYS, Row

FILE = "certificate.json"
FORMAT = 1
PACKAGES = ("dtqn", "torch", "numpy", "gymnasium", "scipy", "pydantic", "safetensors", "PyYAML")
_ROWS_THAT_LEARNED = 2
_MOST_EPISODES = 10_000_000
"""Of a score: as many are played again where nothing else is asked for."""

_Count = Annotated[int, Field(ge=0)]
_Length = Annotated[int, Field(ge=1)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Goal = Annotated[float, Field(gt=0, le=1)]
_Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Name = Annotated[str, Field(pattern="^[A-Za-z0-9_.-]{1,100}$")]
"""Of a file beside the certificate."""


class _Part(BaseModel):
    """What is read of a part of the certificate, as it must be; whatever else is there is not looked at."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _Trained(_Part):
    env_steps: _Count
    learner_steps: _Count
    finished: bool | None
    # A certificate of an earlier version may lack these.
    inexact_from: _Count | None = None
    changed_at: list[_Count] | None = None
    ended: (
        tuple[_Length, _Goal | None, _Count] | tuple[_Length, _Goal | None, float | None, _Count] | None
    ) = None
    code: list[str] = []
    device: str | None = None
    machine: str | None = None
    program: dict[str, str] = {}


class _Row(_Part):
    """A row of metrics, whose figures may be any numbers, as in `metrics.jsonl`."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=True)
    __pydantic_extra__: dict[str, float | None]
    env_steps: _Count
    learner_steps: _Count


class _Metrics(_Part):
    rows: _Count
    digest: _Digest
    first_rows: list[_Row]


class _Score(_Part):
    success: _Share | None
    success_low: _Share | None
    success_high: _Share | None
    episode_return: float
    return_error: float = Field(ge=0)
    length: float = Field(ge=0)
    episodes: int = Field(ge=1, le=_MOST_EPISODES)
    seed: _Count

    @model_validator(mode="after")
    def _in_its_interval(self) -> _Score:
        low, high = self.success_low, self.success_high
        if self.success is not None and (low is None or high is None or not low <= self.success <= high):
            raise ValueError("must have success between success_low and success_high")
        return self


class _Scores(_Part):
    model_config = ConfigDict(extra="forbid")
    last: _Score
    best: _Score | None = None


class _Certificate(_Part):
    settings: dict[str, Any]
    task: dict[str, Any]
    trained: _Trained
    exported: dict[str, Any]
    scores: _Scores
    metrics: _Metrics
    files: dict[_Name, _Digest] = Field(min_length=1)


def make(
    config: Config,
    task: Mapping[str, Any],
    about: Mapping[str, Any],
    rows: Sequence[Row],
    scores: Mapping[str, EvaluationResult],
    score_seed: int,
    files: Mapping[str, str],
) -> dict[str, Any]:
    """The certificate, of JSON values.

    Args:
        task: the content of the run's `task.json`.
        about: what the checkpoint says of the run.
        rows: the metrics up to the checkpoint.
        scores: episodes of the exported weights, by `last` and `best`.
        score_seed: the seed of these episodes.
        files: SHA-256 of the exported files, by name.
    """
    how = (
        *("env_steps", "learner_steps", "inexact_from", "changed_at", "ended", "seconds", "finished"),
        *("parameters", "threads", "device", "machine"),
    )
    return {
        "format": FORMAT,
        "settings": resolved(config).model_dump(mode="json"),
        "seed": config.seed,
        "task": dict(task),
        "own_networks": [name for name in (config.network.core, config.network.encoder) if is_own(name)],
        "trained": {name: about.get(name) for name in how}
        | {"code": about.get("code") or [], "program": about.get("program") or {}},
        "exported": {"code": code_digest(), "versions": versions(PACKAGES), "machine": machine.name()},
        "scores": {name: result._asdict() | {"seed": score_seed} for name, result in scores.items()},
        "metrics": {"rows": len(rows), "digest": metrics_digest(rows), "first_rows": first_rows(rows)},
        "files": dict(files),
    }


def read(folder: Path) -> dict[str, Any]:
    """The certificate in a folder.

    Raises:
        ConfigError: there is none, or it is damaged, in one line.
    """
    path = folder / FILE
    if not path.exists():
        raise ConfigError(f"{folder}: is no exported agent (there is no {FILE})")
    with file_errors(path, "cannot be read"):
        content = path.read_bytes()
    try:
        found = json.loads(content)
        if found["format"] != FORMAT:
            raise ValueError(f"has format {found['format']}; this version reads format {FORMAT}")
        _Certificate.model_validate_json(content)
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        why = _fault(error) if isinstance(error, ValidationError) else one_line(error)
        raise ConfigError(f"{path}: is no certificate of this program, or damaged: {why}") from None
    certificate: dict[str, Any] = found
    return certificate


def _fault(error: ValidationError) -> str:
    """The first fault in words: the field, its value and what would be right."""
    first = error.errors(include_url=False)[0]
    # The kinds of a union are no part of the name.
    name = ".".join(str(part) for part in first["loc"] if not str(part).startswith("tuple["))
    if first["type"] == "missing":
        return one_line(f"{name} is missing")
    must = re.sub(" or instance of .*", "", first["msg"].removeprefix("Value error, "))
    must = re.sub(r"^\w+ should", "must", must)
    return one_line(f"{name} is {shown(first['input'])}; {must}" if name else must)


def score_of(certificate: Mapping[str, Any], weights: str) -> EvaluationResult:
    """The score of the `last` or `best` weights."""
    score = certificate["scores"][weights]
    return EvaluationResult(**{name: score[name] for name in EvaluationResult._fields})


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with file_errors(path, "cannot be read"), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def without_clocks(row: Mapping[str, Any]) -> Row:
    """A row of metrics but for what the clock decides."""
    return {key: value for key, value in row.items() if key not in CLOCK_KEYS}


def text_of(row: Mapping[str, Any]) -> str:
    """A row without clocks as one line: two rows are the same, bit for bit, where their lines are."""
    return json.dumps(without_clocks(row), sort_keys=True)


def metrics_digest(rows: Sequence[Row]) -> str:
    """SHA-256 of all rows without their clocks, one line each."""
    return hashlib.sha256("".join(f"{text_of(row)}\n" for row in rows).encode()).hexdigest()


def first_rows(rows: Sequence[Row]) -> list[Row]:
    """The rows, without clocks, up to the second one that reports updates; all where there are fewer."""
    learned = [number for number, row in enumerate(rows) if "learner/loss" in row]
    end = learned[_ROWS_THAT_LEARNED - 1] + 1 if len(learned) >= _ROWS_THAT_LEARNED else len(rows)
    return [without_clocks(row) for row in rows[:end]]
