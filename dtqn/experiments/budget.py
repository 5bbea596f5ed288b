"""Estimates of what runs will take, before any of them is trained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

from dtqn.experiments.records import Outcome
from dtqn.settings.config import Config
from dtqn.text import duration
from dtqn.training import machine
from dtqn.training.directory import RunDir
from dtqn.training.metrics import read_rows
from dtqn.training.preflight import planned_updates
from dtqn.training.trainer import Trainer

START_SECONDS = 5.0
"""CPU seconds until a training has started: imports and networks, measured on two cores."""
_LEAST_TICKS, _UPDATES = 50, 4
"""Of a trial."""


class Pace(NamedTuple):
    """Seconds on this machine at this moment."""

    per_env_step: float
    per_update: float

    def run_seconds(self, config: Config) -> float:
        """The seconds of a whole run, its evaluations counted with the most steps that they may take.

        These have more copies at a time, so they take less.
        """
        acting = config.total_env_steps * (1 + config.evaluation.max_step_share)
        return acting * self.per_env_step + planned_updates(config) * self.per_update


def trial(config: Config) -> Pace:
    """The pace of a run with these settings: some ticks and some updates of a trial, which leaves nothing."""
    machine.prepare()
    trainer = Trainer(config)
    try:
        return Pace(*trainer.trial(max(_LEAST_TICKS, _longest_sequence(config)), _UPDATES))
    finally:
        trainer.close()


def _longest_sequence(config: Config) -> int:
    """Rows of a whole sequence."""
    learner, replay = config.learner, config.replay
    if learner.rollout_length:
        return learner.rollout_length
    return replay.burn_in_length + replay.learn_length + learner.n_step


def fitting(
    configs: Sequence[Config], runs_dir: Path, parallel: int, minutes: float, out: TextIO
) -> list[bool]:
    """Which of the runs fit into so many minutes, each taken in turn while it does; prints the estimate.

    The first run of each task and agent is tried out (`trial`). A run that has begun counts with what
    is left of it, a finished one takes nothing.

    Args:
        parallel: trainings at a time; each is taken to begin when the first of those before it ends.
    """
    pairs = len({(config.env, config.agent) for config in configs})
    print(f"trying out {pairs} pairs of task and agent, some seconds each", file=out, flush=True)
    print("Estimate, from a short trial of each, evaluations counted at their most:", file=out)
    seconds: dict[tuple[str, str], float] = {}
    fits: list[bool] = []
    whole, inside = [0.0] * parallel, [0.0] * parallel
    for config in configs:
        left = _left(config, RunDir.of_config(config, runs_dir))
        key = config.env, config.agent
        if left and key not in seconds:
            seconds[key] = START_SECONDS + trial(config).run_seconds(config)
            print(f"{' '.join(key)}: {duration(seconds[key])} a run", file=out, flush=True)
        needed = left * seconds[key] if left else 0.0
        _add(whole, needed)
        fits.append(min(inside) + needed <= 60 * minutes)
        if fits[-1]:
            _add(inside, needed)
    print(
        f"In all {duration(max(whole))} with {parallel} at a time; {duration(max(inside))} of it within the "
        f"{minutes:g} minutes.",
        file=out,
    )
    missing = [f"{c.env} {c.agent} seed {c.seed}" for c, fit in zip(configs, fits, strict=True) if not fit]
    if missing:
        print(f"Not trained, as it does not fit: {', '.join(missing)}.", file=out, flush=True)
    return fits


def _add(ends: list[float], seconds: float) -> None:
    """Let a training begin where the first one ends."""
    ends[ends.index(min(ends))] += seconds


def unrun(config: Config, minutes: float) -> Outcome:
    """A run that did not fit."""
    return Outcome(
        config, "not trained", [], None, "no directory", f"does not fit --budget-minutes {minutes:g}"
    )


def _left(config: Config, directory: RunDir) -> float:
    """The share of a run that is still to be trained."""
    if not directory.holds_run:
        return 1.0
    if directory.read_result() is not None:
        return 0.0
    rows = read_rows(directory.metrics_file)
    done = int(rows[-1]["env_steps"] or 0) if rows else 0
    return max(0.0, 1 - done / config.total_env_steps)
