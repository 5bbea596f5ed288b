"""POPGym's card games: recorded episodes, the package where it is installed, and exact returns."""

from __future__ import annotations

import functools
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import benchmarks.popgym as exact
import envs
from tests.envs.small_recordings import recorded

IDS = [id for id in envs.ids() if id.startswith("popgym-")]
RECALL = [id for id in IDS if "concentration" not in id]
CONCENTRATION = [id for id in IDS if "concentration" in id]
FIGURES = json.loads(
    (Path(exact.__file__).parents[1] / "docs" / "benchmarks" / "popgym.json").read_text(encoding="utf-8")
)


def parts(id: str) -> tuple[str, str]:
    """The game and its level: `count-recall`, `easy`."""
    game, _, level = id.removeprefix("popgym-").rpartition("-")
    return game, level


@pytest.mark.parametrize("id", IDS)
@pytest.mark.parametrize("begin", [0, 31], ids=["from-the-start", "from-the-middle"])
def test_recorded_episodes_replay_exactly(id: str, begin: int) -> None:
    prefix = id.removeprefix("popgym-") + "."
    data = {
        name.removeprefix(prefix): array
        for name, array in recorded("popgym").items()
        if name.startswith(prefix)
    }
    env = envs.make_vector(id, 1, 1)
    stops = np.cumsum(data["ep_len"])
    for episode, (length, stop) in enumerate(zip(data["ep_len"], stops, strict=True)):
        columns = {key: data[key][stop - length : stop] for key in ("action", "obs", "reward")}
        terminated, truncated = (data[key][stop - length : stop] for key in ("terminated", "truncated"))
        timesteps = np.concatenate([data["init_obs"][episode : episode + 1], columns["obs"]])
        state = {name: data[name][episode] for name in ("cards", "queries") if name in data}
        if begin:
            middle = {"time": begin} if id in RECALL else played(state["cards"], columns["action"][:begin])
            state |= middle
        observation, _ = env.reset(options={"state": state})
        np.testing.assert_array_equal(observation[0], timesteps[begin])
        for step in range(begin, length):
            observation, reward, over, cut, infos = env.step(columns["action"][step : step + 1])
            np.testing.assert_array_equal(observation[0], timesteps[step + 1])
            assert reward[0] == columns["reward"][step]
            assert over[0] == terminated[step]
            # The package says that an episode which terminates with its last step is truncated too.
            assert cut[0] == (truncated[step] and not terminated[step] and not begin)
            assert infos == {}
        assert terminated[-1] or truncated[-1]


def played(cards: NDArray[Any], actions: NDArray[Any]) -> dict[str, Any]:
    """The state of Concentration after these actions, by its rules in plain Python."""
    up: set[int] = set()
    turned: list[int] = []
    for action in actions.tolist():
        if len(turned) == 2:
            turned = []
        turned.append(action)
        if len(turned) == 1 and action in up:
            turned = []
        elif len(turned) == 2 and turned[0] != action and action not in up:
            up |= set(turned) if cards[turned[0]] == cards[action] else set()
    first, second = [*turned, -1, -1][:2]
    return {"face_up": [p in up for p in range(len(cards))], "first": first, "second": second}


def package(id: str) -> Any:
    game, level = parts(id)
    pytest.importorskip("popgym")
    module = importlib.import_module(f"popgym.envs.{game.replace('-', '_')}")
    return getattr(module, "".join(map(str.capitalize, (*game.split("-"), level))))()


def hidden_state(id: str, theirs: Any) -> dict[str, Any]:
    """The package's cards after a reset. It deals from the end of a deck."""
    match parts(id)[0]:
        case "concentration":
            return {"cards": theirs.deck_idx_type[theirs.deck.idx]}
        case "count-recall":
            decks = {"cards": theirs.value_deck, "queries": theirs.query_deck}
            return {name: theirs.deck_idx_type[cards.idx[::-1]] for name, cards in decks.items()}
    return {"cards": theirs.deck.suits_idx[theirs.deck.idx[::-1]]}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("id", IDS)
def test_the_package_plays_the_same(id: str) -> None:
    """For 100 000 steps: at random, and in Concentration in part by who knows all cards."""
    theirs, ours = package(id), envs.make_vector(id, 1, 1)
    rng = np.random.default_rng(0)
    steps = 0
    while steps < 100_000:
        seen, _ = theirs.reset(seed=int(rng.integers(2**31)))
        state = hidden_state(id, theirs)
        observation, _ = ours.reset(options={"state": state})
        skill = rng.choice([0.0, 0.5, 0.9, 1.0]) if id in CONCENTRATION else 0.0
        over = False
        while not over:
            np.testing.assert_array_equal(observation[0], np.asarray(seen))
            action = int(rng.integers(theirs.action_space.n))
            if rng.random() < skill:
                action = knowing(state["cards"], theirs.deck, rng)
            seen, gained, terminated, truncated, _ = theirs.step(action)
            observation, reward, *ends, _ = ours.step(np.array([action]))
            assert reward[0] == gained
            assert [end[0] for end in ends] == [terminated, truncated and not terminated]
            over, steps = terminated or truncated, steps + 1
        np.testing.assert_array_equal(observation[0], np.asarray(seen))


def knowing(cards: NDArray[Any], deck: Any, rng: np.random.Generator) -> int:
    """The mate of the card in play, or any card that is face down."""
    down = [p for p in range(len(cards)) if p not in deck["face_up_idx"] + deck["in_play_idx"]]
    return int(
        rng.choice([p for p in down if not deck["in_play"] or cards[p] == cards[deck["in_play_idx"][0]]])
    )


@pytest.mark.parametrize("id", IDS)
def test_spaces_are_the_packages(id: str) -> None:
    """Its Tuple of two Discrete is one MultiDiscrete here."""
    theirs, ours = package(id), envs.spec(id)
    assert theirs.action_space == ours.action_space
    space: Any = theirs.observation_space
    if parts(id)[0] == "autoencode":
        assert [part.n for part in space] == ours.observation_space.nvec.tolist()  # type: ignore[attr-defined]
    elif hasattr(space, "n"):
        assert space == ours.observation_space
    else:
        np.testing.assert_array_equal(space.nvec, ours.observation_space.nvec)  # type: ignore[attr-defined]
    assert theirs.reset(seed=1)[0] in space


def right_answers(id: str, state: dict[str, NDArray[Any]], timestep: int) -> NDArray[Any]:
    """The right answers by the rules after the timestep number `timestep`, copy by copy; 0 where nothing is
    asked."""
    cards, last = state["cards"], state["cards"].shape[1] - 1
    match parts(id):
        case "autoencode", _:
            return cards[:, 2 * last - timestep] if timestep >= last else 0 * cards[:, 0]
        case "count-recall", _:
            return (cards[:, : timestep + 1] == state["queries"][:, timestep : timestep + 1]).sum(axis=1)
        case "repeat-first", _:
            return cards[:, 0]
        case _, level:
            past = {"easy": 3, "medium": 31, "hard": 63}[level]
            return cards[:, timestep - past] if timestep >= past else 0 * cards[:, 0]


@pytest.mark.parametrize("id", RECALL)
def test_who_remembers_all_has_the_best_return(id: str) -> None:
    env = envs.make_vector(id, 7, 5)
    env.reset()
    state = env.get_state()["state"]
    total, timesteps, over = np.zeros(7), 1, np.zeros(7, bool)
    while not over.any():
        _, reward, over, truncated, _ = env.step(right_answers(id, state, timesteps - 1))
        total, timesteps = total + reward, timesteps + 1
        assert (reward >= 0).all()
    assert over.all()
    assert not truncated.any()
    assert total == pytest.approx(1.0)
    assert envs.spec(id).best_return == 1.0
    assert timesteps == envs.spec(id).horizon


@pytest.mark.parametrize("id", [id for id in IDS if not id.endswith("hard") or "concentration" in id])
def test_random_actions_have_the_exact_return(id: str) -> None:
    """Within four standard errors of the mean over 400 episodes."""
    num = 400
    env = envs.make_vector(id, num, 3)
    env.reset()
    env.action_space.seed(4)
    total, last = np.zeros(num), np.zeros(num, bool)
    while not last.all():
        _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        total += np.where(last, 0.0, reward)
        last |= terminated | truncated
    assert abs(total.mean() - exact.random(id)) < 4 * total.std() / np.sqrt(num)
    assert exact.random(id) == pytest.approx(FIGURES[id]["random"], abs=1e-12)


def test_cards_lie_anywhere() -> None:
    for id in ("popgym-count-recall-easy", "popgym-concentration-hard"):
        env = envs.make_vector(id, 5000, 2)
        env.reset()
        state = env.get_state()["state"]
        for name in {"cards", "queries"} & state.keys():
            kinds = state[name].max() + 1
            for kind in range(kinds):
                assert (abs((state[name] == kind).mean(axis=0) - 1 / kinds) < 0.04).all()
            assert (np.sort(state[name], axis=1) == np.sort(state[name][:1], axis=1)).all()
    two = [env.reset()[0] for env in (envs.make_vector("popgym-count-recall-hard", 500, 2),)]
    assert abs((two[0][:, 0] == two[0][:, 1]).mean() - 1 / 13) < 0.05, "the two decks have an order each"


def play_out(cards: tuple[int, ...], steps: int) -> float:
    """Concentration's best expected return, by search over positions and what was seen of them."""
    n = len(cards)
    match, miss = 1 / (n // 2), -1 / steps
    Known = tuple[int | None, ...]

    def kinds(known: Known, position: int) -> list[tuple[float, int]]:
        """Probability and kind of a card."""
        if known[position] is not None:
            return [(1.0, int(known[position] or 0))]
        unseen = list(cards)
        for kind in known:
            if kind is not None:
                unseen.remove(kind)
        return [(unseen.count(kind) / len(unseen), kind) for kind in sorted(set(unseen))]

    @functools.cache
    def value(known: Known, up: frozenset[int], first: int | None, left: int) -> float:
        if not left or len(up) == n:
            return 0.0
        best = -np.inf
        for position in range(n):
            total = 0.0
            for chance, kind in kinds(known, position):
                now = (*known[:position], kind, *known[position + 1 :])
                if first is None and position in up:
                    gain = miss + value(now, up, None, left - 1)
                elif first is None:
                    gain = value(now, up, position, left - 1)
                elif position != first and position not in up and kind == now[first]:
                    gain = match + value(now, up | {first, position}, None, left - 1)
                else:
                    gain = 2 * miss + value(now, up, None, left - 1)
                total += chance * gain
            best = max(best, total)
        return best

    return value((None,) * n, frozenset(), None, steps)


@pytest.mark.parametrize(
    ("kinds", "each", "steps"), [(2, 2, 8), (2, 2, 3), (2, 2, 5), (3, 2, 6), (4, 2, 4), (1, 6, 5)]
)
def test_the_best_return_is_that_of_a_search_over_positions(kinds: int, each: int, steps: int) -> None:
    """With few steps too, where wasting one so as to end with a first card can be best."""
    cards = tuple(kind for kind in range(kinds) for _ in range(each))
    assert exact.Concentration(kinds, each, steps).best_return() == pytest.approx(
        play_out(cards, steps), abs=1e-12
    )


@pytest.mark.parametrize("id", IDS)
def test_best_returns_are_the_computed_ones(id: str) -> None:
    assert envs.spec(id).best_return == pytest.approx(FIGURES[id]["best"], abs=1e-12)
    assert FIGURES[id]["random"] <= FIGURES[id]["without_memory"] < FIGURES[id]["best"] <= 1


@pytest.mark.parametrize("id", RECALL)
def test_without_memory_by_playing(id: str) -> None:
    """The likeliest answers by timestep and what is in sight, counted in one half of the environments, in the
    other."""
    env = envs.make_vector(id, 20_000 if id.endswith("easy") else 1, 6)
    if not id.endswith("easy"):
        assert exact.without_memory(id) == pytest.approx(FIGURES[id]["without_memory"], abs=1e-12)
        return
    observation, _ = env.reset()
    state = env.get_state()["state"]
    timesteps = (envs.spec(id).horizon or 0) - 1
    points, asked = 0.0, 0
    for timestep in range(timesteps):
        right = right_answers(id, state, timestep)
        sight = observation.reshape(len(right), -1) @ np.array([4, 1])[-observation[0].size :]
        chosen = np.zeros(len(right), int)
        for seen in np.unique(sight):
            chosen[sight == seen] = np.bincount(right[::2][sight[::2] == seen]).argmax()
        observation, reward, *_ = env.step(right)
        if reward[0] > 0:
            points, asked = points + 2 * (chosen == right)[1::2].mean() - 1, asked + 1
    assert points / asked == pytest.approx(exact.without_memory(id), abs=0.01)


@pytest.mark.parametrize(
    "id", ["popgym-autoencode-eazy", "popgym-repeat-previous", "popgym-countrecall-hard"]
)
def test_a_wrong_name_is_told_without_the_package(id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "popgym", None)
    with pytest.raises(ValueError, match=f"unknown task '{id}'; did you mean popgym-[a-z-]+") as error:
        envs.spec(id)
    assert "\n" not in str(error.value)


def test_the_packages_own_names_are_still_the_packages() -> None:
    pytest.importorskip("popgym")
    assert not envs.identify("popgym-RepeatPreviousEasy-v0").is_native
    assert envs.identify("popgym-repeat-previous-easy").is_native


SUITS = np.arange(52) % 4


def test_pictures_show_what_is_seen_and_what_is_right() -> None:
    env = envs.make_vector("popgym-repeat-previous-easy", 1, 1, render_mode="rgb_array")
    env.reset(options={"state": {"cards": SUITS, "time": 8}})
    picture: Any = env.render()
    tiles = picture[0][:80].reshape(2, 40, 12, 36, 3).swapaxes(1, 2).astype(int)
    light = (tiles.min(axis=-1) > 230).mean(axis=(2, 3)) > 0.5
    assert light.tolist() == [[place == 11 for place in range(12)], [False] * 12]
    empty = (tiles == tiles[0, 0, 0, 0]).all(axis=(2, 3, 4))
    assert empty.tolist() == [[place < 3 for place in range(12)], [place < 6 for place in range(12)]]
    # The right answer to the present timestep, 1, is the card three timesteps ago.
    np.testing.assert_array_equal(tiles[1, 11], tiles[0, 8])
    assert (tiles[0, 8] != tiles[0, 9]).any()
    env = envs.make_vector("popgym-concentration-hard", 1, 1, render_mode="rgb_array")
    up = np.isin(np.arange(52), (0, 13))
    env.reset(options={"state": {"cards": np.arange(52) % 13, "face_up": up, "first": 4, "second": 20}})
    picture = env.render()
    tiles = picture[0].reshape(4, 40, 13, 36, 3).swapaxes(1, 2).astype(int)
    light = (tiles.min(axis=-1) > 230).mean(axis=(2, 3)) > 0.5
    assert np.flatnonzero(light).tolist() == [0, 4, 13, 20]
