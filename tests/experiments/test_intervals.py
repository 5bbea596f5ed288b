import warnings

import numpy as np
import pytest

from dtqn.experiments.intervals import band, estimate, improvement, interquartile_mean
from tests.reference import statistics_twin as twin

_FIVE = [0.2, 0.95, 0.4, 0.9, 0.7]
_TIES = [0.5, 0.5, 0.5, 1.0, 1.0]
_SAME = [1.0, 1.0, 1.0]


def _estimate(statistic, *samples):
    """With warnings as errors: a degenerate interval would warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        arrays = [np.array(sample) for sample in samples]
        return estimate(statistic, arrays, np.random.default_rng(3), resamples=10_000)


def _agree(found, value, interval):
    assert found.value == pytest.approx(value, abs=1e-12)
    # 10 000 draws against all there are.
    np.testing.assert_allclose((found.low, found.high), interval, atol=0.02)


@pytest.mark.parametrize("scores", [_FIVE, _TIES, _SAME, [0.1, 0.9], [0.3, 0.1, 0.2, 0.8]])
def test_the_interquartile_mean_and_its_interval(scores):
    found = _estimate(interquartile_mean, scores)
    _agree(found, twin.iqm(scores), twin.interval(lambda drawn: twin.iqm(drawn), [scores]))


def test_seeds_are_drawn_within_their_task():
    """Tasks of different levels: mixing them would widen the interval."""
    tasks = [[0.1, 0.15, 0.2], [0.8, 0.9, 1.0]]
    found = _estimate(interquartile_mean, *tasks)
    exact = twin.interval(lambda a, b: twin.iqm([*a, *b]), tasks)
    _agree(found, twin.iqm([*tasks[0], *tasks[1]]), exact)
    mixed = _estimate(interquartile_mean, [*tasks[0], *tasks[1]])
    assert mixed.high - mixed.low > 2 * (found.high - found.low)


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ([[0.2, 0.9, 0.7]], [[0.1, 0.8, 0.3]]),
        ([[0.5, 0.5, 1.0]], [[0.5, 1.0, 0.5]]),
        ([_SAME], [_SAME]),
        ([[0.9, 1.0]], [[0.1, 0.2, 0.3]]),
        ([[0.2, 0.6], [5.0, 7.0]], [[0.4, 0.1], [6.0, 6.0]]),
    ],
)
def test_the_probability_of_improvement_and_its_interval(mine, theirs):
    found = _estimate(improvement, *mine, *theirs)
    tasks = len(mine)
    exact = twin.interval(
        lambda *drawn: twin.mean_improvement(drawn[:tasks], drawn[tasks:]), [*mine, *theirs]
    )
    _agree(found, twin.mean_improvement(mine, theirs), exact)


def test_figures_by_hand():
    assert float(interquartile_mean(np.array([0.0, 1.0, 2.0, 3.0, 100.0]))) == 2.0
    assert float(interquartile_mean(np.array([0.0, 1.0, 5.0]))) == 2.0, "none of three is left out"
    # 3 beats 1 and 2, ties with 3: 2.5 of 3; 2 beats 1, ties with 2: 1.5 of 3.
    assert float(improvement(np.array([3.0, 2.0]), np.array([1.0, 2.0, 3.0]))) == pytest.approx(4 / 6)


@pytest.mark.parametrize("samples", [[[0.4]], [[0.4, 0.5], [0.1]]])
def test_one_seed_shows_no_interval(samples):
    found = _estimate(interquartile_mean, *samples)
    assert found == (pytest.approx(twin.iqm([score for sample in samples for score in sample])), None, None)


def test_a_table_is_the_same_whenever_it_is_made():
    def made():
        return estimate(improvement, [np.array(_FIVE), np.array(_TIES)], np.random.default_rng(0))

    assert made() == made()


def test_a_band_is_the_interval_at_every_point():
    values = np.array([_FIVE, _TIES, [0.0] * 5])
    low, high = band(values, np.random.default_rng(0), resamples=20_000)
    for point, scores in enumerate(values.tolist()):
        exact = twin.interval(lambda drawn: twin.iqm(drawn), [scores])
        np.testing.assert_allclose((low[point], high[point]), exact, atol=0.03)
    assert band(values[:, :1], np.random.default_rng(0)) is None
