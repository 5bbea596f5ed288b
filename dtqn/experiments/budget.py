"""Estimates of what runs will take, before any of them is trained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

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


def run_seconds(config: Config) -> float:
    """The seconds of a whole run on this machine, by some ticks and updates of a trial, which leaves nothing.

    Its evaluations are counted with the most steps that they may take. These have more copies at a time, so
    they take less.
    """
    machine.prepare()
    learner, replay = config.learner, config.replay
    sequence = learner.rollout_length or replay.burn_in_length + replay.learn_length + learner.n_step
    trainer = Trainer(config)
    try:
        per_env_step, per_update = trainer.trial(max(_LEAST_TICKS, sequence), _UPDATES)
    finally:
        trainer.close()
    env_steps = config.total_env_steps * (1 + config.evaluation.max_step_share)
    return START_SECONDS + env_steps * per_env_step + planned_updates(config) * per_update


def fitting(
    configs: Sequence[Config], runs_dir: Path, parallel: int, minutes: float, out: TextIO
) -> list[bool]:
    """Which of the runs fit into so many minutes, each taken in turn while it does; prints the estimate.

    The first run of each task and agent is tried out. A run that has begun counts with what is left of it, a
    finished one takes nothing.

    Args:
        parallel: trainings at a time; each is taken to begin when the first of those before it ends.
    """
    print("Estimate, from a short trial of each, evaluations counted at their most:", file=out, flush=True)
    seconds: dict[tuple[str, str], float] = {}
    fits: list[bool] = []
    whole, inside = [0.0] * parallel, [0.0] * parallel
    for config in configs:
        left, key = _left(config, RunDir.of_config(config, runs_dir)), (config.env, config.agent)
        if left and key not in seconds:
            seconds[key] = run_seconds(config)
            print(f"{' '.join(key)}: {duration(seconds[key])} a run", file=out, flush=True)
        needed = left * seconds.get(key, 0.0)
        fits.append(min(inside) + needed <= 60 * minutes)
        for ends in (whole, inside) if fits[-1] else (whole,):
            ends[ends.index(min(ends))] += needed  # it begins where the first one ends
    print(
        f"In all {duration(max(whole))} with {parallel} at a time; {duration(max(inside))} of it within the "
        f"{minutes:g} minutes, {sum(fits)} of {len(fits)} runs.",
        file=out,
        flush=True,
    )
    return fits


def _left(config: Config, directory: RunDir) -> float:
    """The share of a run that is still to be trained."""
    if directory.read_result() is not None:
        return 0.0
    rows = read_rows(directory.metrics_file) if directory.holds_run else []
    done = int(rows[-1]["env_steps"] or 0) if rows else 0
    return max(0.0, 1 - done / config.total_env_steps)
