"""The loss of recall: which values are shown and known; `tests/learning/test_learner.py` has its gradient."""

from __future__ import annotations

import math

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from dtqn.networks.builder import build
from dtqn.networks.recall import Recall, RecallingHead, Shown, with_values
from dtqn.settings.config import LearnerConfig, NetworkConfig
from dtqn.types import Sequences, StepInputs
from tests.cases import inputs, make
from tests.learning.batches import make_batch
from tests.learning.learners import make_learner

SHOWN = [
    # space, an observation, how many values there are, the numbers of those shown
    (spaces.Discrete(5, start=2), np.array(6), 5, {4}),
    (spaces.MultiBinary(3), np.array([1, 0, 1]), 6, {1, 2, 5}),
    (spaces.MultiDiscrete([3, 4, 2]), np.array([2, 0, 1]), 9, {2, 3, 8}),
    (spaces.MultiDiscrete([3, 4], start=[1, -1]), np.array([1, 2]), 7, {0, 6}),
    (spaces.MultiDiscrete([7, 7, 7], start=[1, 1, 1]), np.array([3, 7, 3]), 7, {2, 6}),
    (spaces.Dict(a=spaces.Discrete(3), b=spaces.Box(0, 1)), {"a": np.array(1), "b": np.zeros(1)}, 3, {1}),
    (
        spaces.Dict(a=spaces.Discrete(3), b=spaces.Discrete(2)),
        {"a": np.array(1), "b": np.array(0)},
        5,
        {1, 3},
    ),
    # Beside a Discrete part the others' values count apart: those of b begin at 3, in three cases of 3 + 2.
    (
        spaces.Dict(a=spaces.Discrete(3), b=spaces.MultiDiscrete([3, 2]), c=spaces.Box(0, 1)),
        {"a": np.array(2), "b": np.array([1, 0]), "c": np.zeros(1)},
        3 + 3 * 5,
        {2, 3 + 2 * 5 + 1, 3 + 2 * 5 + 3},
    ),
    (
        spaces.Dict(a=spaces.Discrete(2), b=spaces.MultiBinary(2), c=spaces.Discrete(4, start=-1)),
        {"a": np.array(1), "b": np.array([0, 1]), "c": np.array(1)},
        2 + 8 * 4 + 4,
        {1, 2 + 6 * 4, 2 + 6 * 4 + 3, 2 + 8 * 4 + 2},
    ),
    (
        spaces.Dict(a=spaces.Discrete(17), b=spaces.MultiDiscrete([3, 2])),
        {"a": np.array(16), "b": np.array([1, 1])},
        17 + 5,
        {16, 17 + 1, 17 + 4},
    ),
]
"""Components that take the same values share them."""


def shown(space: gymnasium.Space, *observations: object) -> list[set[int]]:
    """The numbers of the values in each of them, as timesteps of one sequence."""
    kept = Shown(space)
    if isinstance(space, spaces.Dict):
        seen = {key: torch.tensor(np.stack([o[key] for o in observations])[None]) for key in space.spaces}
    else:
        seen = torch.tensor(np.stack(observations)[None])
    (found,) = kept(seen, torch.ones(1, len(observations), dtype=torch.bool))
    assert found.shape[-1] == kept.count
    return [set(step.nonzero()[:, 0].tolist()) for step in found]


@pytest.mark.parametrize(("space", "observation", "count", "numbers"), SHOWN)
def test_the_values_of_a_space(
    space: gymnasium.Space, observation: object, count: int, numbers: set[int]
) -> None:
    assert Shown(space).count == count
    assert shown(space, observation) == [numbers]
    samples = [space.sample() for _ in range(20)]
    assert all(0 < len(step) <= count for step in shown(space, *samples))


def test_cells_of_a_picture_share_values_channel_by_channel() -> None:
    """[5, 5, 2] cells with 3 codes and 2 colours: 5 values, not 125."""
    space = spaces.MultiDiscrete(np.tile([3, 2], (5, 5, 1)))
    picture = np.zeros((5, 5, 2), np.int64)
    picture[4, 4] = [2, 0]
    assert Shown(space).count == 5
    assert shown(space, picture) == [{0, 2, 3}]


def timesteps(values: list[int]) -> StepInputs:
    numbers = torch.tensor([values])
    return StepInputs(numbers, numbers, numbers.double(), numbers < 0)


def sequence(burn_in: list[int], learn: list[int], episode_step: int) -> Sequences:
    """A sequence of Discrete(3); -9 is padding."""
    counts = [torch.tensor([sum(value >= 0 for value in block)]) for block in (burn_in, learn)]
    return Sequences(
        memory={},
        memory_valid=torch.zeros(1, 0, dtype=torch.bool),
        episode_step=torch.tensor([episode_step]),
        burn_in=timesteps(burn_in),
        burn_in_timesteps=counts[0],
        learn=timesteps(learn),
        discount=torch.ones(1, len(learn)),
        learn_timesteps=counts[1],
        learned_steps=counts[1] - 1,
        importance_weights=torch.ones(1),
    )


def test_the_loss_by_hand() -> None:
    """With p = 1/4, 1/2, 3/4 of three values."""
    recall = Recall(observation_space=spaces.Discrete(3), width=1, weight=1.0)
    logits = torch.tensor([-math.log(3), 0.0, math.log(3)]).expand(1, 3, 3)
    quarter, half, most = math.log(4), math.log(2), math.log(4 / 3)

    def losses(burn_in: list[int], learn: list[int], episode_step: int) -> list[float]:
        """Three times those of the first two timesteps."""
        return (3 * recall.loss(logits, sequence(burn_in, learn, episode_step))[0, :2]).tolist()

    # Every value is known of an episode from its start: here 0 and 2 at step 0, and 1 from step 1 on.
    assert losses([0, -9], [2, 1, -9], 0) == pytest.approx([quarter + half + most] * 2)
    assert losses([-9, -9], [1, 1, -9], 0) == pytest.approx([most + half + quarter] * 2)
    # Later the values that the sequence has not shown may have been shown before it.
    assert losses([0, -9], [2, 1, -9], 5) == pytest.approx([quarter + most, quarter + half + most])
    assert losses([-9, -9], [1, 1, -9], 5) == pytest.approx([half] * 2)


def test_neither_an_agent_without_memory_nor_one_that_sees_numbers_is_asked() -> None:
    assert not isinstance(make("discrete", core="none", recall_weight=0.5).head, RecallingHead)
    for space in (spaces.Box(-1, 1, (3,)), spaces.Dict(a=spaces.Box(0, 1)), spaces.Discrete(2001)):
        assert not with_values(space)
        built = build(NetworkConfig(recall_weight=0.5), space, 2)
        assert not isinstance(built.head, RecallingHead)


def test_q_values_are_those_of_the_head_that_it_is_put_beside() -> None:
    network = make("discrete", recall_weight=0.5)
    assert isinstance(network.head, RecallingHead)
    seen, state = inputs("discrete", 2, 4), network.initial_state(2)
    output = network(seen, state)[0]
    assert output.recall.shape == (2, 4, 5)
    plain = make("discrete")
    plain.load_state_dict(
        {
            name.replace("head.head.", "head."): value
            for name, value in network.state_dict().items()
            if not name.startswith("head.recall.")
        }
    )
    torch.testing.assert_close(plain(seen, state)[0].q, output.q)


@pytest.mark.parametrize(
    ("network", "next_window"),
    [
        ({"core": "dtqn"}, False),
        ({"core": "dtqn"}, True),
        ({"core": "lstm"}, False),
        ({"core": "coberl"}, False),
    ],
)
def test_every_network_learns_to_recall(network: dict[str, object], next_window: bool) -> None:
    made = make("multi_discrete", recall_weight=1.0, **network)
    config = LearnerConfig(learning_rate=1e-2, next_window=next_window)
    learner = make_learner(made, config, whole=next_window)
    batch = make_batch(learner.online, "multi_discrete")
    found = [learner.update(batch).metrics["learner/recall_loss"] for _ in range(40)]
    assert found[-1] < 0.7 * found[0]
