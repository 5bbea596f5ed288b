"""Battleship against its rules in plain Python, and the places of its ships against all that there are."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

import envs
from envs import battleship
from envs.battleship import BattleshipDynamics, placed

SIZE = 6


class Twin:
    """One environment; it goes on where an episode would end."""

    def __init__(self, ships: set[int]) -> None:
        self.ships, self.shot, self.hit = ships, set[int](), False

    def step(self, action: int) -> tuple[float, bool]:
        self.hit = action in self.ships and action not in self.shot
        self.shot.add(action)
        sunk = self.hit and self.ships <= self.shot
        return (100.0 if sunk else -1.0), sunk

    def observation(self) -> list[float]:
        return [float(self.hit), *(float(cell not in self.shot) for cell in range(SIZE * SIZE))]


def test_every_step_follows_the_rules() -> None:
    rng, num = np.random.default_rng(1), 100
    ships = placed(num, SIZE, rng).reshape(num, -1)
    dynamics = BattleshipDynamics(SIZE)
    dynamics.put(dynamics.read({"ships": ships}, num))
    twins = [Twin(set(np.flatnonzero(row).tolist())) for row in ships]
    ends = 0
    for _ in range(400):
        action = rng.integers(SIZE * SIZE, size=num)
        reward, sunk = dynamics.step(action, rng)
        expected = [twin.step(one) for twin, one in zip(twins, action.tolist(), strict=True)]
        assert list(zip(reward.tolist(), sunk.tolist(), strict=True)) == expected
        assert dynamics.observe(rng).tolist() == [twin.observation() for twin in twins]
        ends += int(sunk.sum())
    assert ends == num  # each fleet is sunk once


def _places(board: frozenset[int], length: int, down: bool, size: int) -> list[frozenset[int]]:
    """All boards with one more ship."""
    found = []
    for row, column in itertools.product(range(size), repeat=2):
        ship = [(row + n * down, column + n * (not down)) for n in range(length)]
        cells = {y * size + x for y, x in ship}
        if max(map(max, ship)) < size and not cells & board:
            found.append(board | cells)
    return found


def test_ships_lie_where_the_rules_say_as_often_as_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ships on a small board: the probability of each board, by going through all of them."""
    monkeypatch.setattr(battleship, "SHIPS", (3, 2))
    expected, size = Counter[frozenset[int]](), 4
    for first_down, second_down in itertools.product((False, True), repeat=2):
        firsts = _places(frozenset(), 3, first_down, size)
        for first in firsts:
            seconds = _places(first, 2, second_down, size)
            for board in seconds:
                expected[board] += 0.25 / len(firsts) / len(seconds)
    num = 200_000
    boards = placed(num, size, np.random.default_rng(2)).reshape(num, -1)
    found = Counter(frozenset(np.flatnonzero(row).tolist()) for row in boards)
    assert found.keys() <= expected.keys() and sum(expected.values()) == pytest.approx(1)
    counts = [found[board] for board in expected]
    assert chisquare(counts, [num * share for share in expected.values()]).pvalue > 1e-4


def test_the_smallest_board_has_room_for_all_ships() -> None:
    assert set(placed(20_000, SIZE, np.random.default_rng(3)).sum(axis=(1, 2))) == {14}


def test_shooting_at_all_cells_in_order_earns_what_the_last_ship_says() -> None:
    num = 500
    env: Any = envs.make_vector("battleship-10", num, 3)
    env.reset()
    last = np.array([np.flatnonzero(row)[-1] for row in env.get_state()["state"]["ships"]])
    assert env.get_state()["state"]["ships"].sum(axis=1).tolist() == [14] * num
    returns, alive = np.zeros(num), np.ones(num, bool)
    for cell in range(100):
        _, reward, terminated, *_ = env.step(np.full(num, cell))
        returns += alive * reward
        alive &= ~terminated
    assert (returns == 100 - last).all()


@pytest.mark.parametrize("id", ["battleship-5", "battleship-40", "battleship-10x10", "battleship-"])
def test_other_sizes_are_refused(id: str) -> None:
    with pytest.raises(ValueError, match=r"must be battleship-<size>, with 6 to 39 cells a side"):
        envs.spec(id)
