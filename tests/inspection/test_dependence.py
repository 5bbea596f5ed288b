"""Counterfactuals and gradients of a network whose every dependence is known by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dtqn.inspection import dependence, gradients, measures
from tests.inspection.known import KnownNetwork, episode

ROWS = np.array([[1.0, 0.0], [2.0, 1.0], [-1.0, 0.0], [0.5, 2.0], [1.0, 0.0]])
OTHERS = torch.tensor([[[1.0, 0.0]] * 5, [[3.0, 4.0]] * 5], dtype=torch.float64)


def scale() -> float:
    q = episode(ROWS).q
    return float(q.max() - q.min())


def test_one_step_changes_the_decisions_that_read_it() -> None:
    """x_k moves the gap between actions by its change at k and by three times that at k + 2, y_k no decision.

    A(2) - A(0) is twice the gap, so that advantages of three actions move by the gap's change at most.
    """
    found = dependence.one_step(KnownNetwork(), episode(ROWS), OTHERS)
    change = np.abs(np.array([1.0, 3.0])[:, None] - ROWS[:, 0])
    for t in range(5):
        for k in range(5):
            factor = {0: 1.0, 2: 3.0}.get(t - k, 0.0)
            assert found.advantage[t, k] == pytest.approx(factor * change[:, k].mean() / scale())
            expected = factor * change[:, k].std(ddof=1) / np.sqrt(2) / scale()
            assert found.error[t, k] == pytest.approx(expected)
    # The value: mean over actions of a is 1, so the gap counts once, beside y one step later.
    of_y = np.abs(np.array([0.0, 4.0])[:, None] - ROWS[:, 1]).mean(axis=0)
    assert found.value[1:, :-1].diagonal() == pytest.approx(of_y[:-1] / scale())
    assert np.triu(found.value, 1).max() == 0
    assert found.same.tolist() == [0.5, 0, 0, 0, 0.5]


def test_flips_are_counted() -> None:
    """The gap is 1 + 3 * 1 at step 2's neighbours: with x_0 = -9 the decision at 2 is another one."""
    of = episode([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    others = torch.tensor([[[-9.0, 0.0]] * 3, [[1.0, 0.0]] * 3, [[2.0, 0.0]] * 3], dtype=torch.float64)
    found = dependence.one_step(KnownNetwork(), of, others)
    assert found.flips[2, 0] == pytest.approx(1 / 3)
    assert found.flips[1, 0] == 0
    both = dependence.block(KnownNetwork(), of, np.array([True, False, True]), others)
    assert both.flips.tolist() == [[True, False, True], [False] * 3, [False] * 3]


def test_one_step_left_in_is_all_or_nothing() -> None:
    found = dependence.leave_one_in(KnownNetwork(), episode(ROWS), 4, OTHERS)
    assert found == pytest.approx([0, 0, 1, 0])


def test_few_steps_of_a_long_episode_are_left_in() -> None:
    """All of the last half, evenly spaced ones before; the step that counts is among the last."""
    rows = np.random.default_rng(0).normal(size=(200, 2))
    others = torch.zeros(2, 200, 2, dtype=torch.float64)
    found = dependence.leave_one_in(KnownNetwork(), episode(rows), 199, others)
    tried = np.flatnonzero(np.isfinite(found))
    assert len(tried) == dependence.MOST_LEFT_IN
    assert tried[-32:].tolist() == list(range(167, 199))
    assert np.diff(tried[:32]).max() <= 6
    assert found[197] == pytest.approx(1)
    assert np.delete(found[tried], np.searchsorted(tried, 197)) == pytest.approx(np.zeros(63), abs=1e-9)


def test_the_smallest_set_is_the_step_that_counts() -> None:
    of = episode([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    others = torch.full((3, 4, 2), -9.0, dtype=torch.float64)
    network = KnownNetwork()
    ranked = dependence.one_step(network, of, others).advantage[3]
    assert dependence.smallest_set(network, of, 3, others, ranked) == [1]
    same = of.inputs.observation.expand(3, -1, -1)
    assert dependence.smallest_set(network, of, 3, same, ranked) is None


def test_replacements_are_of_the_same_step() -> None:
    episodes = [
        episode([[number, step] for step in range(length)]) for number, length in enumerate((3, 5, 2, 4))
    ]
    found = dependence.replacements(episodes, 1, 3, np.random.default_rng(0))
    by_episode = {int(rows[0, 0]): rows[:, 1].tolist() for rows in found}
    assert by_episode == {0: [0, 1, 2, 2, 2], 2: [0, 1, 1, 1, 1], 3: [0, 1, 2, 3, 3]}


def test_integrated_gradients_of_a_linear_gap_are_exact() -> None:
    """G = x_4 + 3 x_2 between the two best of three actions; the baseline is x = 0.5."""
    found = gradients.integrated(
        KnownNetwork(), episode(ROWS), 4, torch.tensor([0.5, 0.5]).double(), points=3
    )
    assert found is not None
    sign = 1.0 if ROWS[4, 0] + 3 * ROWS[2, 0] > 0 else -1.0
    assert found.steps == pytest.approx([0, 0, sign * 3 * (-1.5), 0, sign * 0.5])
    assert found.error < 1e-12


def test_where_there_is_one_action_nothing_hangs_on_it() -> None:
    network, of = KnownNetwork(), episode(ROWS)
    assert (dependence.actions_before(network, of, 1) == 0).all()
    assert np.isnan(dependence.actions_before(network, of, 1, steps=[2])[:, [0, 1, 3, 4]]).all()
    one = of._replace(q=of.q[:, :1])
    assert gradients.integrated(network, one, 4, torch.tensor([0.5, 0.5]).double()) is None


def test_recall_density_is_the_mean_by_distance() -> None:
    network, rng = KnownNetwork(), np.random.default_rng(0)
    episodes = [episode(ROWS), episode(ROWS[:3]), episode(ROWS[::-1].copy())]
    mean_features = gradients.baseline(network, episodes)
    maps = [measures.mapped(network, episodes, n, 2, mean_features, 3, rng) for n in range(3)]
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
