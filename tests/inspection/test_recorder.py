"""Episodes as they are recorded: what is seen, done and disturbed, and how they end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import envs
from dtqn import networks
from dtqn.inspection import recorder
from dtqn.inspection.recorder import RandomActions, disturbances, outcomes, play
from dtqn.settings.config import ConfigError
from tests.cases import make, network_config
from tests.toy import OBSERVATION_SPACE, ToyVectorEnv


def test_pictures_are_those_of_the_replayed_actions() -> None:
    """The second way: the same actions in another environment of the same seed."""

    def environments() -> Any:
        return envs.make_vector("t-maze-passive-6", 3, 5, render_mode="rgb_array")

    env = environments()
    network = networks.build(network_config(width=8, num_layers=1), env.single_observation_space, 4)
    episodes = play(network, env, pictures_of=[0, 2], keep_picture=np.copy)
    assert episodes[1].pictures is None
    seen = {copy: iter(episodes[copy].pictures or []) for copy in (0, 2)}
    env = environments()
    env.reset()
    for t in range(episodes[0].length + 1):
        for copy in (0, 2):
            np.testing.assert_array_equal(next(seen[copy]), env.render()[copy])
        if t < episodes[0].length:
            env.step(np.array([episode.action[t] for episode in episodes]))
    assert not any(list(left) for left in seen.values())


def test_an_episode_has_its_rewards_and_the_other_secret() -> None:
    env = envs.make_vector("t-maze-passive-6", 3, 5)
    network = networks.build(network_config(width=8, num_layers=1), env.single_observation_space, 4)
    whole = play(network, env)
    for episode in whole:
        assert episode.cue is not None and episode.cue[0] and not episode.cue[1:].any()
        assert episode.reward[:-1] == pytest.approx(episode.inputs.reward[0, 1:].numpy())
        assert episode.reward.sum() == pytest.approx(episode.episode_return)


def test_disturbances_do_what_they_say() -> None:
    """An emptied memory is that of a first step; an exchanged one is another's at the same step."""
    network = make(OBSERVATION_SPACE, memory_length=4)
    whole = play(network, ToyVectorEnv(6, 0))
    changes = disturbances(8.0)
    assert list(changes) == [
        "emptied at every step",
        "emptied every 2 steps",
        "emptied every 4 steps",
        "of another episode at step 4",
    ]
    seen = []

    def note(steps, state, initial):
        after = changes["of another episode at step 4"](steps, state, initial)
        seen.append((steps.copy(), state.memory.clone(), after.memory.clone()))
        return after

    outcomes(network, ToyVectorEnv(6, 0), intervene=note)
    together = 0
    for steps, before, after in seen:
        here = [copy for copy in range(6) if steps[copy] == 4]
        together = max(together, len(here))
        for copy in range(6):
            source = here[here.index(copy) - 1] if copy in here else copy
            assert (after[copy] == before[source]).all()
    assert together > 1

    emptied = []
    outcomes(
        network,
        ToyVectorEnv(6, 0),
        intervene=changes["emptied at every step"],
        keep=lambda x: emptied.append(x),
    )
    first_row = network(emptied[2].inputs, network.initial_state(6))[0].q[:, 0]
    assert torch.equal(emptied[2].q, first_row)
    assert not torch.equal(emptied[2].q[0], whole[0].q[2])


def test_outcomes_are_those_of_the_first_episodes() -> None:
    network = make(OBSERVATION_SPACE, memory_length=4)
    ends = outcomes(network, ToyVectorEnv(6, 0))
    episodes = play(network, ToyVectorEnv(6, 0))
    assert [x.length for x in episodes] == [x.length for x in ends]
    assert [x.episode_return for x in episodes] == [x.episode_return for x in ends]
    assert ends[0].episode_return == pytest.approx(float(episodes[0].inputs.reward.sum()), abs=1.5)


def test_random_actions_are_so_many_of_all() -> None:
    taken = RandomActions(0.3, 5, np.random.default_rng(0)).act(np.full(10_000, 2))
    assert (taken != 2).mean() == pytest.approx(0.3 * 4 / 5, abs=0.015)
    assert set(taken) == set(range(5))
    kept: list[Any] = []
    network = make(OBSERVATION_SPACE, memory_length=4)
    chance = RandomActions(1.0, 3, np.random.default_rng(0))
    outcomes(network, ToyVectorEnv(6, 0), random_actions=chance, keep=kept.append)
    expected, rng = [vector_step.action for vector_step in kept], np.random.default_rng(0)
    for action in expected:
        assert (action == rng.integers(3, size=6)).all()
        rng.random(6)


def test_rows_that_take_too_much_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "MOST_BYTES", 1000)
    with pytest.raises(ConfigError, match=r"--episodes is 6: after \d+ steps their timesteps take more than"):
        play(make(OBSERVATION_SPACE, memory_length=4), ToyVectorEnv(6, 0))
