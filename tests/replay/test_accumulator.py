"""Tables of stream -> sequence starts.

In a stream F is a first timestep, - a timestep in between, L a last one, S an episode of a single timestep,
and | ends the open sequences. A table's right
side lists, under the timestep that completes them, `sequence start timestep:real learn timesteps` of each new
sequence.
"""

from __future__ import annotations

import numpy as np
import pytest

from replay.accumulator import Accumulator, SequenceLayout

TABLES = [
    # learn 4, period 4, n 2: a sequence start needs its 6 timesteps, or the episode's end.
    (
        (4, 4, 2),
        # 0 1 2 3 4 5   6 7 8 9   10  11
        "F - - - - -   - - - -   -   L",
        {5: ["0:6"], 9: ["4:6"], 11: ["8:4"]},
    ),
    # The last timestep is never learned: with 4 transitions there is no sequence start at 4.
    ((4, 4, 2), "F - - - L F", {4: ["0:5"]}),
    # With 5 transitions there is, and it learns one step.
    ((4, 4, 2), "F - - - - L F", {5: ["0:6", "4:2"]}),
    # Episodes shorter than anything: one transition, none at all.
    ((4, 4, 2), "F L S F L", {1: ["0:2"], 4: ["3:2"]}),
    # F without L before it ends the open episode one timestep earlier, as truncated.
    ((4, 4, 2), "F - - F - L", {3: ["0:3"], 5: ["3:3"]}),
    # ... where that episode has one timestep it has no transition.
    ((4, 4, 2), "F F L", {2: ["1:2"]}),
    # A first timestep that cuts and ends at once.
    ((4, 4, 2), "F - S F", {2: ["0:2"]}),
    # Overlapping sequences: period 2.
    ((4, 2, 1), "F - - - - - L", {4: ["0:5"], 6: ["2:5", "4:3"]}),
    # Period 1, learn 1, n 3: every step its own sequence, shorter tails at the end only.
    ((1, 1, 3), "F - - - - L", {3: ["0:4"], 4: ["1:4"], 5: ["2:4", "3:3", "4:2"]}),
    # Sequences end, and the episode goes on in one that begins at the timestep where they did.
    ((4, 4, 2), "F - - | - - L", {2: ["0:3"], 5: ["2:4"]}),
    # ... whole ones and the rest of the last one, from which the next is counted.
    ((4, 4, 1), "F - - - - - | - - - - - L", {4: ["0:5"], 5: ["4:2"], 9: ["5:5"], 11: ["9:3"]}),
    # Nothing is ended twice, nor where an episode is over or has one timestep.
    ((4, 4, 1), "F - - - - | | L | F | - L", {4: ["0:5"], 5: ["4:2"], 8: ["6:3"]}),
    # learn 1, n 1: the one-step case.
    ((1, 1, 1), "F - L F L", {1: ["0:2"], 2: ["1:2"], 4: ["3:2"]}),
]


@pytest.mark.parametrize(("shape", "timeline", "expected"), TABLES)
@pytest.mark.parametrize("stream", [0, 2])
def test_table(
    shape: tuple[int, int, int], timeline: str, expected: dict[int, list[str]], stream: int
) -> None:
    learn_length, period, n_step = shape
    accumulator = Accumulator(SequenceLayout(learn_length, period, 7, n_step), num_streams=3)
    found: dict[int, list[str]] = {}
    timestep = -1
    for kind in timeline.split():
        if kind == "|":
            ended = accumulator.end_sequences()
            assert (ended.streams == stream).all()
            if len(ended.timesteps):
                of_row = (f"{a}:{n}" for a, n in zip(ended.timesteps, ended.learn_timesteps, strict=True))
                found[timestep] = sorted([*found.get(timestep, []), *of_row])
            continue
        timestep += 1
        vector_step = accumulator.append(
            np.array([stream]), np.array([kind in "FS"]), np.array([kind in "LS"])
        )
        assert vector_step.timesteps == [timestep]
        starts = vector_step.starts
        assert (starts.streams == stream).all()
        if len(starts.timesteps):
            found[timestep] = sorted(
                f"{a}:{n}" for a, n in zip(starts.timesteps, starts.learn_timesteps, strict=True)
            )
    assert found == expected


def test_streams_are_independent() -> None:
    """Two streams whose episodes end at different vector steps; the second one misses a vector step."""
    accumulator = Accumulator(SequenceLayout(2, 2, 0, 1), num_streams=2)
    both, one = np.array([0, 1]), np.array([0])
    new = []
    for streams, first, last in [
        (both, [True, True], [False, False]),
        (one, [False], [False]),
        (both, [False, False], [False, True]),
        (both, [False, True], [True, False]),
    ]:
        new.append(accumulator.append(streams, np.array(first), np.array(last)))
    found = [
        sorted(zip(vector_step.starts.streams.tolist(), vector_step.starts.timesteps.tolist(), strict=True))
        for vector_step in new
    ]
    assert found == [[], [], [(0, 0), (1, 0)], [(0, 2)]]
    assert [vector_step.episode_steps.tolist() for vector_step in new] == [[0, 0], [1], [2, 1], [3, 0]]


def test_end_episodes_leaves_ended_ones_alone() -> None:
    accumulator = Accumulator(SequenceLayout(4, 4, 0, 1), num_streams=2)
    both = np.array([0, 1])
    accumulator.append(both, np.array([True, True]), np.array([False, False]))
    accumulator.append(both, np.array([False, False]), np.array([False, True]))
    starts = accumulator.end_episodes(both)
    assert (starts.streams.tolist(), starts.timesteps.tolist(), starts.learn_timesteps.tolist()) == (
        [0],
        [0],
        [2],
    )
    assert len(accumulator.end_episodes(both).timesteps) == 0


def test_row_after_an_end_must_be_first() -> None:
    accumulator = Accumulator(SequenceLayout(4, 4, 0, 1), num_streams=2)
    no, both = np.array([False, False]), np.array([0, 1])
    with pytest.raises(ValueError, match="first: False in stream 1 after an episode's end"):
        accumulator.append(both, np.array([True, False]), no)
    assert accumulator.num_timesteps.tolist() == [0, 0]  # refused as a whole


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1, 0, 1), "learn_length is 0; it must be at least 1"),
        ((4, 0, 0, 1), "sequence_period is 0; it must be at least 1"),
        ((4, 5, 0, 1), "sequence_period is 5; it must be at most learn_length, 4"),
        ((4, 4, -1, 1), "burn_in_length is -1; it must be at least 0"),
        ((4, 4, 0, 0), "n_step is 0; it must be at least 1"),
    ],
)
def test_layout_is_checked(arguments: tuple[int, int, int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SequenceLayout(*arguments)
