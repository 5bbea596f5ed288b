"""The certificate of an exported agent: what it is, how it came about, and digests of its files.

It is a claim that anyone can test (`dtqn.sharing.verify`), and no signature: whoever can change the files can
change it too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dtqn.acting.evaluation import EvaluationResult
from dtqn.program import code_digest, versions
from dtqn.settings.config import Config, ConfigError
from dtqn.settings.values import is_own
from dtqn.text import one_line
from dtqn.training import machine
from dtqn.training.directory import file_errors, resolved
from dtqn.training.metrics import CLOCK_KEYS, Row

FILE = "certificate.json"
FORMAT = 1
PACKAGES = ("dtqn", "torch", "numpy", "gymnasium", "scipy", "pydantic", "safetensors", "PyYAML")
_KINDS = {"settings": dict, "task": dict, "trained": dict, "exported": dict, "files": dict, "metrics": dict,
          "scores": dict}  # fmt: skip
"""The parts of a certificate that are read."""
_ROWS_THAT_LEARNED = 2


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
        scores: greedy episodes of the exported weights, by `last` and `best`.
        score_seed: the seed of these episodes.
        files: SHA-256 of the exported files, by name.
    """
    how = (
        *("env_steps", "learner_steps", "inexact_from", "ended", "seconds", "finished"),
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
        for name, kind in _KINDS.items():
            if not isinstance(found[name], kind):
                raise ValueError(f"{name} is no {kind.__name__}")
        for name in ("rows", "digest", "first_rows"):
            found["metrics"][name]
        for name in found["scores"]:
            score_of(found, name)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(
            f"{path}: is no certificate of this program, or damaged: {one_line(error)}"
        ) from None
    certificate: dict[str, Any] = found
    return certificate


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
