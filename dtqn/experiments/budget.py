"""Estimates of what runs will take, before any of them is trained."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

from dtqn.experiments.records import Outcome
from dtqn.settings.config import Config
from dtqn.text import columns, duration, number
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
    seconds: dict[tuple[str, str], float] = {}
    fits, needed = [], []
    ends = [0.0] * parallel
    for config in configs:
        left = _left(config, RunDir.of_config(config, runs_dir))
        key = config.env, config.agent
        if left and key not in seconds:
            seconds[key] = START_SECONDS + trial(config).run_seconds(config)
        needed.append(left * seconds[key] if left else 0.0)
        fits.append(min(ends) + needed[-1] <= 60 * minutes)
        if fits[-1]:
            _add(ends, needed[-1])
    print("\n".join(_report(configs, needed, fits, parallel, minutes)), file=out, flush=True)
    return fits


def _add(ends: list[float], seconds: float) -> None:
    """Let a training begin where the first one ends."""
    ends[ends.index(min(ends))] += seconds


def _length(needed: Sequence[float], parallel: int) -> float:
    """Seconds until all of these trainings have ended."""
    ends = [0.0] * parallel
    for seconds in needed:
        _add(ends, seconds)
    return max(ends)


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


def _report(
    configs: Sequence[Config], needed: Sequence[float], fits: Sequence[bool], parallel: int, minutes: float
) -> list[str]:
    """The estimate of each task and agent and in all, and which runs do not fit."""
    groups: dict[tuple[str, str], list[int]] = {}
    for index, config in enumerate(configs):
        groups.setdefault((config.env, config.agent), []).append(index)
    rows = [["task", "agent", "env steps", "updates", "a run", "runs to train", "that fit"]]
    for (env, agent), indices in groups.items():
        config = configs[indices[0]]
        to_train = [index for index in indices if needed[index]]
        rows.append(
            [
                env,
                agent,
                number(config.total_env_steps),
                number(planned_updates(config)),
                duration(statistics.fmean(needed[index] for index in to_train)) if to_train else "-",
                str(len(to_train)),
                str(sum(fits[index] for index in to_train)),
            ]
        )
    whole = _length(needed, parallel)
    inside = _length([time for time, fit in zip(needed, fits, strict=True) if fit], parallel)
    lines = ["Estimate, from a short trial of each, evaluations counted at their most:", *columns(rows)]
    lines.append(
        f"In all {duration(whole)} with {parallel} at a time; {duration(inside)} of it within the "
        f"{minutes:g} minutes."
    )
    missing = [f"{c.env} {c.agent} seed {c.seed}" for c, fit in zip(configs, fits, strict=True) if not fit]
    return [*lines, f"Not trained, as it does not fit: {', '.join(missing)}."] if missing else lines
