"""Novelty against a plain set of observations, and as the actor stores it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dtqn.acting.novelty import Novelty, fingerprints
from dtqn.settings.config import Config
from dtqn.settings.presets import resolve
from dtqn.training.trainer import Trainer


def config_of(**settings: Any) -> Config:
    """A short run on the default task."""
    small = {"total_env_steps": 400, "evaluator": "inline", "threads": 1, "network.width": 8}
    return resolve(None, small | settings, {})


def observations(name: str, count: int, generator: np.random.Generator) -> Any:
    """[count, ...], of few kinds."""
    match name:
        case "discrete":
            return generator.integers(5, size=count)
        case "multi_discrete":
            return generator.integers(3, size=(count, 2)).astype(np.uint8)
        case "picture":
            return generator.choice([0, 1, 255], size=(count, 2, 2)).astype(np.uint8)
    return {"a": generator.integers(-1, 2, size=count), "b": generator.integers(2, size=(count, 2))}


def plain(observation: Any, i: int) -> tuple[Any, ...]:
    parts = observation.values() if isinstance(observation, dict) else [observation]
    return tuple(
        np.asarray(part[i]).tolist() if np.ndim(part[i]) == 0 else str(part[i].tolist()) for part in parts
    )


@pytest.mark.parametrize("name", ["discrete", "multi_discrete", "picture", "dict"])
def test_new_is_what_the_episode_has_not_shown(name: str) -> None:
    """Over 300 steps of four environments; a second object goes on from the state of the first."""
    generator = np.random.default_rng(0)
    novelty, resumed = Novelty(4), Novelty(4)
    shown: list[set[Any]] = [set() for _ in range(4)]
    counted = 0
    for step in range(300):
        observation, first = observations(name, 4, generator), generator.random(4) < 0.1
        expected = []
        for i in range(4):
            if first[i]:
                shown[i] = set()
            expected.append(plain(observation, i) not in shown[i])
            shown[i].add(plain(observation, i))
        if step == 150:
            resumed.set_state(novelty.get_state())
        if step >= 150:
            assert resumed.look(observation, first).tolist() == expected
        assert novelty.look(observation, first).tolist() == expected
        counted += sum(expected)
    assert 100 < counted < 1100


def test_fingerprints_tell_every_view_apart() -> None:
    """All 21^3 views of three cells, and the same numbers in another order."""
    views = np.stack(np.meshgrid(*[np.arange(21, dtype=np.uint8)] * 3), axis=-1).reshape(-1, 3)
    assert len(np.unique(fingerprints(views))) == 21**3
    assert fingerprints(views[::-1])[::-1].tolist() == fingerprints(views).tolist()


def test_nobody_counts_where_nobody_asks() -> None:
    trainer = Trainer(config_of())
    assert not any(trainer.actor.vector_step()[0].novel.any() for _ in range(5))
    trainer.close()
