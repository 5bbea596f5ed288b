"""Exploration rates by hand."""

from __future__ import annotations

import numpy as np
import pytest

from dtqn.acting.exploration import Bursts, epsilon_ladder, exponentially, linear


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
        assert exponentially(final, step, 300) == pytest.approx(value, rel=1e-12)
        value = max(final, value - (value - final) / 300)
    assert exponentially(0.1, 200_000, 200_000) == pytest.approx(0.1 + 0.9 / np.e, abs=1e-5)
    assert exponentially(np.array([0.1, 1.0]), 2_000_000, 200_000).tolist() == pytest.approx(
        [0.10004, 1.0], abs=1e-5
    )


class Uniform:
    """A generator whose next draws are given."""

    def __init__(self, *draws: list[list[float]]) -> None:
        self.draws = list(draws)

    def random(self, size: tuple[int, ...]) -> np.ndarray:
        drawn = np.array(self.draws.pop(0))
        assert drawn.shape == size
        return drawn


def burst_steps(bursts: Bursts, env_id: int) -> list[int]:
    """The steps of its episode at which an environment is in a burst."""
    return [step for step in range(100) if bursts.active(np.full(2, step))[env_id]]


def test_bursts_by_hand() -> None:
    """Two environments; the unit is the mean length of recent episodes without a burst, 10 and then 15."""
    bursts = Bursts(num_envs=2, share=0.5)
    both, one, neither = np.array([True, True]), np.array([True, False]), np.array([False, False])
    bursts.begin(both, Uniform([[0.1, 0.1], [0.9, 0.9], [0.9, 0.9]]))
    assert burst_steps(bursts, 0) == burst_steps(bursts, 1) == []  # no episode has ended: no unit
    bursts.end(one, np.array([10, 99]))
    bursts.begin(neither, Uniform())
    bursts.begin(one, Uniform([[0.49, 0.1], [0.3, 0.9], [0.2, 0.9]]))  # floor(0.2 * 11) steps
    assert burst_steps(bursts, 0) == [0, 1]
    assert burst_steps(bursts, 1) == []  # it goes on in its episode
    bursts.end(both, np.array([99, 20]))  # environment 0 had a burst: its length does not count
    bursts.begin(both, Uniform([[0.5, 0.0], [0.3, 0.99], [0.2, 0.99]]))
    assert burst_steps(bursts, 0) == []
    assert burst_steps(bursts, 1) == list(range(15))  # floor(0.99 * 16) steps
    again = Bursts(num_envs=2, share=0.5)
    again.set_state(bursts.get_state())
    bursts.begin(one, Uniform([[0.1, 0.1], [0.0, 0.0], [0.99, 0.0]]))
    assert burst_steps(bursts, 0) == list(range(15))
    again.begin(one, Uniform([[0.1, 0.1], [0.0, 0.0], [0.99, 0.0]]))
    assert burst_steps(again, 0) == burst_steps(again, 1) == list(range(15))


def test_without_a_share_nothing_is_drawn() -> None:
    bursts = Bursts(num_envs=2, share=0.0)
    bursts.begin(np.array([True, True]), Uniform())
