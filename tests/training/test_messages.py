"""What a run says of itself."""

from __future__ import annotations

import pytest

from dtqn.settings.config import LearnerConfig
from dtqn.training.messages import runs_away


@pytest.mark.parametrize(
    ("promised", "earned", "length", "error", "told"),
    [
        (12.7, -3.4, 1000, 0.1, True),  # RockSample, where the agent checks rocks for ever
        (1.0, 0.4, 20, 0.0, False),  # less than a scaled reward of 1
        (8.0, 3.0, 20, 0.5, False),  # the spread of 100 returns is 5
        (8.0, 3.0, 200, 0.1, True),
        (100.0, 39.5, 50, 0.0, False),  # a reward of 1 in each of 50 steps, and the limit cuts off the rest
        (None, 1.0, 20, 0.0, False),
        (1.0, 9.0, 20, 0.0, False),  # too low
    ],
)
def test_a_promise_far_above_what_is_earned_is_told(promised, earned, length, error, told):
    row = {"eval/value_estimate": promised, "eval/discounted_return": earned, "eval/length": length}
    row |= {"eval/return_error": error, "eval/episodes": 100}
    learner = LearnerConfig(reward_scale=1.0)
    line = runs_away(learner, row)
    assert line.startswith("Q-values promise" if told else "") and bool(line) == told
    assert runs_away(learner.model_copy(update={"repeat_cost": 0.1}), row) == ""
    assert runs_away(learner.model_copy(update={"gamma": 0.0}), row) == ""
