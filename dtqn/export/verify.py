"""The command `verify`: whether an exported agent is what its certificate says.

Digests of its files hold anywhere. The first rows of metrics come out the same, bit for bit, where code,
libraries, device and machine are the same; elsewhere numbers are rounded otherwise, and rows that differ tell
nothing. The score is compared with that of new episodes, anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import stats

from dtqn.acting.evaluation import EvaluationResult
from dtqn.export import certificate, rerun
from dtqn.export.card import score
from dtqn.program import code_digest
from dtqn.settings import gone
from dtqn.settings.config import Config, ConfigError, wrong
from dtqn.text import number, one_line
from dtqn.training import machine, trained
from dtqn.training.directory import ENDS, EXPORTED_WEIGHTS, RunDir, resolved
from dtqn.training.metrics import Row, read_rows
from dtqn.training.setup import device_of
from dtqn.types import NonFiniteError
from envs.errors import TaskError

OK, DIFFERS, UNKNOWN = "ok", "DIFFERS", "cannot tell"
_WEIGHTS = {"last": EXPORTED_WEIGHTS, "best": "best.safetensors"}
_DECIDING = ("config.yaml", "task.json", *_WEIGHTS.values())
"""Files that the agent is made of: one that is there must be certified."""
_ROUNDING = 1e-9
"""Two mean returns of a task without chance may differ by so much, relative to them."""


class Finding(NamedTuple):
    what: str
    answer: str
    """`OK`, `DIFFERS` or `UNKNOWN`."""
    because: str


def verify(
    directory: RunDir, updates: int | None, episodes: int | None, seed: int | None
) -> Iterator[Finding]:
    """The findings, one after the other, as each takes its time.

    Args:
        updates: rows of metrics are compared up to the first one after so many updates; 0: none are. None:
            those that the certificate itself holds.
        episodes: played for the score; 0: none. None: as many as the certificate's.
        seed: of these episodes. None: another one than the certificate's.

    Raises:
        ConfigError: the folder holds no certificate, or fewer updates than are asked for.
    """
    certified = certificate.read(directory.path)
    config = directory.read_config()
    rows = _rows(directory)
    expected = None if updates == 0 else _expected(certified, rows, updates)
    yield from _files(directory, certified)
    yield _settings(config, certified)
    yield _metrics(certified, rows)
    yield _task(directory, config)
    if expected is not None:
        yield _first_updates(config, certified, expected)
    if episodes != 0:
        for weights, file in _WEIGHTS.items():
            if certified["scores"].get(weights):
                yield _score(directory, certified, weights, episodes, seed)
            elif (directory.path / file).is_file():
                yield Finding(f"score of {weights}", DIFFERS, f"the certificate has none of {file}")


def _rows(directory: RunDir) -> list[Row] | ConfigError:
    """The rows of the folder, or what is wrong with them."""
    try:
        return read_rows(directory.metrics_file)
    except ConfigError as error:
        return error


def _expected(certified: Mapping[str, Any], rows: list[Row] | ConfigError, updates: int | None) -> list[Row]:
    """The rows that a run begins with."""
    first: list[Row] = certified["metrics"]["first_rows"]
    if updates is None or (first and _updates(first[-1]) >= updates):
        known = first
        enough = [n for n, row in enumerate(first) if updates is not None and _updates(row) >= updates]
    else:
        known = [] if isinstance(rows, ConfigError) else rows
        enough = [n for n, row in enumerate(known) if _updates(row) >= updates]
        if not enough:
            most = _updates(known[-1]) if known else 0
            raise wrong(
                "--updates", updates, f"metrics.jsonl has rows up to {most} updates; must be at most {most}"
            )
    return known[: enough[0] + 1] if enough else known


def _updates(row: Row) -> int:
    """A row of the file may lack them, or have any number there."""
    updates = row.get("learner_steps")
    return updates if isinstance(updates, int) else 0


def _files(directory: RunDir, certified: Mapping[str, Any]) -> Iterator[Finding]:
    """One finding for all files that are as they were, and one for each other."""
    same = []
    for name, digest in certified["files"].items():
        path = directory.path / name
        if not path.is_file():
            yield Finding(name, DIFFERS, "the file is missing")
        elif (found := certificate.file_digest(path)) != digest:
            yield Finding(name, DIFFERS, f"SHA-256 is {found[:12]}, the certificate's {str(digest)[:12]}")
        else:
            same.append(name)
    for name in _DECIDING:
        if name not in certified["files"] and (directory.path / name).is_file():
            yield Finding(name, DIFFERS, "the certificate has no digest of it")
    yield Finding("files", OK if same else UNKNOWN, f"{', '.join(same) or 'none'}")


def _settings(config: Config, certified: Mapping[str, Any]) -> Finding:
    """A setting that a later version has added is not in the certificate, and has its default then."""
    stated, default = (_flat(x.model_dump(mode="json")) for x in (resolved(config), Config()))
    claimed = default | _flat(gone.dropped(certified["settings"], "the certificate"))
    if names := [name for name, value in claimed.items() if stated.get(name) != value]:
        return Finding("settings", DIFFERS, f"{one_line(', '.join(names))} in config.yaml")
    return Finding("settings", OK, "config.yaml states the certificate's")


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, dict) and not prefix:
            found |= _flat(value, f"{name}.")
        else:
            found[prefix + name] = value
    return found


def _metrics(certified: Mapping[str, Any], rows: list[Row] | ConfigError) -> Finding:
    claimed = certified["metrics"]
    if isinstance(rows, ConfigError):
        return Finding("metrics", DIFFERS, str(rows))
    first, of_file = (
        [certificate.text_of(row) for row in found]
        for found in (claimed["first_rows"], certificate.first_rows(rows))
    )
    if certificate.metrics_digest(rows) != claimed["digest"]:
        return Finding("metrics", DIFFERS, f"{len(rows)} rows without clocks have another digest")
    if first != of_file:
        return Finding("metrics", DIFFERS, "the certificate's own first rows are others than the file's")
    if len(rows) != claimed["rows"]:
        return Finding("metrics", DIFFERS, f"there are {len(rows)} rows, the certificate's {claimed['rows']}")
    made, updates = certified["trained"], _updates(rows[-1]) if rows else 0
    if made["finished"] and updates != made["learner_steps"]:  # the last row is of a run's last update
        text = f"the rows end after {number(updates)} of {number(made['learner_steps'])} updates"
        return Finding("metrics", DIFFERS, f"{text} of the training")
    return Finding("metrics", OK, f"{len(rows)} rows without clocks have the certificate's digest")


def _task(directory: RunDir, config: Config) -> Finding:
    if change := directory.task_change(config):
        return Finding("task", DIFFERS, change)
    return Finding("task", OK, f"{config.env} is as it was")


def unlike(config: Config, certified: Mapping[str, Any]) -> list[str]:
    """In what this machine and program are not those that trained, as far as bits depend on it."""
    made = certified["trained"]
    here = {
        "code": [code_digest()],
        "machine": machine.name(),
        "device": device_of(_runnable(config)).type,
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
    program = made.get("program") or {}
    there = {**made, "torch": program.get("torch"), "numpy": program.get("numpy")}
    return [
        f"{name} {_shown(there.get(name))}, here {_shown(value)}"
        for name, value in here.items()
        if there.get(name) != value
    ]


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value or "unknown")


def _runnable(config: Config) -> Config:
    """The settings on a machine that may have no GPU."""
    if torch.cuda.is_available():
        return config
    device = "auto" if config.device == "cuda" else config.device
    return config.model_copy(update={"device": device, "cuda_graphs": False})


def _first_updates(config: Config, certified: Mapping[str, Any], expected: list[Row]) -> Finding:
    what = "first updates"
    if not expected:
        return Finding(what, UNKNOWN, "the certificate holds no rows")
    if changed := certified["trained"].get("changed_at"):
        why = f"the code of its task, or of its network, has changed since ({number(changed[-1])} env steps)"
        return Finding(what, UNKNOWN, why)
    if (went_on := certified["trained"].get("inexact_from")) is not None:
        # The rows before come out the same; of those after nothing follows.
        expected = [row for row in expected if int(row["env_steps"] or 0) <= int(went_on)]
        if not expected:
            why = (
                "from where the run went on with new episodes, as the state of its copies could not be saved"
            )
            return Finding(what, UNKNOWN, f"all rows to be compared are {why} ({number(went_on)} env steps)")
    if (ended := certified["trained"].get("ended")) is not None:
        # Until then another length decided the size of its steps and where its last evaluation came.
        *ends, steps = ended
        # Without a return to stop at there are but two of them.
        config = config.model_copy(update=dict(zip(ENDS, [*ends, None], strict=False)))
        expected = [row for row in expected if int(row["env_steps"] or 0) <= int(steps)]
        if not expected:
            why = f"from where the run was given another end ({number(steps)} env steps)"
            return Finding(what, UNKNOWN, f"all rows to be compared are {why}")
    others = "; ".join(unlike(config, certified))
    found: list[Row] = []
    text, why = _compared(expected, config, "the certificate's", found), others
    if text and not others and _compared(found, config, "before", []):
        why = "the same training comes out otherwise each time, as its task draws what no seed decides"
    if text:
        return Finding(what, UNKNOWN, f"{text}; as it may: {why}") if why else Finding(what, DIFFERS, text)
    steps, updates = number(expected[-1]["env_steps"] or 0), number(_updates(expected[-1]))
    text = f"{len(expected)} rows, to {steps} env steps and {updates} updates, come out the same bit for bit"
    return Finding(what, OK, f"{text}, though not all else is the same: {others}" if others else text)


def _compared(expected: list[Row], config: Config, whose: str, found: list[Row]) -> str:
    """How the first rows of a training, made now, differ from those expected; empty where they do not.

    Args:
        whose: whose rows are expected.
        found: is given the rows that were made, to the first that differs.
    """
    rows = rerun.rows(_runnable(config))
    try:
        for index, row in enumerate(expected, 1):
            again = next(rows, None)
            if again is not None:
                found.append(again)
            if difference := _difference(row, again, whose):
                return f"row {index} of the metrics: {difference}"
    except (NonFiniteError, ConfigError, TaskError) as error:
        return f"the training ends: {one_line(str(error))}"
    finally:
        rows.close()
    return ""


def _difference(row: Row, again: Row | None, whose: str) -> str:
    """The first figure in which two rows differ; empty where none does."""
    if again is None:
        return "the run ends before it"
    if certificate.text_of(row) == certificate.text_of(again):
        return ""
    for name in [*row, *again]:
        if name not in row or name not in again or repr(row[name]) != repr(again[name]):
            return f"{name} is {again.get(name, 'missing')}, {whose} {row.get(name, 'missing')}"
    return "another type of number"


def _score(
    directory: RunDir, certified: Mapping[str, Any], weights: str, episodes: int | None, seed: int | None
) -> Finding:
    """New episodes beside the certificate's: the 95 % intervals of both must overlap."""
    what = f"score of {weights}"
    claimed = certificate.score_of(certified, weights)
    seed = int(certified["scores"][weights]["seed"]) + 1 if seed is None else seed
    try:
        found = trained.evaluate_run(directory, episodes or claimed.episodes, seed, weights)
    except ConfigError as error:  # weights that are damaged, say
        return Finding(what, DIFFERS, one_line(str(error)))
    if [x is None for x in claimed] != [x is None for x in found]:  # only one of them has success
        return Finding(what, DIFFERS, f"{score(found)}; the certificate's: {score(claimed)}")
    if found.success is None and min(claimed.episodes, found.episodes) < 2:
        text = f"{score(found)}; the certificate's: {score(claimed)}; one episode's return has no interval"
        return Finding(what, UNKNOWN, text)
    p = p_value(claimed, found)
    overlap = intervals_overlap(claimed, found)
    how = "overlap" if overlap else "lie apart"
    text = f"{score(found)}; the certificate's: {score(claimed)}; the intervals {how}, p = {p:.2g}"
    return Finding(what, OK if overlap else DIFFERS, text)


def intervals_overlap(one: EvaluationResult, other: EvaluationResult) -> bool:
    """Whether the 95 % intervals of two scores have a point in common."""
    _, low, high, _ = one.score_interval
    _, other_low, other_high, _ = other.score_interval
    close = _ROUNDING * max(1.0, *map(abs, (low, high, other_low, other_high)))
    return low <= other_high + close and other_low <= high + close


def p_value(one: EvaluationResult, other: EvaluationResult) -> float:
    """The chance of so large a difference, or a larger one, between two samples of one policy.

    By Fisher's exact test of successes, and by the normal distribution of the difference of two mean returns.
    """
    if one.success is not None and other.success is not None:
        table = [[round(x.success * x.episodes), x.episodes] for x in (one, other) if x.success is not None]
        return float(stats.fisher_exact([[wins, played - wins] for wins, played in table]).pvalue)
    error = math.hypot(one.return_error, other.return_error)
    difference = abs(one.episode_return - other.episode_return)
    if error == 0:
        return 1.0 if difference == 0 else 0.0
    return math.erfc(difference / error / math.sqrt(2))
