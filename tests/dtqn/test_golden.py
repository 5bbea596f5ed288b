"""Golden losses: five updates of every preset's network from fixed seeds, as they last were right.

A change of these numbers is a change of the network, its initialisation, the targets or the optimiser.
Where it is meant, record them anew from the root of the repository (all, or the presets that are named):

    python -m tests.dtqn.test_golden [PRESET ...]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from dtqn import layers, networks
from dtqn.learner import Learner
from tests.cases import NUM_ACTIONS, SPACES
from tests.dtqn.batches import Shape, make_batch

GOLDEN = Path(__file__).parent.parent / "golden"
PRESETS = sorted(path.stem for path in (layers.CONFIGS / "agents").glob("*.yaml"))
REGENERATE = "python -m tests.dtqn.test_golden"
SHAPES = (
    Shape(40, 10, 43),
    Shape(0, 0, 43),
    Shape(0, 7, 12, terminated=True),
    Shape(13, 10, 2),
    Shape(40, 10, 30, terminated=True),
    Shape(1, 10, 9),
)


def losses(agent: str, updates: int = 5) -> list[float]:
    """In float32 on one thread, the preset's network and learner; step sizes of its own, not those tuned."""
    config = layers.build([layers.file_layer(layers.CONFIGS / "agents" / f"{agent}.yaml")])
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        torch.manual_seed(0)
        network = networks.build(config.network, SPACES["multi_discrete"], NUM_ACTIONS)
        step_sizes = {"learning_rate": 5e-4, "target_ema_rate": 0.005, "reward_scale": 0.2}
        learner = Learner(network, config.learner.model_copy(update=step_sizes))
        batch = make_batch(network, "multi_discrete", SHAPES, learn_length=40, dtype=torch.float32)
        return [learner.update(batch).metrics["learner/loss"] for _ in range(updates)]
    finally:
        torch.set_num_threads(threads)


def golden(agent: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((GOLDEN / f"{agent}.json").read_text())
    return record


@pytest.mark.parametrize("agent", PRESETS)
def test_golden_losses(agent: str) -> None:
    message = f"if this is meant: {REGENERATE} {agent}"
    assert losses(agent) == pytest.approx(golden(agent)["losses"], rel=1e-4), message


@pytest.mark.parametrize("agent", PRESETS)
def test_golden_losses_fall(agent: str) -> None:
    """On one batch, again and again; a file of noise would not."""
    recorded = golden(agent)["losses"]
    assert len(set(recorded)) == 5 and recorded[4] < recorded[0]


def test_every_golden_file_is_of_a_preset() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.json")) == PRESETS


if __name__ == "__main__":
    for name in sys.argv[1:] or PRESETS:
        record = {
            "header": {
                "what": f"loss of 5 updates of the preset {name}",
                "regenerate": f"{REGENERATE} {name}",
            },
            "losses": losses(name),
        }
        (GOLDEN / f"{name}.json").write_text(json.dumps(record, indent=2) + "\n")
        print(name, record["losses"])
