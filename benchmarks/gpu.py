"""A GPU beside the CPU of the same machine: updates, acting and whole runs, with and without CUDA graphs.

    python -m benchmarks.gpu [--networks NAME,...] [--seconds S] [--json FILE]

Three sides take turns, chunk by chunk, on the same batches, which were drawn from a replay that random play
has filled; figures are medians over chunks:

    cpu       the learner's two threads
    eager     the GPU, operator by operator
    graphs    the GPU, with update and the actor's forward pass recorded as CUDA graphs

An update begins with a batch on its device and ends when the host has its numbers. A run acts, draws, learns
and writes memory back; it plays no evaluation.
`gtrxl-12-layers` is a network of the size that the paper of GTrXL trains, on memories that are full.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from benchmarks.agent import TASK, Turns, trainer_of
from benchmarks.options import chosen, one_line_errors, parser_of, write
from benchmarks.timing import rate
from dtqn.settings.config import ConfigError
from dtqn.settings.presets import resolve
from dtqn.training import machine
from dtqn.training.trainer import Trainer
from dtqn.types import Sequences, map_tree

CHUNKS, BATCHES = 5, 8
WARM_UPDATES = 5
"""More than a recording takes."""
SIDES = {
    "cpu": {"device": "cpu", "threads": "2"},
    "eager": {"device": "cuda", "cuda_graphs": "false"},
    "graphs": {"device": "cuda", "cuda_graphs": "true"},
}
PAPER_SIZE = {
    **{"network.core.num_layers": "12", "network.width": "256", "network.core.num_heads": "8"},
    **{"network.core.mlp_width": "1024", "network.head_width": "256", "network.core.memory_length": "512"},
}
"""GTrXL's 12 layers and a memory of 512 steps, of width 256."""
NETWORKS: dict[str, dict[str, str]] = {
    **{agent: {"env": TASK, "agent": agent} for agent in ("gtrxl", "dtqn", "mingru", "lstm")},
    "gtrxl-12-layers": {
        **{"env": "t-maze-passive-1000", "agent": "gtrxl", "replay.learn_length": "40"},
        **PAPER_SIZE,
    },
}
_MEMORY = "network.core.memory_length"
"""A network that sets it is measured on memories that are full."""


def batches_of(flags: Mapping[str, str], side: Mapping[str, str]) -> list[Sequences]:
    """Batches of a replay that random play has filled, with memories that are as long as they get."""
    num_envs = 32
    memory = int(flags.get(_MEMORY, "0"))
    fill = max(20_000, num_envs * (memory + 200))
    trainer = trainer_of(fill, **{"evaluator": "inline", "actor.num_envs": str(num_envs), **flags, **side})
    if not memory:
        return Turns(trainer, BATCHES).batches
    size = trainer.config.learner.batches.size
    newest = trainer.replay.ids()[-4 * size :]
    full = newest[trainer.replay.take(newest).memory_valid.all(axis=1)]
    return [trainer.schema.sequences(trainer.replay.take(np.resize(full, size)), np.ones(size, np.float32))]


def run_of(trainer: Trainer) -> Callable[[], None]:
    """A run until its next update is over."""

    def update() -> None:
        before = trainer.learner_steps
        while trainer.learner_steps == before:
            trainer.advance()

    return update


def measure_network(flags: Mapping[str, str], seconds: float) -> dict[str, Any]:
    """Updates, and updates of a run, a second, of every side."""
    batches = batches_of(flags, SIDES["graphs"])
    large = _MEMORY in flags
    actions: dict[tuple[str, str], Callable[[], Any]] = {}
    quiet = {"evaluator": "inline", "warmup_env_steps": "2000", "total_env_steps": "1e9"}
    for side, its in SIDES.items():
        config = resolve(None, {**quiet, "evaluation.period": "1e9", **flags, **its}, {})
        trainer = Trainer(config)
        device = trainer.schema.device
        there = [map_tree(lambda x, device=device: x.to(device), batch) for batch in batches]
        actions["updates", side] = Turns(trainer, batches=there).update
        if not large:  # its memories would be short for long
            actions["run_updates", side] = run_of(Trainer(config))
    samples: dict[tuple[str, str], list[float]] = {name: [] for name in actions}
    for (what, side), action in actions.items():
        began = time.perf_counter()
        for _ in range(1 if side == "cpu" and large and what == "updates" else WARM_UPDATES):
            action()
        print(f"  {what} {side}: ready after {time.perf_counter() - began:.1f} s", flush=True)
    for _ in range(CHUNKS):
        for name, action in actions.items():
            if name == ("updates", "cpu") and large and samples[name]:
                continue  # one of its updates takes seconds
            samples[name].append(rate(action, seconds / CHUNKS)[1])
    found: dict[str, Any] = {what: {} for what, _ in actions}
    for (what, side), taken in samples.items():
        found[what][side] = statistics.median(taken)
    found["parameters"] = sum(x.numel() for x in trainer.network.parameters())
    return found


def measure(names: Sequence[str], seconds: float) -> dict[str, Any]:
    """Every network of `names`: `{machine: ..., networks: {name: ...}}`."""
    if not torch.cuda.is_available():
        raise ConfigError("device is cuda, but torch finds none; this benchmark needs a GPU")
    machine.prepare()
    torch.manual_seed(0)
    networks = {}
    for name in names:
        print(name, flush=True)
        networks[name] = measure_network(NETWORKS[name], seconds)
        torch.cuda.empty_cache()
    return {"machine": machine.name("cuda"), "torch": torch.__version__, "networks": networks}


def table(result: dict[str, Any]) -> str:
    """The figures of `measure` as text."""
    lines = [result["machine"], f"{'a second':<32}" + "".join(f"{side:>10}" for side in SIDES)]
    for name, found in result["networks"].items():
        for what in ("updates", "run_updates"):
            if what in found:
                figures = "".join(f"{found[what][side]:>10.2f}" for side in SIDES)
                lines.append(f"{f'{name}, {what}':<32}{figures}")
    return "\n".join(lines)


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--networks", default=",".join(NETWORKS), metavar="NAME,...")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each figure; default 5")
    args = parser.parse_args(arguments)
    result = measure(chosen("--networks", args.networks, NETWORKS), args.seconds)
    print(table(result))
    write(args.json, result)


if __name__ == "__main__":
    raise SystemExit(main())
