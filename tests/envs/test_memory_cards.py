"""Memory Cards against DTQN's own: recorded episodes, the rules in plain Python, uniform shuffles."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare

import envs
from tests.envs.small_recordings import recorded
from tests.envs.starts import at


def make(num: int = 1, seed: int = 1, pairs: int = 5, **kwargs: Any) -> Any:
    return envs.make_vector(f"memory-cards-{pairs}", num, seed, **kwargs)


class Scripted:
    """In place of a generator: each draw is the one written down."""

    def __init__(self) -> None:
        self.draw = self.high = 0

    def integers(self, high: NDArray[np.int64]) -> NDArray[np.int64]:
        self.high = int(high[0])
        return np.array([self.draw])


def test_recorded_episodes_replay_exactly() -> None:
    """The card that is shown next is drawn as recorded: by its number among those in play."""
    data = recorded("memory_cards_5")
    env = envs.make_vector("memory-cards", 1)
    step = 0
    for episode, length in enumerate(data["ep_len"]):
        observation = at(env, cards=data["cards"][episode], shown=data["init_current"][episode])
        np.testing.assert_array_equal(observation[0], data["init_obs"][episode])
        env.np_random = scripted = Scripted()
        for _ in range(length):
            removed = data["obs"][step] == 6
            scripted.draw = int((~removed[: data["current"][step]]).sum())
            timestep = env.step(data["action"][step : step + 1])
            np.testing.assert_array_equal(timestep[0][0], data["obs"][step])
            assert timestep[1][0] == data["reward"][step]
            assert (timestep[2][0], timestep[3][0]) == (data["terminated"][step], data["truncated"][step])
            assert timestep[4]["is_success"][0] == data["is_success"][step]
            assert scripted.high == max(1, int((~removed).sum()))
            step += 1
    assert step == 4006


def test_shuffles_are_uniform() -> None:
    """The 6 rows of two pairs x the 4 positions shown, at the start and at restarts."""
    num = 24_000
    env = make(num, 3, 2, time_limit=1)
    env.reset()
    for _ in range(2):
        state = env.get_state()["state"]
        _, row = np.unique(state["cards"], axis=0, return_inverse=True)
        counts = np.bincount(row.ravel() * 4 + state["shown"])
        assert len(counts) == 24
        assert chisquare(counts).pvalue > 1e-4
        shown = env.step(np.zeros(num, np.int64))
        assert (shown[2] | shown[3]).all()
        env.step(np.zeros(num, np.int64))


def test_the_next_card_is_uniform_over_those_in_play() -> None:
    env = make(24_000, 5)
    removed = [False, True, False, False, True, False, False, False, True, True]
    cards = [1, 2, 1, 4, 2, 4, 5, 5, 3, 3]
    for action, left in ((3, [0, 2, 3, 5, 6, 7]), (2, [3, 5, 6, 7])):  # a mistake, a match
        at(env, cards=cards, removed=removed, shown=0)
        observation, reward, *_ = env.step(np.full(24_000, action))
        shown = env.get_state()["state"]["shown"]
        assert (reward == (-1.0 if action == 3 else 0.0)).all()
        assert set(shown) == set(left)
        assert chisquare(np.bincount(shown)[left]).pvalue > 1e-4
        assert (observation[np.arange(24_000), shown] == np.array(cards)[shown]).all()


def remember(pairs: int, episodes: int) -> tuple[float, float]:
    """Mean return and success of a player that remembers all that was shown and all that did not match."""
    env = make(1, 7, pairs)
    observation, returns, successes = env.reset()[0][0], [], 0
    rng = np.random.default_rng(0)
    while len(returns) < episodes:
        seen: dict[int, int] = {}
        excluded: dict[int, set[int]] = {card: set() for card in range(1, pairs + 1)}
        total, over = 0.0, False
        while not over:
            shown = int(np.flatnonzero((observation > 0) & (observation <= pairs))[0])
            card = int(observation[shown])
            seen[shown] = card
            mates = [p for p, c in seen.items() if c == card and p != shown]
            guesses = [p for p in np.flatnonzero(observation != pairs + 1).tolist() if p not in seen]
            choice = mates or [p for p in guesses if p not in excluded[card]]
            action = int(rng.choice(choice))
            excluded[card].add(action)
            observations, reward, terminated, truncated, infos = env.step(np.array([action]))
            observation, total = observations[0], total + reward[0]
            over = bool(terminated[0] or truncated[0])
            successes += int(infos["is_success"][0])
        returns.append(total)
        observation = env.step(np.array([0]))[0][0]
    return float(np.mean(returns)), successes / episodes


# The figures of docs/tasks/memory-cards.md, with four standard errors of the mean over 300 episodes.
@pytest.mark.parametrize(("pairs", "expected", "margin"), [(1, 0.0, 0.0), (2, -0.93, 0.2), (5, -5.30, 0.47)])
def test_remembering_pays(pairs: int, expected: float, margin: float) -> None:
    mean, success = remember(pairs, 300)
    assert abs(mean - expected) <= margin
    assert success == 1.0


def best_return(pairs: int, steps: int) -> float:
    """The best expected return, by search over what a player can know: which rows of cards are possible."""
    positions = range(2 * pairs)
    Rows = tuple[tuple[int, ...], ...]

    @functools.cache
    def before_showing(rows: Rows, removed: frozenset[int], steps: int) -> float:
        shown = [p for p in positions if p not in removed]
        if not shown or not steps:
            return 0.0
        total = 0.0
        for position in shown:
            for card in {row[position] for row in rows}:
                left = tuple(row for row in rows if row[position] == card)
                total += len(left) / len(rows) * after_showing(left, removed, position, steps)
        return total / len(shown)

    @functools.cache
    def after_showing(rows: Rows, removed: frozenset[int], shown: int, steps: int) -> float:
        def value(action: int) -> float:
            yes = tuple(row for row in rows if row[action] == row[shown])
            no = tuple(row for row in rows if row[action] != row[shown])
            good = before_showing(yes, removed | {action, shown}, steps - 1) if yes else 0.0
            bad = before_showing(no, removed, steps - 1) - 1.0 if no else 0.0
            return (len(yes) * good + len(no) * bad) / len(rows)

        return max(value(action) for action in positions if action != shown and action not in removed)

    deck = [card for card in range(1, pairs + 1) for _ in range(2)]
    return before_showing(tuple(sorted(set(itertools.permutations(deck)))), frozenset(), steps)


@pytest.mark.parametrize("pairs", [1, 2])
def test_best_return(pairs: int) -> None:
    """By search over all that a player can know."""
    expected = envs.spec(f"memory-cards-{pairs}").best_return
    assert expected is not None
    assert best_return(pairs, 10 * pairs) == pytest.approx(expected, abs=1e-12)


def test_names() -> None:
    assert envs.spec("memory-cards").observation_space == envs.spec("memory-cards-5").observation_space
    assert envs.spec("memory-cards").time_limit == 50
    spec = envs.spec("memory-cards-300")
    assert (spec.action_space.n, spec.time_limit) == (600, 3000)  # type: ignore[attr-defined]
    assert spec.observation_space.dtype == np.uint16
    assert envs.make_vector("memory-cards-300", 2, 0).reset()[0].max() <= 301
    for id in ("memory-cards-0", "memory-cards-05", "memory-cards-x", "memory-cards-", "memory-cards-10000"):
        with pytest.raises(ValueError, match=rf"{id}.*memory-cards-<pairs>, with 1 to 9999") as error:
            envs.spec(id)
        assert "\n" not in str(error.value)


def test_the_picture_shows_what_lies_where() -> None:
    env = make(render_mode="rgb_array")
    at(env, cards=[1, 2, 3, 4, 5, 5, 4, 3, 2, 1], shown=6, removed=[p in (1, 8) for p in range(10)])
    tiles = env.render()[0].reshape(40, 10, 36, 3).swapaxes(0, 1).astype(int)
    light = [(tile.min(axis=-1) > 230).mean() > 0.5 for tile in tiles]
    assert light == [position == 6 for position in range(10)]
    gone = [bool((tile == tile[0, 0]).all()) for tile in tiles]
    assert gone == [position in (1, 8) for position in range(10)]
    np.testing.assert_array_equal(tiles[0], tiles[9])  # the same number, both face down
    assert (tiles[0] != tiles[2]).any()
    assert (tiles[6] != tiles[3]).any()
