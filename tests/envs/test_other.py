"""Another secret: what it shows, what it leaves alone, and that it is the secret."""

from __future__ import annotations

import numpy as np
import pytest

import envs

TASKS = (
    *("gridverse-memory-5x5", "gridverse-memory-7x7", "gridverse-memory-four-rooms-7x7"),
    *(
        "t-maze-passive-4",
        "t-maze-active-4",
        "bsuite-memory-len-4",
        "bsuite-memory-size-3",
        "car-flag",
        "heavenhell",
    ),
)


def rollout(id: str, vector_steps: int, copies: int = 32):
    """The environment, its observations and those of another secret at each vector step of random actions."""
    env = envs.make_vector(id, copies, 3)
    generator = np.random.default_rng(0)
    observation, _ = env.reset()
    for _ in range(vector_steps):
        yield env, observation, env.observe_other()
        observation = env.step(generator.integers(env.single_action_space.n, size=copies))[0]


@pytest.mark.parametrize("id", TASKS)
def test_looking_changes_nothing(id: str) -> None:
    looked = [observation for _, observation, _ in rollout(id, 40)]
    env = envs.make_vector(id, 32, 3)
    generator = np.random.default_rng(0)
    observation, _ = env.reset()
    for seen in looked:
        assert np.array_equal(seen, observation)
        observation = env.step(generator.integers(env.single_action_space.n, size=32))[0]


@pytest.mark.parametrize("id", TASKS)
def test_another_secret_is_shown_sometimes_and_twice_another_is_the_same(id: str) -> None:
    differs = []
    for env, observation, other in rollout(id, 150):
        differs.append((observation != other).reshape(32, -1).any(axis=1))
        dynamics = env._dynamics
        state = dynamics.get()
        twice = dynamics.other(dynamics.other(state))
        assert all(np.array_equal(twice[name], x) for name, x in state.items())
    share = np.mean(differs)
    assert 0 < share < 0.9


@pytest.mark.parametrize("id", ["t-maze-passive-4", "bsuite-memory-len-4", "bsuite-memory-size-3"])
def test_the_same_actions_win_with_one_secret_and_lose_with_the_other(id: str) -> None:
    env, other = (envs.make_vector(id, 64, 3) for _ in range(2))
    env.reset()
    other.reset(options={"state": env._dynamics.other(env._dynamics.get())})
    generator, over = np.random.default_rng(1), np.zeros(64, bool)
    along, last = (0, (1, 3)) if id.startswith("t-maze") else (0, (0, 1))
    for step in range(10):
        action = np.where(step < 4, along, generator.choice(last, size=64))
        (_, _, over, _, infos), (*_, of_other) = env.step(action), other.step(action)
        if over.any():
            break
    assert over.all()
    assert infos["is_success"].any()
    assert (infos["is_success"] ^ of_other["is_success"]).all()


def test_a_memory_worlds_other_beacon_has_the_other_exits_colour() -> None:
    env = envs.make_vector("gridverse-memory-7x7", 16, 3)
    env.reset()
    state = env._dynamics.get()
    for before, after in zip(state["grid"], env._dynamics.other(state)["grid"], strict=True):
        exits = set(before[before[..., 0] == 4][:, 2].tolist())
        one, two = (set(grid[grid[..., 0] == 10][:, 2].tolist()) for grid in (before, after))
        assert len(one) == len(two) == 1
        assert one | two == exits
        assert ((before != after).any(axis=2) == (before[..., 0] == 10)).all()


@pytest.mark.parametrize("id", TASKS)
def test_some_copies_are_asked(id: str) -> None:
    for env, _, other in rollout(id, 5):
        assert np.array_equal(env.observe_other([30, 4]), other[[30, 4]])


def test_a_task_without_a_secret_has_no_other() -> None:
    env = envs.make_vector("hallway", 4, 0)
    env.reset()
    assert env.observe_other() is None
