"""Evaluation: which episodes count, how they are summed, and Wilson's interval."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dtqn.acting.episode_intervals import wilson_interval
from dtqn.acting.evaluation import _uniform, play, play_by
from dtqn.acting.exploration import RandomActions
from dtqn.acting.timesteps import VectorTimesteps
from dtqn.types import StepInputs, reset_states
from tests.cases import make
from tests.toy import OBSERVATION_SPACE, ToyVectorEnv, episode

NETWORK = make(OBSERVATION_SPACE, memory_length=4)


class FixedRewards(ToyVectorEnv):
    """A reward is that of the observation left, whatever the action."""

    def reward(self, actions: np.ndarray) -> np.ndarray:
        return self.observation()[:, 0] / 8


class LargeThenSmall(ToyVectorEnv):
    """float32 rewards of 2^24 and then of 1, which a float32 sum would lose."""

    def reward(self, actions: np.ndarray) -> np.ndarray:
        return np.where(self.elapsed == 0, np.float32(2**24), np.float32(1))


def counted(episodes: int, copies: int) -> list[tuple[int, int]]:
    """(copy, number) of the episodes that must count: the first few of each environment."""
    return [(i, k) for i in range(copies) for k in range(episodes // copies + (i < episodes % copies))]


@pytest.mark.parametrize("episodes, copies", [(20, 5), (13, 4), (6, 6), (1, 1), (5, 1)])
def test_a_fixed_number_of_episodes_of_each_copy_all_counted(episodes: int, copies: int) -> None:
    result = play(NETWORK, FixedRewards(copies), episodes).result(True)
    played = [episode(0, *which) for which in counted(episodes, copies)]
    assert result.episodes == len(played) == episodes
    assert result.length == pytest.approx(np.mean([e.length for e in played]))
    assert result.success == pytest.approx(np.mean([e.success for e in played]))
    assert result.episode_return == pytest.approx(np.mean([e.observations[:-1, 0].sum() / 8 for e in played]))
    assert (result.success_low, result.success_high) == wilson_interval(
        sum(e.success for e in played), episodes
    )


def test_returns_are_summed_in_float64() -> None:
    result = play(NETWORK, LargeThenSmall(6), 12).result(False)
    lengths = [episode(0, *which).length for which in counted(12, 6)]
    assert result.episode_return == 2**24 - 1 + np.mean(lengths)


@pytest.mark.parametrize("gamma", [0.9, 1.0, 0.0])
def test_discounted_returns_and_the_first_q_value_of_every_episode(gamma: float) -> None:
    """By the recipe of the episodes: r_{t+1} is what the timestep at t shows, over 8."""
    played = play(NETWORK, FixedRewards(3), 8, gamma=gamma)
    discounted, first_q = [], []
    for which in counted(8, 3):
        observations = episode(0, *which).observations
        rewards = observations[:-1, 0] / 8
        discounted.append(sum(gamma**t * reward for t, reward in enumerate(rewards)))
        timestep = StepInputs(
            torch.from_numpy(observations[None, :1]),
            torch.zeros(1, 1, dtype=torch.long),
            torch.zeros(1, 1),
            torch.ones(1, 1, dtype=torch.bool),
        )
        with torch.no_grad():
            first_q.append(float(NETWORK(timestep, NETWORK.initial_state(1))[0].q.max()))
    assert sorted(played.discounted_returns) == pytest.approx(sorted(discounted))
    assert sorted(played.first_q) == pytest.approx(sorted(first_q), abs=1e-6)
    assert len(set(np.round(first_q, 4))) > 2
    if gamma == 1.0:
        assert (played.discounted_returns == played.returns).all()


def test_actions_at_random_have_no_q_value() -> None:
    env, policy = FixedRewards(2), np.random.default_rng(0)
    assert np.isnan(play_by(lambda timesteps, _: _uniform(policy, timesteps), env, 4).first_q).all()


def test_without_success_there_is_none() -> None:
    result = play(NETWORK, ToyVectorEnv(3), 6).result(False)
    assert (result.success, result.success_low, result.success_high) == (None, None, None)


def test_actions_are_greedy_and_each_episode_begins_afresh() -> None:
    env = ToyVectorEnv(3)
    play(NETWORK, env, 9)
    actions = np.stack(env.actions)
    for copy in range(3):
        start = 0
        for number in range(3):
            e = episode(0, copy, number)
            given = actions[start : start + e.length, copy]
            first = torch.arange(e.length)[None] == 0
            timesteps = StepInputs(
                torch.from_numpy(e.observations[None, :-1]),
                torch.from_numpy(np.concatenate([[0], given[:-1]]))[None],
                torch.zeros(1, e.length, dtype=torch.float64),
                first,
            )
            q = NETWORK(timesteps, NETWORK.initial_state(1))[0].q[0]
            assert q.argmax(-1).tolist() == given.tolist()
            start += e.length + 1  # the action on the LAST timestep is ignored


@pytest.mark.parametrize("epsilon", [None, 0.3, 1.0])
def test_copies_that_have_played_their_episodes_leave_the_batch(epsilon: float | None) -> None:
    """Every action that counts is that of the whole batch, bit for bit, random ones included."""
    copies, sizes = 70, []

    def chance() -> RandomActions | None:
        return None if epsilon is None else RandomActions(epsilon, 3, np.random.default_rng(4))

    env, whole = ToyVectorEnv(copies), ToyVectorEnv(copies)
    handle = NETWORK.register_forward_hook(lambda _, inputs, __: sizes.append(len(inputs[0].first)))
    try:
        play(NETWORK, env, 100, random_actions=chance())
    finally:
        handle.remove()
    assert sizes[0] == copies and sizes[-1] == 16 and sorted(sizes, reverse=True) == sizes
    timesteps = VectorTimesteps(whole)
    initial = state = NETWORK.initial_state(copies)
    again, at_random = chance(), []
    with torch.no_grad():
        for _ in sizes:
            inputs = timesteps.inputs(torch.device("cpu"), torch.float32)
            output, state, _ = NETWORK(inputs, reset_states(state, initial, inputs.first[:, 0]))
            action = greedy = output.q[:, 0].argmax(dim=-1).numpy()
            if again is not None:
                drawn = again.generator.integers(3, size=copies)
                action = np.where(again.generator.random(copies) < again.share, drawn, greedy)
            at_random.append((action != greedy).mean())
            timesteps.step(action)
    assert np.mean(at_random) == pytest.approx(2 / 3 * (epsilon or 0), abs=0.05)
    for copy in range(copies):
        quota = 1 + (copy < 30)
        rows_played = sum(episode(0, copy, number).length + 1 for number in range(quota))
        steps = rows_played - 1  # the action on the LAST timestep is ignored
        ours, expected = ([given[copy] for given in played.actions[:steps]] for played in (env, whole))
        assert ours == expected


@pytest.mark.parametrize(
    "successes, episodes, low, high",
    [
        (81, 263, 0.2553, 0.3662),  # Newcombe 1998, table I
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (500, 500, 500 / (500 + 1.959964**2), 1.0),
    ],
)
def test_wilson_interval(successes: int, episodes: int, low: float, high: float) -> None:
    assert wilson_interval(successes, episodes) == pytest.approx((low, high), abs=5e-5)
