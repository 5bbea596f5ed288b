"""What is untried beside plain sets, by hand, and as the actor acts on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dtqn.acting.untried import Untried, who_tries
from tests.acting.test_novelty import observations, plain

_HERE = np.array([4, 4])
_Q = np.array([[3.0, 1.0, 2.0]] * 2)


def _of_all(num_envs: int, num_actions: int) -> Untried:
    return Untried(np.ones(num_envs, bool), num_actions)


@pytest.mark.parametrize("name", ["discrete", "multi_discrete", "picture", "dict"])
def test_the_choice_is_that_of_plain_sets(name: str) -> None:
    """Over 300 steps of four environments, two of which try; a second object resumes the first."""
    generator = np.random.default_rng(0)
    tries = np.array([False, True, False, True])
    untried, resumed = Untried(tries, 3), Untried(tries, 3)
    taken: list[set[Any]] = [set() for _ in range(4)]
    not_greedy = 0
    for step in range(300):
        observation = observations(name, 4, generator)
        action, last, q = generator.integers(3, size=4), generator.random(4) < 0.1, generator.random((4, 3))
        kinds = [plain(observation, i) for i in range(4)]
        expected = []
        for i, kind in enumerate(kinds):
            new = [a for a in range(3) if tries[i] and (kind, a) not in taken[i]]
            expected.append(max(new or range(3), key=lambda a: q[i, a]))
        if step == 150:
            resumed.set_state(untried.get_state())
        if step >= 150:
            assert resumed.best(observation, q).tolist() == expected
            resumed.acted(action, last)
        assert untried.best(observation, q).tolist() == expected
        untried.acted(action, last)
        for i in np.flatnonzero(~last):
            taken[i].add((kinds[i], int(action[i])))
        not_greedy += int((q.argmax(1) != expected).sum())
    assert not_greedy > 20, "the choice differs from the greedy one"


def test_by_hand() -> None:
    """Action 0 is the greedy one, then 2, then 1. The second environment only ever begins episodes."""
    untried = _of_all(2, 3)
    chosen = []
    for _ in range(4):
        best = untried.best(_HERE, _Q)
        chosen.append(best.tolist())
        untried.acted(best, np.array([False, True]))
    assert chosen == [[0, 0], [2, 0], [1, 0], [0, 0]]
    assert untried.best(np.array([5, 5]), -_Q).tolist() == [1, 1], "another place"


def test_who_tries() -> None:
    assert who_tries(6, 0.5).tolist() == [False, True] * 3
    assert who_tries(6, 1 / 3).tolist() == [False, False, True] * 2
    assert who_tries(1, 0.5).tolist() == [False] and who_tries(3, 1.0).all() and not who_tries(3, 0.0).any()


def test_a_saved_state_does_not_change_any_more() -> None:
    untried, again = _of_all(2, 3), _of_all(2, 3)
    again.set_state(untried.get_state())
    untried.acted(untried.best(_HERE, _Q), np.array([False, False]))
    assert again.best(_HERE, _Q).tolist() == [0, 0]


def test_tables_of_all_environments_are_read_too() -> None:
    """As earlier checkpoints have them; only the rows of environments that try are used."""
    every, odd = _of_all(2, 3), Untried(np.array([False, True]), 3)
    every.acted(every.best(_HERE, _Q), np.array([True, False]))
    odd.set_state(every.get_state())
    assert odd.best(_HERE, _Q).tolist() == [0, 2]


def test_observations_that_never_come_twice_change_nothing() -> None:
    """However many there are: each is new, so the greedy action is untried."""
    untried, generator = _of_all(2, 4), np.random.default_rng(0)
    for _ in range(40_000):
        q = generator.random((2, 4))
        assert (untried.best(generator.normal(size=(2, 3)), q) == q.argmax(1)).all()
        untried.acted(generator.integers(4, size=2), np.zeros(2, bool))


def test_a_place_that_another_observation_gets_begins_anew() -> None:
    """So many actions leave room for a single place."""
    untried, one, other = _of_all(1, 40_000), np.array([1]), np.array([2])
    q = -np.arange(40_000.0)[None]
    for observation in (one, other):
        assert untried.best(observation, q) == 0
        untried.acted(np.array([0]), np.array([False]))
    assert untried.best(other, q) == 1
    assert untried.best(one, q) == 0


def test_few_observations_lose_their_places() -> None:
    """Of 500 in 13 107 places some ten are expected to share one."""
    untried, here = _of_all(1, 4), [np.array([number]) for number in range(500)]
    q = np.array([[0.0, 0.0, 1.0, 0.0]])
    for observation in here:
        untried.acted(untried.best(observation, q), np.array([False]))
    again = [untried.best(observation, q).item() for observation in here]
    assert set(again) <= {0, 2} and again.count(2) < 25
