"""What an experiment tracker is, beside the metrics file, and what it is told of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from dtqn.settings.config import Config
from dtqn.training.metrics import Row

Say = Callable[[str], None]


class Start(NamedTuple):
    """Facts about the run, for a tracker."""

    config: Config
    directory: Path
    """The run's, for the tracker's files."""
    run_id: str
    """The same after a resume. Inside a W&B sweep it is the run that rows were last sent to."""
    rows: Sequence[Row]
    """The metrics file so far."""
    say: Say
    about: Mapping[str, Any]
    """Other facts about the run's first start, kept with its configuration."""


class Gone(Exception):
    """A tracker takes nothing more; the text goes on after its name."""


class Tracker(Protocol):
    """A place that a run's figures are sent to. A method's error costs the run nothing (`Trackers`)."""

    name: str
    """Before what is said of it."""
    id: str
    """The run's name there. Inside a W&B sweep it is another one after each restart."""

    def log(self, number: int, row: Mapping[str, Any]) -> None:
        """Send row `number` of the metrics file."""

    def summary(self, values: Mapping[str, Any]) -> None:
        """Set figures of the run as a whole."""

    def pictures(self, number: int, row: Mapping[str, Any], files: Mapping[str, Path]) -> None:
        """Show pictures (`.png`) and films (`.gif`) at row `number`, the last one so far."""

    def artifact(self, files: Mapping[str, Path], kind: str = "run") -> None:
        """Keep files of a `run`, under the names that they have in its directory, or a `report`."""

    def close(self, exit_code: int = 0) -> None: ...
