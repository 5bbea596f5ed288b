"""What an experiment tracker is told of a run, beside the metrics file; its errors cost the run nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dtqn.settings.config import Config
from dtqn.text import one_line
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
    about: Mapping[str, Any] = {}
    """Other facts about the run's first start, kept with its configuration."""


class Gone(Exception):
    """A tracker takes nothing more; the text goes on after its name."""


class Tracker:
    """A place that a run's figures are sent to; this one is none."""

    name = ""
    """Before what is said of it."""

    def __init__(self, run_id: str) -> None:
        self.id = run_id
        """The run's name there. Inside a W&B sweep it is another one after each restart."""

    def log(self, number: int, row: Mapping[str, Any]) -> None:
        """Send row `number` of the metrics file."""

    def pictures(self, number: int, row: Mapping[str, Any], files: Mapping[str, Path]) -> None:
        """Show pictures (`.png`) and films (`.gif`) at row `number`, the last one so far."""

    def artifact(self, files: Mapping[str, Path], kind: str = "run") -> None:
        """Keep files of a `run`, under the names that they have in its directory, or a `report`."""

    def close(self, exit_code: int = 0) -> None:
        """The run has ended."""


class Guarded(Tracker):
    """A tracker whose errors are one line each; after one it is left out, but for a lost picture or file."""

    def __init__(self, tracker: Tracker, say: Say = print) -> None:
        super().__init__(tracker.id)
        self._tracker, self._say = tracker, say

    def log(self, number: int, row: Mapping[str, Any]) -> None:
        self._try(lambda tracker: tracker.log(number, row))

    def pictures(self, number: int, row: Mapping[str, Any], files: Mapping[str, Path]) -> None:
        self._try(lambda tracker: tracker.pictures(number, row, files), "does not take the pictures")

    def artifact(self, files: Mapping[str, Path], kind: str = "run") -> None:
        self._try(lambda tracker: tracker.artifact(files, kind), "does not take the artifact")

    def close(self, exit_code: int = 0) -> None:
        self._try(lambda tracker: tracker.close(exit_code))

    def _try(self, action: Callable[[Tracker], None], lost: str | None = None) -> None:
        """Do something; where it fails, no more is lost than is said to be `lost`, or the tracker is."""
        name = self._tracker.name
        try:
            action(self._tracker)
        except Gone as error:
            self._tracker = Tracker(self.id)
            self._say(f"{name} {error}")
        except (Exception, SystemExit) as error:
            if lost is None:
                self._tracker = Tracker(self.id)
            said = lost or "stopped working, the run goes on without it"
            self._say(f"{name} {said}: {one_line(error)}")
