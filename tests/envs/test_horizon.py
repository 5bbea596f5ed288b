"""`TaskSpec.horizon`: the rows of an episode, where the task's name fixes them."""

import numpy as np
import pytest

import envs


@pytest.mark.parametrize(
    "id",
    ["t-maze-passive-7", "t-maze-active-7", "memory-cards-2", "memory-cards", "popgym-concentration-easy"],
)
def test_no_episode_has_more_rows_than_the_horizon_and_some_has_as_many(id):
    spec = envs.spec(id)
    vector = envs.make_vector(id, 32, seed=1)
    vector.reset()
    rows = np.ones(32, np.int64)
    longest = 0
    for _ in range(3 * spec.horizon):
        _, _, terminated, truncated, _ = vector.step(vector.action_space.sample())
        rows += 1
        done = terminated | truncated
        longest = max(longest, int(rows[done].max(initial=0)))
        # NEXT_STEP autoreset: the next row is the first of the next episode.
        rows[done] = 0
    assert longest == spec.horizon


def test_a_task_whose_name_fixes_no_length_has_none():
    assert envs.spec("heavenhell").horizon is None
