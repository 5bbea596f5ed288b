"""Uniformly random actions on every native task: the floor beside which an agent's figures stand.

    python -m benchmarks random_play
    python -m benchmarks.random_play --env MiniGrid-MemoryS7-v0 [--env ID ...] [--json FILE]

The same number of episodes from each of many environments, all counted.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

import envs
from benchmarks.options import one_line_errors, parser_of, write
from dtqn.settings.config import wrong

NUM_ENVS, EPISODES_EACH = 500, 4


def play(
    id: str, copies: int = NUM_ENVS, episodes_each: int = EPISODES_EACH
) -> dict[str, float | int | None]:
    """Mean return with its standard error, success rate and length over `copies * episodes_each` episodes."""
    env = envs.make_vector(id, copies, seed=1)
    env.reset()
    env.action_space.seed(1)
    returns, lengths = np.zeros((copies, episodes_each)), np.zeros((copies, episodes_each))
    success = np.zeros((copies, episodes_each), bool)
    number, first, everyone = np.zeros(copies, int), np.zeros(copies, bool), np.arange(copies)
    while (number < episodes_each).any():
        _, reward, terminated, truncated, infos = env.step(env.action_space.sample())
        last = terminated | truncated
        counted = (number < episodes_each) & ~first
        at = everyone[counted], number[counted]
        returns[at] += reward[counted]
        lengths[at] += 1
        if "is_success" in infos:
            success[at] |= infos["is_success"][counted]
        number += last
        first = last
    task = envs.spec(id)
    return {
        "episodes": returns.size,
        "return": float(returns.mean()),
        "return_standard_error": float(returns.std(ddof=1) / math.sqrt(returns.size)),
        "success": float(success.mean()) if task.has_success else None,
        "success_ceiling": task.success_ceiling if task.has_success else None,
        "length": float(lengths.mean()),
    }


def measure(ids: Sequence[str] | None = None) -> dict[str, Any]:
    """`{id: figures}` for these tasks; None: for every native one."""
    return {id: play(id) for id in ids or envs.ids()}


def table(result: dict[str, Any]) -> str:
    """The figures of `measure` as text."""
    lines = [f"{'task':<34}{'return':>10}{'+-':>8}{'success':>9}{'length':>9}"]
    for id, row in result.items():
        success = "-" if row["success"] is None else f"{row['success']:.1%}"
        lines.append(
            f"{id:<34}{row['return']:>10.2f}{row['return_standard_error']:>8.2f}{success:>9}{row['length']:>9.1f}"
        )
    return "\n".join(lines)


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--env", action="append", metavar="ID", help="play this task; may be repeated")
    args = parser.parse_args(arguments)
    for id in args.env or ():
        try:
            envs.spec(id)
        except ValueError as error:
            raise wrong("--env", id, str(error)) from error
    result = measure(args.env)
    print(table(result))
    write(args.json, result)


if __name__ == "__main__":
    sys.exit(main())
