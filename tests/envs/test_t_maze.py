"""T-Maze against Memory-RL's own: recorded episodes, the schedule at every published length, the names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import envs
from tests.envs.small_recordings import recorded
from tests.envs.starts import at

RIGHT, UP, LEFT, DOWN = range(4)
KINDS = ("passive", "active")


def make(kind: str, length: int, num: int = 1, seed: int = 1, **kwargs: Any) -> Any:
    return envs.make_vector(f"t-maze-{kind}-{length}", num, seed, **kwargs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [1, 2, 10, 50])
def test_recorded_episodes_replay_exactly(kind: str, length: int) -> None:
    data = recorded(f"tmaze_{kind}")
    episodes = np.flatnonzero(data["ep_L"] == length)
    steps = length + (3 if kind == "active" else 1)
    assert (data["ep_len"][episodes] == steps).all()
    assert len(episodes) == 40
    places = (np.cumsum(data["ep_len"])[episodes] - steps) + np.arange(steps)[:, None]  # [T, E]
    env = make(kind, length, len(episodes))
    observation = at(env, position=data["init_xy"][episodes], goal=data["goal_y"][episodes])
    np.testing.assert_array_equal(observation, data["init_obs"][episodes])
    for now in places:
        observation, reward, terminated, truncated, infos = env.step(data["action"][now])
        np.testing.assert_array_equal(observation, data["obs"][now])
        np.testing.assert_array_equal(env.get_state()["state"]["position"], data["xy"][now])
        np.testing.assert_array_equal(reward, data["reward"][now])
        np.testing.assert_array_equal(terminated, data["terminated"][now])
        np.testing.assert_array_equal(infos["is_success"], data["terminated"][now] & (reward == 1))
        assert not truncated.any()


@pytest.mark.parametrize("id", [id for id in envs.ids() if id.startswith("t-maze")])
def test_the_best_policy_returns_one(id: str) -> None:
    """It remembers what it saw; half of those that do not are right."""
    kind, length = id.split("-")[2], int(id.split("-")[3])
    num, active = 16, kind == "active"
    env = make(kind, length, num, seed=3)
    seen = env.reset()[0][:, 1]
    total = np.zeros(num)
    moves = [LEFT] * active + [RIGHT] * (length + active)
    for step, move in enumerate(moves):
        observation, reward, terminated, truncated, _ = env.step(np.full(num, move))
        seen = observation[:, 1] if active and step == 0 else seen
        if step > 0 and move == RIGHT and step < len(moves) - 1:
            assert (observation == 0).all()
        total += reward
        assert not (terminated | truncated).any()
    np.testing.assert_array_equal(observation, np.tile([1.0, 0.0], (num, 1)))
    assert set(seen.tolist()) == {-1.0, 1.0}
    _, reward, terminated, _, infos = env.step(np.where(seen > 0, UP, DOWN))
    assert terminated.all()
    assert infos["is_success"].all()
    assert (total + reward == 1.0).all()
    assert envs.spec(id).best_return == 1.0
    assert envs.spec(id).time_limit is None


def test_the_goal_is_shown_on_the_first_visit_only() -> None:
    env = make("active", 5, 2)
    np.testing.assert_array_equal(at(env, position=(1, 0), goal=[1, -1]), np.zeros((2, 2)))
    seen = [env.step(np.full(2, move))[0][:, 1].tolist() for move in (LEFT, LEFT, RIGHT, LEFT)]
    assert seen == [[1, -1], [0, 0], [0, 0], [0, 0]]  # a move against the wall is a later visit
    env = make("passive", 5, 2)
    np.testing.assert_array_equal(at(env, position=(0, 0), goal=[1, -1]), [[0, 1], [0, -1]])
    assert (env.step(np.full(2, LEFT))[0] == 0).all()
    assert (at(env, position=(0, 0), goal=1, visited=True) == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_goals_are_even_and_starts_alike(kind: str) -> None:
    num = 20_000
    env = make(kind, 3, num, seed=8)
    env.reset()
    for _ in range(2):  # the starts, and the restarts after a whole episode
        state = env.get_state()["state"]
        assert set(state["goal"]) == {-1, 1}
        assert abs(state["goal"].sum()) < 4 * np.sqrt(num)
        assert (state["position"] == (kind == "active", 0)).all()
        assert not state["time"].any()
        assert not state["visited"].any()
        for _ in range(env.get_state()["state"]["time"][0], 6 if kind == "active" else 4):
            terminated = env.step(np.full(num, RIGHT))[2]
        assert terminated.all()
        env.step(np.full(num, LEFT))


def test_names() -> None:
    listed = {id for id in envs.ids() if id.startswith("t-maze")}
    passive = {f"t-maze-passive-{n}" for n in (50, 100, 250, 500, 750, 1000, 1250, 1500)}
    assert listed == passive | {f"t-maze-active-{n}" for n in (20, 50, 100, 250, 500)}
    assert envs.spec("t-maze-passive-1234").id == "t-maze-passive-1234"
    assert envs.make_vector("t-maze-active-999999999", 2, 0).reset()[0].tolist() == [[0, 0], [0, 0]]
    for id in ("t-maze-passive-0", "t-maze-active", "t-maze-passive-1e3", "t-maze-active--5"):
        with pytest.raises(ValueError, match=rf"{id}'; it must be t-maze-.*<length>.* from 1 to") as error:
            envs.spec(id)
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="unknown task 't-maze-pasive-50'; did you mean t-maze-passive-50"):
        envs.spec("t-maze-pasive-50")


@pytest.mark.parametrize("length", [5, 1500, 10**8])
def test_the_picture_shows_the_agent_and_the_goal(length: int) -> None:
    env = make("passive", length, render_mode="rgb_array")
    for x, y in ((0, 0), (length // 2, 0), (length, 0), (length, 1), (length, -1)):
        at(env, position=(x, y), goal=1, visited=True)
        picture = env.render()[0].astype(int)
        height, width = picture.shape[:2]
        assert width <= 960
        row, column = (picture.sum(axis=-1) < 150).nonzero()
        assert row.mean() / height == pytest.approx((1.5 - y) / 3, abs=0.02)
        assert column.mean() / width == pytest.approx((x + 0.5) / (length + 1), abs=0.01)
        assert np.argmax(picture[2, -1]) == 1  # the goal, above, is green
        assert np.argmax(picture[-2, -1]) == 0
    at(env, position=(length, 0), goal=-1)
    picture = env.render()[0].astype(int)
    assert np.argmax(picture[-2, -1]) == 1
    assert np.argmax(picture[height // 2 + 6, 0]) == 1  # the oracle's lower half
