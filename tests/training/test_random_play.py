"""What is measured before a run: `learner.reward_scale auto` and `network.encoder.normalise`."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from dtqn import cli
from dtqn.settings.presets import resolve
from dtqn.training import random_play
from dtqn.training.checkpoint import read_about
from dtqn.training.directory import RunDir
from dtqn.training.random_play import FARTHEST, LARGEST, Moments, measure, spread
from dtqn.training.session import restored_trainer
from dtqn.training.setup import make_network
from dtqn.training.trained import load_network
from tests import tiny

GAMMA = 0.9


def measured(config):
    return measure(config, make_network(config)).learner.reward_scale


def _by_episodes(episodes, gamma):
    """The same from lists of (rewards, whether the last step terminates), return by return."""
    rewards, discounts, squares = [], [], []
    for earned, terminates in episodes:
        for t in range(len(earned)):
            ends = terminates and t == len(earned) - 1
            rewards.append(earned[t])
            discounts.append(0.0 if ends else gamma)
            squares.append(sum(gamma**k * r for k, r in enumerate(earned[t:])) ** 2)
    return np.sqrt(np.mean(np.square(rewards)) + np.var(discounts) * np.mean(squares))


def test_the_spread_is_that_of_the_episodes_one_by_one():
    """Two environments: a termination with the step that begins the next episode, a truncation, open ends."""
    episodes = [([1.0, -2.0, 3.0], True), ([0.5], False), ([0.0, 4.0], False), ([2.0, 1.0, 1.0], False)]
    reward = np.array([[1.0, -2.0, 3.0, 9.0, 0.5], [0.0, 4.0, 9.0, 2.0, 1.0]]).T
    reward = np.vstack([reward, [[0.0, 1.0]]])
    terminated, truncated, begins = (np.zeros((6, 2), bool) for _ in range(3))
    terminated[2, 0] = begins[3, 0] = truncated[4, 0] = begins[5, 0] = True
    truncated[1, 1] = begins[2, 1] = True
    found = spread(reward, terminated, truncated, begins, gamma=GAMMA)
    assert found == pytest.approx(_by_episodes(episodes, GAMMA), rel=1e-12)


def test_a_task_and_its_rewards_times_a_factor_come_to_the_same():
    def scale(env):
        return measured(resolve(None, {"env": env}, {}))

    plain = scale("benchmarks.disguises:Disguised")
    assert scale("benchmarks.disguises:SmallRewards") == pytest.approx(100 * plain, rel=1e-4)
    assert scale("benchmarks.disguises:LargeRewards") == pytest.approx(plain / 1000, rel=1e-4)


def test_equal_rewards_at_every_step_are_not_taken_for_no_spread():
    """In t-maze-passive-500 random actions earn -1 / 500 at nearly every step and never see the end."""
    assert measured(resolve(None, {"env": "t-maze-passive-500"}, {})) == pytest.approx(500, rel=0.01)


def test_a_rare_reward_is_no_larger_than_a_bound_and_none_leaves_rewards_as_they_are(monkeypatch):
    """Random actions reach the end of `hallway` now and then, for a reward of 1 or -1."""
    assert measured(resolve(None, {"env": "hallway"}, {})) == LARGEST
    monkeypatch.setattr(random_play, "ENV_STEPS", 32)
    assert measured(resolve(None, {"env": "heavenhell"}, {})) == 1.0


def test_runs_of_all_seeds_have_the_same_and_a_resumed_run_keeps_it(tmp_path, monkeypatch, capsys):
    config = resolve(None, {"env": "t-maze-passive-6", "learner.reward_scale": "auto"}, {})
    scale = measured(config)
    assert scale == measured(config.model_copy(update={"seed": 9}))
    run = RunDir(tiny.train(tmp_path, "gru", "--learner.reward_scale", "auto", "--learner.n_step", "3"))
    assert f"rewards  multiplied by {scale:.3g} in the loss" in capsys.readouterr().out
    assert run.read_config().learner.reward_scale == "auto"
    assert read_about(run.checkpoints)["reward_scale"] == run.read_result()["reward_scale"] == scale
    monkeypatch.setattr(random_play, "measure", lambda config, network: 1 / 0)
    assert cli.main(["--resume", str(tmp_path), "--total-env-steps", "700"]) == 0
    assert json.loads((tmp_path / "result.json").read_text())["reward_scale"] == scale


def test_moments_by_hand():
    """A number that varies; one that is rarely there; one that never changes; one that was not finite.

    The third is 0 then: as it was, 5 or 300 drowned what else an observation says.
    """
    moments = Moments()
    numbers = np.array([[1.0, 0.0, 5.0, 0.0], [3.0, 0.0, 5.0, np.inf]] * 200)
    numbers[0, 1] = 1.0
    moments.add(numbers[:150])
    moments.add(numbers[150:].reshape(-1, 2, 2))
    mean, factor = moments.normalisation()
    assert mean == pytest.approx([2, 1 / 400, 5, 0])
    assert factor == pytest.approx([1, FARTHEST / (1 - 1 / 400), 1, 1])


@pytest.mark.parametrize("agent", ["gru", "darqn"])
def test_all_networks_of_a_run_normalise_by_what_random_actions_showed(tmp_path, monkeypatch, agent):
    """The learner's two and the actor's, of a run that goes on, and one that is loaded."""
    flags = ["--network.encoder.normalise", "true", "--task.hide", "1"]
    run = RunDir(tiny.train(tmp_path, agent, "--env", "CartPole-v1", *flags))
    seen = np.concatenate([observation for observation, *_ in random_play._played(run.read_config())])
    mean, sigma = seen.mean(0), seen.std(0)
    factor = np.minimum(1 / sigma, FARTHEST / np.abs(seen - mean).max(0))
    monkeypatch.setattr(random_play, "measure", lambda config, network: 1 / 0)
    trainer = restored_trainer(run.read_config(), run, read_about(run.checkpoints))
    loaded = load_network(run, run.read_config(), "last")
    for network in (trainer.learner.online, trainer.learner.target, trainer.actor.network, loaded):
        encoder = network.encoder.observation
        encoder = encoder.encoder if agent == "darqn" else encoder
        assert encoder.mean.numpy() == pytest.approx(mean, rel=1e-4)
        assert encoder.factor.numpy() == pytest.approx(factor, rel=1e-4)
        x = torch.tensor(seen[:6]).reshape(2, 3, -1)
        assert torch.allclose(encoder(x), (x - encoder.mean) * encoder.factor)
    trainer.close()
