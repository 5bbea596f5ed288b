"""Targets, losses and priorities against hand-computed numbers and the plain-loop twin."""

from __future__ import annotations

import decimal
from decimal import Decimal

import numpy as np
import pytest
import torch
from torch import Tensor

from dtqn import losses
from tests.reference import losses_twin as twin

NAN, INF = float("nan"), float("inf")
SIZES = np.concatenate([np.geomspace(1e-6, 1e6, 241), [0.0, 1.0, 3.0]])
BOTH_SIGNS = np.concatenate([SIZES, -SIZES]).astype(np.float32)


def f64(*values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def exact_h(x: float) -> Decimal:
    with decimal.localcontext(prec=60):
        size = abs(Decimal(x))
        return ((size + 1).sqrt() - 1 + size / 1000).copy_sign(Decimal(x))


def test_rescaling_is_exact_in_float32() -> None:
    scaled = losses.signed_hyperbolic(torch.from_numpy(BOTH_SIGNS))
    assert scaled.dtype == torch.float32
    # epsilon itself, 1e-3, is rounded in float32; so the bar is a few roundings.
    expected = np.array([float(exact_h(float(x))) for x in BOTH_SIGNS])
    np.testing.assert_allclose(scaled.double().numpy(), expected, rtol=4e-7, atol=0)


def test_inverse_is_exact_in_float32() -> None:
    """The h^-1 of the exact h: the textbook form is off by half of x at 1e-6."""
    scaled = np.array([float(exact_h(float(x))) for x in BOTH_SIGNS])
    inverse = losses.signed_parabolic(torch.from_numpy(scaled.astype(np.float32)))
    np.testing.assert_allclose(inverse.double().numpy(), BOTH_SIGNS.astype(np.float64), rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype, bar", [(torch.float32, 1e-6), (torch.float64, 1e-14)])
def test_round_trip(dtype: torch.dtype, bar: float) -> None:
    x = torch.from_numpy(BOTH_SIGNS).to(dtype)
    torch.testing.assert_close(losses.signed_parabolic(losses.signed_hyperbolic(x)), x, rtol=bar, atol=0)
    torch.testing.assert_close(losses.signed_hyperbolic(losses.signed_parabolic(x)), x, rtol=bar, atol=0)


def test_the_pair_is_the_papers() -> None:
    for x in (-700.0, -1.0, 0.0, 0.3, 2.0, 1e4):
        y = float(losses.SIGNED_HYPERBOLIC.apply(f64(x)))
        assert y == pytest.approx(twin.rescale(x), abs=1e-12)
        assert float(losses.SIGNED_HYPERBOLIC.inverse(f64(y))) == pytest.approx(
            twin.unscale(y), rel=1e-9, abs=1e-9
        )
        assert float(losses.IDENTITY.apply(f64(x))) == float(losses.IDENTITY.inverse(f64(x))) == x


@pytest.mark.parametrize(
    "rows, n, expected",
    [
        (6, 3, [3, 4, 5, 5, 5]),  # inside an episode only the first rows - n are learned
        (6, 1, [1, 2, 3, 4, 5]),
        (2, 3, [1, 1, 2, 3, 4]),  # one transition; what follows is padding and points at itself
        (4, 10, [3, 3, 3, 3, 4]),
    ],
)
def test_bootstrap_rows(rows: int, n: int, expected: list[int]) -> None:
    assert losses.bootstrap_rows(torch.tensor([rows]), 5, n).tolist() == [expected]


HAND = [
    # name, reward, discount, value, rows, n, targets: gamma is 1/2
    ("one step", [9, 1, 2, 4], [1, 1, 1, 1], [9, 10, 20, 40], 4, 1, [6.0, 12.0, 24.0]),
    ("two steps", [9, 1, 2, 4], [1, 1, 1, 1], [9, 10, 20, 40], 4, 2, [1 + 1 + 5, 2 + 2 + 10, 4 + 20]),
    ("terminated: no bootstrap", [9, 1, 2, 4], [1, 1, 1, 0], [9, 9, 20, 40], 4, 2, [1 + 1 + 5, 2 + 2, 4]),
    (
        "truncated: from the last row",
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
    "name, reward, discount, value, rows, n, expected", HAND, ids=[row[0] for row in HAND]
)
@pytest.mark.parametrize("junk", [None, NAN, INF, 1e30])
def test_targets_by_hand(
    name: str,
    reward: list[float],
    discount: list[float],
    value: list[float],
    rows: int,
    n: int,
    expected: list[float],
    junk: float | None,
) -> None:
    """And with two rows of padding, whatever they hold."""
    padding = [] if junk is None else [junk, junk]
    y = losses.n_step_targets(
        f64(reward + padding), f64(discount + padding), f64(value + padding), torch.tensor([rows]), n, 0.5
    )
    assert y.shape == (1, rows + len(padding) - 1)
    assert y[0, : rows - 1].tolist() == pytest.approx(expected, abs=1e-12)
    assert twin.targets(reward, discount, value, rows, n, 0.5) == pytest.approx(expected, abs=1e-12)


def test_a_terminating_row_hides_its_value_whatever_it_is() -> None:
    y = losses.n_step_targets(f64([0, 2]), f64([1, 0]), f64([0, NAN]), torch.tensor([2]), 3, 0.5)
    assert y.tolist() == [[2.0]]


@pytest.mark.parametrize("rescaled", [False, True])
@pytest.mark.parametrize("n", [1, 3, 20])
def test_targets_against_the_twin(rescaled: bool, n: int) -> None:
    generator = np.random.default_rng(n)
    batch, rows = 6, 9
    counts = np.array([9, 2, 5, 9, 7, 3])
    reward, value = generator.normal(size=(2, batch, rows)) * 3
    discount = np.ones((batch, rows))
    discount[[1, 4, 5], counts[[1, 4, 5]] - 1] = 0
    pair = (twin.rescale, twin.unscale) if rescaled else (twin.identity, twin.identity)
    y = losses.n_step_targets(
        *map(torch.from_numpy, (reward, discount, value, counts)), n, 0.97,
        losses.SIGNED_HYPERBOLIC if rescaled else losses.IDENTITY,
    )  # fmt: skip
    assert y.dtype == torch.float64
    for b, count in enumerate(counts):
        expected = twin.targets(reward[b], discount[b], value[b], int(count), n, 0.97, *pair)
        np.testing.assert_allclose(y[b, : count - 1].numpy(), expected, rtol=0, atol=1e-9)


def test_targets_read_no_row_outside_the_sequence() -> None:
    """Shifting a sequence's neighbours changes nothing: the first row's reward belongs to the row before."""
    reward = f64([5, 1, 2])
    y = losses.n_step_targets(reward, f64([1, 1, 0]), f64([7, 7, 7]), torch.tensor([3]), 2, 0.5)
    reward[0, 0] = -1e9
    assert torch.equal(
        y, losses.n_step_targets(reward, f64([1, 1, 0]), f64([9, 7, 7]), torch.tensor([3]), 2, 0.5)
    )


def test_discounts_may_be_booleans() -> None:
    y = [
        losses.n_step_targets(f64([5, 1, 2]), discount, f64([7, 7, 7]), torch.tensor([3]), 1, 0.5)
        for discount in (torch.tensor([[True, True, False]]), f64([1, 1, 0]))
    ]
    assert torch.equal(*y)


def test_double_q() -> None:
    q_target, q_selector = f64([[1, 2, 3], [6, 5, 4]]), f64([[0, 9, 1], [0, 1, 9]])
    assert losses.double_q_value(q_target, q_selector).tolist() == [[2.0, 4.0]]
    generator = np.random.default_rng(0)
    a, b = generator.normal(size=(2, 3, 4, 5))
    expected = [[twin.double_q(*pair) for pair in zip(x, y, strict=True)] for x, y in zip(a, b, strict=True)]
    assert losses.double_q_value(torch.from_numpy(a), torch.from_numpy(b)).tolist() == expected


def test_select_action() -> None:
    assert losses.select_action(f64([[1, 2], [3, 4], [5, 6]]), torch.tensor([[0, 1, 0]])).tolist() == [
        [1.0, 4.0, 5.0]
    ]


@pytest.mark.parametrize("huber", [False, True])
@pytest.mark.parametrize("junk", [0.0, NAN, INF, -1e30])
def test_loss(huber: bool, junk: float) -> None:
    deltas, weights = [[0.5, -2.0, 3.0], [-0.25]], [1.0, 0.5]
    padded = f64(deltas[0], [deltas[1][0], junk, junk]).requires_grad_()
    mask = torch.tensor([[True, True, True], [True, False, False]])
    loss = losses.weighted_loss(padded, mask, f64(*weights), huber) / mask.sum()
    squared, robust = (0.125 + 2.0 + 4.5 + 0.5 * 0.03125) / 4, (0.125 + 1.5 + 2.5 + 0.5 * 0.03125) / 4
    assert loss.item() == pytest.approx(robust if huber else squared, abs=1e-12)
    assert twin.batch_loss(deltas, weights, huber) == pytest.approx(loss.item(), abs=1e-12)
    (gradient,) = torch.autograd.grad(loss, padded)
    slopes = [0.5, -1.0, 1.0] if huber else [0.5, -2.0, 3.0]
    assert gradient.tolist() == [
        [pytest.approx(s / 4) for s in slopes],
        [pytest.approx(-0.25 * 0.5 / 4), 0.0, 0.0],
    ]


@pytest.mark.parametrize("junk", [0.0, NAN, INF, -1e30])
@pytest.mark.parametrize("eta, expected", [(0.9, 0.9 * 3 + 0.1 * 2), (0.0, 2.0), (1.0, 3.0)])
def test_priority(junk: float, eta: float, expected: float) -> None:
    td_error = f64([1.0, -3.0, 2.0], [0.0, junk, junk], [-4.0, junk, junk])
    mask = torch.tensor([[True, True, True], [True, False, False], [True, False, False]])
    priorities = losses.sequence_priority(td_error, mask, eta)
    assert priorities.tolist() == pytest.approx([expected, 1e-6, 4.0], abs=1e-12)
    assert [twin.priority(row, eta) for row in ([1.0, -3.0, 2.0], [0.0], [-4.0])] == pytest.approx(
        priorities.tolist()
    )
