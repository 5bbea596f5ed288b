"""What an update and a vector step cost as network, batch and environments grow: one setting at a time.

    python -m benchmarks cost --json docs/benchmarks
    python -m benchmarks.cost docs/benchmarks/cost.json docs/benchmarks/cost.png

The agents `gtrxl` and `lstm` on the default task, one thread, each setting on its own beside the presets'
others. The floor is the time of the matrix products alone at the machine's best rate: what is done element by
element, and what it takes to dispatch an operator, lies above it. The second command draws the figure.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.agent import Turns, flop_of, flop_per_update, matrix_product, trainer_of
from benchmarks.timing import in_turns, median
from dtqn.plots import Curve, Panel, comparison
from dtqn.text import columns
from dtqn.training import machine

AGENTS = ("gtrxl", "lstm")
CHUNKS, FILL_ENV_STEPS = 3, 12_000
NUM_ENVS = "actor.num_envs"
VALUES: dict[str, tuple[int, ...]] = {
    "network.width": (32, 64, 128, 256),
    "network.core.num_layers": (1, 2, 4, 8),
    "network.core.memory_length": (10, 40, 160),
    "replay.learn_length": (10, 20, 40, 80, 160),
    "learner.batches.size": (8, 16, 32, 64, 128),
    NUM_ENVS: (1, 8, 32, 128),
}
"""Each setting with its values; the cost of more environments is that of a vector step."""


def cell(agent: str, setting: str, value: int, seconds: float) -> dict[str, float]:
    """Milliseconds of an update, or of a vector step, and of its matrix products alone."""
    # Sequences do not overlap, whatever their length.
    flags = {setting: str(value), "replay.sequence_period": "none"}
    trainer = trainer_of(FILL_ENV_STEPS, agent=agent, **flags)
    action: Callable[[], Any] = trainer.actor.vector_step
    if setting == NUM_ENVS:
        action()
        flop = float(flop_of(action))
    else:
        turns = Turns(trainer, num_batches=4)
        action, flop = turns.update, flop_per_update(turns)
    product, per_product = matrix_product()
    taken = in_turns({"action": action, "product": product}, seconds, CHUNKS)
    rate = median(taken["product"], per_product)["per_cpu_second"]
    return {"ms": 1000 / median(taken["action"])["per_cpu_second"], "floor_ms": 1000 * flop / rate}


def measure(seconds: float = 1.5) -> dict[str, Any]:
    """Agent -> setting -> value -> `cell`; a core without a memory window has no memory length."""
    machine.prepare()
    torch.manual_seed(0)
    found: dict[str, Any] = {"machine": machine.name()}
    for agent in AGENTS:
        settings = {name: x for name, x in VALUES.items() if agent == "gtrxl" or "memory" not in name}
        found[agent] = {
            name: {str(value): cell(agent, name, value, seconds) for value in values}
            for name, values in settings.items()
        }
    return found


def table(result: dict[str, Any]) -> str:
    """The figures of `measure` as text."""
    rows = [
        [agent, setting, value, f"{cost['ms']:.1f}", f"{cost['floor_ms']:.1f}"]
        for agent in AGENTS
        for setting, costs in result[agent].items()
        for value, cost in costs.items()
    ]
    return "\n".join(columns([["agent", "setting", "value", "ms", "floor"], *rows]))


def draw(result: dict[str, Any], path: Path) -> None:
    """A panel a setting, with the floor of each agent below it."""
    panels = []
    for setting in VALUES:
        curves = []
        for agent in (agent for agent in AGENTS if setting in result[agent]):
            costs = result[agent][setting]
            x = [float(value) for value in costs]
            for label, key in ((agent, "ms"), (f"{agent}, products alone", "floor_ms")):
                curves.append(Curve(label, x, [cost[key] for cost in costs.values()], None, None, [], "o"))
        name = "ms of a vector step" if setting == NUM_ENVS else "ms of an update"
        panels.append(Panel(setting, name, curves))
    note = f"one thread of {result['machine']}; other settings are those of the presets"
    comparison(panels, path, "value of the setting", note, log=True)


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2]))
