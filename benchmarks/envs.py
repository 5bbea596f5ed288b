"""Env steps per second of every native task, against one environment of it in the same run.

    python -m benchmarks envs

One process on one core; uniformly random actions, drawn beforehand. A step is one timestep of one
environment: observation, reward, both flags, success, autoreset and time limit included. Per second of CPU
time and of wall-clock time, each the median over chunks.
"""

from __future__ import annotations

import itertools
from typing import Any

import envs
from benchmarks.timing import in_turns, median

SIZES = (1, 64, 1024, 4096)  # environments N
CHUNKS = 9


def measure_task(id: str, num_envs: int, seconds: float) -> dict[str, float]:
    """Env steps per CPU second and per wall-clock second of `num_envs` environments, in about `seconds`."""
    env = envs.make_vector(id, num_envs, seed=1)
    env.reset()
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(512)]
    for action in actions:  # to a typical mix of episodes
        env.step(action)
    following = itertools.cycle(actions)
    taken = in_turns({id: lambda: env.step(next(following))}, seconds, CHUNKS)
    rates = median(taken[id], num_envs)
    return {
        "env_steps_per_cpu_second": rates["per_cpu_second"],
        "env_steps_per_second": rates["per_second"],
    }


def measure(seconds: float = 0.5) -> dict[str, Any]:
    """All native tasks: `{id: {"1": {...}, "64": {...}, ...}}`, each measured for about `seconds`.

    `ratio_to_single` is the rate per CPU second over that of one environment.
    """
    result: dict[str, Any] = {}
    for id in envs.ids():
        rates = {str(num_envs): measure_task(id, num_envs, seconds) for num_envs in SIZES}
        for rate in rates.values():
            single = rates["1"]["env_steps_per_cpu_second"]
            rate["ratio_to_single"] = rate["env_steps_per_cpu_second"] / single
        result[id] = rates
    return result


def table(result: dict[str, Any]) -> str:
    """The figures of `measure` as text."""
    lines = [f"{'task':<34}{'N':>6}{'steps/CPU s':>14}{'steps/s':>14}{'x single':>10}"]
    for id, rates in result.items():
        for n, rate in rates.items():
            lines.append(
                f"{id:<34}{n:>6}{rate['env_steps_per_cpu_second']:>14,.0f}{rate['env_steps_per_second']:>14,.0f}"
                f"{rate['ratio_to_single']:>10.1f}"
            )
    return "\n".join(lines)
