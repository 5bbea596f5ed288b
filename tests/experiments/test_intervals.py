import numpy as np
import pytest
from scipy import stats

from benchmarks import interval_coverage
from dtqn.experiments.intervals import (
    band,
    binomial_interval,
    improved,
    improvement,
    interquartile_interval,
    interquartile_mean,
    iqm,
)
from tests.reference import statistics_twin as twin

_FIVE = [0.2, 0.95, 0.4, 0.9, 0.7]
_TIES = [0.5, 0.5, 0.5, 1.0, 1.0]
_SAME = [1.0] * 5


@pytest.mark.parametrize("scores", [_FIVE, _TIES, _SAME])
def test_the_interquartile_mean_and_its_interval(scores):
    """Against a loop over draws of the uniform shares at which the scores stand, on a grid of shares."""
    found, rng = iqm([np.array(scores)], 0.0, 1.0), np.random.default_rng(1)
    assert found.value == pytest.approx(twin.iqm(scores), abs=1e-12)
    grid, lows, highs = np.linspace(0.25, 0.75, 501), [], []
    for _ in range(4000):
        below = np.searchsorted(np.sort(rng.random(5)), grid)
        lows.append(np.array([0.0, *sorted(scores)])[below].mean())
        highs.append(np.array([*sorted(scores), 1.0])[below].mean())
    np.testing.assert_allclose(found[1:], (np.quantile(lows, 0.025), np.quantile(highs, 0.975)), atol=0.04)


def test_scores_without_bounds_need_fourteen_runs():
    """Of five perfect runs the lowest stands below 1 - 0.025^(1/5): a part of the middle may have failed."""
    assert interquartile_interval([np.arange(12.0)]) is None
    low, high = interquartile_interval([np.arange(14.0)])
    assert 0 <= low < 4 and 9 < high <= 13
    low, high = interquartile_interval([np.ones(5)], 0.0, 1.0)
    assert (low, high) == (pytest.approx(2 * (0.75 - (1 - 0.025 ** (1 / 5))), abs=0.02), pytest.approx(1.0))


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ([_FIVE], [[0.1, 0.8, 0.3, 0.5, 0.6]]),
        ([_TIES], [[0.5, 1.0, 0.5, 0.2, 1.0]]),
        ([_SAME], [_SAME]),
        ([_FIVE, [5.0, 7.0, 6.0, 6.0, 8.0]], [_TIES, [6.0, 6.0, 5.0, 4.0, 9.0]]),
    ],
)
def test_the_probability_of_improvement_and_its_interval(mine, theirs):
    """Against the definition: shares of which so many of n, or more, are 2.5 % likely."""
    found = improved([np.array(each) for each in mine], [np.array(each) for each in theirs])
    assert found.value == pytest.approx(twin.mean_improvement(mine, theirs))
    runs = 5 * len(mine)
    assert found[1:] == binomial_interval(found.value, runs)
    for hits in range(1, runs):
        low, high = binomial_interval(hits / runs, runs)
        assert stats.binom.sf(hits - 1, runs, low) == pytest.approx(0.025)
        assert stats.binom.cdf(hits, runs, high) == pytest.approx(0.025)


def test_figures_by_hand():
    assert float(interquartile_mean(np.array([0.0, 1.0, 2.0, 3.0, 100.0]))) == 2.0
    assert float(interquartile_mean(np.array([0.0, 1.0, 5.0]))) == 2.0, "none of three is left out"
    # 3 beats 1 and 2, ties with 3: 2.5 of 3; 2 beats 1, ties with 2: 1.5 of 3.
    assert improvement([np.array([3.0, 2.0])], [np.array([1.0, 2.0, 3.0])]) == pytest.approx(4 / 6)


@pytest.mark.parametrize("samples", [[[0.4]], [[0.4, 0.5, 0.1, 0.2]], [_FIVE, _FIVE[:4]]])
def test_fewer_than_five_runs_have_no_interval(samples):
    arrays = [np.array(sample) for sample in samples]
    assert iqm(arrays) is None and improved(arrays, arrays) is None


def test_a_band_has_the_least_and_the_greatest_run_at_every_point():
    found = band(np.array([_FIVE, _TIES, [0.0] * 5]))
    assert found.middle == pytest.approx([twin.iqm(_FIVE), twin.iqm(_TIES), 0.0])
    assert (found.low.tolist(), found.high.tolist()) == ([0.2, 0.5, 0.0], [0.95, 1.0, 0.0])


@pytest.mark.parametrize("scores", ["20% fail, others at 1", "30% fail, others at 1", "uniform"])
def test_intervals_of_five_runs_hold_what_they_say(scores):
    """A bootstrap's of the IQM of runs of which 30 % fail holds the truth in 80 %."""
    draw = interval_coverage.POPULATIONS[scores]
    found = interval_coverage.coverage(draw, 5, np.random.default_rng(1), comparisons=200)
    assert min(found.values()) >= 0.9 and list(found) == list(interval_coverage.FIGURES)


def test_the_probability_of_0_9_is_held():
    """Normal scores, the case that a bootstrap holds in 67 %."""
    rng, ahead = np.random.default_rng(0), stats.norm.ppf(0.9) * np.sqrt(2)
    found = [improved([x + ahead], [y]) for x, y in rng.normal(size=(500, 2, 5))]
    assert np.mean([one.low <= 0.9 <= one.high for one in found]) >= 0.95


def test_scores_that_differ_by_rounding_are_ties():
    """A perfect return is 103 rewards of 1 / 103, whose mean over episodes depends on how many these are."""
    one = np.nextafter(1.0, 0.0)
    assert improvement([np.full(5, one)], [np.ones(5)]) == improvement([np.ones(5)], [np.full(5, one)]) == 0.5
    assert improvement([np.full(5, 1.0 + 1e-6)], [np.ones(5)]) == 1.0
