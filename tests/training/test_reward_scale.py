"""`learner.reward_scale auto`."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dtqn import cli
from dtqn.settings.presets import resolve
from dtqn.training import reward_scale
from dtqn.training.checkpoint import read_about
from dtqn.training.directory import RunDir
from dtqn.training.reward_scale import LARGEST, measured, spread
from tests import tiny

GAMMA = 0.9


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
    found = spread(reward, terminated, truncated, begins, GAMMA)
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
    monkeypatch.setattr(reward_scale, "ENV_STEPS", 32)
    assert measured(resolve(None, {"env": "heavenhell"}, {})) == 1.0


def test_runs_of_all_seeds_have_the_same_and_a_resumed_run_keeps_it(tmp_path, monkeypatch, capsys):
    config = resolve(None, {"env": "t-maze-passive-6", "learner.reward_scale": "auto"}, {})
    scale = measured(config)
    assert scale == measured(config.model_copy(update={"seed": 9}))
    run = RunDir(tiny.train(tmp_path, "gru", "--learner.reward_scale", "auto", "--learner.n_step", "3"))
    assert f"rewards  times {scale:.3g} in the loss" in capsys.readouterr().out
    assert run.read_config().learner.reward_scale == "auto"
    assert read_about(run.checkpoints)["reward_scale"] == run.read_result()["reward_scale"] == scale
    monkeypatch.setattr(reward_scale, "measured", lambda config: 1 / 0)
    assert cli.main(["--resume", str(tmp_path), "--total-env-steps", "700"]) == 0
    assert json.loads((tmp_path / "result.json").read_text())["reward_scale"] == scale
