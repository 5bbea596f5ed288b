"""Golden losses: five updates of every preset's network from fixed seeds, as they last were right.

A change of these numbers is a change of the network, its initialisation, the targets or the optimiser.
Where it is meant, record them anew from the root of the repository (all, or the presets that are named):

    python -m tests.learning.test_golden_losses [PRESET ...]
"""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch

from dtqn import networks
from dtqn.settings import layers, presets
from tests import golden
from tests.cases import NUM_ACTIONS, PRESETS, SPACES
from tests.learning.batches import Shape, make_batch
from tests.learning.learners import make_learner

OPTIONS: dict[str, dict[str, Any]] = {
    "gtrxl+advantage": {"learner": {"bootstrap": "advantage"}},
    "gtrxl+categorical": {"network": {"distribution": {"name": "categorical", "v_min": -3.0, "v_max": 3.0}}},
    "gtrxl+peng": {"learner": {"returns": "peng"}},
    "gtrxl+watkins": {"learner": {"returns": "watkins"}},
}
"""Options that presets lack: a preset's name, a plus sign and the option's name -> settings."""
NAMES = sorted([*PRESETS, *OPTIONS])
REGENERATE = "python -m tests.learning.test_golden_losses"
SHAPES = (
    Shape(40, 10, 43),
    Shape(0, 0, 43),
    Shape(0, 7, 12, terminated=True),
    Shape(13, 10, 2),
    Shape(40, 10, 30, terminated=True),
    Shape(1, 10, 9),
)


def losses(name: str, updates: int = 5) -> list[float]:
    """In float32 on one thread, the preset's network and learner; step sizes of its own, not those tuned."""
    preset = presets.find_agent(name.partition("+")[0]).preset
    step_sizes = {"learning_rate": 5e-4, "target_update": {"rate": 0.005}, "reward_scale": 0.2}
    given = [layers.Layer("test", layers.flat(x)) for x in (OPTIONS.get(name, {}), {"learner": step_sizes})]
    config = layers.build([preset, *given])
    torch.manual_seed(0)
    network = networks.build(config.network, SPACES["multi_discrete"], NUM_ACTIONS)
    learner = make_learner(network, config.learner, whole=config.replay.learn_burn_in)
    batch = make_batch(network, "multi_discrete", SHAPES, learn_length=40, dtype=torch.float32)
    return [learner.update(batch).metrics["learner/loss"] for _ in range(updates)]


@pytest.mark.parametrize("name", NAMES)
def test_golden_losses(name: str) -> None:
    message = f"if this is meant: {REGENERATE} {name}"
    assert losses(name) == pytest.approx(golden.read(golden.LOSSES)[name], rel=1e-4), message


@pytest.mark.parametrize("name", NAMES)
def test_golden_losses_fall(name: str) -> None:
    """On one batch, again and again; a file of noise would not."""
    recorded = golden.read(golden.LOSSES)[name]
    assert len(set(recorded)) == 5 and recorded[4] < recorded[0]


def test_every_recording_is_of_a_preset_or_an_option() -> None:
    assert list(golden.read(golden.LOSSES)) == NAMES


if __name__ == "__main__":
    golden.write(golden.LOSSES, {name: losses(name) for name in sys.argv[1:] or NAMES}, NAMES)
