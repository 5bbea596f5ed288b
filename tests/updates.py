"""Two updates of some agents on batches of random content, by one rank or, as a program, by two."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

from dtqn.learning.batches import take
from dtqn.ranks import Group, Ranks
from dtqn.settings.config import LearnerConfig
from tests.cases import make, randomise
from tests.learning.batches import N_STEP, SHAPES, make_batch
from tests.learning.learners import make_learner

AGENTS: dict[str, dict[str, Any]] = {
    "gtrxl": {},
    "drqn": {"core": "lstm"},
    "dtqn": {"core": "dtqn", "context_length": 10, "dropout": 0.1},
}
MINE = (slice(0, 4), slice(4, None))
"""The sequences of each of two ranks."""


def of_all(ranks: Ranks) -> dict[str, dict[str, Any]]:
    """Agent -> what its updates leave on this rank, in the order of its sequences."""
    return {agent: _of(settings, ranks) for agent, settings in AGENTS.items()}


def _of(settings: dict[str, Any], ranks: Ranks) -> dict[str, Any]:
    config = LearnerConfig(n_step=N_STEP, returns="watkins", max_grad_norm=0.3)
    network = make("box", **settings)
    learner = make_learner(network, config, ranks=ranks, want_trace=bool(network.trace_spec()))
    randomise(learner.target, seed=9, scale=0.1)
    priorities, traces = [], [torch.zeros(0)]
    for number in range(2):
        batch = make_batch(network, "box", seed=number)
        if ranks.count > 1:
            batch = take(batch, torch.arange(len(SHAPES))[MINE[ranks.rank]])
        update = learner.update(batch)
        assert update.priorities is not None
        priorities.append(update.priorities)
        if update.trace is not None:
            order = torch.argsort(1000 * update.trace.sequence + update.trace.offset)
            traces += [x[order].reshape(-1) for x in update.trace.rows.values()]
    ranks.check_same(learner.checksum(), "the parameters")
    assert update.metrics["learner/grad_norm"] > 0.3, "nothing is clipped"
    return {
        "weights": torch.cat([x.detach().reshape(-1) for x in learner.online.parameters()]),
        "priorities": priorities,
        "traces": traces,
        "metrics": update.metrics,
    }


def main(folder: Path) -> None:
    group = Group()
    rank = float(group.rank)
    assert group.gather([rank, 2.0]).tolist() == [[0.0, 2.0], [1.0, 2.0]]
    assert group.gather_objects({"rank": rank}) == [{"rank": 0.0}, {"rank": 1.0}]
    assert group.from_first(group.rank) == 0
    torch.save(of_all(group), folder / f"rank{group.rank}.pt")
    group.leave()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
