"""The experiment tracker of a run, beside its metrics file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dtqn.settings.config import Config
from dtqn.text import one_line
from dtqn.training.metrics import Row

if TYPE_CHECKING:
    from dtqn.training.wandb_tracker import WandbTracker

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


class Tracker:
    """Where a run's figures are sent to, W&B or nowhere. What breaks there costs the run one line."""

    def __init__(self, run_id: str, to: WandbTracker | None = None, say: Say = print) -> None:
        self.id = run_id
        """The run's name there. Inside a W&B sweep it is another one after each restart."""
        self._to, self._say = to, say

    def log(self, number: int, row: Mapping[str, Any]) -> None:
        """Send row `number` of the metrics file."""
        self._try(lambda to: to.log(number, row))

    def pictures(self, number: int, row: Mapping[str, Any], files: Mapping[str, Path]) -> None:
        """Show pictures (`.png`) and films (`.gif`) at row `number`, the last one so far."""
        self._try(lambda to: to.pictures(number, row, files), "does not take the pictures")

    def artifact(self, files: Mapping[str, Path], kind: str = "run") -> None:
        """Keep files of a `run`, under the names that they have in its directory, or a `report`."""
        self._try(lambda to: to.artifact(files, kind), "does not take the artifact")

    def close(self, exit_code: int = 0) -> None:
        """The run has ended."""
        self._try(lambda to: to.close(exit_code))

    def _try(self, action: Callable[[WandbTracker], None], lost: str = "") -> None:
        """Do something; where it fails, nothing more is sent, or only what is said to be `lost` is not."""
        if (to := self._to) is None:
            return
        try:
            action(to)
        except TimeoutError:
            self._to = None
            self._say(f"W&B did not take everything; the rest is kept: wandb sync {to.files}")
        except (Exception, SystemExit) as error:
            self._to = to if lost else None
            said = lost or "stopped working, the run goes on without it"
            self._say(f"W&B {said}: {one_line(error)}")
