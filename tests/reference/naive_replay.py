"""The slow, obvious twin of `replay.SequenceReplay`: lists of episodes and plain loops.

Nothing is decided at insertion and nothing is kept up to date: each question is answered from all episodes
that there ever were. It shares no code with the package; only the formula of an id is the same, since tests
compare ids.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class Episode:
    """Timesteps of one stream from a first timestep to a last one, or to the newest while it is open."""

    def __init__(self, start: int) -> None:
        self.start = start  # number of its first timestep in the stream
        self.timesteps: list[dict[str, np.ndarray]] = []
        self.ended = False
        self.cuts: list[int] = []  # steps at which sequences end and the next ones begin

    def starts(self, period: int) -> list[tuple[int, int | None]]:
        """(sequence start's step, the step of the timestep that its sequence has to end at); None: it is open
        still."""
        found: list[tuple[int, int | None]] = []
        ends: list[int | None] = [*self.cuts, len(self.timesteps) - 1 if self.ended else None]
        for start, end in zip([0, *self.cuts], ends, strict=True):
            last = len(self.timesteps) - 1 if end is None else end
            found += [(sequence_start, end) for sequence_start in range(start, last, period)]
        return found


class NaiveReplay:
    """Same arguments and, where the methods exist, same meaning as `SequenceReplay`."""

    def __init__(
        self, fields: dict, layout: Any, capacity: int, num_streams: int, alpha: float, beta: float
    ) -> None:
        self.fields, self.layout, self.num_streams = fields, layout, num_streams
        self.size = capacity // num_streams
        self.alpha, self.beta = alpha, beta
        self.window = max(field.window for field in fields.values())
        self.episodes: list[list[Episode]] = [[] for _ in range(num_streams)]
        self.priorities: dict[int, float] = {}  # of every sequence there ever was, by id
        self.max_priority = 1.0
        self.forgotten: set[int] = set()

    def append(self, timesteps: dict[str, np.ndarray], streams: list[int]) -> list[int]:
        for i, stream in enumerate(streams):
            timestep = {
                name: self.cast(timesteps[name][i], field.dtype) for name, field in self.fields.items()
            }
            episodes = self.episodes[stream]
            if timestep["first"]:
                if episodes and not episodes[-1].ended:
                    self.cut(episodes[-1])
                episodes.append(Episode(self.rows_so_far(stream)))
            episodes[-1].timesteps.append(timestep)
            episodes[-1].ended = bool(timestep["last"])
        return self.note_new()

    def end_episodes(self, streams: list[int]) -> list[int]:
        for stream in streams:
            if self.episodes[stream] and not self.episodes[stream][-1].ended:
                self.cut(self.episodes[stream][-1])
        return self.note_new()

    def end_sequences(self) -> list[int]:
        for episodes in self.episodes:
            if episodes and not episodes[-1].ended:
                episodes[-1].cuts.append(len(episodes[-1].timesteps) - 1)
        return self.note_new()

    def forget(self, ids: list[int]) -> None:
        self.forgotten |= set(ids)

    def update_priorities(self, ids: list[int], priorities: list[float]) -> int:
        alive = self.sampleable()
        applied = 0
        for id_, priority in zip(ids, priorities, strict=True):
            if id_ in alive:
                self.priorities[id_] = max(float(np.float32(priority)), float(np.float32(1e-6)))
                self.max_priority = max(self.max_priority, self.priorities[id_])
                applied += 1
        return applied

    def write_back(self, ids: list[int], offsets: list[int], values: dict[str, np.ndarray]) -> int:
        """Into the timesteps that are still stored, whatever episode they are of."""
        written = 0
        for i, (id_, offset) in enumerate(zip(ids, offsets, strict=True)):
            stream, number = id_ % self.num_streams, id_ // self.num_streams + offset
            for episode in self.episodes[stream]:
                step = number - episode.start
                if 0 <= step < len(episode.timesteps) and self.is_stored(stream, number):
                    for name, of_field in values.items():
                        episode.timesteps[step][name] = self.cast(of_field[i], self.fields[name].dtype)
                    written += 1
        return written

    def cut(self, episode: Episode) -> None:
        episode.ended = True
        episode.timesteps[-1]["last"] = np.True_

    @staticmethod
    def cast(value: np.ndarray, dtype: Any) -> np.ndarray:
        value, dtype = np.asarray(value), np.dtype(dtype)
        if dtype.kind == "f":
            largest = np.finfo(dtype).max
            value = np.where(value > largest, largest, np.where(value < -largest, -largest, value))
        return value.astype(dtype)

    def rows_so_far(self, stream: int) -> int:
        return sum(len(episode.timesteps) for episode in self.episodes[stream])

    def num_steps(self) -> int:
        return sum(min(self.rows_so_far(stream), self.size) for stream in range(self.num_streams))

    def is_stored(self, stream: int, timestep: int) -> bool:
        return timestep >= self.rows_so_far(stream) - self.size

    def sampleable(self) -> dict[int, tuple[int, Episode, int]]:
        """{id: (stream, episode, sequence start's step in it)}, in the order of the rings' slots."""
        found = []
        for stream in range(self.num_streams):
            oldest_stored = self.rows_so_far(stream) - self.size
            for episode in self.episodes[stream]:
                last = len(episode.timesteps) - 1
                for sequence_start, end in episode.starts(self.layout.sequence_period):
                    complete = end is not None
                    if not complete:
                        complete = sequence_start + self.layout.learn_length - 1 + self.layout.n_step <= last
                    if (episode.start + sequence_start) * self.num_streams + stream in self.forgotten:
                        complete = False
                    oldest = max(0, sequence_start - self.layout.burn_in_length - self.window)
                    if complete and episode.start + oldest >= oldest_stored:
                        found.append(
                            (stream, (episode.start + sequence_start) % self.size, episode, sequence_start)
                        )
        found.sort(key=lambda entry: entry[:2])
        return {
            (episode.start + sequence_start) * self.num_streams + stream: (stream, episode, sequence_start)
            for stream, _, episode, sequence_start in found
        }

    def note_new(self) -> list[int]:
        new = [id_ for id_ in self.sampleable() if id_ not in self.priorities]
        for id_ in new:
            self.priorities[id_] = self.max_priority
        return new

    def probabilities(self) -> dict[int, float]:
        mass = {id_: self.priorities[id_] ** self.alpha for id_ in self.sampleable()}
        total = sum(mass.values())
        return {id_: value / total for id_, value in mass.items()}

    def sample_ids(self, batch_size: int, generator: np.random.Generator) -> list[int]:
        probabilities = self.probabilities()
        chosen = []
        for i, jitter in enumerate(generator.random(batch_size)):
            point, total = (i + jitter) / batch_size, 0.0
            for candidate, probability in probabilities.items():
                total += probability
                if point < total:
                    chosen.append(candidate)
                    break
        return chosen

    def weights(self, ids: list[int]) -> list[float]:
        probabilities = self.probabilities()
        raw = [(len(probabilities) * probabilities[id_]) ** -self.beta for id_ in ids]
        return [weight / max(raw) for weight in raw]

    def sequence(self, id_: int) -> dict[str, Any]:
        """The blocks of one sequence as lists of timesteps, without padding."""
        _, episode, sequence_start = self.sampleable()[id_]
        start = sequence_start
        while start > 0 and sequence_start - start < self.layout.burn_in_length:
            start -= 1
        end = dict(episode.starts(self.layout.sequence_period))[sequence_start]
        last = len(episode.timesteps) - 1 if end is None else end
        learn = []
        for step in range(sequence_start, sequence_start + self.layout.learn_length + self.layout.n_step):
            if step <= last:
                learn.append(episode.timesteps[step])
        learned = [
            step
            for step in range(sequence_start, sequence_start + self.layout.learn_length)
            if step + 1 <= last
        ]
        return {
            "memory": {
                name: [timestep[name] for timestep in episode.timesteps[max(0, start - field.window) : start]]
                for name, field in self.fields.items()
                if field.window
            },
            "burn_in": episode.timesteps[start:sequence_start],
            "learn": learn,
            "learned_steps": len(learned),
            "episode_step": start,
        }

    def prefix(self, id_: int) -> tuple[list[dict[str, np.ndarray]], int] | None:
        """Timesteps from the episode's start to the learned segment's end, and the sequence start; None if
        not all stored."""
        if id_ not in self.sampleable():
            return None
        stream, episode, sequence_start = self.sampleable()[id_]
        if not self.is_stored(stream, episode.start):
            return None
        return episode.timesteps[:sequence_start] + self.sequence(id_)["learn"], sequence_start
