"""What is measured before a run: `learner.reward_scale auto` and `network.encoder.normalise`."""

from __future__ import annotations

import json

import gymnasium
import numpy as np
import pytest
import torch

from dtqn import cli
from dtqn.settings.presets import resolve
from dtqn.training import random_play
from dtqn.training.checkpoint import read_about
from dtqn.training.directory import RunDir
from dtqn.training.random_play import FARTHEST, Moments, measure, spread
from dtqn.training.session import restored_trainer
from dtqn.training.setup import make_network
from dtqn.training.trained import load_network
from tests import tiny

GAMMA = 0.9


def measured(config):
    return measure(config, make_network(config)).learner.reward_scale


class Answers(gymnasium.Env):
    """Six steps; answers to a random number earn 1. What else an action changes is `changes`."""

    observation_space = gymnasium.spaces.Discrete(2)

    def __init__(self, changes="nothing"):
        self.changes = changes
        self.action_space = gymnasium.spaces.Discrete(4 if changes == "a rare reward" else 2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.taken, self.shown = [], int(self.np_random.integers(2))
        return self.shown, {}

    def step(self, action):
        self.taken.append(int(action))
        earned = 0.0 if self.changes == "no reward" else float(action == self.shown)
        self.shown = int(self.np_random.integers(2))
        ended = len(self.taken) == 6
        if ended and self.changes == "a later reward":
            earned += self.taken[0]
        if self.changes == "a rare reward":  # one in 1024 episodes
            earned += self.taken == [2, 0, 3, 1, 2, action]
        if self.changes == "the end" and sum(self.taken) == 5:
            ended = True
        shown = len(self.taken) % 2 * action if self.changes == "observations" else self.shown
        return shown, earned, ended, False, {}


_CHANGES = ("nothing", "a later reward", "a rare reward", "the end", "observations", "no reward")


@pytest.mark.parametrize("changes", _CHANGES)
def test_the_discount_is_0_only_where_an_action_changes_nothing_but_its_own_reward(changes):
    config = resolve(None, {"env": f"{__name__}:Answers", "task.kwargs": {"changes": changes}}, {})
    gamma = measure(config, make_network(config)).learner.gamma
    assert gamma == (0.0 if changes == "nothing" else random_play.GAMMA)


@pytest.mark.parametrize(
    ("env", "answers"),
    [
        ("bsuite-memory-len-100", True),
        ("popgym-repeat-first-hard", True),
        ("popgym-autoencode-easy", True),
        ("popgym-concentration-easy", False),
        ("t-maze-passive-500", False),
        ("hallway", False),
    ],
)
def test_which_tasks_ask_for_answers_alone(env, answers):
    assert random_play.only_answers(resolve(None, {"env": env}, {})) == answers


def test_an_episode_that_goes_on_for_too_long_tells_nothing(monkeypatch):
    config = resolve(None, {"env": "popgym-repeat-first-easy"}, {})  # 51 actions an episode
    monkeypatch.setattr(random_play, "TWIN_STEPS", 51)
    assert random_play.only_answers(config)
    monkeypatch.setattr(random_play, "TWIN_STEPS", 50)
    assert not random_play.only_answers(config)


def test_a_corridor_that_only_one_action_gets_through_is_walked_to_its_end():
    """Random actions would see the same blank corridor for ever."""
    config = resolve(None, {"env": f"{__name__}:Corridor"}, {})
    assert not random_play.only_answers(config)


class Corridor(gymnasium.Env):
    """Blank, but for what is seen after 30 steps of one action; the last of 40 steps pays for an answer."""

    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.walked, self.time = True, 0
        return 0, {}

    def step(self, action):
        self.walked &= action == 2
        self.time += 1
        there = self.walked and self.time == 30
        return int(there), float(self.time == 40 and action), self.time == 40, False, {}


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


def test_a_rare_reward_is_scaled_to_a_bound_and_none_leaves_rewards_as_they_are(monkeypatch):
    """Random actions reach the end of `hallway` now and then, for a reward of 1 or -1: 26.2 sigmas."""
    assert measured(resolve(None, {"env": "hallway"}, {})) == 5
    monkeypatch.setattr(random_play, "LARGEST", 26.3)
    assert measured(resolve(None, {"env": "hallway"}, {})) == pytest.approx(26.2, abs=0.05)
    monkeypatch.setattr(random_play, "ENV_STEPS", 32)
    assert measured(resolve(None, {"env": "heavenhell"}, {})) == 1.0


def test_runs_of_all_seeds_have_the_same_and_a_resumed_run_keeps_it(tmp_path, monkeypatch, capsys):
    config = resolve(None, {"env": "bsuite-memory-len-5"}, {})
    scale = measured(config)
    assert scale == measured(config.model_copy(update={"seed": 9}))
    run = RunDir(tiny.train(tmp_path, "gru", "--env", "bsuite-memory-len-5"))
    said = capsys.readouterr().out
    assert f"rewards  multiplied by {scale:.3g} in the loss" in said
    assert "actions  change nothing but their own reward, as far as seen: learner.gamma 0" in said
    learner = run.read_config().learner
    assert (learner.gamma, learner.reward_scale) == ("auto", "auto")
    for found in (read_about(run.checkpoints), run.read_result()):
        assert (found["gamma"], found["reward_scale"]) == (0, scale)
    monkeypatch.setattr(random_play, "measure", lambda config, network: 1 / 0)
    assert cli.main(["--resume", str(tmp_path), "--total-env-steps", "700"]) == 0
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["gamma"], result["reward_scale"]) == (0, scale)


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
