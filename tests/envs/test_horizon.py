"""`TaskSpec.horizon`: the timesteps of an episode, where the task's name fixes them."""

import numpy as np
import pytest

import envs
from dtqn.settings.presets import resolve


@pytest.mark.parametrize(
    "id",
    ["t-maze-passive-7", "t-maze-active-7", "memory-cards-2", "memory-cards", "popgym-concentration-easy"],
)
def test_no_episode_has_more_rows_than_the_horizon_and_some_has_as_many(id):
    spec = envs.spec(id)
    vector = envs.make_vector(id, 32, seed=1)
    vector.reset()
    timesteps = np.ones(32, np.int64)
    longest = 0
    for _ in range(3 * spec.horizon):
        _, _, terminated, truncated, _ = vector.step(vector.action_space.sample())
        timesteps += 1
        done = terminated | truncated
        longest = max(longest, int(timesteps[done].max(initial=0)))
        # NEXT_STEP autoreset: the next timestep is the first of the next episode.
        timesteps[done] = 0
    assert longest == spec.horizon


def test_a_task_whose_name_fixes_no_length_has_none():
    assert envs.spec("heavenhell").horizon is None


def test_another_time_limit_is_another_horizon_and_best_return() -> None:
    """Memory Cards ends at its limit and T-Maze by itself; with less time the best return is not known."""
    facts = {
        (env, limit): (spec.horizon, spec.best_return is not None)
        for env, limits in (("memory-cards", (20, 50, 100)), ("t-maze-passive-50", (20, 51, 300)))
        for limit in limits
        for spec in [envs.spec(env, time_limit=limit)]
    }
    known = envs.spec("memory-cards").best_return is not None
    assert facts == {
        ("memory-cards", 20): (21, False),
        ("memory-cards", 50): (51, known),
        ("memory-cards", 100): (101, known),
        ("t-maze-passive-50", 20): (21, False),
        ("t-maze-passive-50", 51): (52, True),
        ("t-maze-passive-50", 300): (52, True),
    }
    assert envs.spec("gridverse-memory-7x7", time_limit=5).best_return is None
    for limit in (20, 100):
        config = resolve(None, {"env": "memory-cards", "task.time_limit": str(limit)}, {})
        assert (config.network.core.memory_length, config.replay.learn_length) == (limit + 1, limit + 1)
