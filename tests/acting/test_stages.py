"""How many episodes an evaluation plays, against numbers counted by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dtqn.acting.episode_intervals import wilson_interval
from dtqn.acting.evaluation import EvaluationResult, Goal, Played, Stages


def stages(**changed: Any) -> Stages:
    settings: dict[str, Any] = {
        "episodes": 500,
        "first_episodes": 50,
        "max_step_share": 0.5,
        "goal": Goal(),
    }
    return Stages(**settings | changed)


def result(success: float, episodes: int = 50, length: float = 20.0) -> EvaluationResult:
    low, high = wilson_interval(round(success * episodes), episodes)
    return EvaluationResult(success, low, high, 3.0, length, episodes, return_error=0.1)


def test_the_first_full_evaluation_comes_when_it_is_paid_for() -> None:
    """450 more episodes of 20 steps are 9 000: with a share of a half, paid for after 20 000 env steps."""
    plan = stages()
    assert plan.first(0, None) == 50
    for env_steps, rest in ((10_000, 0), (19_998, 0), (20_000, 450), (90_000, 450)):
        assert plan.rest(result(0.1), env_steps, at_end=False) == rest


def test_steps_that_are_spent_are_missing_later() -> None:
    plan = stages()
    plan.count(result(0.2), full=False)  # 1 000 steps
    plan.count(result(0.2, 500), full=True)  # 10 000 more
    assert plan.rest(result(0.5), 41_998, at_end=False) == 0
    assert plan.rest(result(0.5), 42_000, at_end=False) == 450


@pytest.mark.parametrize(
    ("best", "goal", "success", "plays_on"),
    [
        (0.90, Goal(), 0.80, False),  # Wilson's interval of 40 of 50: 0.670 to 0.888
        (0.88, Goal(), 0.80, True),
        (0.95, Goal(0.88), 0.80, True),
        (0.95, Goal(0.89), 0.80, False),
        (0.95, Goal(), 1.00, True),
        (0.95, Goal(None, 3.1), 0.80, True),  # a mean return of 3 with a standard error of 0.1: up to 3.196
        (0.95, Goal(None, 3.2), 0.80, False),
    ],
)
def test_the_rest_is_played_where_it_could_matter(
    best: float, goal: Goal, success: float, plays_on: bool
) -> None:
    plan = stages(goal=goal)
    plan.count(result(best, 500), full=True)
    assert (plan.rest(result(success), 10**6, at_end=False) > 0) == plays_on
    assert plan.rest(result(success), 10**6, at_end=True) == 450


def test_a_first_stage_says_nothing_of_the_best() -> None:
    plan = stages()
    plan.count(result(1.0), full=False)
    assert plan.rest(result(0.0), 10**6, at_end=False) == 450


def test_dear_episodes_make_a_first_stage_short() -> None:
    """Half of 4 000 env steps pays for 20 episodes of 100 steps; ten are always played."""
    plan = stages()
    assert [plan.first(4_000, length) for length in (10.0, 40.0, 100.0, 1_000.0)] == [50, 50, 20, 10]
    assert stages(episodes=4).first(4_000, 1_000.0) == 4


def test_a_run_too_short_for_all_episodes_ends_with_as_many_as_it_pays_for() -> None:
    """Half of 6 000 env steps pays for 150 episodes of 20 steps, 50 of which have been played."""
    plan = stages()
    assert plan.rest(result(0.5), 6_000, at_end=True) == 100
    assert plan.rest(result(0.5), 100, at_end=True) == 0
    assert plan.rest(result(0.5, episodes=10), 100, at_end=True) == 40
    assert plan.is_full(result(0.5), at_end=True) and not plan.is_full(result(0.5), at_end=False)
    assert plan.is_full(result(0.5, episodes=500), at_end=False)


def test_returns_have_an_interval_of_their_own() -> None:
    """Returns 0, 0, 3, 3: mean 1.5, standard error sqrt(3) / 2; its 95 % interval ends at 3.197."""
    played = Played(np.array([0.0, 3.0]), np.array([4, 6]), np.zeros(2, bool), np.zeros(2), np.zeros(2))
    both = played.and_then(played).result(has_success=False)
    assert (both.episode_return, both.length, both.episodes) == (1.5, 5.0, 4)
    assert both.return_error == pytest.approx(np.sqrt(3) / 2)
    assert both.score_interval.high == pytest.approx(1.5 + 1.959964 * np.sqrt(3) / 2)
    plan = stages()
    plan.count(both._replace(episode_return=3.3), full=True)
    assert plan.rest(both._replace(episodes=10), 10**6, at_end=False) == 0
    assert stages().rest(both, 10**6, at_end=False) == 496


def test_it_goes_on_from_its_state() -> None:
    plan, again = stages(), stages()
    plan.count(result(0.9, 500), full=True)
    again.set_state(plan.get_state())
    for success, env_steps in ((0.5, 10**6), (0.9, 10**6), (0.9, 30_000)):
        assert again.rest(result(success), env_steps, False) == plan.rest(result(success), env_steps, False)


def test_a_few_returns_do_not_settle_that_an_evaluation_is_hopeless() -> None:
    """One return has no spread, so its interval is a point."""
    plan = stages(episodes=100, first_episodes=1)
    plan.count(EvaluationResult(None, None, None, 15.0, 20.0, 100, return_error=0.5), full=True)
    for episodes, rest in ((1, 99), (9, 91), (10, 0)):
        few = EvaluationResult(None, None, None, 10.0, 20.0, episodes, return_error=0.0)
        assert plan.rest(few, 90_000, at_end=False) == rest
