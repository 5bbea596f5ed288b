from __future__ import annotations

import numpy as np
import pytest

from replay.samplers import ProportionalSampler, checked_priorities


def sampler_with(priorities: dict[int, float], alpha: float, beta: float) -> ProportionalSampler:
    sampler = ProportionalSampler(10_000, alpha, beta)
    slots = np.array(list(priorities))
    sampler.insert(slots, born=0)
    sampler.update(slots, np.array(list(priorities.values()), np.float32))
    return sampler


@pytest.mark.parametrize(("alpha", "batch_size"), [(1.0, 1), (0.9, 7), (0.5, 32), (0.0, 5)])
def test_frequencies_are_proportional(alpha: float, batch_size: int) -> None:
    """Chi-square over 40,000 draws at a fixed seed; the 0.999 quantile for 19 degrees of freedom is 43.8."""
    slots = np.random.default_rng(1).choice(10_000, 20, replace=False)
    priorities = dict(zip(slots.tolist(), np.linspace(0.2, 4.0, 20), strict=True))
    sampler, generator = sampler_with(priorities, alpha, 0.6), np.random.default_rng(2)
    draws = np.concatenate([sampler.sample(batch_size, generator).slots for _ in range(40_000 // batch_size)])
    mass = np.array([priority**alpha for priority in priorities.values()])
    expected = mass / mass.sum() * len(draws)
    counts = np.array([(draws == slot).sum() for slot in priorities])
    assert counts.sum() == len(draws)
    assert (((counts - expected) ** 2) / expected).sum() < 43.8


def test_stratified() -> None:
    """Four equal sequences, batches of four: each is drawn once in every batch."""
    sampler = sampler_with({5: 1.0, 70: 1.0, 4200: 1.0, 9999: 1.0}, 0.9, 0.6)
    for seed in range(20):
        slots = sampler.sample(4, np.random.default_rng(seed)).slots
        assert slots.tolist() == [5, 70, 4200, 9999]


def test_weights_by_hand() -> None:
    """p = 1, 3, alpha 1, beta 0.5, N = 2: P = 1/4, 3/4; (N P)^-0.5 = sqrt(2), sqrt(2/3): 1 to 0.57735."""
    draw = sampler_with({1: 1.0, 2: 3.0}, 1.0, 0.5).sample(4, np.random.default_rng(0))
    assert draw.slots.tolist() == [1, 2, 2, 2]
    np.testing.assert_allclose(draw.probabilities, [0.25, 0.75, 0.75, 0.75])
    np.testing.assert_allclose(draw.importance_weights, [1.0, 0.57735, 0.57735, 0.57735], rtol=1e-5)
    assert draw.importance_weights.dtype == np.float32


def test_alpha_by_hand() -> None:
    """p = 1, 16 with alpha 0.5: mass 1, 4."""
    draw = sampler_with({1: 1.0, 2: 16.0}, 0.5, 1.0).sample(5, np.random.default_rng(0))
    np.testing.assert_allclose(draw.probabilities, [0.2, 0.8, 0.8, 0.8, 0.8])
    np.testing.assert_allclose(draw.importance_weights, [1.0, 0.25, 0.25, 0.25, 0.25])


def test_a_new_sequence_has_the_power_of_the_running_maximum_too() -> None:
    """p = 16, and 16 of the newcomer, with alpha 0.5: mass 4, 4."""
    sampler = sampler_with({1: 16.0}, 0.5, 0.0)
    sampler.insert(np.array([2]), born=0)
    draw = sampler.sample(2, np.random.default_rng(0))
    assert draw.slots.tolist() == [1, 2]
    np.testing.assert_allclose(draw.probabilities, [0.5, 0.5])


def test_weights_are_relative_to_the_batch() -> None:
    """The rare sequence is not in the batch: the largest weight in it is 1 all the same."""
    draw = sampler_with({1: 1e-6, 2: 1.0, 3: 2.0}, 1.0, 1.0).sample(3, np.random.default_rng(0))
    assert draw.slots.tolist() == [2, 3, 3]
    np.testing.assert_allclose(draw.importance_weights, [1.0, 0.5, 0.5])


def test_exponents_of_zero() -> None:
    sampler = sampler_with({1: 1e-6, 2: 1e6}, 0.0, 0.0)
    draw = sampler.sample(2, np.random.default_rng(0))
    assert draw.slots.tolist() == [1, 2]
    assert draw.probabilities.tolist() == [0.5, 0.5]
    assert draw.importance_weights.tolist() == [1.0, 1.0]


def test_new_sequences_enter_with_the_running_maximum() -> None:
    sampler = sampler_with({1: 0.5}, 1.0, 0.0)
    assert sampler.max_priority == 1.0  # at first
    sampler.update(np.array([1]), np.array([8.0], np.float32))
    sampler.update(np.array([1]), np.array([2.0], np.float32))
    assert sampler.max_priority == 8.0  # running: it does not come down
    sampler.insert(np.array([2]), born=0)
    assert sampler.sample(1, np.random.default_rng(0)).probabilities in (0.2, 0.8)
    assert sampler.priority_statistics() == {"minimum": 2.0, "mean": 5.0, "maximum": 8.0}
    assert sampler.num_sequences == 2
    sampler.remove(np.array([2]))
    assert sampler.sample(1, np.random.default_rng(0)).slots == [1]
    assert sampler.num_sequences == 1


def test_priorities_are_checked() -> None:
    np.testing.assert_array_equal(checked_priorities([0.0, 1e-9, 2.5], 3), np.float32([1e-6, 1e-6, 2.5]))
    for wrong in (np.nan, np.inf, -1e-3, 1e300):
        with pytest.raises(ValueError, match=r"priorities: .* is no priority; it must be finite"):
            checked_priorities([1.0, wrong], 2)
    with pytest.raises(ValueError, match=r"priorities: shape is \(2,\); it must be \(3,\)"):
        checked_priorities([1.0, 2.0], 3)


@pytest.mark.parametrize("value", [-0.1, 1.5, np.nan])
def test_exponents_are_checked(value: float) -> None:
    with pytest.raises(ValueError, match="priority_exponent is"):
        ProportionalSampler(10, value, 0.6)
    with pytest.raises(ValueError, match="importance_sampling_exponent is"):
        ProportionalSampler(10, 0.9, value)


def test_nothing_to_sample() -> None:
    sampler = ProportionalSampler(10, 0.9, 0.6)
    with pytest.raises(ValueError, match="no sequence can be sampled yet"):
        sampler.sample(1, np.random.default_rng(0))
    sampler.insert(np.array([3]), born=0)
    with pytest.raises(ValueError, match="batch_size is 0"):
        sampler.sample(0, np.random.default_rng(0))
    assert sampler.sample(2, np.random.default_rng(0)).slots.tolist() == [3, 3]
