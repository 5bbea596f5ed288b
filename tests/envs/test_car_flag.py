"""Car Flag against DTQN's own: recorded episodes, the rules at the borders, a driver that always arrives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import envs
from tests.envs.small_recordings import recorded, step_major
from tests.envs.starts import at

LEFT, NONE, RIGHT = range(3)


def make(num: int = 1, seed: int = 1, id: str = "car-flag", **kwargs: Any) -> Any:
    return envs.make_vector(id, num, seed, **kwargs)


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_recorded_episodes_replay_bit_for_bit(kind: str) -> None:
    """All episodes at once, each in its own environment, which is looked at until its episode is over."""
    data = recorded(f"car_flag_{kind}")
    length = data["ep_len"]
    if kind == "discrete":
        env = make(len(length))
    else:  # recorded without a limit
        env = make(len(length), id="car-flag-continuous", time_limit=1000)
    observation = at(env, position=data["init_state"][:, 0], heaven=data["heaven"])
    np.testing.assert_array_equal(observation, data["init_state"].astype(np.float32))
    action = step_major(data["action"], length)
    if kind == "continuous":
        action = action.clip(-1.0, 1.0)[..., None]  # as the original does with what is out of range
    exact, reward = step_major(data["obs"], length), step_major(data["reward"], length)
    terminated = step_major(data["terminated"], length)
    checked = 0
    for t in range(length.max()):
        now = t < length
        timestep = env.step(action[t])
        state = env.get_state()["state"]
        np.testing.assert_array_equal(state["position"][now], exact[t, now, 0])
        np.testing.assert_array_equal(state["velocity"][now], exact[t, now, 1])
        np.testing.assert_array_equal(timestep[0][now], exact[t, now].astype(np.float32))
        np.testing.assert_array_equal(timestep[1][now], reward[t, now])
        np.testing.assert_array_equal(timestep[2][now], terminated[t, now])
        if kind == "discrete":
            np.testing.assert_array_equal(timestep[3][now], step_major(data["truncated"], length)[t, now])
            success = step_major(data["is_success"], length)[t, now]
            np.testing.assert_array_equal(timestep[4]["is_success"][now], success)
        checked += int(now.sum())
    assert checked == {"discrete": 9761, "continuous": 3146}[kind]


def test_bounds_of_position_and_velocity() -> None:
    env = make()
    at(env, position=0.95, velocity=0.07, heaven=1)
    _, reward, terminated, _, infos = env.step(np.array([RIGHT]))
    state = env.get_state()["state"]
    assert (state["velocity"][0], state["position"][0]) == (0.07, 0.95 + 0.07)
    assert (reward[0], terminated[0], infos["is_success"][0]) == (1.0, True, True)
    at(env, position=-1.05, velocity=-0.07, heaven=1)
    observation, reward, terminated, _, infos = env.step(np.array([LEFT]))
    assert env.get_state()["state"]["position"][0] == -1.1
    assert observation in env.observation_space
    assert (reward[0], terminated[0], infos["is_success"][0]) == (-1.0, True, False)


@pytest.mark.parametrize(
    ("position", "heard"), [(0.2999, 0), (0.3, 1), (0.5, 1), (0.7, 1), (0.7001, 0), (-0.5, 0)]
)
@pytest.mark.parametrize("heaven", [-1, 1])
def test_the_priest_is_heard_on_his_stretch(position: float, heard: int, heaven: int) -> None:
    env = make()
    expected = np.array([[position, 0, heard * heaven]], np.float32)
    np.testing.assert_array_equal(at(env, position=position, heaven=heaven), expected)
    observation = env.step(np.array([NONE]))[0]  # at rest without a force nothing changes
    np.testing.assert_array_equal(observation, expected)


def test_starts_are_uniform() -> None:
    """Kolmogorov's and the binomial bounds at p of about 1e-4, for one fixed seed."""
    num = 20_000
    env = make(num, seed=5, time_limit=1)
    observation, _ = env.reset()
    for _ in range(2):  # the starts, and after one step and the limit the restarts
        state = env.get_state()["state"]
        assert (observation[:, 1:] == 0).all()
        assert (state["velocity"] == 0).all()
        assert set(state["heaven"]) == {-1.0, 1.0}
        assert abs(state["heaven"].sum()) < 4 * np.sqrt(num)
        u = np.sort(state["position"] / 0.4 + 0.5)
        assert 0 <= u[0] < u[-1] < 1
        assert abs(u - (np.arange(num) + 0.5) / num).max() < 2.2 / np.sqrt(num)
        assert abs(np.corrcoef(state["position"], state["heaven"])[0, 1]) < 4 / np.sqrt(num)
        assert env.step(np.full(num, RIGHT))[3].all()
        observation = env.step(np.full(num, RIGHT))[0]


def test_a_driver_who_asks_the_priest_always_arrives() -> None:
    """So the best return is 1, within the time limit and from every start."""
    num = 500
    env = make(num, seed=2)
    observation, _ = env.reset()
    direction = np.zeros(num)
    success, ended = np.zeros(num, np.bool_), np.zeros(num, np.bool_)
    for _ in range(200):
        direction = np.where(observation[:, 2] != 0, observation[:, 2], direction)
        action = np.where(direction < 0, LEFT, RIGHT)
        observation, _, terminated, truncated, infos = env.step(action)
        success |= infos["is_success"] & ~ended
        ended |= terminated | truncated
        direction[terminated | truncated] = 0
    assert ended.all()
    assert success.all()
    assert envs.spec("car-flag").best_return == 1.0


@pytest.mark.parametrize("action", [[[1.5]], [[np.nan]], [0.5], ["x"]])
def test_invalid_forces_are_refused(action: Any) -> None:
    env = make(id="car-flag-continuous")
    env.reset()
    with pytest.raises(ValueError, match="action"):
        env.step(np.array(action))


def test_picture_shows_car_flags_and_priest() -> None:
    env = make(render_mode="rgb_array")

    def colours(**state: Any) -> NDArray[np.int64]:
        at(env, **state)
        return np.asarray(env.render()[0]).astype(int)

    def mean_x(picture: NDArray[np.int64], mask: NDArray[np.bool_]) -> float:
        return float(mask.nonzero()[1].mean()) / picture.shape[1] * 2.2 - 1.1

    for position, heaven in ((0.0, 1), (-0.4, -1)):
        picture = colours(position=position, heaven=heaven)
        green = (picture[..., 1] > picture[..., 0] + 60) & (picture[..., 1] > picture[..., 2] + 40)
        assert mean_x(picture, green) == pytest.approx(heaven, abs=0.1)
        red = (picture[..., 0] > picture[..., 1] + 90) & (picture[..., 0] > picture[..., 2] + 90)
        red &= picture[..., 1] < 100
        assert mean_x(picture, red) == pytest.approx(-heaven, abs=0.1)
        dark = picture.sum(axis=-1) < 150
        assert mean_x(picture, dark) == pytest.approx(position, abs=0.01)
    yellow = [(colours(position=x, heaven=1)[:60] == (255, 190, 60)).all(axis=-1).any() for x in (0.0, 0.5)]
    assert yellow == [False, True]  # the arrow above the priest


def test_a_priest_who_is_not_heard_says_nothing() -> None:
    """Not by the sign of zero either."""
    observation = at(make(2), position=np.zeros(2), heaven=np.array([-1, 1]))
    assert not np.signbit(observation[:, 2]).any()
