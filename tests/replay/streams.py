"""Timesteps whose content says where they belong, and random streams of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from replay import Field, ProportionalSampler, Sampler, SequenceLayout, SequenceReplay

FIELDS = {
    "observation": Field((2,), np.uint16, "timesteps", 3),  # (stream + 1, number + 1): 0 was never written
    "prev_action": Field((), np.uint8, "timesteps"),
    "reward": Field((), np.float32, "timesteps"),
    "first": Field((), np.bool_, "timesteps"),
    "last": Field((), np.bool_, "timesteps"),
    "q_max": Field((), np.float32, "stored"),
    "state": Field((2, 3), np.float16, "memory", 4),
    "hidden": Field((), np.float32, "memory", 1),
}


class Streams:
    """Several streams of episodes: `timesteps(streams, first, last)` makes the next one of each."""

    def __init__(self, num_streams: int) -> None:
        self.count = np.zeros(num_streams, np.int64)
        self.open = np.zeros(num_streams, np.bool_)

    def timesteps(self, streams: np.ndarray, first: np.ndarray, last: np.ndarray) -> dict[str, np.ndarray]:
        number = self.count[streams]
        self.count[streams] += 1
        self.open[streams] = ~last
        state = (streams * 1000.0 + number)[:, None, None] + np.arange(6.0).reshape(2, 3) / 8
        return {
            "observation": np.stack([streams + 1, number + 1], axis=1).astype(np.uint16),
            "prev_action": (number % 5).astype(np.uint8),
            "reward": (number * 0.25).astype(np.float32),
            "first": first,
            "last": last,
            "q_max": (number + streams * 0.5).astype(np.float32),
            "state": state.astype(np.float32),
            "hidden": (number + 0.125).astype(np.float32),
        }


def proportional(alpha: float, beta: float) -> Callable[[int], Sampler]:
    return partial(ProportionalSampler, priority_exponent=alpha, importance_sampling_exponent=beta)


def small_replay(
    layout: SequenceLayout | None = None, capacity: int = 200, num_streams: int = 1
) -> SequenceReplay:
    """A replay of FIELDS, small enough to go round its rings soon."""
    layout = layout or SequenceLayout(learn_length=4, sequence_period=4, burn_in_length=2, n_step=2)
    return SequenceReplay(FIELDS, layout, capacity, num_streams, proportional(0.9, 0.6))


def append_episode(
    replay: SequenceReplay, streams: Streams, stream: int, num_timesteps: int, ended: bool = True
) -> list[int]:
    """Append one whole episode to one stream; returns the ids that became sampleable."""
    which, ids = np.array([stream]), []
    for step in range(num_timesteps):
        last = ended and step == num_timesteps - 1
        ids.extend(replay.append(streams.timesteps(which, np.array([step == 0]), np.array([last])), which))
    return [int(id_) for id_ in ids]
