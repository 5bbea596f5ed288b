"""Env steps per second of every native task, against one copy of the same task in the same run.

    python -m benchmarks envs

One process on one core; uniformly random actions, drawn beforehand. A step is one row of one environment:
observation, reward, both flags, success, autoreset and time limit included. Per second of CPU time and of
wall-clock time, each the median over chunks.
"""

from __future__ import annotations

import importlib.util
import itertools
from typing import Any

import envs
from benchmarks.timing import in_turns, median

SIZES = (1, 64, 1024, 4096)  # copies N
CHUNKS = 9


def measure_task(id: str, num_envs: int, seconds: float, **options: Any) -> dict[str, float]:
    """Env steps per CPU second and per wall-clock second of `num_envs` copies, in about `seconds`."""
    env = envs.make_vector(id, num_envs, seed=1, **options)
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
        "microseconds_per_vector_step": 1e6 * num_envs / rates["per_cpu_second"],
    }


def measure(seconds: float = 0.5) -> dict[str, Any]:
    """All native tasks: `{id: {"1": {...}, "64": {...}, ...}}`, each measured for about `seconds`.

    `ratio_to_single` is the rate per CPU second over that of one environment, `ratio_to_package` that over
    one environment in the package gym_gridverse, for its tasks and where it is installed.
    """
    has_package = importlib.util.find_spec("gym_gridverse") is not None
    result: dict[str, Any] = {}
    for id in envs.ids():
        rates = {num_envs: measure_task(id, num_envs, seconds) for num_envs in SIZES}
        rivals = {"ratio_to_single": rates[1]}
        if has_package and id.startswith(("gridverse-", "GV-")):
            rivals["ratio_to_package"] = measure_task(id, 1, seconds, backend="gym-gridverse")
        for rate in rates.values():
            mine = rate["env_steps_per_cpu_second"]
            ratios = {name: mine / rival["env_steps_per_cpu_second"] for name, rival in rivals.items()}
            rate.update(ratios)
        result[id] = {str(n): rate for n, rate in rates.items()}
    return result


def table(result: dict[str, Any]) -> str:
    """The figures of `measure` as text."""
    lines = [f"{'task':<34}{'N':>6}{'steps/CPU s':>14}{'steps/s':>14}{'us/vector step':>16}{'x single':>10}"]
    for id, rates in result.items():
        for n, rate in rates.items():
            lines.append(
                f"{id:<34}{n:>6}{rate['env_steps_per_cpu_second']:>14,.0f}{rate['env_steps_per_second']:>14,.0f}"
                f"{rate['microseconds_per_vector_step']:>16.1f}{rate['ratio_to_single']:>10.1f}"
            )
    return "\n".join(lines)
