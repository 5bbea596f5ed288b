"""Counterfactuals of a network whose every dependence is known by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dtqn.inspection import dependence, measures
from tests.inspection.known import KnownNetwork, episode

STEPS = np.array([[1.0, 0.0], [2.0, 1.0], [-1.0, 0.0], [0.5, 2.0], [1.0, 0.0]])
OTHERS = torch.tensor([[[1.0, 0.0]] * 5, [[3.0, 4.0]] * 5], dtype=torch.float64)


def scale() -> float:
    q = episode(STEPS).q
    return float(q.max() - q.min())


def test_one_step_changes_the_decisions_that_read_it() -> None:
    """x_k moves the gap between actions by its change at k and by three times that at k + 2, y_k no decision.

    A(2) - A(0) is twice the gap, so that advantages of three actions move by the gap's change at most.
    """
    found = dependence.one_step(KnownNetwork(), episode(STEPS), OTHERS)
    change = np.abs(np.array([1.0, 3.0])[:, None] - STEPS[:, 0])
    for t in range(5):
        for k in range(5):
            factor = {0: 1.0, 2: 3.0}.get(t - k, 0.0)
            assert found.advantage[t, k] == pytest.approx(factor * change[:, k].mean() / scale())


def test_flips_are_counted() -> None:
    """The gap is 1 + 3 * 1 at step 2's neighbours: with x_0 = -9 the decision at 2 is another one."""
    of = episode([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    others = torch.tensor([[[-9.0, 0.0]] * 3, [[1.0, 0.0]] * 3, [[2.0, 0.0]] * 3], dtype=torch.float64)
    found = dependence.one_step(KnownNetwork(), of, others)
    assert found.flips[2, 0] == pytest.approx(1 / 3)
    assert found.flips[1, 0] == 0
    both = dependence.block(KnownNetwork(), of, np.array([True, False, True]), others)
    assert both.flips.tolist() == [[True, False, True], [False] * 3, [False] * 3]


def test_replacements_are_of_the_same_step() -> None:
    episodes = [
        episode([[number, step] for step in range(length)]) for number, length in enumerate((3, 5, 2, 4))
    ]
    found = dependence.replacements(episodes, 1, 3, np.random.default_rng(0))
    by_episode = {int(x[0, 0]): x[:, 1].tolist() for x in found}
    assert by_episode == {0: [0, 1, 2, 2, 2], 2: [0, 1, 1, 1, 1], 3: [0, 1, 2, 3, 3]}


def test_where_there_is_one_action_nothing_depends_on_it() -> None:
    network, of = KnownNetwork(), episode(STEPS)
    of_one = of._replace(q=of.q[:, :1])
    assert (dependence.actions_before(network, of_one) == 0).all()
    assert np.isnan(dependence.actions_before(network, of_one, steps=[2])[:, [0, 1, 3, 4]]).all()


def test_recall_density_is_the_mean_by_distance() -> None:
    network, rng = KnownNetwork(), np.random.default_rng(0)
    episodes = [episode(STEPS), episode(STEPS[:3]), episode(STEPS[::-1].copy())]
    maps = [measures.mapped(network, episodes, n, 2, rng) for n in range(3)]
    found = measures.recall_density(maps)
    assert [x.episodes for x in found if x is not None] == [3, 3, 3, 2, 2]
    assert found[1].value == found[3].value == 0
    by_hand = [np.diagonal(x.dependence.advantage, -2).mean() for x in maps]
    assert found[2].value == pytest.approx(np.mean(by_hand))
    half = 1.959964 * np.std(by_hand, ddof=1) / np.sqrt(3)
    assert found[2].high == pytest.approx(np.mean(by_hand) + half)


def test_agreement() -> None:
    same = measures.agreement(np.array([0.0, 3.0, 1.0, 2.0, 9.0]), np.array([0.0, 30.0, 1.0, 2.5, 90.0]))
    assert same == (pytest.approx(1.0), 1.0)
    reverse = measures.agreement(np.arange(5.0), -np.arange(5.0))
    assert reverse == (pytest.approx(-1.0), pytest.approx(1 / 3))
    assert measures.agreement(np.zeros(5), np.arange(5.0)) is None
