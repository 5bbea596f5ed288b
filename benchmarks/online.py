"""Discounted returns of finished runs' last weights, as the agents act in training and greedily.

    python -m benchmarks.online RUN [RUN ...] [--gamma 0.99] [--episodes 1000] [--json FILE]

POBAX (Tao et al., RLC 2025) publishes such returns of training episodes. Here each environment of the run
plays as many episodes as any other, with its random actions, bursts and untried actions as the run left them.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from benchmarks.options import one_line_errors, parser_of, write
from dtqn.acting.actor import Actor
from dtqn.acting.evaluation import Played, Steps, play, play_by
from dtqn.acting.timesteps import VectorTimesteps
from dtqn.settings.config import wrong
from dtqn.training import checkpoint
from dtqn.training.directory import RunDir
from dtqn.training.session import restored_trainer
from dtqn.training.setup import make_env

_SEED = 1
"""Of the episodes; no run's environments have it, as theirs are keys below a seed."""


def acting(actor: Actor, timesteps: VectorTimesteps) -> Iterator[Steps]:
    """Step environments for ever as `actor` steps its own, which it is given in place of those."""
    actor.timesteps = timesteps
    unasked = np.full(timesteps.env.num_envs, np.nan)
    while True:
        yield actor.vector_step()[1], unasked


def measure(run: Path, gamma: float, episodes: int) -> dict[str, Any]:
    """Mean discounted returns with their standard errors, `online` and `greedy`, of a run's last weights."""
    directory = RunDir(run)
    config, about = directory.read_config(), checkpoint.read_about(directory.checkpoints)
    if not about["finished"]:
        raise wrong("RUN", str(run), "must have reached its end")
    if config.num_workers:
        raise wrong("RUN", str(run), f"must have an inline actor.pool, not {config.actor.pool.name}")
    env = functools.partial(make_env, config, config.actor.num_envs, np.random.SeedSequence(_SEED))
    with contextlib.closing(restored_trainer(config, directory, about)) as trainer:
        actor = cast(Actor, trainer.actor)
        online = play_by(lambda steps, _: acting(actor, steps), env(), episodes, gamma=gamma)
        greedy = play(trainer.network, env(), episodes, gamma=gamma)
    return {
        "env": config.env,
        "agent": config.agent,
        "seed": config.seed,
        "env_steps": about["env_steps"],
        "gamma": gamma,
        "episodes": episodes,
        **_figures("online", online),
        **_figures("greedy", greedy),
    }


def _figures(name: str, played: Played) -> dict[str, float]:
    returns = played.discounted_returns
    return {name: float(returns.mean()), f"{name}_error": float(returns.std(ddof=1) / len(returns) ** 0.5)}


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folder of a finished run")
    parser.add_argument("--gamma", type=float, default=0.99, help="discount of the returns (0.99)")
    parser.add_argument("--episodes", type=int, default=1000, help="episodes of each kind (1000)")
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    found = [measure(run, args.gamma, args.episodes) for run in args.runs]
    for row in found:
        means = (f"{name} {row[name]:.2f} +- {row[f'{name}_error']:.2f}" for name in ("online", "greedy"))
        print(f"{row['env']} {row['agent']} seed {row['seed']}: {', '.join(means)}")
    write(args.json, {"runs": found})


if __name__ == "__main__":
    sys.exit(main())
