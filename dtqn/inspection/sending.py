"""The page about a run as an artifact at W&B, where the run is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dtqn.inspection.page_runs import Run
from dtqn.training.trackers import open_tracker


def send(run: Run, file: Path, mode: str | None, say: Callable[[str], None]) -> None:
    """Keep the page `file` in the run at W&B; nothing is sent where W&B does not have it.

    Args:
        mode: one of `--wandb`; None: that of the run.
    """
    config, directory = run.config, run.directory
    if not directory.has_wandb_id or "wandb" not in config.trackers or "disabled" in (config.wandb, mode):
        return
    say("sending the page to W&B")
    config = config.model_copy(update={"tracker": "wandb", "wandb": mode or config.wandb})
    tracker = open_tracker(config, directory.path, directory.wandb_id, run.rows, say)
    tracker.artifact({file.name: file}, "report")
    tracker.close()
