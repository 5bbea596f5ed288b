"""TensorBoard as a tracker of a run; the only file that imports its package.

The folder `tensorboard` of the run holds one event file with every row of the metrics file. It is written
anew when a run is resumed: rows after the checkpoint, which are learned once more, would be there twice.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dtqn.settings import layers
from dtqn.settings.config import ConfigError
from dtqn.training.trackers import Start, Tracker

NAME = "TensorBoard"
FOLDER = "tensorboard"


def start(start: Start) -> Tracker:
    """Begin the event file, or begin it again with the rows so far."""
    folder = start.directory / FOLDER
    for old in folder.glob("events.out.tfevents.*"):
        old.unlink()
    tracker = TensorBoardTracker(folder, start.run_id)
    tracker.text("settings", layers.to_yaml(start.config))
    # The clock of a row that is sent again is about what it was.
    ended = time.time() - float(start.rows[-1].get("seconds") or 0) if start.rows else 0.0
    for row in start.rows:
        tracker.scalars(row, ended + float(row.get("seconds") or 0))
    return tracker


class TensorBoardTracker(Tracker):
    """Rows as scalars over env steps. It keeps no files and no pictures; they lie beside it."""

    name = NAME

    def __init__(self, folder: Path, run_id: str) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ConfigError('it is not installed; python -m pip install -e ".[tensorboard]"') from None
        self.id = run_id
        # A TensorBoard that is looking on forgets what it has read of the file that was there.
        self._writer: Any = SummaryWriter(str(folder), purge_step=0, flush_secs=10)

    def log(self, number: int, row: Mapping[str, Any]) -> None:
        self.scalars(row, time.time())

    def scalars(self, row: Mapping[str, Any], wall_seconds: float) -> None:
        """A row's figures, at a time of the clock."""
        for name, value in row.items():
            if value is not None and name != "env_steps":
                self._writer.add_scalar(name, value, row["env_steps"], wall_seconds)

    def text(self, name: str, content: str) -> None:
        """As it stands, in Markdown's form of code."""
        self._writer.add_text(name, "".join(f"    {line}\n" for line in content.splitlines()))

    def close(self, exit_code: int = 0) -> None:
        self._writer.close()
