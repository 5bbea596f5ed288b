"""The objective on outputs made by hand; the learner's tests compare it with the twin on networks'."""

from __future__ import annotations

import pytest
import torch

from dtqn.learning.objective import Objective
from dtqn.learning.predictions import Categorical, Expectation, StepErrors
from dtqn.networks.heads import Prediction
from dtqn.types import QOutput, Sequences, StepInputs
from tests.cases import learner_config
from tests.learning.batches import f64

Q = f64([3.0, 1.0], [1.0, 4.0], [5.0, 2.0], [0.0, 8.0])
"""Four timesteps; the best actions are 0, 1, 0, 1."""
ACTIONS = [0, 0, 0]
"""a_0 and a_2 are greedy, a_1 is not."""


def batch(padding: int = 0, junk: float = float("nan")) -> Sequences:
    """One sequence of four real timesteps with rewards 1, 2, 4, all steps but the last learned; and
    padding."""
    timesteps = 4 + padding
    learn = StepInputs(
        torch.zeros(1, timesteps),
        torch.tensor([[7, *ACTIONS, *[0] * padding]]),
        f64([9, 1, 2, 4, *[junk] * padding]),
        torch.zeros(1, timesteps, dtype=torch.bool),
    )
    count = torch.tensor([4])
    return Sequences(
        memory={}, memory_valid=torch.zeros(1, 0), episode_step=0 * count,
        burn_in=StepInputs(*(x[:, :0] for x in learn)), burn_in_timesteps=0 * count,
        learn=learn, discount=f64([1, 1, 1, 1, *[junk] * padding]), learn_timesteps=count,
        learned_steps=count - 1, importance_weights=torch.ones(1),
        learn_facts={"q_max": torch.ones(1, timesteps), "q_taken": torch.tensor([[1.0, 1, 0, 1, *[1] * padding]])},  # noqa: E501
    )  # fmt: skip


PLAIN = {"gamma": 0.5, "reward_scale": 1.0, "returns": "n_step", "n_step": 1}


def errors(
    prediction: Prediction, online: QOutput, target: QOutput, padding: int = 0, **settings: object
) -> StepErrors:
    config = learner_config(**(PLAIN | settings))
    return Objective(config, prediction).errors(batch(padding), online, target, online)


def test_watkins_looks_past_greedy_actions_only() -> None:
    """v is 10 times Q here. c_1 is 0, as a_1 is no greedy action of step 1, and c_2 is lambda.

    G_2 = 4 + 80/2, G_1 = 2 + (50 + 44)/4, G_0 = 1 + 40/2.
    """
    found = errors(Expectation(), QOutput(Q[None]), QOutput(10 * Q[None]), returns="watkins", q_lambda=0.5)
    target = found.target
    assert target.tolist() == [[21.0, 25.5, 44.0]]
    # Timesteps 1 and 2 have an action at which a trace may go on. At step 1 the actor took its best, and it
    # is cut.
    assert [x.item() for x in found.traces] == [1 + 1.5 + 1, 2, 1, 1, 1]
    never_cut = errors(
        Expectation(), QOutput(Q[None]), QOutput(10 * Q[None]), returns="peng", q_lambda=0.5
    ).target
    assert never_cut.tolist() == [[1 + (40 + 25.5) / 4, 25.5, 44.0]]


def test_the_target_of_atoms_by_hand() -> None:
    """All mass on the atom that is Q: the target is the one of a plain head, until it leaves the range."""
    head = Categorical(11, 0.0, 10.0).double()
    log_p = torch.nn.functional.one_hot(Q.long(), 11).double().clamp(min=1e-30).log()[None]
    found = errors(head, QOutput(Q[None], log_p), QOutput(Q[None], log_p))
    assert found.target[0].tolist() == pytest.approx([3.0, 4.5, 8.0])
    assert found.loss[0, 0].item() == pytest.approx(0.0, abs=1e-9)  # Q is the target
    scaled = errors(head, QOutput(Q[None], log_p), QOutput(Q[None], log_p), reward_scale=3.0)
    assert scaled.target[0].tolist() == pytest.approx([5.0, 8.5, 10.0])
    # Two steps, of which the sequence's end leaves the last one: 1 + 2/2 + 5/4, 2 + 4/2 + 8/4, 4 + 8/2.
    two = errors(head, QOutput(Q[None], log_p), QOutput(Q[None], log_p), n_step=2)
    assert two.target[0].tolist() == pytest.approx([3.25, 6.0, 8.0])


@pytest.mark.parametrize(
    ("kind", "returns"),
    [
        ("value", "n_step"),
        ("value", "watkins"),
        ("categorical", "n_step"),
        ("categorical", "watkins"),
    ],
)
def test_padding_has_neither_loss_nor_gradient_whatever_it_is(kind: str, returns: str) -> None:
    prediction: Prediction = Expectation() if kind == "value" else Categorical(3, 0.0, 8.0)
    numbers = torch.randn(1, 6, 2, prediction.size, generator=torch.Generator().manual_seed(0)).double()
    results = []
    for junk in (0.0, float("inf"), float("nan")):
        given = numbers.clone()
        given[:, 4:] = junk
        given.requires_grad_()
        output = prediction(given)
        found = errors(prediction, output, output, padding=2, returns=returns)
        (gradient,) = torch.autograd.grad(
            found.loss.sum(), output.distribution if kind != "value" else output.q
        )
        assert not gradient[:, 3:].any() and gradient[:, :3].any()
        assert not found.loss[:, 3:].any() and found.mask.tolist() == [[True] * 3 + [False] * 2]
        results.append(torch.cat([found.loss[0], found.td_error[0, :3], gradient.flatten()]))
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])
