"""Acting and learning of the default agent: acting steps/s with 64 environments, learner updates/s.

    python -m benchmarks agent

One process. The learner's batch is sampled from a replay that the default agent has filled with its own
warm-up steps, so that its mix of lengths, memories and burn-ins is the real one. Its share of the machine is
its arithmetic, counted by torch, over the rate of a large float32 matrix product in the same run.

The rival stands for the usual way to give a Q-network context: a windowed transformer of the same width,
heads, layers and feed-forward size made of `torch.nn.TransformerEncoder`, run over the same rows (the memory
rows as context), one forward of the target, one forward and backward of the online network, no cropping. It
has no gates, no relative positions and no stored memory. All take turns, chunk by chunk; figures are medians
over chunks.
"""

from __future__ import annotations

import copy
import itertools
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from dtqn.settings.config import Config
from dtqn.settings.presets import resolve
from dtqn.training import machine
from dtqn.training.trainer import Trainer
from dtqn.types import Sequences

CHUNKS = 9
TASK = "gridverse-memory-7x7"


class WindowedRival(nn.Module):
    """Observation embeddings, learned positions, `torch.nn.TransformerEncoder`, linear head."""

    def __init__(self, config: Config, length: int) -> None:
        super().__init__()
        network = config.network
        self.embedding = nn.Embedding(21, network.embedding_width)
        self.join = nn.Linear(6 * network.embedding_width, network.width)
        self.position = nn.Parameter(torch.zeros(length, network.width))
        layer = nn.TransformerEncoderLayer(
            network.width,
            network.num_heads,
            network.mlp_width,
            dropout=0.0,
            batch_first=True,
            norm_first=True,
        )
        self.body = nn.TransformerEncoder(layer, network.num_layers, enable_nested_tensor=False)
        self.head = nn.Linear(network.width, 6)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        x = self.join(self.embedding(observation.long()).flatten(2)) + self.position
        return self.head(self.body(x, mask=self.get_buffer("mask"), is_causal=True))


def rival_update(config: Config, batch_size: int) -> Callable[[], None]:
    """One update of the rival on whole windows: memory, learned steps and tail."""
    length = config.network.memory_length + config.replay.learn_length + config.learner.n_step
    online = WindowedRival(config, length)
    target = copy.deepcopy(online)
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-4)
    observation = torch.randint(0, 21, (batch_size, length, 6))

    def update() -> None:
        with torch.no_grad():
            goal = target(observation).amax(dim=-1)
        loss = (online(observation).amax(dim=-1) - goal - 1.0).square().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(online.parameters(), 10.0)
        optimizer.step()

    return update


def trainer_of(fill_env_steps: int, **flags: str) -> Trainer:
    """A trainer, replay filled by its random steps; `flags` as on the command line."""
    always_random = {"env": TASK, "warmup_env_steps": "1e9", "total_env_steps": "1e9"}
    trainer = Trainer(resolve(None, always_random | {k.replace("__", "."): v for k, v in flags.items()}, {}))
    while trainer.env_steps < fill_env_steps:
        trainer._act()
    return trainer


def rate(action: Callable[[], Any], seconds: float, per_call: float = 1.0) -> tuple[float, float]:
    """Calls per CPU second and per wall-clock second, times `per_call`."""
    calls, cpu, wall = 0, time.process_time(), time.perf_counter()
    while time.perf_counter() - wall < seconds:
        action()
        calls += 1
    return per_call * calls / (time.process_time() - cpu), per_call * calls / (time.perf_counter() - wall)


class Turns:
    """Updates of a trainer's learner on batches, drawn beforehand, one after the other."""

    def __init__(
        self, trainer: Trainer, num_batches: int = 8, batches: Iterable[Sequences] | None = None
    ) -> None:
        """`batches` on the trainer's device; None: so many of its replay."""
        self.learner = trainer.learner
        if batches is None:
            drawn = (trainer.updates.draw() for _ in range(num_batches))
            batches = (trainer.schema.sequences(rows, info.importance_weights) for rows, info in drawn)
        self.batches = list(batches)
        self._next = itertools.cycle(self.batches)

    def update(self) -> None:
        self.learner.update(next(self._next))


def flop_per_update(turns: Turns) -> float:
    """Floating-point operations of the matrix products of an update, the mean over the batches.

    Torch counts neither its fused LSTM nor its fused attention on a CPU: here they are taken apart.
    """
    fused = torch.backends.mkldnn.is_available() and torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            for batch in turns.batches:
                turns.learner.update(batch)
    finally:
        torch._C._set_mkldnn_enabled(fused)
    return counter.get_total_flops() / len(turns.batches)


def matrix_product() -> tuple[Callable[[], Any], int]:
    """A large float32 matrix product by the library that networks use, and its floating-point operations."""
    a, b = torch.randn(1600, 512), torch.randn(512, 512)
    return lambda: a @ b.T, 2 * 1600 * 512 * 512


def measure(seconds: float = 5.0) -> dict[str, Any]:
    """Acting, learner updates, the rival's updates and the matrix product, in turns of `seconds / CHUNKS`."""
    machine.prepare()
    torch.manual_seed(0)
    learning = trainer_of(20_000)
    config, turns = learning.config, Turns(learning)
    acting = {
        "acting": trainer_of(1_000, actor__num_envs="64"),
        "acting_cached": trainer_of(1_000, actor__num_envs="64", actor__publish_period="100"),
    }
    actions: dict[str, tuple[Callable[[], Any], float]] = {
        "learner_updates": (turns.update, 1),
        "rival_updates": (rival_update(config, config.learner.batch_size), 1),
        "matmul_flop": matrix_product(),
        **{f"{name}_env_steps": (trainer.actor.tick, 64) for name, trainer in acting.items()},
    }
    for action, _ in actions.values():
        action()
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in actions}
    for _ in range(CHUNKS):
        for name, (action, per_call) in actions.items():
            samples[name].append(rate(action, seconds / CHUNKS, per_call))
    result: dict[str, Any] = {
        name: {
            "per_cpu_second": statistics.median(cpu for cpu, _ in taken),
            "per_second": statistics.median(wall for _, wall in taken),
        }
        for name, taken in samples.items()
    }
    flop = flop_per_update(turns)
    ratios = [
        mine[0] / its[0]
        for mine, its in zip(samples["learner_updates"], samples["rival_updates"], strict=True)
    ]
    shares = [
        flop * mine[0] / peak[0]
        for mine, peak in zip(samples["learner_updates"], samples["matmul_flop"], strict=True)
    ]
    return result | {
        "flop_per_update": flop,
        "share_of_matmul_rate": statistics.median(shares),
        "ratio_to_rival": statistics.median(ratios),
        "parameters": sum(p.numel() for p in learning.network.parameters()),
    }


def table(result: dict[str, Any]) -> str:
    """The figures of `measure` as text."""
    lines = [f"{'':<28}{'per CPU second':>18}{'per second':>18}"]
    for name, figures in result.items():
        if isinstance(figures, dict):
            lines.append(f"{name:<28}{figures['per_cpu_second']:>18,.1f}{figures['per_second']:>18,.1f}")
    lines.append(
        f"FLOP of an update: {result['flop_per_update'] / 1e9:.2f} G, parameters {result['parameters']:,}"
    )
    lines.append(f"share of the machine's matrix-product rate: {result['share_of_matmul_rate']:.0%}")
    lines.append(f"updates/s over the rival's: {result['ratio_to_rival']:.2f}")
    return "\n".join(lines)
