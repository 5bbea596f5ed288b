"""The gated delta rule by chunks against the paper's recurrence, and the first values of its gates."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dtqn.networks.deltanet import CHUNK, RATE, STEP, GatedDeltaNetLayer, delta_rule, delta_step
from tests.networks.modules import random
from tests.reference import deltanet_twin

BATCH, HEADS, WIDTH = 2, 3, 4


def timesteps(steps: int) -> tuple[Tensor, ...]:
    """qk with keys of length 1, v, log alpha, beta, and a matrix to start from."""
    q, k, v = random(3, BATCH, steps, HEADS, WIDTH, seed=1)
    k = k / k.norm(dim=-1, keepdim=True)
    decay, write = random(2, BATCH, steps, HEADS, seed=2)
    start = random(BATCH, HEADS, WIDTH, WIDTH, seed=4)
    return torch.stack([q, k], dim=2), v, -decay.exp(), write.sigmoid(), start


def twin(qk: Tensor, v: Tensor, log_alpha: Tensor, beta: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs [B, T, H, d] and matrices [B, T, H, d, d] of every batch timestep and head by itself."""
    outputs, states = [], []
    for b in range(BATCH):
        for h in range(HEADS):
            (q, k), values = qk[b, :, :, h].unbind(1), v[b, :, h]
            alpha = log_alpha[b, :, h].exp()
            o, s = deltanet_twin.delta_rule(q, k, values, alpha, beta[b, :, h], start[b, h].T)
            outputs.append(o)
            states.append(s.mT)
    o, s = (torch.stack(x).unflatten(0, (BATCH, HEADS)).transpose(1, 2) for x in (outputs, states))
    return o, s


@pytest.mark.parametrize("steps", [1, 2, 3, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 1, 5 * CHUNK + 3])
def test_chunks_are_the_papers_recurrence(steps: int) -> None:
    """Values, matrices after every step, and gradients; one chunk, several, and some that end in padding."""
    given = [x.requires_grad_() for x in timesteps(steps)]
    found, wanted = delta_rule(*given, want_states=True), twin(*given)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)
    assert found[1] is not None and not found[1].requires_grad
    weights = random(*found[0].shape, seed=5)
    gradients = [torch.autograd.grad((o * weights).sin().sum(), given) for o in (found[0], wanted[0])]
    for one, other in zip(*gradients, strict=True):
        assert other.abs().max() > 1e-3
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
    bare, nothing = delta_rule(*given, want_states=False)
    assert nothing is None and torch.equal(bare, found[0])


def test_a_step_is_the_papers() -> None:
    given = [x.requires_grad_() for x in timesteps(1)]
    found, wanted = delta_step(*given), twin(*given)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
        gradients = [
            torch.autograd.grad(x.sin().sum(), given, retain_graph=True, materialize_grads=True)
            for x in (one, other)
        ]
        torch.testing.assert_close(*gradients, rtol=0, atol=1e-12)


@pytest.mark.parametrize("log_alpha", [(0.0,), (-1e-8,), (-1.0,), (-1e4,), (-1e4, -0.01, -0.01, -0.01)])
@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
def test_float32_is_stable(log_alpha: tuple[float, ...], beta: float) -> None:
    """200 steps of keys that are nearly one, from all kept to all forgotten, against the loop in float64."""
    qk, v, *_, start = timesteps(200)
    k = qk[:, :1, 1] + 0.01 * qk[:, :, 1]
    qk[:, :, 1] = k / k.norm(dim=-1, keepdim=True)
    forget = torch.tensor(log_alpha).double().repeat(200 // len(log_alpha))[:, None].expand(v.shape[:-1])
    given = [x.float().requires_grad_() for x in (qk, v, forget, torch.full_like(forget, beta), start)]
    found, wanted = delta_rule(*given, want_states=True), twin(*(x.detach().double() for x in given))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other.float(), rtol=1e-4, atol=1e-4)
    assert all(x.isfinite().all() for x in torch.autograd.grad(found[0].sum(), given))


def test_a_key_stands_for_the_value_that_was_stored_last() -> None:
    """With beta = 1 and nothing forgotten; a sum of outer products would answer with the sum of both."""
    one, two = torch.eye(2, WIDTH)
    keys, queries = torch.stack([one, two, one, two]), torch.stack([one, one, one, one])
    qk, v = torch.stack([queries, keys], dim=1)[None, :, :, None], random(1, 4, 1, WIDTH, seed=1).float()
    kept, full = torch.zeros(1, 4, 1), torch.ones(1, 4, 1)
    o, _ = delta_rule(qk, v, kept, full, torch.zeros(1, 1, WIDTH, WIDTH), want_states=False)
    torch.testing.assert_close(o, v[:, [0, 0, 2, 2]])


def test_initial_decay_is_the_papers() -> None:
    torch.manual_seed(0)
    made = GatedDeltaNetLayer(width=4000, num_heads=2000, mlp_width=4, longest=None)
    rate, step = made.log_rate.exp(), torch.nn.functional.softplus(made.decay_bias)
    assert RATE[0] <= rate.min() < 0.1 and 15.9 < rate.max() <= RATE[1]
    assert rate.mean().item() == pytest.approx(8, rel=0.03)
    assert step.min().item() == pytest.approx(STEP[0], rel=0.02) and step.max().item() == pytest.approx(
        STEP[1], rel=0.02
    )
    assert step.log().mean().item() == pytest.approx(torch.tensor(STEP).log().mean().item(), abs=0.06)
