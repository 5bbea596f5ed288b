"""Acting of the default agent: env steps a second with 64 environments.

    python -m benchmarks agent

One process; figures are medians over chunks. What other benchmarks of learners need is here too: batches of
a replay that an agent has filled with its own warm-up steps, so that their mix of lengths, memories and
burn-ins is the real one, and the arithmetic of an update.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.timing import in_turns, median
from benchmarks.timing import rate as rate  # `benchmarks.checkouts` asks every commit for it here
from dtqn.settings.presets import resolve
from dtqn.training import machine
from dtqn.training.trainer import Trainer
from dtqn.types import Sequences

CHUNKS, NUM_ENVS = 9, 64
TASK = "gridverse-memory-7x7"


def trainer_of(fill_env_steps: int, **flags: str) -> Trainer:
    """A trainer, replay filled by its random steps; `flags` as on the command line."""
    always_random = {"env": TASK, "warmup_env_steps": "1e9", "total_env_steps": "1e9"}
    trainer = Trainer(resolve(None, always_random | {k.replace("__", "."): v for k, v in flags.items()}, {}))
    while trainer.env_steps < fill_env_steps:
        trainer._act()
    return trainer


class Turns:
    """Updates of a trainer's learner on batches, drawn beforehand, one after the other."""

    def __init__(
        self, trainer: Trainer, num_batches: int = 8, batches: Iterable[Sequences] | None = None
    ) -> None:
        """`batches` on the trainer's device; None: so many of its replay."""
        self.learner = trainer.learner
        if batches is None:
            drawn = (trainer.updates.draw() for _ in range(num_batches))
            batches = (trainer.schema.sequences(sampled, info.importance_weights) for sampled, info in drawn)
        self.batches = list(batches)
        self._next = itertools.cycle(self.batches)

    def update(self) -> None:
        self.learner.update(next(self._next))


def flop_of(action: Callable[[], Any]) -> int:
    """Floating-point operations of the matrix products of a call.

    Torch counts neither its fused LSTM nor its fused attention on a CPU: here they are taken apart.
    """
    fused = torch.backends.mkldnn.is_available() and torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            action()
    finally:
        torch._C._set_mkldnn_enabled(fused)
    return counter.get_total_flops()


def flop_per_update(turns: Turns) -> float:
    """That of an update, the mean over the batches."""
    return statistics.fmean(flop_of(partial(turns.learner.update, batch)) for batch in turns.batches)


def matrix_product() -> tuple[Callable[[], Any], int]:
    """A large float32 matrix product by the library that networks use, and its floating-point operations."""
    a, b = torch.randn(1600, 512), torch.randn(512, 512)
    return lambda: a @ b.T, 2 * 1600 * 512 * 512


def measure(seconds: float = 5.0) -> dict[str, Any]:
    """Env steps of acting, by CPU time and by the clock."""
    machine.prepare()
    torch.manual_seed(0)
    actor = trainer_of(1_000, actor__num_envs=str(NUM_ENVS)).actor
    actor.vector_step()
    taken = in_turns({"acting": actor.vector_step}, seconds, CHUNKS)
    return {"acting_env_steps": median(taken["acting"], NUM_ENVS)}


def table(result: dict[str, Any]) -> str:
    """The figures of `measure` as text."""
    cpu, wall = (f"{result['acting_env_steps'][per]:,.1f}" for per in ("per_cpu_second", "per_second"))
    return f"{cpu} env steps per CPU second, {wall} per second"
