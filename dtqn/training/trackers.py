"""Experiment trackers: what they are told of a run, beside the metrics file, and those that a run wants."""

from __future__ import annotations

import importlib
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
    """A place that a run's figures are sent to. A method's error costs the run nothing (`Trackers`)."""

    name: str
    """Before what is said of it."""
    id: str
    """The run's name there. Inside a W&B sweep it is another one after each restart."""

    def log(self, number: int, row: Mapping[str, Any]) -> None:
        """Send row `number` of the metrics file."""

    def pictures(self, number: int, row: Mapping[str, Any], files: Mapping[str, Path]) -> None:
        """Show pictures (`.png`) and films (`.gif`) at row `number`, the last one so far."""

    def artifact(self, files: Mapping[str, Path], kind: str = "run") -> None:
        """Keep files of a `run`, under the names that they have in its directory, or a `report`."""

    def close(self, exit_code: int = 0) -> None:
        """The run has ended."""


class Trackers(Tracker):
    """Several trackers, or none, as one. One that breaks is said so in one line and left out from then on."""

    def __init__(self, run_id: str, say: Say = print, trackers: Sequence[Tracker] = ()) -> None:
        """`run_id` is the run's where no tracker has given it another one."""
        self._say, self.trackers = say, list(trackers)
        """Those that work."""
        self.id = next((tracker.id for tracker in trackers if tracker.id != run_id), run_id)

    def log(self, number: int, row: Mapping[str, Any]) -> None:
        self._each(lambda tracker: tracker.log(number, row))

    def pictures(self, number: int, row: Mapping[str, Any], files: Mapping[str, Path]) -> None:
        self._each(lambda tracker: tracker.pictures(number, row, files), "does not take the pictures")

    def artifact(self, files: Mapping[str, Path], kind: str = "run") -> None:
        self._each(lambda tracker: tracker.artifact(files, kind), "does not take the artifact")

    def close(self, exit_code: int = 0) -> None:
        self._each(lambda tracker: tracker.close(exit_code))

    def _each(self, action: Callable[[Tracker], None], lost: str | None = None) -> None:
        """Do something with each; one in which it fails is given up, or only what is said to be `lost`."""
        for tracker in list(self.trackers):
            try:
                action(tracker)
            except Gone as error:
                self.trackers.remove(tracker)
                self._say(f"{tracker.name} {error}")
            except (Exception, SystemExit) as error:
                if lost is None:
                    self.trackers.remove(tracker)
                said = lost or "stopped working, the run goes on without it"
                self._say(f"{tracker.name} {said}: {one_line(error)}")


def open_tracker(start: Start) -> Trackers:
    """Start or continue the run at the trackers that the settings name; each is sent the rows that it lacks.

    Each is a module with its name, whose `start` gives None where it is off. One that cannot be started is
    left out in one line.
    """
    opened = list[Tracker]()
    for setting in start.config.trackers:
        kind = importlib.import_module(f"dtqn.training.{setting}_tracker")
        try:
            tracker = kind.start(start)
        except (Exception, SystemExit) as error:
            start.say(f"{kind.NAME} could not be started, the run goes on without it: {one_line(error)}")
        else:
            opened += [] if tracker is None else [tracker]
    return Trackers(start.run_id, start.say, opened)
