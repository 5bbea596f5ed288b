"""Adam and RAdam against torch's own classes, step by step."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dtqn.learning import adam

FINITE = torch.tensor(True)


@pytest.mark.parametrize("rectified", [False, True])
def test_steps_are_those_of_torchs_class(rectified: bool) -> None:
    """Beyond the first steps of RAdam, which do not use the variance; other step sizes each time.

    Without an epsilon: torch's RAdam adds it before the correction of the bias and not, as here, after it.
    """
    torch.manual_seed(0)
    ours, torchs = ([nn.Parameter(torch.arange(n).double()) for n in (3, 4)] for _ in range(2))
    kind = torch.optim.RAdam if rectified else torch.optim.Adam
    reference = kind(torchs, eps=0.0)
    flat = adam.Flat(ours)
    mine = adam.Adam(["a", "b"], flat, epsilon=0.0, rectified=rectified)
    for number in range(1, 13):
        gradients = [torch.randn_like(parameter) for parameter in ours]
        for parameter, gradient in zip(torchs, gradients, strict=True):
            parameter.grad = gradient
        reference.param_groups[0]["lr"] = 0.1 / number
        reference.step()
        mine.step(flat.join(gradients), 0.1 / number, FINITE)
        for one, other in zip(ours, torchs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rectified", [False, True])
def test_decay_is_that_of_torchs_adamw_on_matrices(rectified: bool) -> None:
    torch.manual_seed(0)
    shapes = [(3, 4), (4,), (2, 2, 2)]
    ours, torchs = ([nn.Parameter(torch.ones(shape).double()) for shape in shapes] for _ in range(2))
    kind = torch.optim.RAdam if rectified else torch.optim.AdamW
    more = {"decoupled_weight_decay": True} if rectified else {}
    groups = [
        {"params": [x for x in torchs if (x.dim() > 1) == is_matrix], "weight_decay": decay}
        for is_matrix, decay in ((True, 0.3), (False, 0.0))
    ]
    reference = kind(groups, eps=0.0, **more)
    flat = adam.Flat(ours)
    mine = adam.Adam(["a", "b", "c"], flat, epsilon=0.0, rectified=rectified, weight_decay=0.3)
    for number in range(1, 9):
        gradients = [torch.randn_like(parameter) for parameter in ours]
        for parameter, gradient in zip(torchs, gradients, strict=True):
            parameter.grad = gradient
        for group in reference.param_groups:
            group["lr"] = 0.1 / number
        reference.step()
        mine.step(flat.join(gradients), 0.1 / number, FINITE)
        mine.step(flat.join([torch.full_like(x, torch.nan) for x in gradients]), 0.1, torch.tensor(False))
        for one, other in zip(ours, torchs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_the_variance_is_used_from_the_sixth_step_on() -> None:
    shares = [adam.rectification(step) for step in range(1, 8)]
    assert shares[:5] == [None] * 5
    # rho_6 = 5.99417: sqrt(1.99417 * 3.99417 * 1999 / (1995 * 1997 * 5.99417)).
    assert shares[5] == pytest.approx(0.025821, abs=1e-6)
    assert adam.rectification(100_000) == pytest.approx(1.0, abs=1e-6)


def test_a_state_goes_on_in_either_part() -> None:
    for before in (3, 8):
        parameters = [nn.Parameter(torch.ones(3).double()) for _ in range(2)]
        flats = [adam.Flat([parameter]) for parameter in parameters]
        made = [adam.Adam(["a"], flat, epsilon=1e-8, rectified=True) for flat in flats]
        gradient = [torch.tensor([1.0, -2.0, 3.0]).double()]
        for _ in range(before):
            made[0].step(gradient, 0.1, FINITE)
        made[1].set_state(made[0].get_state())
        with torch.no_grad():
            parameters[1].copy_(parameters[0])
        for _ in range(4):
            for one in made:
                one.step(gradient, 0.1, FINITE)
        assert torch.equal(*parameters)


@pytest.mark.parametrize("rectified", [False, True])
@pytest.mark.parametrize("before", [0, 8])
def test_a_gradient_that_is_not_finite_leaves_everything_as_it_was(rectified: bool, before: int) -> None:
    parameter = nn.Parameter(torch.ones(3).double())
    mine = adam.Adam(["a"], adam.Flat([parameter]), epsilon=1e-8, rectified=rectified)
    for _ in range(before):
        mine.step([torch.tensor([1.0, -2.0, 3.0]).double()], 0.1, FINITE)
    state = {name: x.clone() for name, x in mine.get_state()["a"].items()}
    kept = parameter.detach().clone()
    mine.step([torch.tensor([1.0, torch.nan, 3.0]).double()], 0.1, torch.tensor(False))
    assert torch.equal(parameter, kept)
    assert all(torch.equal(x, state[name]) for name, x in mine.get_state()["a"].items())
