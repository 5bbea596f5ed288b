"""Exact returns in the native POPGym tasks: of random actions, without memory, and the best there is.

    python -m benchmarks popgym

In the games whose actions are answers a random action is right once in as many times as there are answers,
and who remembers everything is always right. Without memory a player knows the timestep that it sees, and how
many came before: it gives the likeliest answer.

Concentration's best return comes from dynamic programming over what a player that forgets nothing knows: of
each kind, how many cards that are face down it has not seen and how many it has. All orders of the unseen
cards are equally likely, and kinds are alike, so these numbers and the steps that are left decide everything.
The player is free to turn any card, in particular to leave a pair that it knows for later, or to waste a step
on a card that was found.

Legend: S states, K kinds of cards, c cards of a kind, n = K c.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import hypergeom

import envs
from envs.popgym import STEPS_PER_CARD

Floats = NDArray[np.float64]
CONCENTRATION: Final = {"easy": (2, 26), "medium": (2, 52), "hard": (13, 4)}
"""K and c."""


class Concentration:
    """The best expected return from every state, for a player that forgets nothing.

    Args:
        kinds: K.
        each: c, even.
        steps: of an episode; as in the task unless given.
    """

    def __init__(self, kinds: int, each: int, steps: int | None = None) -> None:
        n = kinds * each
        self.steps = STEPS_PER_CARD * n if steps is None else steps
        self.match, self.miss = 1 / (n // 2), -1 / self.steps
        types = [(unseen, down - unseen) for down in range(0, each + 1, 2) for unseen in range(down + 1)]
        self._types = {type: index for index, type in enumerate(types)}
        states = itertools.combinations_with_replacement(range(len(types)), kinds)
        self._states = np.array(list(states))  # [S, K] the type of every kind, in ascending order
        self.unseen, self.seen = np.moveaxis(np.array(types)[self._states], 2, 0)  # [S, K]
        # A state is found by the sum of its types' random keys, whatever their order.
        self._key = np.random.default_rng(0).integers(2**62, size=len(types), dtype=np.uint64)
        keys = self._key[self._states].sum(axis=1)
        self._order = keys.argsort()
        self._sorted = keys[self._order]
        assert (self._sorted[1:] != self._sorted[:-1]).all()
        self._pair, _ = self._after(0, 2)
        self._surprise, _ = self._after(1, 2)
        self._look, types_then = self._after(1, 0)
        # [S, K] where `second` of the state after a look has the kind that was seen.
        place = (self._states[self._look] == types_then[:, :, None]).argmax(axis=2)
        self._look_place = self._look * kinds + place

    def state(self, kinds: list[tuple[int, int]]) -> int:
        """The number of the state with these (unseen, seen) cards face down of each kind."""
        key = self._key[[self._types[kind] for kind in kinds]].sum()
        return int(self._order[np.searchsorted(self._sorted, key)])

    def _after(self, looks: int, found: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """[S, K] states and types of a kind after `looks` of its cards were seen and `found` found.

        They mean nothing where the kind has too few cards.
        """
        changed = [self._types.get((unseen - looks, seen + looks - found), 0) for unseen, seen in self._types]
        then = np.array(changed)[self._states]
        keys = self._key[self._states].sum(axis=1)[:, None] - self._key[self._states] + self._key[then]
        return self._order[np.searchsorted(self._sorted, keys).clip(max=len(keys) - 1)], then

    def second(self, two_later: Floats) -> Floats:
        """[S, K] the best value of a second card where the first was of this kind, one of its seen cards.

        `two_later` [S] are the values two steps later.
        """
        unseen = self.unseen.sum(axis=1, keepdims=True)
        share = self.unseen / np.maximum(unseen, 1)
        missed = 2 * self.miss + two_later[self._look]
        found = self.match + two_later[self._surprise]
        look = (share * missed).sum(axis=1, keepdims=True) + share * (found - missed)
        pair = np.where(self.seen >= 2, self.match + two_later[self._pair], -np.inf)
        again = 2 * self.miss + two_later[:, None]
        result: Floats = np.maximum(np.where(unseen > 0, look, again), np.maximum(pair, again))
        return result

    def values(self) -> Iterator[Floats]:
        """[S] the best expected returns from here on, for 0, 1, ... steps left, at the start of a turn."""
        unseen = self.unseen.sum(axis=1)
        down = unseen + self.seen.sum(axis=1)
        share = self.unseen / np.maximum(unseen, 1)[:, None]
        two_later = one_later = np.zeros(len(down))  # the last step is free: a first card costs nothing
        yield two_later
        yield one_later
        for _ in range(2, self.steps + 1):
            second = self.second(two_later)
            seen_first = np.where(self.seen > 0, second, -np.inf).max(axis=1)
            unseen_first = (share * second.ravel()[self._look_place]).sum(axis=1)
            value = np.maximum(seen_first, np.where(unseen > 0, unseen_first, -np.inf))
            wasted = np.where(down < down.max(), self.miss + one_later, -np.inf)
            two_later, one_later = one_later, np.where(down > 0, np.maximum(value, wasted), 0.0)
            yield one_later

    def best_return(self) -> float:
        *_, last = self.values()
        return float(last[self.state([(int(self.unseen.max()), 0)] * self._states.shape[1])])


def guessing(kinds: int, each: int, *, everywhere: bool) -> float:
    """The expected return in Concentration of turning random cards: all cards, or only those face down.

    The second card that is turned face down is then another than the first.
    """
    n = kinds * each
    steps = STEPS_PER_CARD * n
    match, miss = 1 / (n // 2), -1 / steps

    @functools.cache
    def value(down: tuple[int, ...], left: int) -> float:
        among = n if everywhere else sum(down)
        others = n if everywhere else among - 1
        if not left or not any(down):
            return 0.0
        total = (n - sum(down)) / n * (miss + value(down, left - 1)) if everywhere else 0.0
        for kind, count in enumerate(down):
            if count and left >= 2:
                found = tuple(sorted((*down[:kind], count - 2, *down[kind + 1 :])))
                chance = (count - 1) / others
                then = chance * (match + value(found, left - 2))
                total += count / among * (then + (1 - chance) * (2 * miss + value(down, left - 2)))
        return total

    for left in range(steps):  # so that the calls do not nest too deep
        value((each,) * kinds, left)
    return value((each,) * kinds, steps)


def without_memory(id: str) -> float:
    """The best expected return where answers depend on the timestep in sight and on its number."""
    _, game, level = id.replace("count-", "count").replace("repeat-", "repeat").split("-")
    n = envs.spec(id).horizon or 0
    match game:
        case "autoencode":
            cards = n // 2
            return (1 - (cards - 1) / 2) / cards
        case "repeatfirst":
            return (1 + (n - 2) * _other_suit(n)) / (n - 1)
        case "repeatprevious":
            return _other_suit(n)
        case "countrecall":
            kinds = {"easy": 2, "medium": 4, "hard": 13}[level]
            each, counts = n // kinds, np.arange(n // kinds + 1)
            right = 0.0
            for dealt in range(n - 1):  # before the card in sight
                asked = hypergeom(n - 1, each - 1, dealt).pmf(counts).max()
                right += asked / kinds + (1 - 1 / kinds) * hypergeom(n - 1, each, dealt).pmf(counts).max()
            return float(2 * right / (n - 1) - 1)
    return guessing(*CONCENTRATION[level], everywhere=False)


def _other_suit(n: int) -> float:
    """The expected points of naming a suit that is not in sight, when the answer is another card's."""
    return 2 * (n / 4) / (n - 1) - 1


def random(id: str) -> float:
    """The expected return of uniformly random actions."""
    if "concentration" in id:
        return guessing(*CONCENTRATION[id.rpartition("-")[2]], everywhere=True)
    space: Any = envs.spec(id).action_space
    return 2 / int(space.n) - 1


def best(id: str) -> float:
    if "concentration" in id:
        return Concentration(*CONCENTRATION[id.rpartition("-")[2]]).best_return()
    return 1.0


def measure() -> dict[str, Any]:
    """`{id: {"random": return, "without_memory": return, "best": return}}` for all fifteen tasks."""
    return {
        id: {"random": random(id), "without_memory": without_memory(id), "best": best(id)}
        for id in envs.ids()
        if id.startswith("popgym-")
    }


def table(result: dict[str, Any]) -> str:
    """The figures of `measure` as text."""
    lines = [f"{'task':<34}{'random':>10}{'no memory':>12}{'best':>10}"]
    for id, row in result.items():
        lines.append(f"{id:<34}{row['random']:>10.4f}{row['without_memory']:>12.4f}{row['best']:>10.4f}")
    return "\n".join(lines)
