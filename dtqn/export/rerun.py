"""A run's rows of metrics once more, from its settings and seed alone, as its session wrote them."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from pathlib import Path

from dtqn.export.certificate import without_clocks
from dtqn.settings.config import Config
from dtqn.training import machine
from dtqn.training.evaluations import Evaluations
from dtqn.training.metrics import Row
from dtqn.training.setup import make_goal
from dtqn.training.trainer import Trainer


def rows(config: Config) -> Generator[Row, None, None]:
    """The rows that a run of these settings writes, without clocks, from the first on.

    Evaluations are played by this process, which changes no digit. Whoever has enough closes the iterator.
    """
    machine.prepare()
    trainer = Trainer(config.model_copy(update={"evaluator": "inline"}))
    goal = make_goal(config)
    with tempfile.TemporaryDirectory() as folder:
        evaluations = Evaluations(Path(folder), [], {})
        try:
            while not trainer.finished and not evaluations.reached(goal):
                row = trainer.advance()
                if row is not None:
                    yield _whole(row, trainer, evaluations)
            for row in trainer.finish():
                yield _whole(row, trainer, evaluations)
        finally:
            trainer.close()


def _whole(row: Row, trainer: Trainer, evaluations: Evaluations) -> Row:
    """The row with the evaluation that belongs to it, and the figures of the run so far."""
    evaluated = trainer.evaluator.evaluated()
    if evaluated is not None:
        row = row | evaluated.metrics
        evaluations.keep_best(row, evaluated.weights)
    return without_clocks(row | evaluations.tally(row))
