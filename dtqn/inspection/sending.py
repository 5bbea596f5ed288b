"""The page as an artifact at W&B, where its runs are."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from dtqn.inspection.page_runs import Run
from dtqn.training.trackers import Start, open_tracker


def send(runs: Sequence[Run], file: Path, title: str, mode: str | None, say: Callable[[str], None]) -> None:
    """Keep the page `file` at W&B: a run's in its own run there, that of several in a run for it.

    Nothing is sent where W&B does not have the runs.

    Args:
        title: the name of the run of a page about several.
        mode: one of `--wandb`; None: that of the first run that W&B has.
    """
    there = [run for run in runs if _is_there(run, mode)]
    if not there:
        return
    say("sending the page to W&B")
    run, names = there[0], [run.directory.wandb_id for run in there]
    config = run.config.model_copy(update={"tracker": "wandb", "wandb": mode or run.config.wandb})
    if len(runs) == 1:
        tracker = open_tracker(Start(config, run.directory.path, names[0], run.outcome.rows, say))
    else:
        page_id = f"report-{hashlib.sha256(' '.join(sorted(names)).encode()).hexdigest()[:8]}"
        tracker = open_tracker(Start(config, file.parent, page_id, [], say, {"runs": names}, title))
    tracker.artifact({file.name: file}, "report")
    tracker.close()


def _is_there(run: Run, mode: str | None) -> bool:
    """Whether W&B has the run, and may be asked."""
    config = run.config
    if not run.directory.has_wandb_id or "wandb" not in config.trackers:
        return False
    return config.wandb != "disabled" and mode != "disabled"
