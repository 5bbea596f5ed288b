"""The table simulator: against its twin, against the probabilities that it draws from, and its tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import envs
from envs.pomdp.dynamics import Model, PomdpDynamics, Rows
from envs.pomdp.hallway import hallway
from envs.pomdp.heavenhell import heavenhell
from tests.reference.pomdp_twin import TwinPomdp


def no_picture(state: int, observation: int) -> NDArray[np.uint8]:
    return np.zeros((1, 1, 3), np.uint8)


def random_model(seed: int, reward_shape: tuple[bool, bool, bool, bool]) -> Model:
    """A model with sparse random rows, of whose reward the given axes count."""
    rng = np.random.default_rng(seed)
    num_actions, num_states, num_observations = 3, 5, 4

    def rows(*shape: int) -> NDArray[np.float64]:
        weights = rng.random(shape) * (rng.random(shape) < 0.6)
        weights[..., 0] += 0.1
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))

    full = (num_actions, num_states, num_states, num_observations)
    reset = rng.random((num_actions, num_states)) < 0.1
    reset[0, 0] = True
    return Model(
        states=tuple("abcde"),
        actions=tuple("xyz"),
        observations=tuple("0123"),
        start=rows(num_states),
        transition=rows(num_actions, num_states, num_states),
        observation=rows(num_actions, num_states, num_observations),
        reward=rng.normal(size=[n if used else 1 for n, used in zip(full, reward_shape, strict=True)]),
        reset=reset,
    )


@pytest.mark.parametrize(
    "model",
    [
        hallway(),
        heavenhell(2),
        random_model(1, (True, True, True, True)),
        random_model(2, (True, False, True, False)),
        random_model(3, (False, True, False, True)),
        random_model(4, (False, False, False, False)),
    ],
    ids=["hallway", "heavenhell-2", "all", "a-s'", "s-o", "constant"],
)
def test_vectorised_equals_one_by_one(model: Model) -> None:
    """The same random numbers give the same observations, rewards and endings, restarts included."""
    num = 40
    ours, rng, same = PomdpDynamics(model, no_picture), np.random.default_rng(5), np.random.default_rng(5)
    twins = [TwinPomdp(model) for _ in range(num)]
    ours.start(num, rng)
    expected = [twin.start(u) for twin, u in zip(twins, same.random(num), strict=True)]
    np.testing.assert_array_equal(ours.observe(rng), expected)
    policy = np.random.default_rng(6)
    endings = 0
    for _ in range(150):
        action = policy.integers(len(model.actions), size=num).astype(np.uint8)
        reward, terminated = ours.step(action, rng)
        answers = [
            twin.step(int(a), u, v)
            for twin, a, (u, v) in zip(twins, action, same.random((2, num)).T, strict=True)
        ]
        observations, rewards, endings_now = zip(*answers, strict=True)
        np.testing.assert_array_equal(ours.observe(rng), observations)
        np.testing.assert_array_equal(reward, rewards)
        np.testing.assert_array_equal(terminated, endings_now)
        over = terminated.nonzero()[0]
        ours.restart(over, rng)
        for env_id, u in zip(over, same.random(len(over)), strict=True):
            twins[env_id].start(u)
        np.testing.assert_array_equal(ours.get()["state"], [twin.state for twin in twins])
        assert (ours.observe(rng)[over] == len(model.observations)).all()
        endings += len(over)
    assert endings > 0


def test_rows_at_the_edges_of_their_intervals() -> None:
    below_one = 1 - 2.0**-53
    rows = Rows(np.array([[0.25, 0.0, 0.75], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]]))
    drawn = [
        (0, 0.0, 0),
        (0, 0.25 - 2.0**-54, 0),
        (0, 0.25, 2),
        (0, below_one, 2),
        (1, 0.0, 1),
        (1, below_one, 1),  # 1 + below_one is 2 in doubles
        (2, 0.0, 0),
        (2, 0.5, 1),
        (2, below_one, 1),
    ]
    row, uniform, outcome = zip(*drawn, strict=True)
    np.testing.assert_array_equal(rows.draw(np.array(row), np.array(uniform)), outcome)


def test_rows_are_scaled_to_one() -> None:
    rows = Rows(np.array([[0.5, 0.50001], [0.333333, 0.666666], [1.0, 0.0]]))
    row, uniform = np.array([0, 0, 1, 1, 2]), np.array([0.49999, 0.999999, 0.0, 0.9999999, 0.0])
    np.testing.assert_array_equal(rows.draw(row, uniform), [0, 1, 0, 1, 0])


def test_small_integers_are_actions_too() -> None:
    """Numbers of transitions do not wrap around: 3 * 212 states is beyond eight bits."""
    states = {"state": np.arange(212), "observation": np.zeros(212, np.int64)}
    after = []
    for dtype in (np.int64, np.uint8, np.int8):
        dynamics = PomdpDynamics(heavenhell(26), no_picture)
        dynamics.put(states)
        dynamics.step(np.full(212, 3, dtype), np.random.default_rng(0))
        after.append(dynamics.get()["state"].tolist())
    assert after[0] == after[1] == after[2]


def test_an_episode_without_reward_is_no_success() -> None:
    env = envs.make_vector("hallway", 4, seed=0, time_limit=2)
    env.reset(options={"state": {"state": 0}})
    for _ in range(2):
        *_, truncated, infos = env.step(np.zeros(4, np.int64))
    assert truncated.all()
    assert not infos["is_success"].any()


@pytest.mark.parametrize(
    "id", ["heavenhell-0", "heavenhell-03", "heavenhell-101", "heavenhell-x", "heavenhell-"]
)
def test_sizes_of_heavenhell_are_checked(id: str) -> None:
    with pytest.raises(ValueError, match=r"must be a whole number from 1 to 100$"):
        envs.spec(id)


def test_specs() -> None:
    hall, heaven, large = (envs.spec(id) for id in ("hallway", "heavenhell", "heavenhell-12"))
    assert (hall.observation_space.n, hall.action_space.n, hall.time_limit) == (22, 5, 500)  # type: ignore[attr-defined]
    assert (heaven.observation_space.n, heaven.action_space.n, heaven.time_limit) == (16, 4, 150)  # type: ignore[attr-defined]
    assert (large.id, large.observation_space.n, large.time_limit) == ("heavenhell-12", 52, 510)  # type: ignore[attr-defined]
    assert envs.spec("hallway", time_limit=7).time_limit == 7
    assert "heavenhell-12" not in envs.ids()
    with pytest.raises(ValueError, match=r"task.observation is 'grid', but hallway has no such option"):
        envs.spec("hallway", observation="grid")


CHAIN = """
discount: 0.9
values: reward
states: a b c
actions: go
observations: 2
start: a
T: go : a : b 1
T: go : b : c 1
T: go : c {ending}
O: go : * : 0 1
R: go : c : * : * 5
"""


def chain(folder: Path, ending: str) -> str:
    """The task of a file in which a leads to b, b to c, and c to what `ending` says."""
    path = folder / "chain.pomdp"
    path.write_text(CHAIN.format(ending=ending))
    return f"pomdp:{path}"


def play(env: Any, num: int) -> list[tuple[int, float, bool, bool]]:
    seen = [env.step(np.zeros(1, np.int64)) for _ in range(num)]
    assert all(step[4] == {} for step in seen)  # a file defines no success
    return [(int(step[0][0]), float(step[1][0]), bool(step[2][0]), bool(step[3][0])) for step in seen]


def test_a_file_with_reset_ends_its_episodes(tmp_path: Path) -> None:
    id = chain(tmp_path, "reset")
    env = envs.make_vector(id, 1, seed=0)
    assert env.reset()[0] == [2]  # the extra symbol of a start
    episode = [(0, 0.0, False, False)] * 2 + [(0, 5.0, True, False)]
    first = (2, 0.0, False, False)
    assert play(env, 8) == [*episode, first, *episode, first]


def test_a_file_without_reset_ends_by_its_limit_only(tmp_path: Path) -> None:
    id = chain(tmp_path, ": a 1")
    spec = envs.spec(id)
    assert (spec.id, spec.time_limit, spec.has_success, spec.best_return) == (id, 500, False, None)
    assert spec.observation_space.n == 3  # type: ignore[attr-defined]
    env = envs.make_vector(id, 1, seed=0)
    env.reset()
    timesteps = play(env, 501)
    assert [timestep[1] for timestep in timesteps[:6]] == [0.0, 0.0, 5.0] * 2
    assert not any(timestep[2] for timestep in timesteps)
    assert [t for t, timestep in enumerate(timesteps) if timestep[3]] == [499]
    assert timesteps[500] == (2, 0.0, False, False)
    env = envs.make_vector(id, 1, seed=0, time_limit=4)
    env.reset()
    assert [t for t, timestep in enumerate(play(env, 9)) if timestep[3]] == [3, 8]


def test_pictures_of_a_file_mark_state_and_observation(tmp_path: Path) -> None:
    env = envs.make_vector(chain(tmp_path, "reset"), 1, seed=0, render_mode="rgb_array")
    for state, observation in ((0, 2), (2, 1)):
        env.reset(options={"state": {"state": state, "observation": observation}})
        frames = env.render()
        assert frames is not None
        squares = np.asarray(frames[0])[6::12, 6::12].astype(int)  # their centres, a border around
        assert squares.shape == (5, 5, 3)
        blue = np.argwhere(squares[..., 2] > squares[..., 0] + 100).tolist()
        red = np.argwhere(squares[..., 0] > squares[..., 2] + 100).tolist()
        assert (blue, red) == ([[1, 1 + state]], [[3, 1 + observation]])


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    for path, reason in (
        (tmp_path / "none.pomdp", "No such file or directory"),
        (tmp_path, "Is a directory"),
    ):
        with pytest.raises(ValueError) as error:
            envs.spec(f"pomdp:{path}")
        assert str(error.value) == f"POMDP file {str(path)!r} cannot be read: {reason}"
