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
    """One sequence of four real timesteps, rewards 1, 2, 4, all but the last learned; and padding."""
    size = 4 + padding
    learn = StepInputs(
        torch.zeros(1, size),
        torch.tensor([[7, *ACTIONS, *[0] * padding]]),
        f64([9, 1, 2, 4, *[junk] * padding]),
        torch.zeros(1, size, dtype=torch.bool),
    )
    count = torch.tensor([4])
    return Sequences(
        memory={}, memory_valid=torch.zeros(1, 0), episode_step=0 * count,
        burn_in=StepInputs(*(x[:, :0] for x in learn)), burn_in_timesteps=0 * count,
        learn=learn, discount=f64([1, 1, 1, 1, *[junk] * padding]), learn_timesteps=count,
        learned_steps=count - 1, importance_weights=torch.ones(1),
        learn_facts={"q_max": torch.ones(1, size), "q_taken": torch.tensor([[1.0, 1, 0, 1, *[1] * padding]])},
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
    # Steps 1 and 2 have an action at which a trace may go on. At 1 the actor took its best, and it is cut.
    assert [x.item() for x in found.traces] == [1 + 1.5 + 1, 2, 1, 1, 1]
    never_cut = errors(
        Expectation(), QOutput(Q[None]), QOutput(10 * Q[None]), returns="peng", q_lambda=0.5
    ).target
    assert never_cut.tolist() == [[1 + (40 + 25.5) / 4, 25.5, 44.0]]


@pytest.mark.parametrize("constant", [0.0, 100.0])
def test_a_tolerance_is_a_share_of_gaps_or_of_values(constant: float) -> None:
    """The gaps are 2, 3, 3, 8. a_1 is 3 below the best: within 0.4 of 8, not within 0.3 of it.

    The largest value is 8, or 108; 3 is within 0.3 of the second alone.
    """
    online, told = QOutput(Q[None] + constant), {"returns": {"name": "watkins", "q_lambda": 0.5}}

    def cuts(tolerance: float, of: str) -> float:
        told["returns"] |= {"tolerance": tolerance, "tolerance_of": of}
        return errors(Expectation(), online, online, **told).traces.cut.item()

    assert [cuts(0.4, "gaps"), cuts(0.3, "gaps")] == [0, 1]
    assert [cuts(0.4, "values"), cuts(0.3, "values")] == [0, 0 if constant else 1]


def test_first_priorities_know_the_gaps_that_the_actor_saw() -> None:
    """Rewards 1, 2, 4 and lambda 0.5; v is Q's best, and the last gap, 8, the largest.

    G_2 = 4 + 8/2, G_1 = 2 + (5 + 8)/4; G_0 is 1 + (4 + 5.25)/4 where c_1 = 0.5, and 1 + 4/2 where it is 0.
    """
    taken = torch.tensor([[3.0, 1.0, 5.0, 0.0]])
    sees = batch()
    seen = {"q_max": Q[None].amax(-1), "q_min": Q[None].amin(-1), "q_taken": taken, "novel": taken > 9}
    seen |= {"reward": sees.learn.reward, "discount": sees.discount}
    for tolerance, first in ((0.4, 3.3125), (0.3, 3.0)):
        chosen = {"name": "watkins", "q_lambda": 0.5, "tolerance": tolerance, "tolerance_of": "gaps"}
        config = learner_config(**(PLAIN | {"returns": chosen}))
        found = Objective(config, Expectation()).first_td_errors(seen, sees.learn_timesteps)
        assert found[0].tolist() == pytest.approx([first - 3, 5.25 - 1, 8 - 5])


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
