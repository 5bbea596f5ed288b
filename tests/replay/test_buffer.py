"""The buffer beyond its comparison with the naive twin: batches by hand, resume, bytes, bad input."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from replay import Field, SequenceLayout, SequenceReplay, UniformSampler, replay_bytes
from replay.samplers import Draw
from tests.replay.streams import FIELDS, Streams, append_episode, proportional, small_replay


def arrays_of(value: Any, seen: set[int]) -> int:
    """Bytes of every array that an object holds, however deep."""
    if id(value) in seen:
        return 0
    seen.add(id(value))
    if isinstance(value, np.ndarray):  # a view of an array counts as that array, once
        return value.nbytes if value.base is None else arrays_of(value.base, seen)
    if isinstance(value, dict):
        return sum(arrays_of(item, seen) for item in value.values())
    return sum(arrays_of(item, seen) for item in getattr(value, "__dict__", {}).values())


@pytest.mark.parametrize(("capacity", "num_streams"), [(200, 1), (1000, 7), (50_001, 32)])
def test_bytes_are_those_allocated(capacity: int, num_streams: int) -> None:
    replay = small_replay(capacity=capacity, num_streams=num_streams)
    assert replay_bytes(FIELDS, capacity, num_streams) == arrays_of(replay, set())


def test_batch_by_hand() -> None:
    """learn 4, n 2, burn_in 2, window 4, an episode of 12 rows: the sequence at sequence start 8.

    timestep        0  1  2  3  4  5  6  7  8  9 10 11
    block            m  m  m  m  b  b  =  =  =  .
    """
    replay, streams = small_replay(), Streams(1)
    ids = append_episode(replay, streams, 0, 12)
    assert ids == [0, 4, 8]
    replay.update_priorities(ids, [0.0, 0.0, 1e6])
    batch, info = replay.sample(1, np.random.default_rng(0))
    assert info.ids.tolist() == [8]
    assert (batch.memory["hidden"] - 0.125).tolist() == [[5.0]]
    assert batch.memory["trace"][0, :, 0, 0].tolist() == [2.0, 3.0, 4.0, 5.0]
    assert batch.memory_valid.tolist() == [[True] * 4]
    assert (batch.burn_in["observation"][0, :, 1] - 1).tolist() == [6, 7]
    assert (batch.learn["observation"][0, :, 1] - 1).tolist() == [8, 9, 10, 11]
    assert batch.learn["last"].tolist() == [[False, False, False, True]]
    assert (batch.burn_in_timesteps, batch.learn_timesteps, batch.learned_steps, batch.episode_step) == (
        2,
        4,
        3,
        6,
    )


def test_padding_and_cropping_by_hand() -> None:
    """A whole sequence beside an episode of one transition: timesteps are padded right, memory left."""
    replay, streams = small_replay(), Streams(1)
    ids = append_episode(replay, streams, 0, 9) + append_episode(replay, streams, 0, 2)
    assert ids == [0, 4, 9]
    replay.update_priorities(ids, [0.0, 1.0, 1.0])
    batch, info = replay.sample(2, np.random.default_rng(0))
    assert info.ids.tolist() == [4, 9]
    assert batch.memory_valid.tolist() == [[True, True], [False, False]]  # 2 timesteps of 4: cropped
    assert batch.memory["trace"].shape == (2, 2, 2, 3)
    assert (batch.learn["observation"][:, :, 1] - 1).tolist() == [[4, 5, 6, 7, 8], [9, 10, 10, 10, 10]]
    assert batch.learned_steps.tolist() == [4, 1]
    assert batch.burn_in_timesteps.tolist() == [2, 0]
    assert (batch.burn_in["observation"][:, :, 1] - 1).tolist() == [[2, 3], [9, 9]]


def test_blocks_may_be_empty() -> None:
    replay, streams = small_replay(), Streams(1)
    append_episode(replay, streams, 0, 3)
    batch, _ = replay.sample(2, np.random.default_rng(0))
    assert batch.memory["trace"].shape == (2, 0, 2, 3)
    assert batch.memory_valid.shape == (2, 0)
    assert batch.burn_in["observation"].shape == (2, 0, 2)
    assert batch.learn["observation"].shape == (2, 3, 2)
    timesteps, counts, learned = replay.learn_timesteps([], ["q_max"])
    assert (timesteps["q_max"].shape, len(counts), len(learned)) == ((0, 0), 0, 0)
    assert len(replay.prefix([], ["q_max"]).counts) == 0


def test_a_network_without_memory() -> None:
    fields = {name: replace(FIELDS[name], window=0) for name in ("observation", "first", "last")}
    replay = SequenceReplay(fields, SequenceLayout(1, 1, 0, 1), 3, 1, proportional(0.9, 0.6))
    for step in range(8):
        timesteps = {"observation": [[1, step]], "first": [step == 0], "last": [False]}
        replay.append({name: np.array(value) for name, value in timesteps.items()})
    batch, _ = replay.sample(2, np.random.default_rng(0))
    assert batch.memory == {}
    assert batch.memory_valid.shape == (2, 0)
    assert batch.learn["observation"][:, :, 1].tolist() == [[6, 7], [5, 6]]  # slots 0 and 2 of the ring of 3


def test_eviction_waits_for_the_last_row_that_is_needed() -> None:
    """Ring of 13 timesteps, reach 6 (window 4 + burn_in 2): an endless episode, sequence starts 0, 4, 8, ...

    Step t overwrites step t - 13. Anchor 0, 4 need step 0; sequence start 8 needs step 2; sequence start 12
    needs step 6.
    """
    replay, streams = small_replay(capacity=13), Streams(1)
    alive = []
    for step in range(21):
        timesteps = streams.timesteps(np.array([0]), np.array([step == 0]), np.array([False]))
        replay.append(timesteps)
        alive.append([id_ for id_ in range(0, 24, 4) if replay.update_priorities([id_], [1.0])])
    assert alive[12] == [0, 4]
    assert alive[13] == [4, 8][1:]  # step 0 is gone, and with it sequence starts 0 and 4
    assert alive[14] == [8]
    assert alive[15] == []  # step 2 is gone
    assert alive[17] == [12]
    assert alive[18] == [12]
    assert alive[19] == []  # step 6 is gone


def run_on(
    replay: SequenceReplay, streams: Streams, random: np.random.Generator, vector_steps: int
) -> list[Any]:
    """Random operations; everything that comes out of them."""
    out: list[Any] = []
    for _ in range(vector_steps):
        which = np.arange(replay.num_streams)
        last = random.random(len(which)) < 0.1
        out.append(replay.append(streams.timesteps(which, ~streams.open, last)))
        if replay.num_sequences:
            batch, info = replay.sample(4, random)
            out += [info, batch, replay.update_priorities(info.ids, random.exponential(1.0, 4))]
    return out


@pytest.mark.parametrize("vector_steps", [0, 5, 40, 500])
def test_state_continues_bit_for_bit(vector_steps: int) -> None:
    original, streams = small_replay(capacity=150, num_streams=3), Streams(3)
    random = np.random.default_rng(0)
    run_on(original, streams, random, vector_steps)
    state = original.get_state()
    assert all(len(ring) == original.num_steps for ring in state["rows"].values())  # timesteps in use only

    resumed, streams_too = small_replay(capacity=150, num_streams=3), Streams(3)
    run_on(resumed, Streams(3), np.random.default_rng(9), 17)  # what was in it before does not matter
    resumed.set_state(state)
    streams_too.count, streams_too.open = streams.count.copy(), streams.open.copy()
    random_too = np.random.default_rng()
    random_too.bit_generator.state = random.bit_generator.state
    expected = run_on(
        original, streams, random, 200
    )  # the saved state is an environment: going on does not change it
    np.testing.assert_equal(run_on(resumed, streams_too, random_too, 200), expected)
    np.testing.assert_equal(resumed.get_state(), original.get_state())


def test_state_is_arrays_and_json() -> None:
    replay, streams = small_replay(), Streams(1)
    append_episode(replay, streams, 0, 20)

    def check(value: Any) -> None:
        if isinstance(value, dict):
            for item in value.values():
                check(item)
        elif not isinstance(value, np.ndarray):
            assert json.loads(json.dumps(value)) == value

    check(replay.get_state())


def test_state_of_another_replay_is_refused() -> None:
    replay, streams = small_replay(), Streams(1)
    append_episode(replay, streams, 0, 20)
    state = replay.get_state()
    for other, message in (
        (small_replay(capacity=201), "steps_per_stream is 200; this replay has 201"),
        (small_replay(capacity=400, num_streams=2), "num_streams is 1; this replay has 2"),
        (small_replay(SequenceLayout(3, 3, 2, 2)), "layout is"),
    ):
        with pytest.raises(ValueError, match=message):
            other.set_state(state)
    state["rows"]["reward"] = state["rows"]["reward"].astype(np.float64)
    with pytest.raises(ValueError, match=r"reward is float64\(20,\); it must be float32\(20,\)"):
        small_replay().set_state(state)
    del state["rows"]["reward"]
    with pytest.raises(ValueError, match="fields differ in reward"):
        small_replay().set_state(state)


def one_row(**changed: Any) -> dict[str, Any]:
    timesteps = Streams(1).timesteps(np.array([0]), np.array([True]), np.array([False]))
    return timesteps | changed


def test_floats_saturate() -> None:
    """1e6 does not fit into float16; it becomes the largest value that does, as inf does. A NaN stays."""
    replay = small_replay()
    values = np.array([1e6, -1e6, np.inf, -np.inf, 65_519.0, np.nan], np.float32)
    with np.errstate(all="raise"), pytest.warns(UserWarning, match="trace: float16 ends at 65504"):
        replay.append(one_row(trace=values.reshape(1, 2, 3), hidden=np.array([1e300])))
    assert replay.saturated == 5
    state = replay.get_state()
    replay = small_replay()
    replay.set_state(state)
    replay.append(one_row(first=np.array([False]), last=np.array([True])))
    assert replay.saturated == 5
    timesteps, _, _ = replay.learn_timesteps([0], ["trace", "hidden"])
    np.testing.assert_array_equal(
        timesteps["trace"][0, 0].ravel(), [65504, -65504, 65504, -65504, 65504, np.nan]
    )
    assert timesteps["hidden"][0, 0] == np.finfo(np.float32).max


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"prev_action": np.array([300])}, "prev_action: value 300 does not fit the field's dtype uint8"),
        ({"prev_action": np.array([-1])}, "prev_action: value -1 does not fit the field's dtype uint8"),
        ({"prev_action": np.array([0.5])}, "prev_action: value 0.5 does not fit the field's dtype uint8"),
        ({"first": np.array([2])}, "first: value 2 does not fit the field's dtype bool"),
        ({"reward": np.array([[1.0]])}, r"reward: shape is (1, 1); it must be (1,)"),
        ({"extra": np.array([1])}, "rows: fields differ in extra"),
        ({"first": np.array([False])}, "first: False in stream 0 after an episode's end"),
    ],
)
def test_bad_rows_are_refused_whole(changed: dict[str, Any], message: str) -> None:
    replay = small_replay()
    with pytest.raises(ValueError, match=re.escape(message)):
        replay.append(one_row(**changed))
    assert replay.num_steps == 0
    replay.append(one_row())  # as if nothing had been


def test_exact_conversions_are_fine() -> None:
    """An int64 action, a float reward from an integer, a bool from 0 and 1."""
    replay = small_replay()
    replay.append(one_row(prev_action=np.array([255]), reward=np.array([-3]), last=np.array([0])))
    assert replay.num_steps == 1


@pytest.mark.parametrize(
    ("streams", "message"),
    [
        ([0, 0], "streams: 0 is given twice"),
        ([1, 2], "streams: 2 is no stream; use 0 to 1"),
        ([-1, 0], "streams: -1 is no stream"),
        ([0.0, 1.0], "give integers"),
    ],
)
def test_bad_streams(streams: list[float], message: str) -> None:
    replay = small_replay(num_streams=2)
    timesteps = Streams(2).timesteps(np.array([0, 1]), np.array([True, True]), np.array([False, False]))
    with pytest.raises(ValueError, match=message):
        replay.append(timesteps, streams)
    with pytest.raises(ValueError, match=message):
        replay.end_episodes(streams)


def test_bad_fields() -> None:
    layout = SequenceLayout(4, 4, 2, 2)
    ends = {"first": Field((), np.bool_, "timesteps"), "last": Field((), np.bool_, "timesteps")}
    for fields, message in (
        ({"first": ends["first"]}, "'last' is missing"),
        (
            ends | {"last": Field((), np.uint8, "timesteps")},
            r"last is .*; it must be Field\(\(\), bool, 'timesteps'\)",
        ),
        (
            ends | {"x": Field((), np.float32, "memory")},
            "x.window is 0; it must be at least 1 for block 'memory'",
        ),
        (ends | {"x": Field((), np.float32, "stored", 2)}, "x.window is 2; it must be 0 for block 'stored'"),
        (ends | {"x": Field((), np.float32, "timesteps", -1)}, "x.window is -1; it must be at least 0"),
        (ends | {"x": Field((), np.float32, "elsewhere")}, "x.block is 'elsewhere'"),  # type: ignore[arg-type]
        (ends | {"x": Field((), object, "timesteps")}, "x.dtype is object"),
        (
            ends | {"episode_step": Field((), np.int64, "timesteps")},
            "'episode_step' is kept by the replay itself",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            SequenceReplay(fields, layout, 100, 1, UniformSampler)


def test_capacity_must_hold_a_sequence() -> None:
    """window 4 + burn_in 2 + learn 4 + n 2 = 12 steps: 13 a stream."""
    small_replay(capacity=26, num_streams=2)
    with pytest.raises(ValueError, match=r"capacity is 25, 12 steps a stream; it must be at least 26"):
        small_replay(capacity=25, num_streams=2)
    with pytest.raises(ValueError, match="num_streams is 0"):
        small_replay(num_streams=0)


def test_unknown_names_and_ids() -> None:
    replay, streams = small_replay(), Streams(1)
    ids = append_episode(replay, streams, 0, 5)
    with pytest.raises(ValueError, match="names: 'q_min' is not a field"):
        replay.learn_timesteps(ids, ["q_min"])
    for wrong in (1, 3, 4000, -200):  # no sequence starts: inside, of no episode, not there yet, never
        with pytest.raises(ValueError, match=f"ids: {wrong} is no sampleable sequence"):
            replay.learn_timesteps([wrong], ["q_max"])
        assert replay.update_priorities([wrong], [5.0]) == 0
        assert not replay.prefix([wrong], ["q_max"]).available.any()
    assert replay.sampler.max_priority == 1.0


def test_written_back_is_what_is_sampled() -> None:
    """In the field's dtype, saturated; other fields of the timestep stay."""
    replay, streams = small_replay(), Streams(1)
    ids = append_episode(replay, streams, 0, 12)
    replay.update_priorities(ids, [0.0, 0.0, 1e6])
    fresh = np.full((2, 2, 3), 1e9)
    assert replay.write_back([8, 8], [-3, -4], {"trace": fresh}) == 2
    batch, _ = replay.sample(1, np.random.default_rng(0))
    assert batch.memory["trace"][0, :, 0, 0].tolist() == [2.0, 3.0, 65504.0, 65504.0]
    assert (batch.memory["hidden"] - 0.125).tolist() == [[5.0]]
    with pytest.raises(ValueError, match="values: 'reward' is of block 'timesteps'"):
        replay.write_back([8], [0], {"reward": [1.0]})
    with pytest.raises(ValueError, match=r"trace: shape is \(1, 3\); it must be \(1, 2, 3\)"):
        replay.write_back([8], [0], {"trace": np.zeros((1, 3))})


def test_a_cut_episode_ends_at_a_last_row() -> None:
    """However it ended, the last timestep of an ended episode says so."""
    replay, streams = small_replay(), Streams(1)
    append_episode(replay, streams, 0, 3, ended=False)
    append_episode(replay, streams, 0, 3, ended=False)
    assert replay.end_episodes().tolist() == [3]
    assert replay.end_episodes().tolist() == []
    timesteps, counts, _ = replay.learn_timesteps([0, 3], ["last"])
    assert counts.tolist() == [3, 3]
    assert timesteps["last"].tolist() == [[False, False, True]] * 2


class Newest:
    """A sampler of nothing but the protocol: it draws the sequence that came last."""

    max_priority = 1.0

    def __init__(self, num_slots: int) -> None:
        self.born: dict[int, int] = {}
        self.told: list[int] = []

    @property
    def num_sequences(self) -> int:
        return len(self.born)

    def contains(self, slots: np.ndarray) -> np.ndarray:
        return np.isin(slots, list(self.born))

    def insert(self, slots: np.ndarray, born: int) -> None:
        self.told.append(born)
        self.born |= dict.fromkeys(slots.tolist(), born)

    def remove(self, slots: np.ndarray) -> None:
        for slot in slots.tolist():
            del self.born[slot]

    def sample(self, batch_size: int, generator: np.random.Generator) -> Draw:
        newest = max(self.born, key=lambda slot: self.born[slot])
        ones = np.ones(batch_size)
        return Draw(np.full(batch_size, newest), ones, ones.astype(np.float32))


def test_the_buffer_knows_a_sampler_by_its_protocol() -> None:
    """It is told how many timesteps there are when a sequence comes: the episode of 12 timesteps completes 5,
    9, 11."""
    layout = SequenceLayout(learn_length=4, sequence_period=4, burn_in_length=2, n_step=2)
    made: list[Newest] = []

    def sampler(num_slots: int) -> Any:
        made.append(Newest(num_slots))
        return made[-1]

    replay, streams = SequenceReplay(FIELDS, layout, 40, 1, sampler), Streams(1)
    assert append_episode(replay, streams, 0, 12) == [0, 4, 8]
    assert made[0].told == [6, 10, 12]
    _, info = replay.sample(2, np.random.default_rng(0))
    assert info.ids.tolist() == [8, 8]
    for length in (12, 12, 12):
        append_episode(replay, streams, 0, length)
    assert replay.num_sequences == len(made[0].born) < 12, "those that are overwritten are taken out"
    assert replay.sample(1, np.random.default_rng(0))[1].ids.tolist() == [44]
