"""The trackers that a run wants, each for as long as it works."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from dtqn.settings.config import Config
from dtqn.text import one_line
from dtqn.training.metrics import Row
from dtqn.training.tracker import Gone, Say, Start, Tracker


def _kind(setting: str) -> ModuleType:
    """The module of a tracker by its name among the settings; its `start` may give None: it is off."""
    if setting == "tensorboard":
        from dtqn.training import tensorboard_tracker

        return tensorboard_tracker
    from dtqn.training import wandb_tracker

    return wandb_tracker


class Trackers:
    """Several trackers, or none, as one. One that breaks is said so in one line and left out from then on."""

    def __init__(self, run_id: str, say: Say = print, trackers: Sequence[Tracker] = ()) -> None:
        """`run_id` is the run's where no tracker has given it another one."""
        self._say, self._trackers = say, list(trackers)
        self.id = next((tracker.id for tracker in trackers if tracker.id != run_id), run_id)

    @property
    def names(self) -> list[str]:
        """Those that work."""
        return [tracker.name for tracker in self._trackers]

    def log(self, number: int, row: Mapping[str, Any]) -> None:
        self._each(lambda tracker: tracker.log(number, row))

    def summary(self, values: Mapping[str, Any]) -> None:
        self._each(lambda tracker: tracker.summary(values))

    def pictures(self, number: int, row: Mapping[str, Any], files: Mapping[str, Path]) -> None:
        self._each(lambda tracker: tracker.pictures(number, row, files), "does not take the pictures")

    def artifact(self, files: Mapping[str, Path], kind: str = "run") -> None:
        self._each(lambda tracker: tracker.artifact(files, kind), "does not take the artifact")

    def close(self, exit_code: int = 0) -> None:
        self._each(lambda tracker: tracker.close(exit_code))

    def _each(self, action: Callable[[Tracker], None], lost: str | None = None) -> None:
        """Do something with each; one in which it fails is given up, or only what is said to be `lost`."""
        for tracker in list(self._trackers):
            try:
                action(tracker)
            except Gone as error:
                self._trackers.remove(tracker)
                self._say(f"{tracker.name} {error}")
            except (Exception, SystemExit) as error:
                if lost is None:
                    self._trackers.remove(tracker)
                said = lost or "stopped working, the run goes on without it"
                self._say(f"{tracker.name} {said}: {one_line(error)}")


def open_tracker(
    config: Config,
    directory: Path,
    run_id: str,
    rows: Sequence[Row],
    say: Say,
    about: Mapping[str, Any] | None = None,
) -> Trackers:
    """Start or continue the run at the trackers that the settings name; each is sent the rows that it lacks.

    The arguments are those of `Start`. A tracker that cannot be started is left out in one line.
    """
    start, opened = Start(config, directory, run_id, rows, say, about or {}), []
    for setting in config.trackers:
        kind = _kind(setting)
        try:
            tracker = kind.start(start)
        except (Exception, SystemExit) as error:
            say(f"{kind.NAME} could not be started, the run goes on without it: {one_line(error)}")
        else:
            opened += [] if tracker is None else [tracker]
    return Trackers(run_id, say, opened)
