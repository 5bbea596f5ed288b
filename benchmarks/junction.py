"""Why a run of T-Maze succeeds or not: what its memory tells at the junction, and what it has tried there.

    python -m benchmarks.junction RUN_DIR [--json FILE]

By the goal's side and by action, for the last checkpoint of a run:

    Q         the value at the junction, after the shortest way there
    tried     how many stored episodes took the action there, in time for the goal

Where Q differs between the sides, memory holds the goal's side. An action that was never tried where the goal
is has no value there yet, and then it is exploration that the run lacks.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import dtqn
from benchmarks.options import one_line_errors, origin, write
from benchmarks.stored import stored
from dtqn.settings.config import Config, ConfigError
from dtqn.text import columns
from dtqn.training import checkpoint, session
from dtqn.training.directory import RunDir
from dtqn.training.trainer import Trainer
from dtqn.types import first_rows
from envs.t_maze import TMazeDynamics

SIDES = {1: "up", -1: "down"}
COPIES = 64
"""So many episodes have both sides among them, but for one seed in 10^19."""


def shortest_way(env: str) -> list[int]:
    """The actions that lead to the junction past the cue."""
    found = re.fullmatch(r"t-maze-(passive|active)-([1-9][0-9]*)", env)
    if found is None:
        raise ConfigError(f"env is {env}; it must be a T-Maze, such as t-maze-passive-10")
    right, left = (TMazeDynamics.action_names.index(name) for name in ("right", "left"))
    length = int(found[2])
    return [right] * length if found[1] == "passive" else [left, *[right] * (length + 1)]


def values(run: Path, way: Sequence[int]) -> dict[int, list[float]]:
    """Q-values at the junction by the goal's side."""
    policy = dtqn.load(run)
    env = policy.make_env(COPIES)
    observation, _ = env.reset(seed=0)
    policy.reset(COPIES)
    goal = np.zeros(COPIES)
    for action in way:
        goal = np.where(goal == 0, observation[:, 1], goal)
        policy.act(observation)
        taken = np.full(COPIES, action)
        policy.acted(taken)
        observation, *_ = env.step(taken)
    q = policy.act(observation, return_q=True)[1]
    env.close()
    return {side: q[goal == side].mean(axis=0).tolist() for side in SIDES}


def tried(trainer: Trainer) -> NDArray[np.int64]:
    """[2, A] stored episodes that reached the junction in time, by the goal's side, up first, and action."""
    counts = np.zeros((len(SIDES), len(TMazeDynamics.action_names)), np.int64)
    for ids, batch, last, whole in stored(trainer):
        rows = torch.arange(len(ids))
        assert isinstance(batch.learn.observation, torch.Tensor)
        at_junction, y = batch.learn.observation.unbind(dim=-1)
        real = first_rows(batch.learn_rows, y.shape[1])
        goal = torch.where(real & (at_junction == 0), y, 0.0).sum(dim=1)  # it is shown once
        in_time = whole & (at_junction[rows, last - 1] == 1)
        action = batch.learn.prev_action[rows, last].long()
        for row, side in enumerate(SIDES):
            taken = action[in_time & (goal == side)].cpu().numpy()
            counts[row] += np.bincount(taken, minlength=counts.shape[1])
    return counts


def measure(run: Path) -> dict[str, Any]:
    """A run's last checkpoint; a ConfigError where there is nothing to measure."""
    directory = RunDir(run)
    config: Config = directory.read_config()
    way = shortest_way(config.env)
    if not config.learner.rollout_length and config.replay.learn_length <= len(way):
        raise ConfigError(
            f"replay.learn_length is {config.replay.learn_length}: of episodes of {len(way) + 1} steps or "
            "more no stored sequence is a whole one, so none can be counted"
        )
    about = checkpoint.read_about(directory.checkpoints)
    trainer = session.restored_trainer(config.on_cpu(), directory)
    try:
        counts = tried(trainer)
    finally:
        trainer.close()
    rows = [
        {"goal": SIDES[side], "action": name, "q": q[i], "tried": int(counts[row, i])}
        for row, (side, q) in enumerate(values(run, way).items())
        for i, name in enumerate(TMazeDynamics.action_names)
    ]
    return {**origin(config, about), "junction": rows}


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("run", type=Path, metavar="RUN_DIR")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args(arguments)
    measured = measure(args.run)
    cells = [[x["goal"], x["action"], f"{x['q']:.3f}", str(x["tried"])] for x in measured["junction"]]
    print("\n".join(columns([["goal", "action", "Q", "tried"], *cells])))
    write(args.json, measured)


if __name__ == "__main__":
    sys.exit(main())
