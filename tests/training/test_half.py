"""A part of each batch that a process beside the run learns: the same digits, with it and without."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from dtqn.settings.presets import resolve
from dtqn.training import half
from dtqn.training.trainer import Trainer
from envs import this_process
from tests.training.test_trainer import make_trainer

GTRXL = {"core": {"name": "gtrxl", "memory_length": 8, "num_layers": 1}, "width": 16}
LEARNERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "packed, two networks": ({"network": GTRXL}, {}),
    "padded, target copied": ({}, {"target_update": {"name": "hard", "period": 2}}),
    "bfloat16, memory refreshed": (
        {"network": GTRXL, "replay": {"memory": "refreshed"}},
        {"precision": "bfloat16", "target_update": {"name": "none"}},
    ),
}


@pytest.fixture
def trainers(request: pytest.FixtureRequest) -> Iterator[list[Trainer]]:
    """Two that are alike: with the process, and without."""
    settings, learner = LEARNERS[getattr(request, "param", "packed, two networks")]
    replay = {"capacity": 2_000, "learn_length": 6, "burn_in_length": 2} | settings.get("replay", {})
    both = [make_trainer(400, learner, **(settings | {"replay": replay, "threads": 2})) for _ in range(2)]
    assert both[1].half is not None
    both[1].half.close()
    both[1].half = both[1].learner.beside = None
    yield both
    for trainer in both:
        trainer.close()


def digits(trainer: Trainer) -> list[torch.Tensor]:
    moments = [x for each in trainer.learner.optimizer.get_state().values() for x in each.values()]
    priorities = torch.from_numpy(trainer.replay.sampler.get_state()["leaves"])
    return [
        *trainer.network.state_dict().values(),
        *trainer.learner.target.state_dict().values(),
        *moments,
        priorities,
    ]


def assert_same(trainers: list[Trainer]) -> None:
    for one, other in zip(*map(digits, trainers), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("trainers", LEARNERS, indirect=True)
def test_the_process_changes_no_digit(trainers: list[Trainer]) -> None:
    for trainer in trainers:
        while not trainer.finished:
            trainer.advance()
    assert trainers[0].learner_steps > 3 and trainers[0].news() == []
    assert_same(trainers)


@pytest.mark.parametrize("lost", ["killed", "hangs"])
def test_a_run_that_loses_it_goes_on_alone(
    trainers: list[Trainer], lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(half, "_SILENT_SECONDS", 0.0 if lost == "hangs" else 60.0)
    beside = trainers[0].half
    assert beside is not None and beside._worker is not None
    process = beside._worker._process
    while trainers[0].learner_steps < 2:
        trainers[0].advance()
    if lost == "killed":
        process.kill()
    for trainer in trainers:
        while not trainer.finished:
            trainer.advance()
    (news,) = trainers[0].news()
    why = "has ended: killed" if lost == "killed" else "does not answer"
    assert news.startswith(f"the process that learns a part of each batch {why}")
    assert news.endswith("; this run goes on without it, more slowly") and process.poll() is not None
    assert_same(trainers)


def test_objects_of_this_process_are_learned_here_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    config = resolve(None, {"threads": "2", "device": "cpu"}, {})
    assert half.learns_beside(config)
    monkeypatch.setattr(this_process, "holds", lambda name: name == config.env)
    assert not half.learns_beside(config)
