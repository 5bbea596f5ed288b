"""Prioritised sequence replay: timesteps in, batches of sequences out.

Each step is stored once, however much sequences overlap and however long the memory is. A sequence is three
slices of its stream's ring, which are gathered when it is drawn.

            memory (W timesteps)          burn_in        learn (learn_length + n_step timesteps)
    ... |- - - - - - - - - - - - - - -|- - - - - -|= = = = = = = = = = = = = = = = =|. . .| ...
                               newest ^           ^ start                           n-step tail

No slice crosses an episode. So memory and burn_in are shorter near an episode's start (at the start they are
empty, because the initial state is exact), and learn is shorter near its end.

Shape legend: n timesteps or sequences, B batch, N streams, S steps a stream; timesteps: W of memory, P of
burn-in, R of the learned segment.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from replay.accumulator import Accumulator, SequenceLayout, SequenceStarts
from replay.samplers import Sampler, checked_priorities, sampler_bytes
from replay.storage import Array, Bools, Field, Floats, Ints, StepRings, checked_fields, fit, timestep_bytes

# Two more values a step, kept in the rings with the caller's: the timestep's number in its episode, and,
# where a sequence starts at it, how many real timesteps that sequence's learned segment has.
_EPISODE_STEP, _LEARN_TIMESTEPS = "episode_step", "sequence_learn_rows"
_OWN_FIELDS = {_EPISODE_STEP: Field((), np.int32, "stored"), _LEARN_TIMESTEPS: Field((), np.int32, "stored")}


class SequenceBatch(NamedTuple):
    """B sequences, cropped to the longest real one in each block.

    burn_in and learn are padded on the right, memory on the left. Padding is a copy of some real timestep, so
    that it is in range for any embedding; it must never be read. The arrays of burn_in and learn are strided
    views of one gathered array.
    """

    memory: dict[str, Array]
    """Fields with a window, [B, min(W, window), ...]: what lies before the sequence, newest last."""
    memory_valid: Bools
    """[B, W] True where a memory timestep is real; for a field of a smaller window its last columns."""
    burn_in: dict[str, Array]
    """Fields of block `timesteps`, [B, P, ...]: up to burn_in_length before the start, of its episode."""
    burn_in_timesteps: Ints
    """[B] real timesteps of burn_in; 0 at an episode's start."""
    learn: dict[str, Array]
    """Fields of block `timesteps`, [B, R, ...]: from the start on; R <= learn_length + n_step."""
    learn_timesteps: Ints
    """[B] real timesteps of learn."""
    learned_steps: Ints
    """[B] steps with a TD error, from the start on: the mask is arange(R) < learned_steps."""
    episode_step: Ints
    """[B] number in its episode of the sequence's first timestep (the start, where there is no burn_in)."""


class SampleInfo(NamedTuple):
    """Facts about the sequences of a batch, apart from their content."""

    ids: Ints
    """[B] for `update_priorities`, `learn_timesteps` and `prefix`."""
    importance_weights: npt.NDArray[np.float32]
    """[B] (N P(i))^-beta over its batch maximum, N the sequences that can be sampled."""
    probabilities: Floats
    """[B] P(i)."""


class Prefix(NamedTuple):
    """Sequences from their episode's first timestep on, where that is still stored."""

    timesteps: dict[str, Array]
    """[m, T, ...] from the episode's first one to the learned segment's last, or the part that was asked for;
    right-padded like a batch."""
    num_timesteps: Ints
    """[m] real timesteps."""
    starts: Ints
    """[m] index of the sequence start, the first learned step, in those timesteps."""
    learned_steps: Ints
    """[m] learned steps from the start on."""
    available: Bools
    """[n] which of the ids these m are, in their order; the others have lost timesteps."""


def replay_bytes(fields: Mapping[str, Field], capacity: int, num_streams: int) -> int:
    """Bytes a SequenceReplay of these arguments takes once it is full, every array included."""
    num_slots = capacity // num_streams * num_streams
    per_step = timestep_bytes(fields) + timestep_bytes(_OWN_FIELDS)
    per_stream = 8 + 25  # the default `streams`, and the accumulator's three counters and one flag
    return num_slots * per_step + sampler_bytes(num_slots) + num_streams * per_stream


def _padded(counts: Ints) -> Ints:
    """[n, longest] offsets 0, 1, ..., count - 1, count - 1, ...: the last real timestep is repeated."""
    # A count of 0 has no real timestep to repeat; the timestep after the block, always a real one, stands in.
    return np.minimum(np.arange(counts.max(initial=0)), np.maximum(counts - 1, 0)[:, None])


class SequenceReplay:
    """Rings of timesteps for several streams, and the sequences in them that can be sampled.

    A sequence starts at a timestep, so it needs no table entry: its leaf in the sum tree is its start's slot.
    An id is `start * num_streams + stream`, with the start's number in its stream. It is unique for ever, so
    that a priority that comes back after its sequence was overwritten is recognised.
    """

    def __init__(
        self,
        fields: Mapping[str, Field],
        layout: SequenceLayout,
        capacity: int,
        num_streams: int,
        sampler: Callable[[int], Sampler],
    ) -> None:
        """A ValueError says which argument cannot be.

        Args:
            capacity: in steps, over all streams.
            sampler: makes the sampler of so many slots.
        """
        self.fields = checked_fields(fields)
        for name in _OWN_FIELDS:
            if name in self.fields:
                raise ValueError(f"fields: {name!r} is kept by the replay itself; use another name")
        if num_streams < 1:
            raise ValueError(f"num_streams is {num_streams}; it must be at least 1")
        self.layout = layout
        self.num_streams = num_streams
        self.steps_per_stream = capacity // num_streams
        self._window = max((field.window for field in self.fields.values()), default=0)
        self._reach = layout.burn_in_length + self._window
        needed = self._reach + layout.max_learn_timesteps
        if self.steps_per_stream <= needed:
            raise ValueError(
                f"capacity is {capacity}, {self.steps_per_stream} steps a stream; it must be at least "
                f"{(needed + 1) * num_streams}, so that {num_streams} streams each hold more than: "
                f"memory window {self._window} + burn_in_length {layout.burn_in_length} + "
                f"learn_length {layout.learn_length} + n_step {layout.n_step} = {needed} steps"
            )
        num_slots = self.steps_per_stream * num_streams
        self._rings = StepRings(self.fields | _OWN_FIELDS, num_slots)
        self._accumulator = Accumulator(layout, num_streams)
        self.sampler = sampler(num_slots)
        self._all_streams = np.arange(num_streams)
        self._timestep_names = [name for name, field in self.fields.items() if field.block == "timesteps"]
        self._memory_names = [name for name, field in self.fields.items() if field.window]

    @property
    def num_sequences(self) -> int:
        """Sequences that can be sampled."""
        return self.sampler.num_sequences

    @property
    def num_steps(self) -> int:
        """Timesteps stored now, over all streams."""
        return int(np.minimum(self._accumulator.num_timesteps, self.steps_per_stream).sum())

    @property
    def saturated(self) -> int:
        """Numbers so far that reached the end of float16, and are stored as that."""
        return self._rings.saturated

    def append(self, timesteps: Mapping[str, npt.ArrayLike], streams: npt.ArrayLike | None = None) -> Ints:
        """Store one timestep for each of `streams` [n] (all of them, in order, by default).

        `timesteps` holds every field, [n, *shape]. Returns the ids of the sequences that these timesteps made
        sampleable. A timestep that is `first` where the episode before it had no `last` ends that episode as
        truncated at its last timestep. Nothing is stored if a ValueError is raised.
        """
        which = self._all_streams if streams is None else self._checked_streams(streams)
        if set(timesteps) != set(self.fields):
            odd = ", ".join(sorted(set(timesteps) ^ set(self.fields)))
            raise ValueError(f"timesteps: fields differ in {odd}; give exactly {', '.join(self.fields)}")
        values = {name: fit(name, timesteps[name], field, len(which)) for name, field in self.fields.items()}
        placed = self._accumulator.append(which, values["first"], values["last"])
        # Before anything is written: what needs the timesteps that go must not be drawn once more.
        self._forget_overwritten(which, placed.timesteps)
        values[_EPISODE_STEP] = placed.episode_steps
        values[_LEARN_TIMESTEPS] = np.zeros_like(placed.timesteps)  # none starts here yet
        self._rings.write(self._slots(which, placed.timesteps), values)
        if placed.cut.any():
            self._mark_last(which[placed.cut], placed.timesteps[placed.cut] - 1)
        return self._insert(placed.starts)

    def end_episodes(self, streams: npt.ArrayLike | None = None) -> Ints:
        """End the open episodes of `streams` (all by default) as truncated at their last timestep.

        For a worker that died or a run that ends. Returns the ids that this made sampleable. These streams'
        next timestep must be `first`.
        """
        which = self._all_streams if streams is None else self._checked_streams(streams)
        which = which[self._accumulator.is_open(which)]
        self._mark_last(which, self._accumulator.num_timesteps[which] - 1)
        return self._insert(self._accumulator.end_episodes(which))

    def end_sequences(self) -> Ints:
        """End all open sequences at the last timestep of their stream, from which they are bootstrapped.

        For learning from what there is now. Episodes go on: the next sequence of each open one starts at that
        timestep. Returns the ids that this made sampleable.
        """
        return self._insert(self._accumulator.end_sequences())

    def ids(self) -> Ints:
        """[n] the ids of all sequences that can be sampled, stream by stream."""
        return self._ids(*self._split(self.sampler.slots()))

    def streams_of(self, ids: npt.ArrayLike) -> Ints:
        """The stream that each sequence lies in."""
        streams: Ints = np.asarray(ids, np.int64) % self.num_streams
        return streams

    def forget(self, ids: npt.ArrayLike) -> None:
        """Let sequences `ids` [n], all different, be drawn no more; some may be gone already."""
        slots, alive = self._find(np.asarray(ids, np.int64))
        self.sampler.remove(slots[alive])

    def sample(self, batch_size: int, generator: np.random.Generator) -> tuple[SequenceBatch, SampleInfo]:
        """Draw a batch, with replacement, as the sampler does."""
        draw = self.sampler.sample(batch_size, generator)
        ids = self._ids(*self._split(draw.slots))
        return self._batch(draw.slots), SampleInfo(ids, draw.importance_weights, draw.probabilities)

    def take(self, ids: npt.ArrayLike) -> SequenceBatch:
        """The sampleable sequences `ids` [B], at least one, in this order."""
        return self._batch(self._found(ids))

    def _batch(self, starts: Ints) -> SequenceBatch:
        """The sequences that start at these slots [B]."""
        streams, positions = self._split(starts)
        start_steps = self._own(_EPISODE_STEP, starts)
        learn_timesteps = self._own(_LEARN_TIMESTEPS, starts)
        # Each block takes what the one after it has left of the episode, so none crosses its start.
        burn_in_timesteps = np.minimum(start_steps, self.layout.burn_in_length)
        episode_steps = start_steps - burn_in_timesteps
        memory_timesteps = np.minimum(episode_steps, self._window)

        # One run of slots a sequence, from its oldest memory on: memory, burn_in and learn, each padded.
        window, longest_burn_in, longest = (
            int(counts.max(initial=0)) for counts in (memory_timesteps, burn_in_timesteps, learn_timesteps)
        )
        ages = np.arange(window, 0, -1)  # the newest timestep, of age 1, is the last one
        offsets = np.empty((len(starts), window + longest_burn_in + longest), np.int64)
        memory_part, step_part = offsets[:, :window], offsets[:, window:]
        # Columns older than the memory repeat its oldest timestep; `memory_valid` tells them apart.
        np.maximum(memory_timesteps[:, None] - ages, 0, out=memory_part)
        step_part[:, :longest_burn_in] = _padded(burn_in_timesteps) + memory_timesteps[:, None]
        before = memory_timesteps + burn_in_timesteps
        step_part[:, longest_burn_in:] = _padded(learn_timesteps) + before[:, None]
        slots = self._wrapped(streams, positions - before, offsets)
        memory = {
            name: self._rings.gather(name, slots[:, max(0, window - self.fields[name].window) : window])
            for name in self._memory_names
        }
        timesteps = self._rings.gather_records(slots[:, window:])
        return SequenceBatch(
            memory=memory,
            memory_valid=ages <= memory_timesteps[:, None],
            burn_in={name: timesteps[name][:, :longest_burn_in] for name in self._timestep_names},
            burn_in_timesteps=burn_in_timesteps,
            learn={name: timesteps[name][:, longest_burn_in:] for name in self._timestep_names},
            learn_timesteps=learn_timesteps,
            learned_steps=self._learned(learn_timesteps),
            episode_step=episode_steps,
        )

    def update_priorities(self, ids: npt.ArrayLike, priorities: npt.ArrayLike) -> int:
        """Give sequences new priorities, at least 1e-6; returns how many of the `ids` [n] were still there.

        Ids of overwritten sequences are dropped. Where ids are equal, the last one counts.
        """
        given = np.asarray(ids, np.int64)
        checked = checked_priorities(priorities, len(given))
        slots, alive = self._find(given)
        self.sampler.update(slots[alive], checked[alive])
        return int(np.count_nonzero(alive))

    def write_back(
        self, ids: npt.ArrayLike, offsets: npt.ArrayLike, values: Mapping[str, npt.ArrayLike]
    ) -> int:
        """Give stored timesteps other values of fields of another block than `timesteps`: a fresher memory.

        Args:
            ids: [n] of sequences that were sampled, sampleable still or not.
            offsets: [n] which timestep: so many after the sequence's start, negative before it.
            values: field -> [n, *shape].
        Returns: how many of the timesteps were still there; what has been overwritten is left alone. Where
            timesteps are equal, the last one counts.
        """
        starts, streams = np.divmod(np.asarray(ids, np.int64), self.num_streams)
        timesteps = starts + np.asarray(offsets, np.int64)
        # Timesteps outlive their sequences: others still begin from them.
        stored = self._is_stored(streams, timesteps)
        fitted = {}
        for name in self._known(values):
            if self.fields[name].block == "timesteps":
                raise ValueError(f"values: {name!r} is of block 'timesteps'; only other fields can change")
            fitted[name] = fit(name, values[name], self.fields[name], len(timesteps))[stored]
        self._rings.overwrite(self._slots(streams, timesteps)[stored], fitted)
        return int(np.count_nonzero(stored))

    def learn_timesteps(
        self, ids: npt.ArrayLike, names: Iterable[str]
    ) -> tuple[dict[str, Array], Ints, Ints]:
        """Fields `names`, of any block, over the learned segments of `ids` [n]: for a first priority.

        Returns {name: [n, R, ...]}, right-padded like a batch, the real timesteps [n], the learned steps [n].
        """
        slots = self._found(ids)
        learn_timesteps = self._own(_LEARN_TIMESTEPS, slots)
        run = self._wrapped(*self._split(slots), _padded(learn_timesteps))
        gathered = {name: self._rings.gather(name, run) for name in self._known(names)}
        return gathered, learn_timesteps, self._learned(learn_timesteps)

    def prefix(
        self, ids: npt.ArrayLike, names: Iterable[str], start: int = 0, stop: int | None = None
    ) -> Prefix:
        """Whole histories of those sequences among `ids` [n] whose episode start is still stored.

        Run from the episode's first timestep they give the Q-values that no stored state has made stale. A
        long one can be read in chunks: timesteps `start` to `stop` - 1 of each, by default all of them.
        """
        given = np.asarray(ids, np.int64)
        slots, available = self._find(given)
        starts, streams = np.divmod(given, self.num_streams)
        before = self._own(_EPISODE_STEP, slots)
        available &= starts - before >= self._accumulator.num_timesteps[streams] - self.steps_per_stream
        slots, streams, starts, before = (array[available] for array in (slots, streams, starts, before))
        learn_timesteps = self._own(_LEARN_TIMESTEPS, slots)
        num_timesteps = before + learn_timesteps
        run = self._wrapped(streams, starts - before, _padded(num_timesteps))[:, start:stop]
        gathered = {name: self._rings.gather(name, run) for name in self._known(names)}
        return Prefix(gathered, num_timesteps, before, self._learned(learn_timesteps), available)

    def get_state(self, lazily: bool = False) -> dict[str, Any]:
        """All that a run needs to go on bit for bit, as nested dicts of arrays and JSON scalars.

        Slots of the rings that are not in use are left out.

        Args:
            lazily: give the rings as `storage.Gathered`, which hold until the next timestep is appended.
        """
        rings = self._rings.get_state(self._used_slots())
        return {
            "layout": dataclasses.asdict(self.layout),
            "num_streams": self.num_streams,
            "steps_per_stream": self.steps_per_stream,
            "accumulator": self._accumulator.get_state(),
            "sampler": self.sampler.get_state(),
            "saturated": self._rings.saturated,
            "rows": rings if lazily else {name: np.asarray(field) for name, field in rings.items()},
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Inverse of `get_state`, on a replay of the same arguments; a ValueError names one that differs."""
        for name, value in (
            ("layout", dataclasses.asdict(self.layout)),
            ("num_streams", self.num_streams),
            ("steps_per_stream", self.steps_per_stream),
        ):
            if state[name] != value:
                raise ValueError(f"replay state: {name} is {state[name]}; this replay has {value}")
        num_timesteps = np.asarray(state["accumulator"]["num_rows"])
        self._rings.set_state(state["rows"], self._used_slots(num_timesteps))
        self._accumulator.set_state(state["accumulator"])
        self.sampler.set_state(state["sampler"])
        self._rings.saturated = state.get("saturated", 0)

    # Timesteps that are overwritten, sequences that come and go.

    def _forget_overwritten(self, streams: Ints, new_timesteps: Ints) -> None:
        """Drop the sequences that need a timestep which `new_timesteps` is about to overwrite.

        The oldest one that a start at episode step k needs lies min(k, burn_in_length + window) before it. So
        the loss of timestep j drops the start that lies that whole reach after it and, if j is its episode's
        first timestep, all starts in between too.
        """
        full = new_timesteps >= self.steps_per_stream
        if not full.any():
            return
        streams, timesteps = streams[full], new_timesteps[full]
        episode_step = self._rings.arrays[_EPISODE_STEP]
        at_reach = self._slots(streams, timesteps + self._reach)
        lost = at_reach[(episode_step[at_reach] >= self._reach) & self.sampler.contains(at_reach)]
        first = episode_step[self._slots(streams, timesteps)] == 0
        if first.any():
            steps = np.arange(self._reach)
            nearer = self._slots(streams[first, None], timesteps[first, None] + steps)
            # A timestep that many steps after the first one is of the same episode if its own number says so.
            nearer = nearer[(episode_step[nearer] == steps) & self.sampler.contains(nearer)]
            lost = np.concatenate([lost, nearer])
        self.sampler.remove(lost)

    def _insert(self, starts: SequenceStarts) -> Ints:
        slots = self._slots(starts.streams, starts.timesteps)
        self._rings.arrays[_LEARN_TIMESTEPS][slots] = starts.learn_timesteps
        if len(slots):
            self.sampler.insert(slots, born=int(self._accumulator.num_timesteps.sum()))
        ids: Ints = starts.timesteps * self.num_streams + starts.streams
        return ids

    def _mark_last(self, streams: Ints, timesteps: Ints) -> None:
        """An episode that was cut short ends at a LAST timestep like any other."""
        self._rings.arrays["last"][self._slots(streams, timesteps)] = True

    # Slots, timesteps and ids.

    def _slots(self, streams: Ints, timesteps: Ints) -> Ints:
        return streams * self.steps_per_stream + timesteps % self.steps_per_stream

    def _split(self, slots: Ints) -> tuple[Ints, Ints]:
        """Stream and position in its ring."""
        streams = slots // self.steps_per_stream
        return streams, slots - streams * self.steps_per_stream

    def _ids(self, streams: Ints, positions: Ints) -> Ints:
        """Ids of the timesteps that are at these positions now."""
        newest = self._accumulator.num_timesteps[streams] - 1
        timesteps = newest - (newest - positions) % self.steps_per_stream
        ids: Ints = timesteps * self.num_streams + streams
        return ids

    def _find(self, ids: Ints) -> tuple[Ints, Bools]:
        """Slots of `ids` [n], and which of them are the sampleable sequences that these ids name."""
        timesteps, streams = np.divmod(ids, self.num_streams)
        slots = self._slots(streams, timesteps)
        return slots, self._is_stored(streams, timesteps) & self.sampler.contains(slots)

    def _is_stored(self, streams: Ints, timesteps: Ints) -> Bools:
        """[n] whether these timesteps of the streams have come and are not overwritten yet."""
        age = self._accumulator.num_timesteps[streams] - timesteps
        stored: Bools = (timesteps >= 0) & (age >= 1) & (age <= self.steps_per_stream)
        return stored

    def _found(self, ids: npt.ArrayLike) -> Ints:
        """Slots of sampleable `ids` [n]."""
        given = np.asarray(ids, np.int64)
        slots, alive = self._find(given)
        if not alive.all():
            wrong = given[~alive][0]
            raise ValueError(f"ids: {wrong} is no sampleable sequence; use ids that append has just returned")
        return slots

    def _wrapped(self, streams: Ints, positions: Ints, offsets: Ints) -> Ints:
        """[n, T] slots `offsets` [n, T] after `positions` [n], round the ring's end; offsets < T."""
        size = self.steps_per_stream
        starts = positions % size
        slots = (starts + streams * size)[:, None] + offsets
        # Few cross it, and a remainder over [n, T] costs more than the gather.
        crossing = starts + offsets.shape[1] > size
        if crossing.any():
            slots[crossing] -= size * (starts[crossing, None] + offsets[crossing] >= size)
        return slots

    def _own(self, name: str, slots: Ints) -> Ints:
        return self._rings.gather(name, slots).astype(np.int64)

    def _learned(self, learn_timesteps: Ints) -> Ints:
        """Learned steps of segments of so many timesteps; the last is bootstrapped from, never learned."""
        return np.minimum(learn_timesteps - 1, self.layout.learn_length)

    def _used_slots(self, num_timesteps: Ints | None = None) -> Ints:
        """Slots in use when streams have had `num_timesteps` [N] timesteps; by default, now."""
        counts = self._accumulator.num_timesteps if num_timesteps is None else num_timesteps
        positions = np.arange(self.steps_per_stream)
        used: Ints = np.flatnonzero(positions < counts[:, None])
        return used

    def _known(self, names: Iterable[str]) -> list[str]:
        known = list(names)
        for name in known:
            if name not in self.fields:
                raise ValueError(f"names: {name!r} is not a field; use some of {', '.join(self.fields)}")
        return known

    def _checked_streams(self, streams: npt.ArrayLike) -> Ints:
        checked = np.asarray(streams)
        if checked.ndim != 1 or (checked.size and checked.dtype.kind not in "iu"):
            raise ValueError(f"streams: {streams!r} are no stream numbers; give integers of shape [n]")
        checked = checked.astype(np.int64)
        outside = (checked < 0) | (checked >= self.num_streams)
        if outside.any():
            raise ValueError(f"streams: {checked[outside][0]} is no stream; use 0 to {self.num_streams - 1}")
        counts = np.bincount(checked, minlength=1)
        if counts.max() > 1:
            raise ValueError(f"streams: {counts.argmax()} is given twice; give each stream once a call")
        return checked
