"""How many episodes an evaluation plays, against numbers counted by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dtqn.acting.episode_intervals import wilson_interval
from dtqn.acting.evaluation import EpisodePlan, EvaluationResult, Goal, Played
from dtqn.settings.run import EvaluationConfig


def plan_of(**changed: Any) -> EpisodePlan:
    goal = changed.pop("goal", Goal())
    settings = {"episodes": 500, "first_episodes": 50, "max_step_share": 0.5}
    return EpisodePlan(EvaluationConfig(**settings | changed), goal)


def result(success: float, episodes: int = 50, length: float = 20.0) -> EvaluationResult:
    low, high = wilson_interval(round(success * episodes), episodes)
    return EvaluationResult(success, low, high, 3.0, length, episodes, return_error=0.1)


def test_the_first_full_evaluation_comes_when_it_is_paid_for() -> None:
    """500 episodes of 20 steps are 10 000: with a share of a half, paid for after 20 000 env steps."""
    plan = plan_of()
    counts = [plan.episodes(steps, 20.0, at_end=False) for steps in (10_000, 19_998, 20_000, 90_000)]
    assert counts == [50, 50, 500, 500]
    assert plan.episodes(90_000, None, at_end=False) == 50, "what it takes is not known"


def test_steps_that_are_spent_are_missing_later() -> None:
    plan = plan_of()
    plan.count(result(0.2), at_end=False)  # 1 000 steps
    plan.count(result(0.2, 500), at_end=False)  # 10 000 more
    assert [plan.episodes(steps, 20.0, at_end=False) for steps in (41_998, 42_000)] == [50, 500]


@pytest.mark.parametrize(
    ("best", "goal", "success", "is_full"),
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
def test_a_full_evaluation_follows_on_one_that_could_be_as_good(
    best: float, goal: Goal, success: float, is_full: bool
) -> None:
    plan = plan_of(goal=goal)
    plan.count(result(best, 500), at_end=False)
    assert plan.episodes(10**6, 20.0, at_end=False) == 500, "the best one reaches itself"
    plan.count(result(success), at_end=False)
    again = plan_of(goal=goal)
    again.set_state(plan.get_state())
    for each in (plan, again):
        assert each.episodes(10**6, 20.0, at_end=False) == (500 if is_full else 50)
        assert each.episodes(10**6, 20.0, at_end=True) == 500


def test_a_short_evaluation_says_nothing_of_the_best() -> None:
    plan = plan_of()
    plan.count(result(1.0), at_end=False)
    plan.count(result(0.0), at_end=False)
    assert plan.episodes(10**6, 20.0, at_end=False) == 500


def test_dear_episodes_make_an_evaluation_short() -> None:
    """Half of 4 000 env steps pays for 20 episodes of 100 steps; ten are always played."""
    plan = plan_of()
    lengths = (10.0, 40.0, 100.0, 1_000.0)
    assert [plan.episodes(4_000, length, at_end=False) for length in lengths] == [50, 50, 20, 10]
    assert plan_of(episodes=4).episodes(4_000, 1_000.0, at_end=False) == 4
    plan.count(result(0.0, episodes=10, length=100.0), at_end=False)
    assert plan.episodes(6_000, 10.0, at_end=False) == 20, "the agent's own episodes are the longer ones"


def test_a_run_too_short_for_all_episodes_ends_with_as_many_as_it_pays_for() -> None:
    """Half of 6 000 env steps pays for 150 episodes of 20 steps."""
    plan = plan_of()
    assert plan.episodes(6_000, 20.0, at_end=True) == 150
    assert plan.episodes(100, 20.0, at_end=True) == plan.episodes(100, None, at_end=True) == 50
    assert plan.count(result(0.5), at_end=True) and not plan.count(result(0.5), at_end=False)
    assert plan.count(result(0.5, episodes=500), at_end=False)


def test_returns_have_an_interval_of_their_own() -> None:
    """Returns 0, 0, 3, 3: mean 1.5, standard error sqrt(3) / 2; its 95 % interval ends at 3.197."""
    returns = np.array([0.0, 3.0, 0.0, 3.0])
    four = Played(returns, np.array([4, 6, 4, 6]), returns > 9, returns, returns).result(has_success=False)
    assert (four.episode_return, four.length, four.episodes) == (1.5, 5.0, 4)
    assert four.return_error == pytest.approx(np.sqrt(3) / 2)
    assert four.score_interval.high == pytest.approx(1.5 + 1.959964 * np.sqrt(3) / 2)
    for best, count in ((3.1, 500), (3.3, 50)):
        plan = plan_of()
        plan.count(four._replace(episode_return=best), at_end=True)
        plan.count(four._replace(episodes=10), at_end=False)
        assert plan.episodes(10**6, 5.0, at_end=False) == count


def test_a_few_returns_do_not_settle_that_an_evaluation_is_hopeless() -> None:
    """One return has no spread, so its interval is a point."""
    plan = plan_of(episodes=100)
    plan.count(EvaluationResult(None, None, None, 15.0, 20.0, 100, return_error=0.5), at_end=False)
    for episodes, count in ((1, 100), (9, 100), (10, 50)):
        few = EvaluationResult(None, None, None, 10.0, 20.0, episodes, return_error=0.0)
        plan.count(few, at_end=False)
        assert plan.episodes(90_000, 20.0, at_end=False) == count


def test_a_state_without_the_last_evaluation_goes_on() -> None:
    """That of a checkpoint before evaluations were planned: the next one may matter."""
    plan = plan_of()
    plan.set_state({"spent": 11_000, "best": 0.9})
    assert [plan.episodes(steps, 20.0, at_end=False) for steps in (41_998, 42_000)] == [50, 500]
    plan.count(result(0.5), at_end=False)
    assert plan.episodes(10**6, 20.0, at_end=False) == 50


SUCCESS = 0.85
"""That of a policy whose evaluations are played by a coin."""


def planned(chance: np.random.Generator) -> list[float]:
    """The figures of a run's evaluations after a best score that was a little better."""
    plan, figures = plan_of(), []
    plan.set_state({"spent": 0, "best": 0.93})
    for _ in range(20):
        episodes = plan.episodes(10**6, 20.0, at_end=False)
        figures.append(float((chance.random(episodes) < SUCCESS).mean()))
        plan.count(result(figures[-1], episodes), at_end=False)
    return figures


def in_two_stages(chance: np.random.Generator) -> list[float]:
    """The same where the first 50 episodes decide whether 450 follow, and stay in the figure."""
    figures = []
    for _ in range(20):
        played = chance.random(50) < SUCCESS
        if result(float(played.mean())).score_interval.high >= 0.93:
            played = np.append(played, chance.random(450) < SUCCESS)
        figures.append(float(played.mean()))
    return figures


@pytest.mark.parametrize(("evaluated", "is_unbiased"), [(planned, True), (in_two_stages, False)])
def test_the_mean_of_many_evaluations_is_the_truth(evaluated: Any, is_unbiased: bool) -> None:
    figures = np.array([evaluated(np.random.default_rng(seed)) for seed in range(500)])
    error = figures.mean(axis=1).std(ddof=1) / np.sqrt(len(figures))
    bias = figures.mean() - SUCCESS
    assert abs(bias) < 3 * error if is_unbiased else bias < -0.01
