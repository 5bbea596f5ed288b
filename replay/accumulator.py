"""Turn a stream of timesteps into legal sequences; validity is decided here, once, at insertion.

A *sequence start* is the first learned step of a sequence. Timestep t of a stream holds observation_t, the
action a_{t-1} that led to it, reward_t and discount_t. So an episode of timesteps 0..e has T = e transitions,
and the learned steps of start s are s, s+1, ..., each with a TD error that looks n steps ahead. An episode of
T = 11 with learn_length 4, sequence_period 4, n_step 2 (`=` learned, `.` n-step tail, F first, L last one):

    timestep   F  1  2  3  4  5  6  7  8  9 10  L
    start 0    =  =  =  =  .  .                        sampleable when timestep 5 arrives
    start 4                =  =  =  =  .  .            sampleable when timestep 9 arrives
    start 8                            =  =  =  .      sampleable when L arrives: shorter, nothing is lost

L is bootstrapped from and never learned. With sequence_period == learn_length each transition of each
episode, however short, is learned in exactly one sequence; with a smaller period it is in at least one.
Starts are counted from the episode's first timestep, or from that at which `end_sequences` was last called.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from replay.storage import Array, Bools, Ints


@dataclass(frozen=True)
class SequenceLayout:
    """How sequences are cut out of episodes. All four are in timesteps of one stream."""

    learn_length: int
    """Steps of a sequence that get a TD error, where the episode is long enough."""
    sequence_period: int
    """Sequences start this many steps apart, from the episode's start (or `end_sequences`) on; at most
    learn_length."""
    burn_in_length: int
    """Timesteps before the start that are run without gradient, as far as the episode has them."""
    n_step: int
    """Timesteps past the last learned step that its n-step return needs."""

    def __post_init__(self) -> None:
        for name, least in (
            ("learn_length", 1),
            ("sequence_period", 1),
            ("burn_in_length", 0),
            ("n_step", 1),
        ):
            value = getattr(self, name)
            if value < least:
                raise ValueError(f"{name} is {value}; it must be at least {least}")
        if self.sequence_period > self.learn_length:
            raise ValueError(
                f"sequence_period is {self.sequence_period}; it must be at most learn_length, "
                f"{self.learn_length}, or the steps between sequences would never be learned"
            )

    @property
    def max_learn_timesteps(self) -> int:
        """Timesteps of a whole learned segment: the learned steps and their n-step tail."""
        return self.learn_length + self.n_step


class SequenceStarts(NamedTuple):
    """Sequences that have become sampleable; all arrays [n] int64."""

    streams: Ints
    timesteps: Ints
    """Where each sequence starts, counted from the first timestep that its stream ever had."""
    learn_timesteps: Ints
    """Real timesteps of the learned segment; min(learn_length, learn_timesteps - 1) get a TD error."""


class Placed(NamedTuple):
    """The place of one timestep a stream; arrays are parallel to the streams given."""

    timesteps: Ints
    """Its number in its stream."""
    episode_steps: Ints
    """Its number in its episode; 0 for a first timestep."""
    cut: Bools
    """True where an open episode had no last timestep: it has been ended, as truncated, at the one before."""
    starts: SequenceStarts


def _joined(parts: list[SequenceStarts]) -> SequenceStarts:
    if len(parts) == 1:
        return parts[0]
    return SequenceStarts(*(np.concatenate(column) for column in zip(*parts, strict=True)))


class Accumulator:
    """Follows the episodes of all streams at once and says which sequences each timestep completes."""

    def __init__(self, layout: SequenceLayout, num_streams: int) -> None:
        self._layout = layout
        self.num_timesteps = np.zeros(num_streams, np.int64)
        """Timesteps that each stream has had so far, overwritten ones included."""
        self._episode_start = np.zeros(num_streams, np.int64)
        self._origin = np.zeros(num_streams, np.int64)
        """The timestep from which sequence starts of the open episode are counted."""
        self._open = np.zeros(num_streams, np.bool_)

    def append(self, streams: Ints, first: Bools, last: Bools) -> Placed:
        """Take one timestep for each of `streams` [n], all different; a ValueError leaves all as it was."""
        timesteps, was_open = self.num_timesteps[streams], self._open[streams]
        if not (was_open | first).all():
            stream = streams[~(was_open | first)][0]
            raise ValueError(f"first: False in stream {stream} after an episode's end; it must be True")
        parts = []
        cut = was_open & first  # as when a worker has died
        if cut.any():
            parts.append(self._tail(streams[cut], timesteps[cut] - 1))
        episode_starts = np.where(first, timesteps, self._episode_start[streams])
        origins = np.where(first, timesteps, self._origin[streams])
        self._episode_start[streams], self._origin[streams] = episode_starts, origins
        self._open[streams] = ~last
        self.num_timesteps[streams] = timesteps + 1

        # A timestep completes one whole sequence at most: the one whose tail it ends.
        longest = self._layout.max_learn_timesteps
        start_steps = timesteps - origins - (longest - 1)
        whole = (start_steps >= 0) & (start_steps % self._layout.sequence_period == 0)
        starts = (origins + start_steps)[whole]
        parts.append(SequenceStarts(streams[whole], starts, np.full_like(starts, longest)))
        if last.any():
            parts.append(self._tail(streams[last], timesteps[last]))
        return Placed(timesteps, timesteps - episode_starts, cut, _joined(parts))

    def end_episodes(self, streams: Ints) -> SequenceStarts:
        """End the open episodes of `streams`, as truncated at the last timestep they had."""
        streams = streams[self._open[streams]]
        self._open[streams] = False
        return self._tail(streams, self.num_timesteps[streams] - 1)

    def end_sequences(self) -> SequenceStarts:
        """End all sequences at the last timestep of their stream; an open episode's next one starts there."""
        streams = np.flatnonzero(self._open)
        last_timesteps = self.num_timesteps[streams] - 1
        ended = self._tail(streams, last_timesteps)
        # The episode goes on, and so do its steps; sequence starts alone are counted anew.
        self._origin[streams] = last_timesteps
        return ended

    def is_open(self, streams: Ints) -> Bools:
        """True where a stream's last timestep was not an episode's last."""
        return self._open[streams]

    def _tail(self, streams: Ints, last_timesteps: Ints) -> SequenceStarts:
        """Starts of sequences that end at `last_timesteps` [n] and that no earlier timestep has completed."""
        period, whole = self._layout.sequence_period, self._layout.max_learn_timesteps
        origins = self._origin[streams]
        transitions = last_timesteps - origins
        # Complete are starts up to transitions - (whole - 1); the next multiple is the first pending one.
        first_pending = np.maximum((transitions - whole + 1) // period + 1, 0) * period
        # Rounded up. Each stream is given the same number of candidates, and `real` keeps what there is.
        most = -(-(whole - 1) // period)
        steps = first_pending[:, None] + np.arange(most) * period
        real = steps < transitions[:, None]
        learn_timesteps = np.minimum(transitions[:, None] - steps + 1, whole)
        index = np.nonzero(real)[0]
        return SequenceStarts(streams[index], origins[index] + steps[real], learn_timesteps[real])

    def get_state(self) -> dict[str, Array]:
        """The place of each stream, open episodes included."""
        return {name: array.copy() for name, array in self._arrays().items()}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Inverse of `get_state`."""
        for name, array in self._arrays().items():
            array[:] = state[name]

    def _arrays(self) -> dict[str, Array]:
        starts = {"episode_start": self._episode_start, "origin": self._origin}
        return {"num_rows": self.num_timesteps, **starts, "open": self._open}
