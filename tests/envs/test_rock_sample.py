"""RockSample against its rules in plain Python, and the returns of players whose return is known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

import envs
from envs.rock_sample import RockSampleDynamics, accuracy, rocks_of

SIZE, ROCKS = 5, 4
MAP = rocks_of(SIZE, ROCKS, 3)


class Twin:
    """One environment, one rule after the other; it goes on where an episode would end."""

    def __init__(self, position: tuple[int, int], good: list[bool]) -> None:
        self.rocks = [(int(timestep), int(column)) for timestep, column in MAP]
        self.timestep, self.column = position
        self.good = list(good)
        self.reading = [0] * ROCKS

    def step(self, action: int, draw: float) -> tuple[float, bool]:
        """The reward, and whether the agent is at the exit; a check is right where `draw` is small."""
        reward = 0.0
        self.reading = [0] * ROCKS
        if action == 0 and self.timestep > 0:
            self.timestep -= 1
        elif action == 1 and self.column < SIZE - 1:
            self.column += 1
        elif action == 2 and self.timestep < SIZE - 1:
            self.timestep += 1
        elif action == 3 and self.column > 0:
            self.column -= 1
        elif action == 4:
            for rock, place in enumerate(self.rocks):
                if place == (self.timestep, self.column):
                    reward += 10.0 if self.good[rock] else -10.0
                    self.good[rock] = False
        elif action > 4:
            rock = action - 5
            distance = math.dist((self.timestep, self.column), self.rocks[rock])
            is_right = draw < 0.5 + 0.5 * 0.5 ** (distance / 20)
            sounds_good = self.good[rock] if is_right else not self.good[rock]
            self.reading[rock] = 1 if sounds_good else -1
        left = self.column == SIZE - 1
        return reward + (10.0 if left else 0.0), left

    def observation(self) -> list[float]:
        timestep = [float(place == self.timestep) for place in range(SIZE)]
        column = [float(place == self.column) for place in range(SIZE)]
        return [*timestep, *column, *map(float, self.reading)]


class Scripted:
    """In place of a generator: the draws of a step are those written down."""

    def __init__(self, draws: Any) -> None:
        self.draws = draws

    def random(self, num: int) -> Any:
        assert len(self.draws) == num
        return self.draws


def test_every_step_follows_the_rules() -> None:
    rng, num, rewards = np.random.default_rng(4), 200, set[float]()
    position, good = rng.integers((SIZE, SIZE - 1), size=(num, 2)), rng.random((num, ROCKS)) < 0.5
    dynamics = RockSampleDynamics(SIZE, MAP)
    dynamics.put(dynamics.read({"position": position, "good": good}, num))
    starts = zip(position.tolist(), good.tolist(), strict=True)
    twins = [Twin((timestep, column), rocks) for (timestep, column), rocks in starts]
    for _ in range(200):
        action, draws = rng.integers(5 + ROCKS, size=num), rng.random(num)
        reward, left = dynamics.step(action, Scripted(draws))  # type: ignore[arg-type]
        expected = [twin.step(*one) for twin, *one in zip(twins, action.tolist(), draws, strict=True)]
        assert list(zip(reward.tolist(), left.tolist(), strict=True)) == expected
        observation = dynamics.observe(rng)
        assert observation.tolist() == [twin.observation() for twin in twins]
        rewards |= set(reward.tolist())
    assert rewards == {-10.0, 0.0, 10.0}


def test_checks_are_right_as_often_as_their_distance_says() -> None:
    """By hand: 1 at the rock, (1 + 1/2) / 2 at 20 cells; and the share of a generator's draws."""
    np.testing.assert_allclose(accuracy(np.array([0.0, 20.0, 40.0])), [1.0, 0.75, 0.625])
    num = 40_000
    env: Any = envs.make_vector(f"rocksample-{SIZE}-{ROCKS}-map-3", num, 5)
    env.reset(options={"state": {"position": [0, 0], "good": [True] * ROCKS}})
    for rock, place in enumerate(MAP.tolist()):
        reading = env.step(np.full(num, 5 + rock))[0][:, 2 * SIZE + rock]
        expected = float(accuracy(np.array(math.dist(place, (0, 0)))))
        assert (reading == 1).mean() == pytest.approx(expected, abs=4 * math.sqrt(0.25 / num))


def test_starts_are_uniform_left_of_the_exit_and_rocks_are_fair_coins() -> None:
    num = 40_000
    env: Any = envs.make_vector(f"rocksample-{SIZE}-{ROCKS}", num, 6)
    env.reset()
    state = env.get_state()["state"]
    cell = state["position"] @ (SIZE, 1)
    assert set(cell) == {timestep * SIZE + column for timestep in range(SIZE) for column in range(SIZE - 1)}
    assert chisquare(np.unique(cell, return_counts=True)[1]).pvalue > 1e-4
    assert chisquare(np.bincount(state["good"] @ 2 ** np.arange(ROCKS))).pvalue > 1e-4


def test_walking_out_at_once_earns_ten() -> None:
    """Its mean discounted return is 10 times the mean of 0.99^d over d = 0 to 9 steps before the last."""
    num = 1000
    env: Any = envs.make_vector("rocksample-11-11", num, 7)
    env.reset()
    returns, alive = np.zeros(num), np.ones(num, bool)
    for step in range(10):
        _, reward, terminated, *_ = env.step(np.ones(num, np.int64))
        returns += alive * reward * 0.99**step
        alive &= ~terminated
    assert not alive.any()
    assert returns.mean() == pytest.approx(10 * np.mean(0.99 ** np.arange(10)), abs=0.05)


def test_names_and_maps() -> None:
    spec = envs.spec("rocksample-11-11")
    assert (spec.action_space.n, spec.time_limit) == (16, 1000)  # type: ignore[attr-defined]
    assert spec.observation_space.shape == (33,)
    assert rocks_of(11, 11, 0).tolist() != rocks_of(11, 11, 1).tolist()
    assert len({tuple(cell) for cell in rocks_of(3, 6, 0).tolist()}) == 6  # all cells but the exit's
    assert rocks_of(15, 15, 2)[:, 1].max() < 14
    for id in ("rocksample-1-1", "rocksample-5-21", "rocksample-5", "rocksample-5-5-map-", "rocksample-05-5"):
        with pytest.raises(ValueError, match=rf"{id}.*rocksample-<size>-<rocks>") as error:
            envs.spec(id)
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match=r"reading.*one rock"):
        dynamics = RockSampleDynamics(SIZE, MAP)
        dynamics.read({"position": [0, 0], "good": [True] * ROCKS, "reading": [1, 1, 0, 0]}, 1)


def test_the_picture_shows_good_and_bad_rocks() -> None:
    env: Any = envs.make_vector(f"rocksample-{SIZE}-{ROCKS}-map-3", 1, 1, render_mode="rgb_array")
    pictures = []
    for good in (True, False):
        env.reset(options={"state": {"position": [4, 3], "good": [good] * ROCKS}})
        pictures.append(env.render()[0].reshape(SIZE, 32, SIZE, 32, 3).swapaxes(1, 2).astype(int))
    differ = (pictures[0] != pictures[1]).any(axis=(2, 3, 4))
    assert {tuple(cell) for cell in np.argwhere(differ).tolist()} == {tuple(cell) for cell in MAP.tolist()}
