"""The command `verify`: whether an exported agent is what its certificate says.

Digests of its files hold anywhere. Its episodes, played again, have the same score where program, libraries
and machine are the same; elsewhere numbers are rounded otherwise, and the intervals of both must overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from dtqn.acting.evaluation import EvaluationResult
from dtqn.export import folder
from dtqn.settings.config import ConfigError
from dtqn.text import one_line
from dtqn.training import trained
from dtqn.training.checkpoint import WEIGHTS
from dtqn.training.directory import RunDir

OK, DIFFERS, UNKNOWN = "ok", "DIFFERS", "cannot tell"
_DECIDING = ("config.yaml", "task.json", *WEIGHTS.values())
"""Files that the agent is made of: one that is there must be certified."""
_ROUNDING = 1e-9
"""Two mean returns of a task without chance may differ by so much, relative to them."""


class Finding(NamedTuple):
    what: str
    answer: str
    """`OK`, `DIFFERS` or `UNKNOWN`."""
    because: str


def verify(directory: RunDir, episodes: int | None, seed: int | None) -> Iterator[Finding]:
    """The findings, one after the other, as each takes its time.

    Args:
        episodes: played for the score; 0: none. None: as many as the certificate's.
        seed: of these episodes. None: the certificate's.

    Raises:
        ConfigError: the folder holds no certificate.
    """
    certified, config = folder.read(directory.path), directory.read_config()
    yield from _files(directory.path, certified.files)
    change = directory.task_change(config)
    yield Finding("task", DIFFERS if change else OK, change or f"{config.env} is as it was")
    if episodes == 0:
        return
    same = folder.made_here(config) == certified.exported
    for weights, file in WEIGHTS.items():
        if claim := certified.scores.get(weights):
            yield _score(directory, weights, claim, episodes, seed, same)
        elif (directory.path / file).is_file():
            yield Finding(f"score of {weights}", DIFFERS, f"the certificate has none of {file}")


def _files(path: Path, certified: Mapping[str, str]) -> Iterator[Finding]:
    """One finding for all files that are as they were, and one for each other."""
    there, same = folder.digests(path), []
    for name in sorted(there.keys() - certified.keys()):
        answer = DIFFERS if name in _DECIDING else UNKNOWN
        yield Finding(name, answer, "the certificate has no digest of the file")
    for name, digest in certified.items():
        if there.get(name) == digest:
            same.append(name)
            continue
        other = f"SHA-256 is {there[name][:12]}, the certificate's {digest[:12]}" if name in there else ""
        yield Finding(name, DIFFERS, other or "the file is missing")
    yield Finding("files", OK if same else UNKNOWN, ", ".join(same) or "none")


def _score(
    directory: RunDir, weights: str, claim: folder.Score, episodes: int | None, seed: int | None, same: bool
) -> Finding:
    """Compare episodes played now with the certificate's score; `same`: by the export's program, here."""
    what, claimed = f"score of {weights}", claim.result
    played = (episodes or claim.episodes, claim.seed if seed is None else seed)
    again = same and played == (claim.episodes, claim.seed)
    try:
        found = trained.evaluate_run(directory, *played, weights)
        # A task may draw what no seed decides, so that its episodes come out otherwise each time.
        again = again and (found == claimed or found == trained.evaluate_run(directory, *played, weights))
    except ConfigError as error:  # weights that are damaged, say
        return Finding(what, DIFFERS, one_line(str(error)))
    if again and found == claimed:
        return Finding(what, OK, f"{folder.score(found)}; the same episodes have the same figures")
    answer, why = (DIFFERS, "of the same episodes") if again else compared(claimed, found)
    return Finding(what, answer, f"{folder.score(found)}; the certificate's: {folder.score(claimed)}; {why}")


def compared(claimed: EvaluationResult, found: EvaluationResult) -> tuple[str, str]:
    """An answer by two scores of other episodes, by their 95 % intervals, and why."""
    if (claimed.success is None) != (found.success is None):
        return DIFFERS, "one has no success"
    if found.success is None and min(claimed.episodes, found.episodes) < 2:
        return UNKNOWN, "one episode's return has no interval"
    one, other = claimed.score_interval, found.score_interval
    close = _ROUNDING * max(1.0, *map(abs, (one.low, one.high, other.low, other.high)))
    if one.low <= other.high + close and other.low <= one.high + close:
        return OK, "the intervals overlap"
    return DIFFERS, "the intervals lie apart"
