"""Numpad: a plain twin, the rules one by one, the sequences, and players that show what is possible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare

import envs
from envs import numpad
from tests.envs.starts import at
from tests.reference.numpad_twin import NumpadTwin, count_sequences

SIZES = (2, 3, 4)


def make(size: int, num: int = 1, seed: int = 1, **kwargs: Any) -> Any:
    return envs.make_vector(f"numpad-{size}x{size}", num, seed, **kwargs)


def centre(size: int, pad: NDArray[np.int64]) -> NDArray[np.float64]:
    """The places of pads [...], as (x, y) [..., 2]."""
    return np.stack([pad % size, pad // size], axis=-1) - (size - 1) / 2


class Twins:
    """A twin for each environment of a vector, made anew for each of its episodes."""

    def __init__(self, env: Any, size: int) -> None:
        self.env, self.size = env, size
        self.twins: list[NumpadTwin] = []
        self.first = np.ones(env.num_envs, np.bool_)  # the environments at a FIRST timestep
        self.observation: NDArray[np.float32] = env.reset()[0]
        self.check(self.observation)

    def check(self, observation: NDArray[np.float32]) -> None:
        """Compares what is seen and the whole states."""
        state = self.env.get_state()["state"]
        fresh = [NumpadTwin(self.size, row) for row in state["sequence"].tolist()]
        self.twins = [fresh[n] if first else self.twins[n] for n, first in enumerate(self.first)]
        seen = np.array([twin.observation() for twin in self.twins], np.float32)
        np.testing.assert_array_equal(observation, seen)
        np.testing.assert_array_equal(state["position"], [(t.x, t.y) for t in self.twins])
        np.testing.assert_array_equal(state["velocity"], [(t.velocity_x, t.velocity_y) for t in self.twins])
        assert state["lit"].tolist() == [len(t.lit) for t in self.twins]
        assert state["paid"].tolist() == [len(t.paid) for t in self.twins]
        assert state["completed"].tolist() == [t.completed for t in self.twins]

    def step(self, action: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        was_last = self.env.get_state()["episode"]["last"]
        observation, reward, terminated, truncated, infos = self.env.step(action)
        self.first = was_last
        moves = zip(self.twins, action.tolist(), was_last.tolist(), strict=True)
        assert reward.tolist() == [0.0 if last else twin.step(a) for twin, a, last in moves]
        self.check(observation)
        assert not terminated.any()
        success = [
            bool(last) and twin.completed > 0 for last, twin in zip(truncated, self.twins, strict=True)
        ]
        assert infos["is_success"].tolist() == success
        return observation, reward


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", [1, 2])
def test_random_play_is_the_twins_to_the_last_bit(size: int, seed: int) -> None:
    """Actions are held for a few steps, which takes the ball to every pad and wall."""
    num = 16
    twins = Twins(make(size, num, seed, time_limit=150), size)
    rng = np.random.default_rng(seed)
    action, rewards = np.zeros(num, np.int64), 0.0
    for _ in range(300):
        action = np.where(rng.random(num) < 0.4, rng.integers(9, size=num), action)
        rewards += twins.step(action)[1].sum()
    assert rewards > num


def test_twins_agree_on_completions() -> None:
    """Played by one who knows the sequence, with slips: completions, wrong pads and pads paid once occur."""
    num, size = 24, 2
    env = make(size, num, 5, time_limit=200)
    twins = Twins(env, size)
    observation = twins.observation
    rng = np.random.default_rng(5)
    completed = cleared = unpaid = 0
    for _ in range(500):
        state = env.get_state()["state"]
        target = state["sequence"][np.arange(num), state["lit"]].astype(np.int64)
        slip = rng.random(num) < 0.2
        observation, reward = twins.step(
            np.where(slip, rng.integers(9, size=num), drive(size, observation, target))
        )
        after = env.get_state()["state"]
        completed += int((after["completed"] > state["completed"]).sum())
        cleared += int(((after["lit"] < state["lit"]) & (after["completed"] == state["completed"])).sum())
        unpaid += int(((after["lit"] > state["lit"]) & (reward == 0)).sum())
    assert min(completed, cleared, unpaid) > 50


@pytest.mark.parametrize("size", SIZES)
def test_the_sequences_are_all_there_are(size: int) -> None:
    """Different, each of all pads from neighbour to neighbour, and as many as a plain search finds."""
    sequences = numpad.sequences(size)
    assert (np.sort(sequences, axis=1) == np.arange(size * size)).all()
    row, column = np.divmod(sequences.astype(int), size)
    assert (np.maximum(abs(np.diff(row)), abs(np.diff(column))) == 1).all()
    assert len(np.unique(sequences.view(f"V{size * size}"))) == len(sequences)
    # The first pads that are alike by symmetry: corners, edges, and the middle.
    alike = {2: {0: 4}, 3: {0: 4, 1: 4, 4: 1}, 4: {0: 4, 1: 8, 5: 4}}[size]
    assert len(sequences) == sum(count * count_sequences(size, pad) for pad, count in alike.items())
    assert len(sequences) == {2: 24, 3: 784, 4: 343_184}[size]


@pytest.mark.parametrize("size", [2, 3])
def test_sequences_are_drawn_uniformly(size: int) -> None:
    num = 40_000
    env = make(size, num, 11, time_limit=1)
    env.reset()
    base = (size * size) ** np.arange(size * size)
    for _ in range(2):  # the starts and the restarts
        drawn = env.get_state()["state"]["sequence"].astype(np.int64) @ base
        counts = np.unique(drawn, return_counts=True)[1]
        assert len(counts) == len(numpad.sequences(size))
        assert chisquare(counts).pvalue > 1e-4
        env.step(np.zeros(num, np.int64))
        env.step(np.zeros(num, np.int64))


def pad_under(size: int, position: NDArray[np.float64]) -> NDArray[np.int64]:
    """The pads that positions [..., 2] are on, -1 for none."""
    cell = np.floor(position + size / 2).clip(0, size - 1).astype(np.int64)
    pad = cell[..., 1] * size + cell[..., 0]
    distance = np.linalg.norm(position - centre(size, pad), axis=-1)
    return np.where(distance <= 0.375, pad, -1)


def drive(size: int, observation: NDArray[np.float32], target: NDArray[np.int64]) -> NDArray[np.int64]:
    """Actions towards the pads `target` [N]: the one after which the ball, left to itself, rests nearest.

    Where pads are lit it avoids others than the target, and where it is on the target it leaves it first.
    """
    position, velocity = observation[:, 0:2].astype(np.float64), observation[:, 2:4].astype(np.float64)
    now, any_lit = pad_under(size, position), observation[:, 6:].any(axis=1)
    goal = centre(size, target)
    leave = (now == target)[:, None]
    goal = np.where(leave, goal + np.where(goal > 0, -0.5, 0.5), goal)
    after = 0.5 * velocity + numpad.FORCE[:, None]  # by action [A, N, 2], as the positions below
    soon = (position + after).clip(-size / 2, size / 2)
    later, rest = soon + 0.5 * after, soon + after
    cost = np.linalg.norm(rest - goal, axis=-1)
    for place, weight in ((soon, 100.0), (later, 1.0), (rest, 0.5)):
        pad = pad_under(size, place)
        cost += weight * ((pad >= 0) & (pad != now) & (pad != target) & any_lit)
    cost -= 50.0 * ((pad_under(size, soon) == target) & (now != target))
    return cost.argmin(axis=0)


@pytest.mark.parametrize(("size", "slowest", "least"), [(2, 16, 160), (3, 40, 130), (4, 70, 125)])
def test_who_knows_the_sequence_completes_it_in_a_fraction_of_an_episode(
    size: int, slowest: int, least: int
) -> None:
    """So every sequence can be played: 300 of them, from the first step on and over and over again."""
    num = 300
    env = make(size, num, 21)
    observation, _ = env.reset()
    sequence = env.get_state()["state"]["sequence"].astype(np.int64)
    lit, total, first = np.zeros(num, np.int64), np.zeros(num), np.zeros(num)
    for step in range(1, 501):
        observation, reward, _, truncated, infos = env.step(
            drive(size, observation, sequence[np.arange(num), lit])
        )
        lit = observation[:, 6:].sum(axis=1).astype(np.int64)
        total += reward
        first = np.where((first == 0) & (total == size * size), step, first)
    assert truncated.all()
    assert infos["is_success"].all()
    assert first.min() > 0
    assert first.max() <= slowest
    assert total.min() >= least


class Searcher:
    """Finds the sequence of one episode from what is seen alone, by trying neighbours and remembering all."""

    def __init__(self, size: int) -> None:
        self.size, self.known, self.wrong = size, list[int](), set[int]()
        self.pad, self.lit = -1, 0

    def target(self, position: NDArray[np.float64], lit: int, paid: bool) -> int:
        """The pad to go to; `paid` is whether the last step had a reward."""
        pad = int(pad_under(self.size, position))
        if pad >= 0 and pad != self.pad and self.lit == len(self.known):
            if paid:
                self.known.append(pad)
                self.wrong = set()
            else:
                self.wrong.add(pad)
        self.pad, self.lit = pad, lit
        if lit < len(self.known):
            return self.known[lit]
        beside = numpad.neighbours(self.size)[self.known[-1]] if self.known else np.ones(self.size**2, bool)
        tries = [p for p in np.flatnonzero(beside).tolist() if p not in self.wrong and p not in self.known]
        return min(tries, key=lambda p: (p == pad, np.linalg.norm(centre(self.size, np.array(p)) - position)))


@pytest.mark.parametrize(("size", "success", "mean"), [(2, 1.0, 170), (3, 1.0, 125), (4, 0.8, 50)])
def test_memory_suffices(size: int, success: float, mean: float) -> None:
    """A player with memory and no other knowledge completes the sequence within an episode, as a rule."""
    num = 20
    env = make(size, num, 22)
    observation, _ = env.reset()
    players = [Searcher(size) for _ in range(num)]
    reward, total = np.zeros(num), np.zeros(num)
    for _ in range(500):
        lit = observation[:, 6:].sum(axis=1).astype(int).tolist()
        target = [
            player.target(row[:2].astype(float), n, paid)
            for player, row, n, paid in zip(players, observation, lit, (reward > 0).tolist(), strict=True)
        ]
        observation, reward, _, truncated, infos = env.step(drive(size, observation, np.array(target)))
        total += reward
    assert truncated.all()
    assert infos["is_success"].mean() >= success
    assert total.mean() >= mean
    complete = total >= size * size
    np.testing.assert_array_equal(complete, infos["is_success"])


ORDER = [0, 1, 2, 3]


def test_sequences_of_neighbours_only() -> None:
    with pytest.raises(
        ValueError, match=r"'sequence' holds \[0, 2, 1.*each a neighbour of the one before it"
    ):
        at(make(3), sequence=[0, 2, 1, 4, 3, 6, 7, 8, 5])


def test_a_state_with_completions_is_a_success_at_the_end() -> None:
    env = make(2, 3, time_limit=2)
    at(env, sequence=ORDER, completed=[0, 1, 2])
    assert [env.step(np.zeros(3, np.int64))[4]["is_success"].tolist() for _ in range(2)] == [
        [False, False, False],
        [False, True, True],
    ]


def test_only_three_sizes() -> None:
    with pytest.raises(ValueError, match="unknown task 'numpad-5x5'; did you mean numpad-"):
        envs.spec("numpad-5x5")


def test_the_picture_shows_pads_and_ball() -> None:
    env = make(2, render_mode="rgb_array")
    at(env, sequence=ORDER, lit=1, position=(0.25, -0.25), velocity=(0.0, 0.0))
    picture = env.render()[0].astype(int)
    pixels = numpad.PIXELS
    middle = picture.shape[0] / 2

    def colour(x: float, y: float) -> list[int]:
        return picture[int(middle + y * pixels), int(middle + x * pixels)].tolist()

    row, column = (picture.sum(axis=-1) < 150).nonzero()
    assert (column.mean() + 0.5 - middle) / pixels == pytest.approx(0.25, abs=0.01)
    assert (row.mean() + 0.5 - middle) / pixels == pytest.approx(-0.25, abs=0.01)
    lit, unlit, gap = colour(-0.7, -0.7), colour(0.7, 0.7), colour(0.0, 0.9)
    assert np.argmax(lit) == 1
    assert len({tuple(c) for c in (lit, unlit, gap)}) == 3
    ring = colour(0.5 + 0.35, -0.5)  # the next pad, upper right
    assert ring[0] > ring[1] > ring[2] + 50
