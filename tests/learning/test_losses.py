"""Losses of steps and priorities against hand-computed numbers and the plain-loop twin."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from dtqn import shapes
from dtqn.learning import losses
from tests.learning.batches import f64
from tests.reference import losses_twin as twin

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("junk", [0.0, NAN, INF, -1e30])
def test_loss(junk: float) -> None:
    deltas, weights = [[0.5, -2.0, 3.0], [-0.25]], [1.0, 0.5]
    padded = f64(deltas[0], [deltas[1][0], junk, junk]).requires_grad_()
    mask = torch.tensor([[True, True, True], [True, False, False]])
    loss = (
        losses.weighted_loss(losses.squared_loss(torch.where(mask, padded, 0.0)), f64(*weights)) / mask.sum()
    )
    assert loss.item() == pytest.approx((0.125 + 2.0 + 4.5 + 0.5 * 0.03125) / 4, abs=1e-12)
    assert twin.batch_loss(deltas, weights) == pytest.approx(loss.item(), abs=1e-12)
    (gradient,) = torch.autograd.grad(loss, padded)
    assert gradient.tolist() == [
        [pytest.approx(s / 4) for s in [0.5, -2.0, 3.0]],
        [pytest.approx(-0.25 * 0.5 / 4), 0.0, 0.0],
    ]


@pytest.mark.parametrize("junk", [0.0, NAN, INF, -1e30])
def test_priority(junk: float) -> None:
    td_error = f64([1.0, -3.0, 2.0], [0.0, junk, junk], [-4.0, junk, junk])
    mask = torch.tensor([[True, True, True], [True, False, False], [True, False, False]])
    priorities = losses.sequence_priority(td_error, mask)
    assert priorities.tolist() == pytest.approx([0.9 * 3 + 0.1 * 2, 1e-6, 4.0], abs=1e-12)
    assert [twin.priority(timestep, 0.9) for timestep in ([1.0, -3.0, 2.0], [0.0], [-4.0])] == pytest.approx(
        priorities.tolist()
    )


ATOMS = f64(-1.0, 0.0, 1.0, 2.0)


@pytest.fixture(params=["as on a CPU", "as on a GPU"])
def either_way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both ways in which mass is dealt out to atoms."""
    with shapes.fixed() if request.param == "as on a GPU" else contextlib.nullcontext():
        yield


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize(
    "values, probabilities, expected",
    [
        ([0.25], [1.0], [0.0, 0.75, 0.25, 0.0]),  # between two atoms: by distance
        ([1.0], [1.0], [0.0, 0.0, 1.0, 0.0]),  # on an atom
        ([2.0], [1.0], [0.0, 0.0, 0.0, 1.0]),  # on the last one
        ([-7.0, 9.0], [0.4, 0.6], [0.4, 0.0, 0.0, 0.6]),  # outside: the nearest end
        ([0.5, 0.5, 1.5], [0.2, 0.2, 0.6], [0.0, 0.2, 0.5, 0.3]),  # shares add up
    ],
)
def test_projection_by_hand(values: list[float], probabilities: list[float], expected: list[float]) -> None:
    projected = losses.project(f64([values]), f64([probabilities]), ATOMS)
    assert projected[0, 0].tolist() == pytest.approx(expected, abs=1e-12)
    pairs = list(zip(values, probabilities, strict=True))
    assert twin.project(pairs, ATOMS.tolist()) == pytest.approx(expected, abs=1e-12)


@pytest.mark.usefixtures("either_way")
def test_projection_keeps_mass_and_mean() -> None:
    """The mean of what lies within the range; and it is the twin's."""
    generator = torch.Generator().manual_seed(0)
    values = torch.rand(4, 5, 9, generator=generator, dtype=torch.float64) * 3 - 1
    probabilities = torch.randn(4, 5, 9, generator=generator, dtype=torch.float64).softmax(-1)
    projected = losses.project(values, probabilities, ATOMS)
    torch.testing.assert_close(projected.sum(-1), torch.ones(4, 5, dtype=torch.float64))
    torch.testing.assert_close((projected * ATOMS).sum(-1), (probabilities * values).sum(-1))
    outside = losses.project(4 * values, probabilities, ATOMS)
    torch.testing.assert_close(outside.sum(-1), torch.ones(4, 5, dtype=torch.float64))
    clipped = (probabilities * (4 * values).clamp(-1, 2)).sum(-1)
    torch.testing.assert_close((outside * ATOMS).sum(-1), clipped)
    pairs = list(zip(values[0, 0].tolist(), probabilities[0, 0].tolist(), strict=True))
    assert projected[0, 0].tolist() == pytest.approx(twin.project(pairs, ATOMS.tolist()), abs=1e-12)


def test_cross_entropy() -> None:
    log_p = f64([[0.5, 0.25, 0.25]]).log()
    loss = losses.cross_entropy(log_p, f64([[0.5, 0.5, 0.0]]))
    assert loss.tolist() == [[pytest.approx(0.5 * np.log(2) + 0.5 * np.log(4))]]


@pytest.mark.usefixtures("either_way")
def test_a_target_that_is_no_number_is_no_number_after_projection() -> None:
    """So that the update is skipped, as with any other head."""
    projected = losses.project(f64([[float("nan"), 0.5]]), f64([[0.5, 0.5]]), ATOMS)
    assert projected.isnan().any()
