"""Targets against hand-computed numbers, the plain-loop twin, and what they must be in limits."""

from __future__ import annotations

import decimal
from decimal import Decimal

import numpy as np
import pytest
import torch
from torch import Tensor

from dtqn.learning import returns
from tests.learning.batches import f64
from tests.reference import losses_twin as twin

NAN, INF = float("nan"), float("inf")
SIZES = np.concatenate([np.geomspace(1e-6, 1e6, 241), [0.0, 1.0, 3.0]])
BOTH_SIGNS = np.concatenate([SIZES, -SIZES]).astype(np.float32)


def exact_h(x: float) -> Decimal:
    with decimal.localcontext(prec=60):
        size = abs(Decimal(x))
        return ((size + 1).sqrt() - 1 + size / 1000).copy_sign(Decimal(x))


def test_rescaling_is_exact_in_float32() -> None:
    scaled = returns.signed_hyperbolic(torch.from_numpy(BOTH_SIGNS))
    assert scaled.dtype == torch.float32
    # epsilon itself, 1e-3, is rounded in float32; so the bar is a few roundings.
    expected = np.array([float(exact_h(float(x))) for x in BOTH_SIGNS])
    np.testing.assert_allclose(scaled.double().numpy(), expected, rtol=4e-7, atol=0)


def test_inverse_is_exact_in_float32() -> None:
    """The h^-1 of the exact h: the textbook form is off by half of x at 1e-6."""
    scaled = np.array([float(exact_h(float(x))) for x in BOTH_SIGNS])
    inverse = returns.signed_parabolic(torch.from_numpy(scaled.astype(np.float32)))
    np.testing.assert_allclose(inverse.double().numpy(), BOTH_SIGNS.astype(np.float64), rtol=1e-6, atol=0)


def test_the_pair_is_the_papers() -> None:
    for x in (-700.0, -1.0, 0.0, 0.3, 2.0, 1e4):
        y = float(returns.SIGNED_HYPERBOLIC.apply(f64(x)))
        assert y == pytest.approx(twin.rescale(x), abs=1e-12)
        assert float(returns.SIGNED_HYPERBOLIC.inverse(f64(y))) == pytest.approx(
            twin.unscale(y), rel=1e-9, abs=1e-9
        )
        assert float(returns.IDENTITY.apply(f64(x))) == float(returns.IDENTITY.inverse(f64(x))) == x


@pytest.mark.parametrize(
    "size, n, expected",
    [
        (6, 3, [3, 4, 5, 5, 5]),  # inside an episode only the first size - n are learned
        (6, 1, [1, 2, 3, 4, 5]),
        (2, 3, [1, 1, 2, 3, 4]),  # one transition; what follows is padding and points at itself
        (4, 10, [3, 3, 3, 3, 4]),
    ],
)
def test_bootstrap_steps(size: int, n: int, expected: list[int]) -> None:
    assert returns.bootstrap_steps(torch.tensor([size]), 5, n).tolist() == [expected]


HAND = [
    # name, reward, discount, value, size, n, targets: gamma is 1/2
    ("one step", [9, 1, 2, 4], [1, 1, 1, 1], [9, 10, 20, 40], 4, 1, [6.0, 12.0, 24.0]),
    ("two steps", [9, 1, 2, 4], [1, 1, 1, 1], [9, 10, 20, 40], 4, 2, [1 + 1 + 5, 2 + 2 + 10, 4 + 20]),
    ("terminated: no bootstrap", [9, 1, 2, 4], [1, 1, 1, 0], [9, 9, 20, 40], 4, 2, [1 + 1 + 5, 2 + 2, 4]),
    (
        "truncated: from the last timestep",
        [9, 1, 2, 4],
        [1, 1, 1, 1],
        [9, 9, 9, 40],
        4,
        3,
        [1 + 1 + 1 + 5, 4 + 10, 24],
    ),
    ("n beyond the end", [9, 1, 2, 4], [1, 1, 1, 0], [9, 9, 9, 9], 4, 9, [1 + 1 + 1, 2 + 2, 4]),
    ("tail of one step", [9, 3], [1, 1], [9, 8], 2, 3, [3 + 4]),
    ("tail of one step, terminated", [9, 3], [1, 0], [9, 8], 2, 3, [3]),
]


@pytest.mark.parametrize(
    "name, reward, discount, value, size, n, expected", HAND, ids=[case[0] for case in HAND]
)
@pytest.mark.parametrize("junk", [None, NAN, INF, 1e30])
def test_targets_by_hand(
    name: str,
    reward: list[float],
    discount: list[float],
    value: list[float],
    size: int,
    n: int,
    expected: list[float],
    junk: float | None,
) -> None:
    """And with two timesteps of padding, whatever they hold."""
    padding = [] if junk is None else [junk, junk]
    y = returns.n_step_targets(
        f64(reward + padding), f64(discount + padding), f64(value + padding), torch.tensor([size]), n, 0.5
    )
    assert y.shape == (1, size + len(padding) - 1)
    assert y[0, : size - 1].tolist() == pytest.approx(expected, abs=1e-12)
    assert twin.targets(reward, discount, value, size, n, 0.5) == pytest.approx(expected, abs=1e-12)


def test_a_terminating_timestep_hides_its_value_whatever_it_is() -> None:
    y = returns.n_step_targets(f64([0, 2]), f64([1, 0]), f64([0, NAN]), torch.tensor([2]), 3, 0.5)
    assert y.tolist() == [[2.0]]


@pytest.mark.parametrize("rescaled", [False, True])
@pytest.mark.parametrize("n", [1, 3, 20])
def test_targets_against_the_twin(rescaled: bool, n: int) -> None:
    generator = np.random.default_rng(n)
    batch, size = 6, 9
    counts = np.array([9, 2, 5, 9, 7, 3])
    reward, value = generator.normal(size=(2, batch, size)) * 3
    discount = np.ones((batch, size))
    discount[[1, 4, 5], counts[[1, 4, 5]] - 1] = 0
    pair = (twin.rescale, twin.unscale) if rescaled else (twin.identity, twin.identity)
    y = returns.n_step_targets(
        *map(torch.from_numpy, (reward, discount, value, counts)), n, 0.97,
        returns.SIGNED_HYPERBOLIC if rescaled else returns.IDENTITY,
    )  # fmt: skip
    assert y.dtype == torch.float64
    for b, count in enumerate(counts):
        expected = twin.targets(reward[b], discount[b], value[b], int(count), n, 0.97, *pair)
        np.testing.assert_allclose(y[b, : count - 1].numpy(), expected, rtol=0, atol=1e-9)


def test_double_q() -> None:
    q_target, q_selector = f64([[1, 2, 3], [6, 5, 4]]), f64([[0, 9, 1], [0, 1, 9]])
    assert returns.double_q_value(q_target, q_selector).tolist() == [[2.0, 4.0]]
    generator = np.random.default_rng(0)
    a, b = generator.normal(size=(2, 3, 4, 5))
    expected = [[twin.double_q(*pair) for pair in zip(x, y, strict=True)] for x, y in zip(a, b, strict=True)]
    assert returns.double_q_value(torch.from_numpy(a), torch.from_numpy(b)).tolist() == expected


def q_lambda(
    lambda_: float, greedy: list[bool], size: int = 4, discount: float = 1.0, **junk: float
) -> Tensor:
    """Rewards 1, 2, 4 and values 10, 20, 40 of steps 1, 2, 3; gamma is 1/2; then padding."""
    padding = list(junk.values())
    return returns.lambda_targets(
        f64([9, 1, 2, 4, *padding]),
        f64([1] * (size - 1) + [discount] * (4 - size + 1) + padding),
        f64([9, 10, 20, 40, *padding]),
        lambda_ * f64(greedy + padding),
        torch.tensor([size]),
        0.5,
    )


@pytest.mark.parametrize("junk", [{}, {"a": NAN, "b": NAN}, {"a": INF}, {"a": 1e30}])
def test_q_lambda_by_hand(junk: dict[str, float]) -> None:
    """G_2 = 4 + 20; G_1 = 2 + (20 + G_2)/4; G_0 = 1 + (10 + G_1)/4, each half and half."""
    everywhere = [True] * 4
    assert q_lambda(0.5, everywhere, **junk)[0, :3].tolist() == [1 + (10 + 13) / 4, 2 + (20 + 24) / 4, 24.0]
    # Terminated: step 3 has no value. Two steps less: step 1 is the last, whatever comes after.
    ended = q_lambda(0.5, everywhere, discount=0.0, **junk)
    assert ended[0, :3].tolist() == [1 + (10 + 8) / 4, 2 + (20 + 4) / 4, 4.0]
    assert q_lambda(0.5, everywhere, size=2, **junk)[0, 0].tolist() == 1 + 10 / 2
    # Watkins: an exploring action at step 2 cuts what step 1 looks at, and no more.
    cut = q_lambda(0.5, [True, True, False, True], **junk)
    assert cut[0, :3].tolist() == [1 + (10 + 12) / 4, 2 + 20 / 2, 24.0]


@pytest.mark.parametrize("watkins", [False, True])
@pytest.mark.parametrize("rescaled", [False, True])
def test_q_lambda_against_the_twin(watkins: bool, rescaled: bool) -> None:
    """Which adds up k-step returns instead of going backwards."""
    generator = np.random.default_rng(3)
    batch, size = 6, 9
    counts = np.array([9, 2, 5, 9, 7, 3])
    reward, value = generator.normal(size=(2, batch, size)) * 3
    greedy = generator.random((batch, size)) < 0.6
    discount = np.ones((batch, size))
    discount[[1, 4, 5], counts[[1, 4, 5]] - 1] = 0
    h, h_inverse = (twin.rescale, twin.unscale) if rescaled else (twin.identity, twin.identity)
    continuation = 0.8 * (greedy if watkins else np.ones_like(reward))
    y = returns.lambda_targets(
        *map(torch.from_numpy, (reward, discount, value, continuation, counts)), 0.97,
        returns.SIGNED_HYPERBOLIC if rescaled else returns.IDENTITY,
    )  # fmt: skip
    for b, count in enumerate(counts):
        expected = [
            h(
                twin.lambda_target(
                    t, reward[b], discount[b], value[b], greedy[b], count, 0.97, 0.8, watkins, h_inverse
                )
            )
            for t in range(count - 1)
        ]
        np.testing.assert_allclose(y[b, : count - 1].numpy(), expected, rtol=0, atol=1e-9)


def test_the_costs_of_advantage_learning_by_hand() -> None:
    """The best action costs nothing, others half of their gap of 0.4 or 0.1, or half of the largest gap."""
    values = f64([1.0, 0.6, -2.0], [5.0, 5.0, 4.9], [0.0, 1.0, 2.0], [9.0, 9.0, 9.0])[None]
    for actions, costs in (
        ([0, 1, 2], [0, 0, 0]),
        ([1, 2, 1], [-0.2, -0.05, -0.5]),
        ([2, 0, 0], [-0.5, 0, -0.5]),
    ):
        found = returns.advantage_costs(values, torch.tensor([actions]), alpha=0.5)
        assert found[0].tolist() == pytest.approx(costs)


def test_the_length_of_a_trace_by_hand() -> None:
    """The first of three steps: 1 + c_1 (1 + c_2), and step 3 is the last."""
    traces = returns.traces(
        f64([9, 0.5, 0.25, 9, 9]),
        torch.tensor([4]),
        torch.tensor([[True, False, False, False]]),
        torch.tensor([[True, True, False, True, True]]),
    )
    assert [x.item() for x in traces] == [1 + 0.5 * 1.25, 2, 0, 1, 0]
