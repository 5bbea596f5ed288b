"""Endless T-Maze against its rules in plain Python, and players whose return is known."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import envs
from envs.endless_t_maze import EndlessTMazeDynamics

CORRIDORS, LONGEST = 3, 4
FORWARD, LEFT, RIGHT = range(3)


class Twin:
    """One environment, one rule after the other; corridors come from a list of (cue, length)."""

    def __init__(self, corridors: list[tuple[int, int]]) -> None:
        self.corridors, self.number, self.place = corridors, 0, 0

    def step(self, action: int) -> tuple[float, bool]:
        cue, length = self.corridors[self.number]
        if self.place < length:
            if action != FORWARD:
                return -0.01, False
            self.place += 1
            return 0.0, False
        if action != (LEFT if cue == -1 else RIGHT):
            return -0.01, True
        self.number += 1
        if self.number == len(self.corridors):
            return 1.0, True
        self.place = 0
        return 1.0, False

    def observation(self) -> list[float]:
        if self.number == len(self.corridors):  # at the last junction still
            return [np.float32(self.corridors[-1][1] / LONGEST), 0.0, 0.0]
        cue = self.corridors[self.number][0] if self.place == 0 else 0
        return [np.float32(self.place / LONGEST), float(cue == -1), float(cue == 1)]


class Scripted:
    """In place of a generator: each environment's next corridor, whoever enters one."""

    def __init__(self, twins: list[Twin]) -> None:
        self.twins = twins

    def integers(self, low: int, high: int | None = None, *, size: int) -> Any:
        """A bit of the cue first, then a length."""
        coming = [twin.corridors[min(twin.number + 1, CORRIDORS - 1)] for twin in self.twins]
        assert size == len(coming)
        return np.array([(cue + 1) // 2 if high is None else length for cue, length in coming])


@pytest.mark.parametrize("uniform", [False, True])
def test_every_step_follows_the_rules(uniform: bool) -> None:
    rng, num, ends, rewards = np.random.default_rng(3), 300, 0, set[float]()
    lengths = rng.integers(1 if uniform else LONGEST, LONGEST + 1, size=(num, CORRIDORS))
    cues = rng.choice([-1, 1], size=(num, CORRIDORS))
    twins = [Twin(list(zip(c, x, strict=True))) for c, x in zip(cues.tolist(), lengths.tolist(), strict=True)]
    dynamics = EndlessTMazeDynamics(CORRIDORS, LONGEST, uniform=uniform)
    dynamics.put(dynamics.read({"cue": cues[:, 0], "length": lengths[:, 0]}, num))
    assert dynamics.observe(rng).tolist() == [twin.observation() for twin in twins]
    for _ in range(80):
        action = rng.choice(3, size=num, p=[0.6, 0.2, 0.2])
        now = Scripted(twins)
        reward, over = dynamics.step(action, now)  # type: ignore[arg-type]
        expected = [twin.step(one) for twin, one in zip(twins, action.tolist(), strict=True)]
        assert list(zip(reward.tolist(), over.tolist(), strict=True)) == expected
        won = dynamics.success(reward, reward, over)
        assert won.tolist() == [twin.number == CORRIDORS for twin in twins]
        assert dynamics.observe(rng).tolist() == [twin.observation() for twin in twins]
        rewards |= set(reward.tolist())
        going = np.flatnonzero(~over)
        ends += len(over) - len(going)
        dynamics.put({name: x[going] for name, x in dynamics.get().items()})
        twins, num = [twins[i] for i in going], len(going)
    assert rewards == {-0.01, 0.0, 1.0} and ends > 290


def play(id: str, num: int, policy: Any, seed: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns, successes and lengths of the first episode of each environment."""
    env: Any = envs.make_vector(id, num, seed)
    observation, _ = env.reset()
    total, success, length, open_ = np.zeros(num), np.zeros(num, bool), np.zeros(num, int), np.ones(num, bool)
    while open_.any():
        observation, reward, terminated, truncated, infos = env.step(policy(observation))
        total += reward * open_
        length += open_
        success |= infos["is_success"] & open_
        open_ &= ~(terminated | truncated)
    return total, success, length


class Remembers:
    """Turns as the latest cue said where a corridor may end: at its last cell, or at each on the way."""

    def __init__(self, num: int, uniform: bool) -> None:
        self.cue, self.tried, self.uniform = np.zeros(num), np.full(num, -1.0), uniform

    def __call__(self, observation: np.ndarray) -> np.ndarray:
        cell, seen = observation[:, 0], observation[:, 2] - observation[:, 1]
        self.cue = np.where(seen != 0, seen, self.cue)
        turns = (cell > 0) & (cell != self.tried) if self.uniform else cell == 1.0
        self.tried = np.where(turns, cell, np.where(cell == 0, -1.0, self.tried))
        return np.where(turns, np.where(self.cue < 0, LEFT, RIGHT), FORWARD)


@pytest.mark.parametrize("id", [id for id in envs.ids() if id.startswith("endless-t-maze")])
def test_a_player_who_remembers_the_latest_cue_gets_the_best_return(id: str) -> None:
    spec, num = envs.spec(id), 4000
    total, success, length = play(id, num, Remembers(num, "uniform" in id))
    assert success.all() and spec.best_return is not None
    if "uniform" in id:  # by hand: 10 cells, so 4.5 tries in the mean
        assert spec.best_return == pytest.approx(5 * (1 - 0.045))
        assert abs(total.mean() - spec.best_return) < 4 * total.std() / num**0.5
        return
    corridors, longest = map(int, id.split("-")[3:])
    assert (total == corridors).all() and spec.best_return == corridors
    assert (length == corridors * (longest + 1)).all()


def by_hand(corridors: int, longest: int, share: Fraction) -> Fraction:
    """The return of a player who turns right with `share` and goes forward with 1 / 3 of its steps."""
    of_corridor = Fraction(-2 * longest, 100) + share - (1 - share) / 100
    return sum((share**k * of_corridor for k in range(corridors)), Fraction(0))


def test_random_actions_earn_what_is_computed_by_hand() -> None:
    rng, num = np.random.default_rng(2), 20_000
    total, success, _ = play("endless-t-maze-2-3", num, lambda seen: rng.integers(3, size=num))
    expected = float(by_hand(2, 3, Fraction(1, 3)))
    assert abs(total.mean() - expected) < 4 * total.std() / num**0.5
    assert abs(success.mean() - 1 / 9) < 4 * (8 / 81 / num) ** 0.5


def test_an_episode_is_truncated_after_six_times_its_way() -> None:
    total, success, length = play("endless-t-maze-uniform-2-3", 4, lambda seen: np.full(4, LEFT))
    assert (length == 6 * 4 * 2).all() and not success.any()
    np.testing.assert_allclose(total, -0.48)


def test_names_and_states() -> None:
    assert envs.spec("endless-t-maze-10-10").time_limit == 660
    for id in ("endless-t-maze-3", "endless-t-maze-0-5", "endless-t-maze-uniform-3", "endless-t-maze-3-05"):
        with pytest.raises(ValueError, match=rf"{id}.*endless-t-maze-<corridors>-<length>"):
            envs.spec(id)
    env: Any = envs.make_vector("endless-t-maze-uniform-3-5", 1, 1, render_mode="rgb_array")
    env.reset(options={"state": {"cue": 1, "length": 2, "cell": 2, "passed": 2}})
    assert env.render()[0].shape == (96, 144, 3)
    _, reward, terminated, _, infos = env.step(np.array([RIGHT]))
    assert (reward.tolist(), terminated.tolist(), infos["is_success"].tolist()) == ([1.0], [True], [True])
    with pytest.raises(ValueError, match="'cell' holds 3; it must be at most the corridor's length"):
        env.reset(options={"state": {"cue": 1, "length": 2, "cell": 3}})
