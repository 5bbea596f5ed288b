"""Five card games of POPGym 1.0.7, each easy, medium and hard (Morad et al. 2023, arXiv 2303.01859).

Autoencode: watch a deck, then name its suits backwards. CountRecall: how often was the kind dealt that is
asked for? RepeatFirst, RepeatPrevious: name the suit of the first card, or of the card k - 1 steps ago.
Concentration: find pairs, turning one card a step. In the first four an action is an answer and changes
nothing: the shuffled cards decide all observations and right answers of an episode before it begins.

Faults of the package are kept:

- RepeatPrevious asks for the card k - 1 steps ago, where its documentation also says k.
- RepeatFirst has no mark on the first timestep, which its documentation promises.
- Autoencode's first question still shows the card asked for. Later ones show suit 0 whatever happens.
- CountRecall counts the card that is shown with the question, and its `error_clamp` has no effect.
- Concentration does not show which cards were found and which are face up for one step only, and a turn that
  begins with a found card is over after one step, at half of the price.

Legend: N environments, n cards, K kinds of cards, L timesteps of an episode.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete, MultiDiscrete
from numpy.typing import NDArray

from envs.drawing import AGENT, CARD_HEIGHT, CARD_WIDTH, VIEW, WALL, card, joined
from envs.fields import Field, FieldDynamics
from envs.task import Native
from envs.vector import Arrays, EnvIds, Flags, Rewards, Rng

DECK: Final = 52
_SUITS: Final = 4
LEVELS: Final = ("easy", "medium", "hard")
_SOURCE: Final = "POPGym (arXiv 2303.01859)"
STEPS_PER_CARD: Final = 2  # of Concentration's limit, which the package writes as ceil(2 n - n / (2 n - 1))
_STRIP: Final = 12  # timesteps in a picture

Kinds = NDArray[np.uint8]
Tape = tuple[Kinds, NDArray[np.int8]]
"""Observations [N, L, ...] and the right answer to each [N, L], -1 where none is asked for."""


def autoencode(cards: Kinds) -> Tape:
    """Observations (1, suit) while more cards are to come, (0, suit) with the last one, and then (0, 0)."""
    num, n = cards.shape
    shown = np.zeros((num, 2 * n, 2), np.uint8)
    shown[:, :n, 1] = cards
    shown[:, : n - 1, 0] = 1
    right = np.full((num, 2 * n), -1, np.int8)
    right[:, n - 1 : -1] = cards[:, ::-1]
    return shown, right


def repeat_first(cards: Kinds) -> Tape:
    return cards, cards[:, :1].repeat(cards.shape[1], axis=1).astype(np.int8)


def repeat_previous(k: int, cards: Kinds) -> Tape:
    right = np.full(cards.shape, -1, np.int8)
    right[:, k - 1 :] = cards[:, : cards.shape[1] - k + 1]
    return cards, right


def count_recall(kinds: int, cards: Kinds, queries: Kinds) -> Tape:
    """Observations (card, query)."""
    counts = (cards[:, :, None] == np.arange(kinds, dtype=np.uint8)).cumsum(axis=1, dtype=np.int8)
    right = np.take_along_axis(counts, queries[:, :, None].astype(np.intp), axis=2)[:, :, 0]
    return np.stack([cards, queries], axis=2), right


def deck(kinds: int, decks: int) -> Kinds:
    """[n] the kinds of all cards, sorted."""
    return np.arange(kinds, dtype=np.uint8).repeat(DECK * decks // kinds)


def check_deck(name: str, given: Kinds, cards: Kinds) -> None:
    """ValueError where a field of a state, [N, n], is no order of the deck `cards` [n]."""
    if (np.sort(given, axis=1) != cards).any():
        most = int(cards[-1])
        each = len(cards) // (most + 1)
        raise ValueError(f"state {name!r} must hold each number from 0 to {most} {each} times")


class RecallDynamics(FieldDynamics):
    """A game whose actions are answers. The fields of a state:

    cards: [n] kinds in the order of dealing.
    queries: [n] kinds in the order of asking; in CountRecall only.
    time: steps taken, 0 to L - 1; 0 unless given.

    Args:
        tape: from the fields but time to the observations and right answers.
        decks: the fields but time, and the sorted deck of each.
        answers: number of actions.
        observation_space: one environment's.
        noun: the kind of thing that an action names, by its number.
    """

    time: NDArray[np.int64]

    def __init__(
        self,
        tape: Callable[..., Tape],
        decks: Mapping[str, Kinds],
        answers: int,
        observation_space: gymnasium.Space[Any],
        noun: str,
    ) -> None:
        self._tape, self._decks = tape, decks
        self.action_space, self.observation_space = Discrete(answers), observation_space
        self.action_names = tuple(f"{noun} {number}" for number in range(answers))
        _, right = tape(*(cards[None] for cards in decks.values()))
        self._end = right.shape[1] - 1
        self._scale = 1 / int((right[0, :-1] >= 0).sum())
        self.fields = (
            *(Field(name, cards.shape, np.uint8, 0, int(cards[-1])) for name, cards in decks.items()),
            Field("time", (), np.int64, 0, self._end, 0),
        )

    def restart(self, env_ids: EnvIds, rng: Rng) -> None:
        for name, cards in self._decks.items():
            getattr(self, name)[env_ids] = rng.permuted(np.tile(cards, (len(env_ids), 1)), axis=1)
        self._shown[env_ids], self._right[env_ids] = self._tape(*(dealt[env_ids] for dealt in self._dealt()))
        self.time[env_ids] = 0

    def _dealt(self) -> list[Kinds]:
        """The fields but time."""
        return [getattr(self, name) for name in self._decks]

    def put(self, state: Arrays) -> None:
        super().put(state)
        shown, self._right = self._tape(*self._dealt())
        self._shown = shown.copy()

    def check(self, state: Arrays) -> None:
        for name, cards in self._decks.items():
            check_deck(name, state[name], cards)

    def step(self, action: NDArray[Any], rng: Rng) -> tuple[Rewards, Flags]:
        right = self._right[self.env_ids, self.time]
        self.time = np.minimum(self.time + 1, self._end)
        reward = np.where(action == right, self._scale, -self._scale)
        return np.where(right < 0, 0.0, reward), self.time == self._end

    def observe(self, rng: Rng) -> NDArray[Any]:
        return self._shown[self.env_ids, self.time].astype(self.observation_space.dtype, copy=False)

    def picture(self, env_id: int) -> NDArray[np.uint8]:
        """The last observations, the present one on the right, below each its right answer, if there is one.

        The pale answers cannot be seen by the agent, and neither can earlier observations.
        """
        shown = self._shown[env_id].reshape(self._end + 1, -1)
        lines = shown.shape[1] + 1
        picture = np.full((lines, CARD_HEIGHT, _STRIP, CARD_WIDTH, 3), WALL, np.uint8)
        now = int(self.time[env_id])
        for place, t in enumerate(range(now - _STRIP + 1, now + 1)):
            if t < 0:
                continue
            for line, number in enumerate(shown[t].tolist()):
                picture[line, :, place] = card(number, t == now)
            if self._right[env_id, t] >= 0 and t < self._end:
                picture[-1, :, place] = card(int(self._right[env_id, t]), False)
        bar = np.full((8, _STRIP * CARD_WIDTH, 3), AGENT, np.uint8)
        bar[2:-2, : round(now / self._end * bar.shape[1])] = VIEW
        return np.concatenate([picture.reshape(lines * CARD_HEIGHT, -1, 3), bar])


class ConcentrationDynamics(FieldDynamics):
    """Pairs among `cards`, a sorted deck. The fields of a state, by position 0 to n - 1:

    cards: [n] kinds, whether they are face up or not.
    face_up: [n] bool, the cards of pairs that were found; none unless given.
    first, second: the positions turned in the present turn, -1 for none yet; -1 unless given. The second
        ends the turn, and both are in sight until the next step. A turn that begins with a found card is
        over with it and leaves -1 in both.

    A card that is face down shows K, the number of kinds.
    """

    cards: Kinds
    face_up: NDArray[np.bool_]
    first: NDArray[np.int64]
    second: NDArray[np.int64]

    def __init__(self, cards: Kinds) -> None:
        n, self._down = len(cards), int(cards[-1]) + 1
        self._deck = cards
        self._match, self._miss = 1 / (n // 2), -1 / (STEPS_PER_CARD * n)
        self.observation_space = MultiDiscrete([self._down + 1] * n, dtype=np.uint8)
        self.action_space, self.action_names = Discrete(n), tuple(f"card {place}" for place in range(n))
        self.fields = (
            Field("cards", (n,), np.uint8, 0, self._down - 1),
            Field("face_up", (n,), np.bool_, 0, 1, np.zeros(n, np.bool_)),
            Field("first", (), np.int64, -1, n - 1, -1),
            Field("second", (), np.int64, -1, n - 1, -1),
        )

    def restart(self, env_ids: EnvIds, rng: Rng) -> None:
        self.cards[env_ids] = rng.permuted(np.tile(self._deck, (len(env_ids), 1)), axis=1)
        self.face_up[env_ids] = False
        self.first[env_ids] = self.second[env_ids] = -1

    def step(self, action: NDArray[Any], rng: Rng) -> tuple[Rewards, Flags]:
        env_ids, first, action = self.env_ids, self.first, action.astype(np.int64)  # -1 must have a place
        in_turn = (first >= 0) & (self.second < 0)
        found_before = self.face_up[env_ids, action]
        kind = self.cards[env_ids, action]
        match = in_turn & (kind == self.cards[env_ids, first]) & ~found_before & (action != first)
        reward = np.where(in_turn, 2 * self._miss, np.where(found_before, self._miss, 0.0))
        reward[match] = self._match
        found = match.nonzero()[0]
        self.face_up[found, action[found]] = self.face_up[found, first[found]] = True
        over = np.zeros(len(env_ids), np.bool_)
        over[found] = self.face_up[found].all(axis=1)
        self.first = np.where(in_turn, first, np.where(found_before, -1, action))
        self.second = np.where(in_turn, action, -1)
        return reward, over

    def observe(self, rng: Rng) -> Kinds:
        observation = np.where(self.face_up, self.cards, np.uint8(self._down))
        for turned in (self.first, self.second):
            env_ids = (turned >= 0).nonzero()[0]
            observation[env_ids, turned[env_ids]] = self.cards[env_ids, turned[env_ids]]
        return observation

    def check(self, state: Arrays) -> None:
        cards, face_up, first, second = (state[field.name] for field in self.fields)
        check_deck("cards", cards, self._deck)
        for kind in range(self._down):
            if ((face_up & (cards == kind)).sum(axis=1) % 2).any():
                raise ValueError(
                    f"state 'face_up' holds an odd number of cards of kind {kind}; they are found in pairs"
                )
        wrong = (first < 0) & (second >= 0)
        if wrong.any():
            raise ValueError(
                f"state 'second' holds {second[wrong][0]} where 'first' holds -1; it must be -1 too"
            )
        wrong = (first >= 0) & (second < 0) & face_up[np.arange(len(first)), first]
        if wrong.any():
            raise ValueError(
                f"state 'first' holds {first[wrong][0]}, which is face up; while 'second' is -1"
                " it must be a card that is face down"
            )

    def picture(self, env_id: int) -> NDArray[np.uint8]:
        """The cards in rows of 13: the agent does not see the pale numbers."""
        columns = DECK // _SUITS
        up = self.face_up[env_id].copy()
        up[[turned for turned in (self.first[env_id], self.second[env_id]) if turned >= 0]] = True
        tiles = [card(kind, bool(seen)) for kind, seen in zip(self.cards[env_id].tolist(), up, strict=True)]
        return joined(np.array(tiles).reshape(-1, columns, CARD_HEIGHT, CARD_WIDTH, 3))


def _recall(
    noun: str, description: str, tape: Callable[..., Tape], decks: dict[str, Kinds], answers: int, space: Any
) -> Native:
    make = functools.partial(RecallDynamics, tape, decks, answers, space, noun)
    horizon = len(decks["cards"]) * (2 if tape is autoencode else 1)
    return make, {"description": description, "horizon": horizon, "best_return": 1.0, "source": _SOURCE}


def _autoencode(decks: int) -> Native:
    cards, space = deck(_SUITS, decks), MultiDiscrete([2, _SUITS], dtype=np.uint8)
    description = f"See {len(cards)} cards, then name their suits in reverse order."
    return _recall("suit", description, autoencode, {"cards": cards}, _SUITS, space)


def _count_recall(kinds: int, decks: int) -> Native:
    n, space = DECK * decks, MultiDiscrete([kinds, kinds], dtype=np.uint8)
    fields = dict.fromkeys(("cards", "queries"), deck(kinds, decks))
    description = f"Say how many cards of a kind, one of {kinds}, were dealt so far, {n} in the end."
    tape = functools.partial(count_recall, kinds)
    return _recall("count", description, tape, fields, n // kinds + 1, space)


def _repeat_first(decks: int) -> Native:
    cards = deck(_SUITS, decks)
    description = f"Name the suit of the first of {len(cards)} cards, at every card."
    return _recall("suit", description, repeat_first, {"cards": cards}, _SUITS, Discrete(_SUITS))


def _repeat_previous(k: int, decks: int) -> Native:
    cards, tape = deck(_SUITS, decks), functools.partial(repeat_previous, k)
    description = f"Name the suit of the card {k - 1} steps ago, at every one of {len(cards)} cards."
    return _recall("suit", description, tape, {"cards": cards}, _SUITS, Discrete(_SUITS))


def _concentration(kinds: int, decks: int, best_return: float) -> Native:
    n, steps = DECK * decks, STEPS_PER_CARD * DECK * decks
    return functools.partial(ConcentrationDynamics, deck(kinds, decks)), {
        "description": f"Find pairs among {n} cards of {kinds} kinds, turning one card a step.",
        "time_limit": steps,
        "best_return": best_return,
        "source": _SOURCE,
        "horizon": steps + 1,
    }


# The best returns of Concentration are computed by `python -m benchmarks popgym`.
_GAMES: Final[dict[str, tuple[Callable[..., Native], *tuple[tuple[Any, ...], ...]]]] = {
    "autoencode": (_autoencode, (1,), (2,), (3,)),
    "count-recall": (_count_recall, (2, 1), (4, 2), (13, 4)),
    "repeat-first": (_repeat_first, (1,), (8,), (16,)),
    "repeat-previous": (_repeat_previous, (4, 1), (32, 2), (64, 3)),
    "concentration": (
        *(_concentration, (2, 1, 0.8332580894730938), (2, 2, 0.8333256223094526)),
        (13, 1, 0.7323618587317996),
    ),
}
"""By name: what makes it, and from what at each of `LEVELS`."""


def find(id: str) -> Native | None:
    name = re.fullmatch(f"popgym-({'|'.join(_GAMES)})-({'|'.join(LEVELS)})", id)
    if name is None:
        return None
    make, *levels = _GAMES[name[1]]
    return make(*levels[LEVELS.index(name[2])])
