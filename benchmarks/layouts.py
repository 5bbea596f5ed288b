"""Greedy success by what can be won: the episodes of a gridverse memory task, sorted by their layouts.

    python -m benchmarks.layouts RUN_DIR [--episodes 5000] [--seed 7] [--weights last] [--json FILE]

In some layouts of the four rooms no agent can do better than guess, and some cannot be won. The command plays
the same episodes as `run.py eval` does, searches each layout, and tells apart

    can be won   a beacon can be seen before the end, and the good exit can be reached
    a guess      no beacon can be seen before an exit is stepped on, so one of two such layouts is lost
    lost         the good exit is behind the bad one

For each it gives the success, and how the other episodes end: on an exit (the bad one, or the good one too
late) or at the time limit.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.options import one_line_errors, origin, write
from dtqn.acting.evaluation import Steps, agent_steps, play_by
from dtqn.acting.rows import VectorRows
from dtqn.acting.statistics import wilson_interval
from dtqn.networks.q_network import QNetwork
from dtqn.settings.config import ConfigError
from dtqn.text import columns
from dtqn.training import checkpoint, machine, setup
from dtqn.training.directory import RunDir
from dtqn.training.trained import load_network
from envs.gridverse import codes
from envs.gridverse.state import State, from_arrays
from envs.gridverse.world import Engine
from envs.gridverse.worlds import SHIPPED, world
from envs.vector import NativeVectorEnv

KINDS = (("can be won", 1.0), ("a guess", 0.5), ("lost", 0.0))
"""Names of layouts by the `chance` in them."""


def chance(engine: Engine, layouts: State) -> NDArray[np.float64]:
    """The success, at best, of an agent in each of the layouts, deadlines aside, [N].

    0 where the good exit cannot be reached without ending on another. 1/2 where no beacon can be seen before
    the end: with the colours of the two exits swapped the layout looks the same, so of each such pair one is
    lost. 1 elsewhere. Nothing but the agent moves in these worlds.
    """
    shape, num = layouts.geometry, len(layouts.pose)
    poses, rng = np.arange(4 * shape.outside), np.random.default_rng(0)
    sees = np.zeros((num, len(poses)), np.bool_)
    for pose in poses:
        view = engine.observe(layouts._replace(pose=np.full(num, pose)), rng)
        sees[:, pose] = codes.is_type(view, codes.BEACON).any(axis=0)
    exits = codes.is_type(layouts.cells, codes.EXIT)
    stops = (layouts.cells & codes.STOPS_MOVEMENT) != 0
    beacon = codes.is_type(layouts.cells, codes.BEACON).argmax(axis=1)
    good = exits & (
        codes.COLOUR[layouts.cells] == codes.COLOUR[layouts.cells[np.arange(num), beacon]][:, None]
    )
    reached = np.zeros((num, shape.num_cells), np.bool_)
    reached[np.arange(num), layouts.place] = True
    while True:  # from cell to cell; an exit is an end
        wider = reached.copy()
        ways_on = reached & ~exits
        for place in range(shape.outside):
            wider[:, shape.neighbours[place]] |= ways_on[:, place, None]
        wider &= ~stops
        if (wider == reached).all():
            break
        reached = wider
    # The agent can turn on the spot, so that it sees in all four headings wherever it gets; what it sees on
    # an exit comes too late.
    found = (sees.reshape(num, -1, 4).any(axis=2) & (reached & ~exits)[:, :-1]).any(axis=1)
    return np.where(found, (reached & good).any(axis=1), 0.5)


class Outcomes(NamedTuple):
    """Episodes, an array of n each."""

    chance: NDArray[np.float64]
    """The best possible success in their layouts."""
    success: NDArray[np.bool_]
    terminated: NDArray[np.bool_]
    """False at the time limit."""
    length: NDArray[np.int64]
    """Env steps."""


@torch.no_grad()
def play(network: QNetwork, env: NativeVectorEnv, engine: Engine, episodes: int) -> Outcomes:
    """The episodes that `dtqn.acting.evaluation.play` has, all greedy, and the layouts that they begin in."""
    ended: list[list[NDArray[Any]]] = []

    def policy(rows: VectorRows, wanted: NDArray[np.bool_]) -> Steps:
        starts = [np.zeros_like(part) for part in _state(env)]
        steps = agent_steps(network, rows, wanted)
        while True:
            for start, part in zip(starts, _state(env), strict=True):
                start[rows.first] = part[rows.first]
            over = next(steps)
            counted = rows.last & wanted
            ended.append([rows.terminated[counted], *(start[counted] for start in starts)])
            yield over

    with contextlib.closing(env):
        played = play_by(policy, env, episodes)
    terminated, *starts = (np.concatenate(parts) for parts in zip(*ended, strict=True))
    return Outcomes(chance(engine, from_arrays(*starts)), played.successes, terminated, played.lengths)


def _state(env: NativeVectorEnv) -> list[NDArray[Any]]:
    """The worlds of the copies, as `from_arrays` takes them."""
    state = env.get_state()["state"]
    return [state[name] for name in ("grid", "agent", "item")]


def by_layout(outcomes: Outcomes) -> list[dict[str, Any]]:
    """A row for each kind of layouts that there are, and one for all."""
    found = []
    for name, best in (*KINDS, ("all", None)):
        among = np.ones(len(outcomes.chance), bool) if best is None else outcomes.chance == best
        if not (count := int(among.sum())):
            continue
        won, terminated = int(outcomes.success[among].sum()), int(outcomes.terminated[among].sum())
        low, high = wilson_interval(won, count)
        found.append(
            {"layouts": name, "episodes": count, "best": float(outcomes.chance[among].mean())}
            | {"success": won / count, "success low": low, "success high": high}
            | {"other exits": (terminated - won) / count, "time limit": 1 - terminated / count}
            | {"length": float(outcomes.length[among].mean())}
        )
    return found


def measure(run: Path, episodes: int, seed: int, weights: str) -> dict[str, Any]:
    """A run's greedy episodes by layout; a ConfigError where there is nothing to measure."""
    directory = RunDir(run)
    config = directory.read_config()
    if config.env not in SHIPPED or not (spec := world(config.env)).has_good_exit:
        raise ConfigError(f"{run}: env is {config.env}; it must be a gridverse memory task")
    env = setup.make_env(config, min(episodes, config.evaluation.num_envs), np.random.SeedSequence(seed))
    if not isinstance(env, NativeVectorEnv):
        raise ConfigError(f"{run}: task has options that change what is observed, or another backend")
    network = load_network(directory, config, weights)
    about = checkpoint.read_about(directory.checkpoints)
    rows = by_layout(play(network, env, Engine(spec), episodes))
    return {**origin(config, about), "weights": weights, "layouts": rows}


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("run", type=Path, metavar="RUN_DIR")
    parser.add_argument("--episodes", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=7, help="of the tasks")
    parser.add_argument("--weights", default="last", help="last or best")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args(arguments)
    if args.episodes < 1:
        raise ConfigError(f"--episodes is {args.episodes}; it must be at least 1")
    if args.seed < 0:
        raise ConfigError(f"--seed is {args.seed}; it must be at least 0")
    machine.prepare()
    measured = measure(args.run, args.episodes, args.seed, args.weights)
    cells = [
        [x["layouts"], str(x["episodes"])]
        + [f"{x[name]:.1%}" for name in ("best", "success", "other exits", "time limit")]
        + [f"{x['length']:.1f}"]
        for x in measured["layouts"]
    ]
    heads = ["layouts", "episodes", "best", "success", "on another exit", "at the time limit", "steps"]
    print("\n".join(columns([heads, *cells])))
    write(args.json, measured)


if __name__ == "__main__":
    sys.exit(main())
