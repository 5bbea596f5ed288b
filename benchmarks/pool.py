"""Acting by workers against acting inline, and a whole run with workers against one inline.

    python -m benchmarks.pool [--seconds S] [--env ID ...] [--json FILE] [--SETTING VALUE ...]

It measures env steps a second of each task, in turns and on the CPU: acted and stored without an update,
inline and with workers; learned without a step; and of whole runs.
"""

from __future__ import annotations

import collections
import contextlib
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from benchmarks.options import one_line_errors, parser_of, settings_of, write
from dtqn.commands import argtypes
from dtqn.settings.config import Config
from dtqn.settings.presets import resolve
from dtqn.settings.task import task_of
from dtqn.training import machine
from dtqn.training.trainer import Trainer

CHUNKS = 5
BUSY, BUSIER = "benchmarks.pool:Busy", "benchmarks.pool:Busier"
MINIGRID = "MiniGrid-MemoryS17Random-v0"
NATIVE = ("gridverse-memory-7x7", "t-maze-passive-10")


_RATIOS = {"acting": "acting_workers_over_inline", "whole": "run_over_run_inline"}
"""Columns of the table."""


class Busy(gymnasium.Env[Any, Any]):
    """Every step takes 2 ms of a core, and an episode 50 of them."""

    observation_space = gymnasium.spaces.Box(-1, 1, (8,), np.float32)
    action_space = gymnasium.spaces.Discrete(4)
    step_seconds = 0.002

    def __init__(self) -> None:
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self.np_random.uniform(-1, 1, 8).astype(np.float32), {}

    def step(self, action: Any) -> Any:
        end = time.thread_time() + self.step_seconds
        while time.thread_time() < end:
            pass
        self.steps += 1
        observation = self.np_random.uniform(-1, 1, 8).astype(np.float32)
        return observation, 0.0, self.steps == 50, False, {}


class Busier(Busy):
    """Every step takes 10 ms of a core."""

    step_seconds = 0.01


def tasks() -> list[str]:
    """Those that are measured by default."""
    return [BUSY, BUSIER, *([MINIGRID] if importlib.util.find_spec("minigrid") else []), *NATIVE]


def config_of(env: str, pool: str, flags: Mapping[str, str] = {}) -> Config:
    """Default settings, learning from the first sequence on, and neither evaluations nor metrics."""
    never = dict.fromkeys(("total_env_steps", "metrics_every", "evaluation.period"), str(10**9))
    here = {"warmup_env_steps": "0", "device": "cpu", "evaluator": "inline", "threads": "1"}
    return resolve(None, never | here | {"env": env, "actor.pool": pool} | flags, {})


def rate(trainer: Trainer, act: Callable[[], Any], seconds: float) -> float:
    """Env steps a second while `act` is called, without the vector steps that workers were ahead before."""
    for _ in range(getattr(trainer.config.actor.pool, "max_lead", 0) + 1):
        trainer._act()
    before, began = trainer.env_steps, time.perf_counter()
    while time.perf_counter() - began < seconds:
        act()
    return (trainer.env_steps - before) / (time.perf_counter() - began)


def updates_rate(trainer: Trainer, seconds: float) -> float:
    before, began = trainer.learner_steps, time.perf_counter()
    while time.perf_counter() - began < seconds:
        trainer._learn(*trainer.updates.draw())
    return (trainer.learner_steps - before) / (time.perf_counter() - began)


def measure_task(env: str, seconds: float, flags: Mapping[str, str] = {}) -> dict[str, Any]:
    """All figures of a task; each is measured for about `seconds`."""
    with contextlib.ExitStack() as stack:

        def started(pool: str) -> Trainer:
            trainer = Trainer(config_of(env, pool, flags))
            stack.callback(trainer.close)
            while trainer.replay.num_sequences < trainer.config.learner.batches.size:
                trainer._act()
            trainer.advance()  # the first update sets things up
            return trainer

        inline, process = started("inline"), started("process")
        per_update = process.config.env_steps_per_update
        samples: dict[str, list[float]] = collections.defaultdict(list)
        chunk = seconds / CHUNKS
        for _ in range(CHUNKS):
            samples["inline"].append(rate(inline, inline._act, chunk))
            samples["workers"].append(rate(process, process._act, chunk))
            samples["learning"].append(per_update * updates_rate(process, chunk))
            samples["run_inline"].append(rate(inline, inline.advance, chunk))
            samples["run"].append(rate(process, process.advance, chunk))

    def ratio(name: str, over: str) -> float:
        return statistics.median(a / b for a, b in zip(samples[name], samples[over], strict=True))

    return {
        **{f"{name}_env_steps_per_second": statistics.median(x) for name, x in samples.items()},
        "copies": process.config.actor.num_envs,
        "num_workers": process.config.actor.pool.num_workers,
        "acting_workers_over_inline": ratio("workers", "inline"),
        "run_over_run_inline": ratio("run", "run_inline"),
    }


def measure(
    seconds: float = 10.0, of_tasks: list[str] | None = None, flags: Mapping[str, str] = {}
) -> dict[str, Any]:
    machine.prepare()
    return {
        "machine": machine.name(),
        "settings": dict(flags),
        "tasks": {env: measure_task(env, seconds, flags) for env in of_tasks or tasks()},
    }


def table(result: dict[str, Any]) -> str:
    """The figures of `measure` as text."""
    columns = ("inline", "workers", "learning", "run")
    head = f"{'env steps/s':<30}" + "".join(f"{name:>12}" for name in columns)
    lines = [head + "".join(f"{name:>10}" for name in _RATIOS)]
    for env, figures in result["tasks"].items():
        rates = "".join(f"{figures[f'{name}_env_steps_per_second']:>12,.0f}" for name in columns)
        lines.append(f"{env:<30}{rates}{''.join(f'{figures[name]:>10.2f}' for name in _RATIOS.values())}")
    return "\n".join([*lines, *(f"{name}: {figure.replace('_', ' ')}" for name, figure in _RATIOS.items())])


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--seconds", type=argtypes.above_zero, default=10.0, help="for each figure")
    parser.add_argument("--env", action="append", metavar="ID", help="measure this task; may be repeated")
    args, rest = parser.parse_known_args(arguments)
    settings = settings_of(rest)
    for env in args.env or ():
        task_of(config_of(env, "inline", settings))  # one line, before anything is measured
    result = measure(args.seconds, args.env, settings)
    print(table(result))
    write(args.json, result)


if __name__ == "__main__":
    sys.exit(main())
