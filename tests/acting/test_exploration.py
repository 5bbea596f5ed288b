"""Exploration rates by hand."""

from __future__ import annotations

import numpy as np
import pytest

from dtqn.acting.exploration import epsilon_ladder
from dtqn.schedules import exponential, linear


def test_ladder() -> None:
    assert epsilon_ladder(8, base=0.4, exponent=7.0).tolist() == pytest.approx([0.4**k for k in range(1, 9)])
    assert epsilon_ladder(2, base=0.4, exponent=7.0).tolist() == pytest.approx([0.4, 0.4**8])
    assert epsilon_ladder(32, base=0.4, exponent=7.0)[5] == pytest.approx(0.4 ** (1 + 7 * 5 / 31))
    assert epsilon_ladder(3, base=0.5, exponent=2.0).tolist() == pytest.approx([0.5, 0.25, 0.125])


@pytest.mark.parametrize(
    "fraction, expected", [(-1, 1.0), (0, 1.0), (0.25, 0.775), (0.5, 0.55), (0.75, 0.325), (1, 0.1), (9, 0.1)]
)
def test_linear_is_a_straight_line(fraction: float, expected: float) -> None:
    """One that shrinks the remaining distance would pass its ends and miss the middle."""
    assert linear(1.0, np.array([0.1, 1.0]), fraction).tolist() == pytest.approx([expected, 1.0])


def test_exponential_takes_a_share_of_what_is_left() -> None:
    """Beside the recursion of DTQN's public code, at its nominal end and after 2 million steps."""
    value, final = 1.0, 0.1
    for step in range(1000):
        assert exponential(1.0, final, step, 300) == pytest.approx(value, rel=1e-12)
        value = max(final, value - (value - final) / 300)
    assert exponential(1.0, 0.1, 200_000, 200_000) == pytest.approx(0.1 + 0.9 / np.e, abs=1e-5)
    assert exponential(1.0, np.array([0.1, 1.0]), 2_000_000, 200_000).tolist() == pytest.approx(
        [0.10004, 1.0], abs=1e-5
    )
