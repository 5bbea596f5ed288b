"""Optimism beside plain counts, by hand, and as the actor acts on it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from dtqn.acting.optimism import Optimism
from tests.acting.test_novelty import observations, plain


@pytest.mark.parametrize("name", ["discrete", "multi_discrete", "picture", "dict"])
def test_the_bonus_is_that_of_plain_counts(name: str) -> None:
    """Over 300 vector steps of four environments with three actions; a second one goes on from the state of
    the first."""
    generator = np.random.default_rng(0)
    optimism, resumed = Optimism(4, 3, 0.5), Optimism(4, 3, 0.5)
    tried: list[Counter[Any]] = [Counter() for _ in range(4)]
    seldom = 0
    for vector_step in range(300):
        observation = observations(name, 4, generator)
        action, last = generator.integers(3, size=4), generator.random(4) < 0.1
        kinds = [plain(observation, i) for i in range(4)]
        expected = [[0.5 / (tried[i][kind, a] + 1) for a in range(3)] for i, kind in enumerate(kinds)]
        if vector_step == 150:
            resumed.set_state(optimism.get_state())
        if vector_step >= 150:
            assert resumed.bonus(observation).tolist() == expected
            resumed.acted(action, last)
        assert optimism.bonus(observation).tolist() == expected
        optimism.acted(action, last)
        for i in np.flatnonzero(~last):
            tried[i][kinds[i], int(action[i])] += 1
        seldom += sum(len(set(timestep)) > 1 for timestep in expected)
    assert seldom > 500, "counts differ between actions"


def test_by_hand() -> None:
    """One environment at one place takes action 1 twice and action 0 once; the second copy knows nothing of
    it."""
    optimism, here = Optimism(2, 3, 6.0), np.array([4, 4])
    for action in (1, 1, 0):
        optimism.bonus(here)
        optimism.acted(np.array([action, 2]), np.array([False, True]))
    assert optimism.bonus(here).tolist() == [[3, 2, 6], [6, 6, 6]]
    assert optimism.bonus(np.array([5, 5])).tolist() == [[6] * 3] * 2, "another place"


def test_a_saved_state_does_not_change_any_more() -> None:
    optimism, here = Optimism(1, 2, 1.0), np.array([0])
    again = Optimism(1, 2, 1.0)
    again.set_state(optimism.get_state())
    optimism.bonus(here)
    optimism.acted(np.array([1]), np.array([False]))
    assert again.bonus(here).tolist() == [[1, 1]]


def test_observations_that_never_come_twice_change_nothing() -> None:
    """However many there are: each is new, so all its actions have the same bonus."""
    optimism, generator = Optimism(2, 4, 1.0), np.random.default_rng(0)
    for _ in range(40_000):
        bonus = optimism.bonus(generator.normal(size=(2, 3)))
        assert (bonus == 1.0).all()
        optimism.acted(generator.integers(4, size=2), np.zeros(2, bool))


def test_a_place_that_another_observation_gets_begins_anew() -> None:
    """So many actions leave room for a single place."""
    optimism, one, other = Optimism(1, 40_000, 1.0), np.array([1]), np.array([2])
    for observation, action in ((one, 0), (other, 1)):
        assert (optimism.bonus(observation) == 1).all()
        optimism.acted(np.array([action]), np.array([False]))
    assert optimism.bonus(other)[0, :3].tolist() == [1, 0.5, 1]
    assert (optimism.bonus(one) == 1).all()


def test_few_observations_lose_their_places() -> None:
    """Of 500 in 13 107 places some ten are expected to share one."""
    optimism, here = Optimism(1, 4, 1.0), [np.array([number]) for number in range(500)]
    for observation in here:
        optimism.bonus(observation)
        optimism.acted(np.array([2]), np.array([False]))
    kept = [optimism.bonus(observation).tolist() for observation in here]
    assert all(timestep in ([[1.0, 1.0, 0.5, 1.0]], [[1.0] * 4]) for timestep in kept)
    assert sum(timestep == [[1.0] * 4] for timestep in kept) < 25
