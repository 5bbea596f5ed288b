"""The tasks of the benchmark of the debugger's verdicts; training is its part, not the tests'."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import envs
from benchmarks import verdicts
from dtqn.acting.episode_intervals import Figure
from dtqn.inspection.trials import Verdict

_LAMP, _SHUFFLED = "benchmarks.verdict_tasks:Lamp", "benchmarks.shuffled:Shuffled"


@pytest.mark.parametrize("shown_again", [False, True])
def test_the_lamp_is_seen_at_the_start_and_at_the_end_if_asked_for(shown_again: bool) -> None:
    options = {"kwargs": {"delay": 3, "shown_again": shown_again}}
    env = envs.make_vector(_LAMP, 64, 0, **options)
    shown = [env.reset()[0]]
    for _ in range(3):
        observation, reward, terminated, _, _ = env.step(np.full(64, 2))
        assert not terminated.any() and not reward.any()
        shown.append(observation)
    lamp = shown[0]
    assert set(lamp) == {0, 1} and (shown[1] == 2).all() and (shown[2] == 2).all()
    assert (shown[3] == (lamp if shown_again else 3)).all()
    _, reward, terminated, _, infos = env.step(lamp)
    assert terminated.all() and (reward == 1).all() and infos["is_success"].all()


@pytest.mark.parametrize("steps", [0, 3])
def test_a_lamp_named_too_early_or_not_at_all_is_lost(steps: int) -> None:
    env = envs.make_vector(_LAMP, 64, 0, kwargs={"delay": 3})
    lamp, _ = env.reset()
    for _ in range(steps):
        env.step(np.full(64, 2))
    action = lamp if steps < 3 else np.full(64, 2)
    _, reward, terminated, _, infos = env.step(action)
    assert terminated.all() and (reward == -1).all() and not infos["is_success"].any()


@pytest.mark.parametrize("id, options", [(_LAMP, {"kwargs": {"shown_again": True}}), (_SHUFFLED, {})])
def test_tasks_of_the_benchmarks_keep_the_contract(id: str, options: dict[str, Any]) -> None:
    envs.check_task(id, **options)


def test_a_shuffled_cue_tells_nothing_and_all_else_stays() -> None:
    """Beside the task itself with the same actions: rewards, and views of all but the beacon, are its own."""
    shuffled, plain = (envs.make_vector(id, 256, 3) for id in (_SHUFFLED, "gridverse-memory-7x7"))
    plain.reset()
    state = plain._dynamics.get()
    first, _ = shuffled.reset(options={"state": state})
    assert (first == plain._dynamics.observe(np.random.default_rng(0))).all()
    generator, alive, same, swapped = np.random.default_rng(0), np.ones(256, bool), [], []
    for _ in range(40):
        action = generator.integers(3, size=256)
        own, reward, terminated, *_ = plain.step(action)
        seen, other_reward, other_terminated, *_ = shuffled.step(action)
        assert (reward == other_reward)[alive].all() and (terminated == other_terminated)[alive].all()
        alive &= ~terminated
        other = plain.observe_other()
        cue = (other != own).any(axis=1)
        assert (seen == own)[alive & ~cue].all()
        same.append((seen == own)[alive & cue].all(axis=1))
        swapped.append((seen == other)[alive & cue].all(axis=1))
    of_cue = np.concatenate(same)
    assert (of_cue ^ np.concatenate(swapped)).all() and len(of_cue) > 100
    assert of_cue.mean() == pytest.approx(0.5, abs=0.15)


def test_a_task_without_a_secret_cannot_be_shuffled() -> None:
    with pytest.raises(ValueError, match="env is hallway; it must be a task that names its secret"):
        envs.make_vector(_SHUFFLED, 1, kwargs={"env": "hallway"})


@pytest.mark.parametrize(
    "name, answer, stack, right",
    [
        ("lamp", "yes", None, True),
        ("lamp", "cannot tell", None, False),
        ("cart-pole", "no", None, True),
        ("cart-pole-hidden", "yes", 4, True),
        ("cart-pole-hidden", "yes", 16, False),
        ("cart-pole-hidden", "yes", None, False),
    ],
)
def test_a_verdict_is_right(name: str, answer: Any, stack: int | None, right: bool, tmp_path: Path) -> None:
    figure = Figure(0.5, 0.4, 0.6, 100)
    of = {
        "needs_memory": Verdict(answer, f"{tmp_path}/none is worse", stack),
        "uses_memory": Verdict("yes", ""),
        "score": figure,
        "random": figure,
        "memoryless": {f"{tmp_path}/none": figure},
        "stacked": {2: figure},
    }
    found = verdicts.told(verdicts.CASES[name], of, tmp_path)
    assert found["right"] == right and found["because"] == "none is worse"
    (tmp_path / name).mkdir()
    (tmp_path / name / "verdict.json").write_text(json.dumps(found))
    assert verdicts.measure(name, tmp_path)["env"] == verdicts.CASES[name].env, "what is done is read"


def test_there_are_ten_tasks_that_need_memory_and_the_others_of_the_issue() -> None:
    yes = [name for name, case in verdicts.CASES.items() if case.needs == "yes"]
    no = {case.env for case in verdicts.CASES.values() if case.needs == "no"}
    assert len(set(yes) - {"cart-pole-hidden"}) >= 10
    assert {"CartPole-v1", "FrozenLake-v1", "Taxi-v4", "gridverse-memory-5x5", _LAMP} == no
    for case in verdicts.CASES.values():
        if not case.env.startswith(("CartPole", "Frozen", "Taxi")):
            envs.spec(case.env)
