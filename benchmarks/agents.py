"""Learner updates of every agent preset: how many a second, and their share of the machine's matrix rate.

    python -m benchmarks agents

One process, the default task, each preset with its own batch, network and learner. The batches are sampled
from a replay that the preset has filled with random steps of 64 environments: their lengths, memories and
burn-ins are the real ones. Arithmetic is that of matrix products alone, counted by torch: what is done
element by element (gates, norms, scans) is not in it. The share is the arithmetic of an update times
updates/s over the rate of a large float32 matrix product that takes turns with them, chunk by chunk; figures
are medians over the chunks.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.agent import Turns, flop_per_update, matrix_product, trainer_of
from benchmarks.timing import in_turns, median, median_ratio
from dtqn.settings import layers
from dtqn.text import columns
from dtqn.training import machine

CHUNKS = 5
FILL_ENV_STEPS = 16_000
NUM_ENVS = 64


class OperatorCounter(TorchDispatchMode):
    """How many operators torch has dispatched: where each has little to do, their number is the time."""

    operators = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operators += 1
        return func(*args, **(kwargs or {}))


def measure_agent(agent: str, seconds: float = 2.0, fill_env_steps: int = FILL_ENV_STEPS) -> dict[str, float]:
    """One preset, in about `seconds` of updates and as many of matrix products, after filling its replay."""
    trainer = trainer_of(fill_env_steps, agent=agent, actor__num_envs=str(NUM_ENVS))
    turns = Turns(trainer)
    product, per_product = matrix_product()
    turns.update()
    product()
    flop = flop_per_update(turns)
    taken = in_turns({"update": turns.update, "product": product}, seconds, CHUNKS)
    updates = median(taken["update"])
    with OperatorCounter() as counter:
        for _ in turns.batches:
            turns.update()
    learned = sum(int(batch.learn_timesteps.sum()) for batch in turns.batches) / len(turns.batches)
    return {
        "updates_per_cpu_second": updates["per_cpu_second"],
        "updates_per_second": updates["per_second"],
        "flop_per_update": flop,
        "share_of_matmul_rate": median_ratio(taken["update"], taken["product"]) * flop / per_product,
        "operators_per_update": counter.operators / len(turns.batches),
        "learn_rows_per_update": learned,
        "parameters": sum(p.numel() for p in trainer.network.parameters()),
    }


def measure(seconds: float = 2.0) -> dict[str, Any]:
    """Every preset of `configs/agents`: `{preset: {...}}`."""
    machine.prepare()
    torch.manual_seed(0)
    agents = sorted(path.stem for path in (layers.CONFIGS / "agents").glob("*.yaml"))
    return {agent: measure_agent(agent, seconds) for agent in agents}


def table(result: dict[str, Any]) -> str:
    """The figures of `measure` as text, the least share of the matrix rate first."""
    by_share = sorted(result.items(), key=lambda item: item[1]["share_of_matmul_rate"])
    rows = [[agent, *(f"{value:,.4g}" for value in figures.values())] for agent, figures in by_share]
    return "\n".join(columns([["agent", *by_share[0][1]], *rows]))
