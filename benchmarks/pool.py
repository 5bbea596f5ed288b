"""Acting by workers against acting inline, and a whole run against its two halves.

    python -m benchmarks.pool [--seconds S] [--workers W] [--env ID ...] [--ray] [--json FILE]
    python -m benchmarks.pool --bytes --env ID [--agent NAME] [--SETTING VALUE ...]

The first command measures, of each task, all in turns and on the CPU:

- `acting`: env steps a second that are acted and stored, no update made, inline and with workers;
- `run`: env steps a second of a run with workers, default settings, against the lower of its two limits:
  acting alone, and learning alone, which is updates a second times the env steps for each. Where workers and
  learner together need more cores than there are, no run reaches that: `cores_limit` is then what both allow
  that share the cores without loss.

Tasks are one that computes 2 ms a step, MiniGrid's memory (where it is installed) and native ones. The second
command measures nothing: it counts the bytes that a worker hands over for each env step and gets at each
publishing, from the forms of a row and of the parameters.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from benchmarks.options import settings_of
from dtqn.settings.config import Config, ConfigError
from dtqn.settings.presets import resolve
from dtqn.training import machine, setup
from dtqn.training.exchange import bytes_per_env_step
from dtqn.training.schema import named
from dtqn.training.trainer import Trainer

CHUNKS = 5
STEP_SECONDS = 0.002
BUSY = "benchmarks.pool:Busy"
MINIGRID = "MiniGrid-MemoryS17Random-v0"
NATIVE = ("gridverse-memory-7x7", "t-maze-passive-10")


class Busy(gymnasium.Env[Any, Any]):
    """Every step takes 2 ms of a core, and an episode 50 of them."""

    observation_space = gymnasium.spaces.Box(-1, 1, (8,), np.float32)
    action_space = gymnasium.spaces.Discrete(4)

    def __init__(self) -> None:
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self.np_random.uniform(-1, 1, 8).astype(np.float32), {}

    def step(self, action: Any) -> Any:
        end = time.thread_time() + STEP_SECONDS
        while time.thread_time() < end:
            pass
        self.steps += 1
        observation = self.np_random.uniform(-1, 1, 8).astype(np.float32)
        return observation, 0.0, self.steps == 50, False, {}


def tasks() -> list[str]:
    """Those that are measured by default."""
    return [BUSY, *([MINIGRID] if importlib.util.find_spec("minigrid") else []), *NATIVE]


def config_of(env: str, pool: str, workers: int) -> Config:
    """Default settings, learning from the first sequence on, and neither evaluations nor metrics."""
    never = dict.fromkeys(("total_env_steps", "metrics_every", "evaluation.period"), str(10**9))
    flags = {
        "env": env,
        "actor.pool": pool,
        "actor.num_workers": str(workers),
        "warmup_env_steps": "0",
        "device": "cpu",
        "evaluator": "inline",
        "threads": "1",
    }
    return resolve(None, never | flags, {})


def rate(trainer: Trainer, act: Callable[[], Any], seconds: float) -> float:
    """Env steps a second while `act` is called."""
    before, began = trainer.env_steps, time.perf_counter()
    while time.perf_counter() - began < seconds:
        act()
    return (trainer.env_steps - before) / (time.perf_counter() - began)


def updates_rate(trainer: Trainer, seconds: float) -> float:
    before, began = trainer.learner_steps, time.perf_counter()
    while time.perf_counter() - began < seconds:
        trainer._learn(*trainer.updates.draw())
    return (trainer.learner_steps - before) / (time.perf_counter() - began)


def measure_task(env: str, workers: int, seconds: float, ray: bool) -> dict[str, Any]:
    """All figures of a task; each is measured for about `seconds`."""
    with contextlib.ExitStack() as stack:
        trainers = {}
        for pool in ("inline", "process", *(["ray"] if ray else [])):
            trainers[pool] = Trainer(config_of(env, pool, workers))
            stack.callback(trainers[pool].close)
            trainers[pool]._act()
        inline, pooled = trainers["inline"], trainers["process"]
        config = pooled.config
        while pooled.replay.num_sequences < config.learner.batch_size:
            pooled._act()
        pooled.advance()  # the first update sets things up
        samples: dict[str, list[float]] = {"inline": [], "workers": [], "learning": [], "run": []}
        samples |= {"ray": []} if ray else {}
        per_update = config.env_steps_per_update
        for _ in range(CHUNKS):
            chunk = seconds / CHUNKS
            samples["inline"].append(rate(inline, inline._act, chunk))
            samples["workers"].append(rate(pooled, pooled._act, chunk))
            if ray:
                samples["ray"].append(rate(trainers["ray"], trainers["ray"]._act, chunk))
            samples["learning"].append(per_update * updates_rate(pooled, chunk))
            pooled.actor.metrics()
            samples["run"].append(rate(pooled, pooled.advance, chunk))
            waiting = pooled.actor.metrics()
    found: dict[str, Any] = {
        f"{name}_env_steps_per_second": statistics.median(x) for name, x in samples.items()
    }
    if ray:
        slower = zip(samples["workers"], samples["ray"], strict=True)
        found["time_of_ray_over_process"] = statistics.median(process / other for process, other in slower)
    acting, learning = (found[f"{name}_env_steps_per_second"] for name in ("workers", "learning"))
    cores = machine.cores()
    triples = list(zip(samples["workers"], samples["learning"], samples["run"], strict=True))
    return found | {
        "acting_workers_over_inline": statistics.median(
            b / a for a, b in zip(samples["inline"], samples["workers"], strict=True)
        ),
        "run_over_lower_limit": statistics.median(
            run / min(acting, learning) for acting, learning, run in triples
        ),
        "cores_limit_env_steps_per_second": cores / (min(workers, cores) / acting + 1 / learning),
        "lead_env_steps": waiting["actor/lead"],
        "parameter_age": waiting["actor/parameter_age"],
    }


def measure(
    seconds: float = 10.0, workers: int = 2, of_tasks: list[str] | None = None, ray: bool = False
) -> dict[str, Any]:
    machine.prepare()
    return {
        "machine": machine.name(),
        "workers": workers,
        "tasks": {env: measure_task(env, workers, seconds, ray) for env in of_tasks or tasks()},
    }


def table(result: dict[str, Any]) -> str:
    """The figures of `measure` as text."""
    columns = ("inline", "workers", "learning", "run")
    head = f"{'env steps/s':<30}" + "".join(f"{name:>12}" for name in columns)
    lines = [f"{head}{'acting':>10}{'run':>8}"]
    for env, figures in result["tasks"].items():
        rates = "".join(f"{figures[f'{name}_env_steps_per_second']:>12,.0f}" for name in columns)
        ratios = f"{figures['acting_workers_over_inline']:>10.2f}{figures['run_over_lower_limit']:>8.2f}"
        lines.append(f"{env:<30}{rates}{ratios}")
    lines.append("acting: workers over inline; run: over the lower of acting with workers and learning")
    return "\n".join(lines)


def traffic(config: Config) -> dict[str, int]:
    """Bytes between a pool and its workers, of a run with these settings."""
    network = setup.make_network(config)
    return {
        "bytes_per_env_step": bytes_per_env_step(named(setup.make_schema(config, network).rows)),
        "bytes_per_publishing_and_worker": sum(p.numel() * p.element_size() for p in network.parameters()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=10.0, help="for each figure")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--env", action="append", metavar="ID", help="measure this task; may be repeated")
    parser.add_argument("--ray", action="store_true", help="beside a Ray of this machine")
    parser.add_argument("--bytes", action="store_true", help="count bytes; takes settings of a run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    args, rest = parser.parse_known_args()
    try:
        settings = settings_of(rest)
        if not args.bytes:
            if settings:
                raise ConfigError(f"--{next(iter(settings))} is for --bytes alone")
            result = measure(args.seconds, args.workers, args.env, args.ray)
            print(table(result))
        else:
            flags = settings | ({"env": args.env[-1]} if args.env else {})
            config = resolve(None, flags, {})
            result = {"env": config.env, "agent": config.agent, **traffic(config)}
            print("\n".join(f"{name:<34}{value}" for name, value in result.items()))
    except ConfigError as error:
        sys.exit(f"error: {error}")
    if args.json is not None:
        args.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
