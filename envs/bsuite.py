"""The memory chain of bsuite 0.3.6 (Osband et al. 2020, arXiv 1908.03568).

Memory chain of length n with b bits: a context of b bits is shown at the start; after n steps a query
names one of them, and the next action, the last, has to be that bit. `memory-len-<n>` has one bit,
`memory-size-<b>` has length 2.

A fault of the package is kept: its observation is made before its clock moves, so the first step shows what
the reset showed. The context is thus in timesteps 0 and 1, and with n = 1 nothing has to be remembered.

Legend: N environments, n length, b bits.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from envs.drawing import AGENT, FLOOR, GREEN, RED, TILE, WALL
from envs.fields import Field, FieldDynamics
from envs.task import Native, match_name
from envs.vector import Arrays, EnvIds, Flags, Rewards, Rng

_LENGTH_OF_SIZES: Final = 2


class MemoryChainDynamics(FieldDynamics):
    """A chain of `length` with `bits` bits. The fields of a state, integers:

    context: [b] bits, 0 or 1.
    query: the bit that is asked for; 0 unless given.
    time: steps taken, 0 to n + 1; 0 unless given.
    """

    action_space = Discrete(2)
    action_names = ("bit 0", "bit 1")
    context: NDArray[np.int64]
    query: NDArray[np.int64]
    time: NDArray[np.int64]

    def __init__(self, length: int, bits: int) -> None:
        self._length, self._bits = length, bits
        # [1, 2 + b]: time left, query, context.
        low, high = np.zeros((1, bits + 2), np.float32), np.ones((1, bits + 2), np.float32)
        low[0, 2:] = -1.0
        high[0, 1] = max(1, bits - 1)  # with one bit too, as Gymnasium warns of a range of one number
        self.observation_space = Box(low, high, dtype=np.float32)
        self.fields = (
            Field("context", (bits,), np.int64, 0, 1),
            Field("query", (), np.int64, 0, bits - 1, 0),
            Field("time", (), np.int64, 0, length + 1, 0),
        )

    def restart(self, env_ids: EnvIds, rng: Rng) -> None:
        self.context[env_ids] = rng.integers(2, size=(len(env_ids), self._bits))
        self.query[env_ids] = rng.integers(self._bits, size=len(env_ids))
        self.time[env_ids] = 0

    def step(self, action: NDArray[Any], rng: Rng) -> tuple[Rewards, Flags]:
        self.time = np.minimum(self.time + 1, self._length + 1)
        over = self.time > self._length
        right = action == self.context[self.env_ids, self.query]
        return np.where(over, 2.0 * right - 1.0, 0.0), over

    def observe(self, rng: Rng) -> NDArray[np.float32]:
        shown = np.maximum(self.time - 1, 0)
        observation = np.zeros((len(shown), 1, self._bits + 2), np.float32)
        observation[:, 0, 0] = 1 - shown / self._length
        observation[:, 0, 1] = self.query * (shown == self._length - 1)
        observation[:, 0, 2:] = (2 * self.context - 1) * (shown == 0)[:, None]
        return observation

    def success(self, reward: Rewards, episode_return: Rewards, terminated: Flags) -> Flags:
        """The last action is the bit that was asked for."""
        return reward > 0

    def other(self, state: Arrays) -> Arrays:
        """The bit that is asked for is the other one."""
        context, env_ids = state["context"].copy(), np.arange(len(state["query"]))
        context[env_ids, state["query"]] ^= 1
        return state | {"context": context}

    def picture(self, env_id: int) -> NDArray[np.uint8]:
        """The bits, green for 1 and red for 0, the one that is asked for larger, above the time gone by.

        The agent sees the bits in the first two timesteps only.
        """
        picture = np.full((2 * TILE, self._bits * TILE, 3), FLOOR, np.uint8)
        for bit, value in enumerate(self.context[env_id].tolist()):
            edge = 2 if bit == self.query[env_id] else TILE // 4
            tile = picture[:TILE, bit * TILE : (bit + 1) * TILE]
            tile[edge:-edge, edge:-edge] = GREEN if value else RED
        bar = picture[TILE:]
        bar[:] = WALL
        bar[4:-4, : round(self.time[env_id] / (self._length + 1) * bar.shape[1])] = AGENT
        return picture


def find(id: str) -> Native:
    """One of the experiments' tasks, or one of any other length or number of bits."""
    right = "bsuite-memory-len-<length> or bsuite-memory-size-<number of bits>, with a number from 1 to 99999"
    name = match_name(id, r"bsuite-memory-(len|size)-([1-9]\d{0,4})", right)
    number = int(name[2])
    length, bits = (number, 1) if name[1] == "len" else (_LENGTH_OF_SIZES, number)
    of_bits = "a bit" if bits == 1 else f"one of {bits} bits"
    return functools.partial(MemoryChainDynamics, length, bits), {
        "description": f"Recall {of_bits}, shown at the start, after {length} steps.",
        "success": "the last action is the bit that is asked for (its reward is 1)",
        "best_return": 1.0,
        "source": "bsuite (arXiv 1908.03568)",
        "horizon": length + 2,
    }
