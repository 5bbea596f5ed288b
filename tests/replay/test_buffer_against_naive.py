"""The replay and its naive twin, over random operation sequences: equal in every id, probability and
timestep."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from replay import Prefix, SampleInfo, SequenceBatch, SequenceLayout, SequenceReplay, UniformSampler
from tests.reference.naive_replay import NaiveReplay
from tests.replay.streams import FIELDS, Streams, proportional

WINDOW = max(field.window for field in FIELDS.values())
ROW_NAMES = [name for name, field in FIELDS.items() if field.block == "timesteps"]


@st.composite
def setups(draw: st.DrawFn) -> tuple[SequenceReplay, NaiveReplay]:
    learn_length = draw(st.integers(1, 6))
    layout = SequenceLayout(
        learn_length=learn_length,
        sequence_period=draw(st.integers(1, learn_length)),
        burn_in_length=draw(st.integers(0, 5)),
        n_step=draw(st.integers(1, 4)),
    )
    num_streams = draw(st.integers(1, 3))
    needed = WINDOW + layout.burn_in_length + layout.learn_length + layout.n_step
    steps_per_stream = needed + draw(st.integers(1, 30))
    capacity = steps_per_stream * num_streams + draw(st.integers(0, num_streams - 1))
    exponents = draw(st.sampled_from([(0.9, 0.6), (0.0, 0.0), (1.0, 1.0), (0.5, 0.0)]))
    arguments = (FIELDS, layout, capacity, num_streams)
    is_uniform = exponents == (0.0, 0.0) and draw(st.booleans())
    sampler = UniformSampler if is_uniform else proportional(*exponents)
    return SequenceReplay(*arguments, sampler), NaiveReplay(*arguments, *exponents)


def real(batch_block: np.ndarray, timestep: int, count: int) -> np.ndarray:
    return batch_block[timestep, :count]


def check_batch(replay: SequenceReplay, naive: NaiveReplay, batch: SequenceBatch, info: SampleInfo) -> None:
    probabilities = naive.probabilities()
    ids = [int(id_) for id_ in info.ids]
    np.testing.assert_allclose(info.probabilities, [probabilities[id_] for id_ in ids], rtol=1e-9)
    np.testing.assert_allclose(info.importance_weights, naive.weights(ids), rtol=1e-5)
    expected = [naive.sequence(id_) for id_ in ids]
    # Cropped to the longest real member.
    longest_memory = max(len(sequence["memory"]["trace"]) for sequence in expected)
    assert batch.memory_valid.shape == (len(ids), longest_memory)
    assert batch.memory["trace"].shape == (len(ids), longest_memory, 2, 3)
    assert batch.memory["hidden"].shape == (len(ids), min(1, longest_memory))
    for name in ROW_NAMES:
        assert batch.burn_in[name].shape[1] == max(len(sequence["burn_in"]) for sequence in expected)
        assert batch.learn[name].shape[1] == max(len(sequence["learn"]) for sequence in expected)
    assert set(batch.burn_in) == set(batch.learn) == set(ROW_NAMES)
    for i, sequence in enumerate(expected):
        for name in ("observation", "trace", "hidden"):
            timesteps, got = sequence["memory"][name], batch.memory[name][i]
            width = got.shape[0]
            valid = batch.memory_valid[i, longest_memory - width :]
            np.testing.assert_array_equal(valid, np.arange(width) >= width - len(timesteps))
            assert got.dtype == FIELDS[name].dtype
            if timesteps:
                np.testing.assert_array_equal(got[width - len(timesteps) :], np.stack(timesteps))
        assert batch.burn_in_timesteps[i] == len(sequence["burn_in"])
        assert batch.learn_timesteps[i] == len(sequence["learn"])
        assert batch.learned_steps[i] == sequence["learned_steps"]
        assert batch.episode_step[i] == sequence["episode_step"]
        for name in ROW_NAMES:
            for block, timesteps in ((batch.burn_in, sequence["burn_in"]), (batch.learn, sequence["learn"])):
                assert block[name].dtype == FIELDS[name].dtype
                if timesteps:
                    np.testing.assert_array_equal(
                        real(block[name], i, len(timesteps)),
                        np.stack([timestep[name] for timestep in timesteps]),
                    )
        # Padding is in range: timesteps that were really written, of the same stream.
        own_stream = sequence["learn"][0]["observation"][0]
        for block in (batch.burn_in, batch.learn):
            assert (block["observation"][i, :, 0] == own_stream).all()
            assert (block["observation"][i, :, 1] >= 1).all()


def check_rows_of(replay: SequenceReplay, naive: NaiveReplay, ids: list[int]) -> None:
    timesteps, counts, learned = replay.learn_timesteps(ids, ["q_max", "trace", "observation"])
    for i, id_ in enumerate(ids):
        sequence = naive.sequence(id_)
        assert (counts[i], learned[i]) == (len(sequence["learn"]), sequence["learned_steps"])
        for name, values in timesteps.items():
            expected = np.stack([timestep[name] for timestep in sequence["learn"]])
            np.testing.assert_array_equal(real(values, i, counts[i]), expected)


def check_prefix(naive: NaiveReplay, prefix: Prefix, ids: list[int]) -> None:
    expected = [naive.prefix(id_) for id_ in ids]
    np.testing.assert_array_equal(prefix.available, [found is not None for found in expected])
    kept = [(id_, found) for id_, found in zip(ids, expected, strict=True) if found is not None]
    assert len(kept) == len(prefix.counts)
    for i, (id_, (timesteps, start)) in enumerate(kept):
        assert (prefix.counts[i], prefix.starts[i]) == (len(timesteps), start)
        assert prefix.learned_steps[i] == naive.sequence(id_)["learned_steps"]
        for name, values in prefix.timesteps.items():
            np.testing.assert_array_equal(
                real(values, i, len(timesteps)), np.stack([timestep[name] for timestep in timesteps])
            )


@settings(max_examples=25, deadline=None)
@given(
    setup=setups(),
    seed=st.integers(0, 2**32 - 1),
    last_rate=st.sampled_from([0.0, 0.03, 0.1, 0.3, 0.7]),
    cut_rate=st.sampled_from([0.0, 0.05]),
    absence=st.sampled_from([0.0, 0.4]),
    sequence_end_rate=st.sampled_from([0.0, 0.02, 0.2]),
)
def test_random_operations(
    setup: tuple[SequenceReplay, NaiveReplay],
    seed: int,
    last_rate: float,
    cut_rate: float,
    absence: float,
    sequence_end_rate: float,
) -> None:
    replay, naive = setup
    random = np.random.default_rng(seed)
    streams = Streams(replay.num_streams)
    ever: list[int] = []
    for _ in range(90):
        which = np.flatnonzero(random.random(replay.num_streams) >= absence)
        first = ~streams.open[which] | (random.random(len(which)) < cut_rate)
        timesteps = streams.timesteps(which, first, random.random(len(which)) < last_rate)
        explicit = len(which) < replay.num_streams or random.random() < 0.5
        new = [int(id_) for id_ in replay.append(timesteps, which if explicit else None)]
        assert sorted(new) == sorted(naive.append(timesteps, list(which)))
        if random.random() < 0.03:
            which = np.flatnonzero(random.random(replay.num_streams) < 0.5)
            ended = [int(id_) for id_ in replay.end_episodes(which)]
            assert sorted(ended) == sorted(naive.end_episodes(list(which)))
            streams.open[which] = False
            new += ended
        if random.random() < sequence_end_rate:
            ended = [int(id_) for id_ in replay.end_sequences()]
            assert sorted(ended) == sorted(naive.end_sequences())
            new += ended
        if ever and random.random() < 0.05:
            gone = np.unique(random.choice(ever, 3))  # overwritten ones too
            replay.forget(gone)
            naive.forget([int(id_) for id_ in gone])
        ever += new
        check_rows_of(replay, naive, new)
        assert replay.num_sequences == len(naive.sampleable())
        assert sorted(replay.ids()) == sorted(naive.sampleable())
        assert replay.num_steps == naive.num_steps()
        if ever and random.random() < 0.3:
            asked = random.choice(ever, 4)  # overwritten ones, repetitions
            asked[random.random(4) < 0.1] += replay.steps_per_stream * replay.num_streams  # not there yet
            priorities = random.exponential(2.0, 4) * (random.random(4) < 0.9)
            applied = naive.update_priorities([int(id_) for id_ in asked], list(priorities))
            assert replay.update_priorities(asked, priorities) == applied
            assert replay.sampler.max_priority == naive.max_priority
        if replay.num_sequences and random.random() < 0.2:
            draw_seed = int(random.integers(2**32))
            batch, info = replay.sample(5, np.random.default_rng(draw_seed))
            chosen = [int(id_) for id_ in info.ids]
            assert chosen == naive.sample_ids(5, np.random.default_rng(draw_seed))
            check_batch(replay, naive, batch, info)
            of_stream = batch.learn["observation"][:, 0, 0] - 1
            assert replay.streams_of(chosen).tolist() == of_stream.tolist()
            for one, other in zip(replay.take(chosen), batch, strict=True):
                np.testing.assert_equal(one, other)
            asked = [int(id_) for id_ in random.choice(ever, 3)]
            whole = replay.prefix(asked, ["observation", "trace"])
            check_prefix(naive, whole, asked)
            chunks = [
                replay.prefix(asked, ["trace"], at, at + 3).timesteps["trace"] for at in range(0, 99, 3)
            ]
            np.testing.assert_array_equal(np.concatenate(chunks, axis=1), whole.timesteps["trace"])
        if ever and random.random() < 0.3:
            # Overwritten timesteps, timesteps before any and not there yet, and some twice: the last one
            # counts.
            ids, offsets = random.choice(ever, 9), random.integers(-6, 9, 9)
            ids[0], offsets[0] = ids[-1], offsets[-1]
            fresh = {"trace": random.normal(size=(9, 2, 3)) * 1e5, "hidden": random.normal(size=9)}
            written = naive.write_back([int(id_) for id_ in ids], [int(o) for o in offsets], fresh)
            assert replay.write_back(ids, offsets, fresh) == written
