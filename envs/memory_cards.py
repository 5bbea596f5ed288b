"""Memory Cards: the game of pairs, seeing one card at a time (DTQN, arXiv 2206.01078).

Legend: N environments, P pairs.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np
from gymnasium.spaces import Discrete, MultiDiscrete
from numpy.typing import NDArray

from envs.drawing import CARD_HEIGHT, CARD_WIDTH, WALL, card, joined
from envs.fields import Field, FieldDynamics, require
from envs.task import Native, match_name
from envs.vector import Arrays, EnvIds, Flags, Rewards, Rng

PAIRS: Final = 5  # of DTQN's task
MAX_PAIRS: Final = 9999
STEPS_PER_PAIR: Final = 10  # of the time limit
_BEST_RETURN: Final = {1: 0.0, 2: -5 / 6}  # by search over all that a player can know


class MemoryCardsDynamics(FieldDynamics):
    """`pairs` pairs of cards on 2 P positions. The fields of a state:

    cards: [2 P], the pair 1 to P that lies at each position, whether it is removed or not.
    removed: [2 P] bool, the same for both cards of a pair; none unless given.
    shown: the position, not removed, whose card is face up; -1 once all are removed.
    """

    cards: NDArray[Any]
    removed: NDArray[np.bool_]
    shown: NDArray[np.int64]

    def __init__(self, pairs: int) -> None:
        self._pairs, positions, values = pairs, 2 * pairs, pairs + 2
        self.observation_space = MultiDiscrete([values] * positions, dtype=np.min_scalar_type(values).type)
        self.action_space = Discrete(positions)
        self.action_names = tuple(f"card {place}" for place in range(positions))
        self._deck = np.arange(1, pairs + 1, dtype=self.observation_space.dtype).repeat(2)
        self.fields = (
            Field("cards", (positions,), self._deck.dtype, 1, pairs),
            Field("removed", (positions,), np.bool_, 0, 1, np.zeros(positions, np.bool_)),
            Field("shown", (), np.int64, -1, positions - 1),
        )

    def restart(self, env_ids: EnvIds, rng: Rng) -> None:
        self.cards[env_ids] = rng.permuted(np.tile(self._deck, (len(env_ids), 1)), axis=1)
        self.removed[env_ids] = False
        self.shown[env_ids] = rng.integers(2 * self._pairs, size=len(env_ids))

    def step(self, action: NDArray[Any], rng: Rng) -> tuple[Rewards, Flags]:
        env_ids, shown = self.env_ids, self.shown
        # A removed card never matches: the one that is shown still has its mate.
        same = self.cards[env_ids, action] == self.cards[env_ids, shown]
        match = same & (action != shown)
        matched = match.nonzero()[0]
        self.removed[matched, action[matched]] = True
        self.removed[matched, shown[matched]] = True
        in_play = ~self.removed
        count = in_play.sum(axis=1)
        over = count == 0
        # The position of the card number `nth` of those in play; there is none after the end.
        nth = rng.integers(np.maximum(count, 1))
        self.shown = (in_play.cumsum(axis=1) > nth[:, None]).argmax(axis=1)
        self.shown[over] = -1
        return match - 1.0, over

    def observe(self, rng: Rng) -> NDArray[Any]:
        observation = self.removed * self._deck.dtype.type(self._pairs + 1)
        up = (self.shown >= 0).nonzero()[0]
        observation[up, self.shown[up]] = self.cards[up, self.shown[up]]
        return observation

    def check(self, state: Arrays) -> None:
        cards, removed, shown = state["cards"], state["removed"], state["shown"]
        if (np.sort(cards, axis=1) != self._deck).any():
            raise ValueError(f"state 'cards' must hold each pair from 1 to {self._pairs} twice")
        by_pair = np.take_along_axis(removed, cards.argsort(axis=1), axis=1)
        if (by_pair[:, 0::2] != by_pair[:, 1::2]).any():
            raise ValueError("state 'removed' holds one card of a pair; it must hold both or none")
        # Once all cards are removed, position -1, the last one, is as removed as it has to be.
        in_play = (shown != -1) & ~removed[np.arange(len(shown)), shown]
        right = np.where(removed.all(axis=1), shown == -1, in_play)
        require("shown", shown, right, "a position that is not removed, or -1 where all are")

    def success(self, reward: Rewards, episode_return: Rewards, terminated: Flags) -> Flags:
        """All cards are removed."""
        return terminated

    def picture(self, env_id: int) -> NDArray[np.uint8]:
        """The cards in rows of up to ten: the one that is face up is light, the removed ones are gone.

        The pale numbers of cards that are face down cannot be seen by the agent.
        """
        columns = min(10, len(self._deck))
        tiles = np.full((-(-len(self._deck) // columns), columns, CARD_HEIGHT, CARD_WIDTH, 3), WALL, np.uint8)
        for position in np.flatnonzero(~self.removed[env_id]):
            up = bool(position == self.shown[env_id])
            tiles[divmod(position, columns)] = card(int(self.cards[env_id, position]), up)
        return joined(tiles)


def find(id: str) -> Native:
    """DTQN's task, or one of any number of pairs."""
    right = f"memory-cards or memory-cards-<pairs>, with 1 to {MAX_PAIRS} pairs"
    name = match_name(id, r"memory-cards(?:-([1-9]\d{0,3}))?", right)
    pairs = int(name[1] or PAIRS)
    return functools.partial(MemoryCardsDynamics, pairs), {
        "description": f"Find the mate of the card that is shown, one card at a time, among {pairs} pairs.",
        "time_limit": STEPS_PER_PAIR * pairs,
        "success": "all cards are removed",
        "best_return": _BEST_RETURN.get(pairs),
        "source": "DTQN (arXiv 2206.01078)",
        "horizon": STEPS_PER_PAIR * pairs + 1,
    }
