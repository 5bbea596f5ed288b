"""Golden losses: five updates of the default network from fixed seeds, as they last were right.

A change of these numbers is a change of the network, its initialisation, the targets or the optimiser.
Where it is meant, record them anew from the root of the repository:

    python -m tests.dtqn.test_golden
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from dtqn import networks
from dtqn.config import LearnerConfig, NetworkConfig
from dtqn.learner import Learner
from tests.cases import NUM_ACTIONS, SPACES
from tests.dtqn.batches import Shape, make_batch

GOLDEN = Path(__file__).parent.parent / "golden" / "gtrxl.json"
REGENERATE = "python -m tests.dtqn.test_golden"
SHAPES = (
    Shape(40, 10, 43),
    Shape(0, 0, 43),
    Shape(0, 7, 12, terminated=True),
    Shape(13, 10, 2),
    Shape(40, 10, 30, terminated=True),
    Shape(1, 10, 9),
)


def losses(updates: int = 5) -> list[float]:
    """In float32 on one thread, the default network; step sizes of its own, not those that are tuned."""
    torch.manual_seed(0)
    network = networks.build(NetworkConfig(), SPACES["multi_discrete"], NUM_ACTIONS)
    learner = Learner(network, LearnerConfig(learning_rate=5e-4, target_ema_rate=0.005))
    batch = make_batch(network, "multi_discrete", SHAPES, learn_length=40, dtype=torch.float32)
    return [learner.update(batch).metrics["learner/loss"] for _ in range(updates)]


def test_golden_losses() -> None:
    golden = json.loads(GOLDEN.read_text())
    assert losses() == pytest.approx(golden["losses"], rel=1e-4), f"if this is meant: {REGENERATE}"


def test_golden_losses_fall() -> None:
    """On one batch, again and again; a file of noise would not."""
    golden = json.loads(GOLDEN.read_text())["losses"]
    assert len(golden) == 5 and golden[4] < 0.6 * golden[0]


if __name__ == "__main__":
    record = {
        "header": {"what": "loss of 5 updates of the default network", "regenerate": REGENERATE},
        "losses": losses(),
    }
    GOLDEN.write_text(json.dumps(record, indent=2) + "\n")
    print(GOLDEN.read_text())
