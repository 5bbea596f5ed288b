"""Evaluations beside the learner: a run ends like one that plays them itself, however it was interrupted."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dtqn.acting import evaluation
from dtqn.acting.timesteps import Episodes, VectorTimesteps
from dtqn.training import checkpoint, evaluator, setup
from dtqn.training.evaluations import Evaluations
from dtqn.training.trainer import Trainer
from tests.training import fake, pools
from tests.training.pools import Here, config_of, resume, start

_no_pictures = pools.no_pictures


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers only where it is waited for, as a slow process would."""
    monkeypatch.setattr(evaluator, "Worker", Here)
    monkeypatch.setattr(Here, "at_once", False)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The run that plays its evaluations itself."""
    path = tmp_path_factory.mktemp("inline") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dtqn.plots.learning_curve", lambda *_: None)
        patch.setattr(Trainer, "film", lambda *_: None)
        assert start(path, evaluator="inline")[0] == 0
    found = fake.tree(path)
    stages = [row["eval/stage"] for row in found[0] if "eval/stage" in row]
    assert len(stages) >= 5 and set(stages) == {1, 2}, "no evaluation depends on those before it"
    return found


def at_step(monkeypatch: pytest.MonkeyPatch, then: Callable[[Trainer], None]) -> None:
    """Do something after each vector step, before its row is seen."""
    advance = Trainer.advance

    def noted(trainer: Trainer) -> Any:
        row = advance(trainer)
        then(trainer)
        return row

    monkeypatch.setattr(Trainer, "advance", noted)


def test_late_evaluations_change_nothing(tmp_path: Path, whole: Any, late: None) -> None:
    code, printed = start(tmp_path / "run", evaluator="process")
    assert code == 0 and "evaluations in another process" in printed
    assert fake.tree(tmp_path / "run") == whole


def test_an_evaluation_under_way_goes_on_after_a_signal(
    tmp_path: Path, whole: Any, late: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that a signal ends does not wait for it, nor does one whose next is due."""
    path, ends, waiting = tmp_path / "run", [260, 400, 900], []

    def then(trainer: Trainer) -> None:
        if ends and trainer.env_steps >= ends[0]:
            ends.pop(0)
            os.kill(os.getpid(), signal.SIGTERM)

    def note() -> None:
        state = checkpoint.load_state(path / "checkpoint")["evaluator"]
        waiting.append([asked["env_steps"] // 200 for asked in state["waiting"]])

    at_step(monkeypatch, then)
    assert start(path, evaluator="process")[0] == 143
    note()
    for _ in range(2):
        assert resume(path)[0] == 143
        note()
    assert waiting == [[1], [1, 2], [4]]
    assert resume(path, evaluator="inline")[0] == 0
    assert fake.tree(path) == whole


@pytest.mark.parametrize("stop_at_success", [None, 0.5])
def test_a_signal_in_the_midst_of_an_evaluation_is_taken_at_its_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_at_success: float | None
) -> None:
    """Also in the one that ends the run: what it says is known before another vector step."""
    settings = {"evaluator": "inline", "stop_at_success": stop_at_success, "evaluation.max_step_share": 9}
    monkeypatch.setattr(Evaluations, "reached", lambda found, goal: any(goal) and bool(found.last))
    assert start(tmp_path / "whole", **settings)[0] == 0
    at, steps = [10, 23, 30], []

    class Counted(VectorTimesteps):
        def step(self, action: np.ndarray) -> Episodes:
            steps.append(action)
            if len(steps) in at:
                os.kill(os.getpid(), signal.SIGTERM)
            return super().step(action)

    monkeypatch.setattr(evaluation, "VectorTimesteps", Counted)
    path, waiting = tmp_path / "run", []
    code, _ = start(path, **settings)
    while code == 143:
        assert len(steps) in at
        state = checkpoint.load_state(path / "checkpoint")
        waiting.append([asked["env_steps"] for asked in state["evaluator"]["waiting"]])
        code, _ = resume(path)
    assert code == 0
    assert fake.tree(path) == fake.tree(tmp_path / "whole")
    first, ended = waiting[0][0], fake.rows(path)[-1]["env_steps"]
    assert waiting == 3 * [[first]] and (ended == first if stop_at_success else 900 <= ended < 904)


@pytest.mark.parametrize("killed_at", [450, 880])
def test_a_run_that_is_killed_goes_on_from_a_checkpoint_with_an_evaluation_under_way(
    tmp_path: Path, whole: Any, late: None, monkeypatch: pytest.MonkeyPatch, killed_at: int
) -> None:
    path = tmp_path / "run"

    def then(trainer: Trainer) -> None:
        if trainer.env_steps >= killed_at:
            raise fake.Killed

    with monkeypatch.context() as patch:
        at_step(patch, then)
        with pytest.raises(fake.Killed):
            start(path, evaluator="process")
    held = checkpoint.read_about(path / "checkpoint")["held"]
    assert held[0]["env_steps"] // 200 in (2, 4), "both are due at once"
    assert resume(path)[0] == 0
    assert fake.tree(path) == whole


def test_a_process_that_is_killed_ends_the_run_in_a_line_and_nothing_is_lost(
    tmp_path: Path, whole: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With processes of their own, before and after."""
    path, workers = tmp_path / "run", []

    def then(trainer: Trainer) -> None:
        worker = trainer.evaluator._beside
        if not workers and trainer.env_steps > 420 and trainer.evaluator.waiting:
            os.kill(worker.pid, signal.SIGKILL)
            assert worker.answered(60)
            workers.append(worker)

    at_step(monkeypatch, then)
    code, printed = start(path, evaluator="process")
    if not workers:  # it was too fast to be under way at any such step
        pytest.skip("every evaluation was over within a vector step")
    assert code == 1
    assert printed.splitlines()[-1] == (
        "error: the process that plays evaluations has ended: killed by SIGKILL (out of memory?); saved; "
        f"to continue: python -m dtqn --resume {path}"
    )
    assert resume(path)[0] == 0
    assert fake.tree(path) == whole


def test_a_process_that_hangs_ends_the_run_in_a_line_and_nothing_is_lost(
    tmp_path: Path, whole: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, stopped = tmp_path / "run", list[int]()

    def then(trainer: Trainer) -> None:
        worker = trainer.evaluator._beside
        if not stopped and trainer.env_steps > 420 and trainer.evaluator.waiting:
            os.kill(worker.pid, signal.SIGSTOP)
            monkeypatch.setattr(evaluator, "_SILENT_SECONDS", 2.0)
            stopped.append(worker.pid)

    at_step(monkeypatch, then)
    code, printed = start(path, evaluator="process")
    if code == 0:  # its answer was on the way already
        pytest.skip("every evaluation was over within a vector step")
    assert printed.splitlines()[-1] == (
        "error: the process that plays evaluations has made no step for 2 seconds; saved; "
        f"to continue: python -m dtqn --resume {path}"
    )
    with pytest.raises(ProcessLookupError):
        os.kill(stopped[0], 0)
    monkeypatch.setattr(evaluator, "_SILENT_SECONDS", 300.0)
    assert resume(path)[0] == 0
    assert fake.tree(path) == whole


def test_where_success_may_end_a_run_it_plays_evaluations_itself(tmp_path: Path, late: None) -> None:
    flags = {"evaluator": "process", "stop_at_success": 1.0}
    assert not config_of(**flags).evaluates_beside
    assert config_of(**flags).unread() == ["evaluator"]
    assert config_of(evaluator="process").evaluates_beside


@pytest.mark.parametrize(
    "value_rescaling, second, estimate",
    [(False, 2.008, 2 * 1.5055), (True, 2.008, 2 * 5.5), (False, np.inf, None), (True, np.nan, None)],
)
def test_the_value_estimate_is_on_the_scale_of_the_rewards(
    monkeypatch: pytest.MonkeyPatch, value_rescaling: bool, second: float, estimate: float | None
) -> None:
    """By hand: h(3) = 1.003 and h(8) = 2.008 of R2D2's h, and rewards were halved in the loss."""

    def play(
        network: Any, env: Any, episodes: int, stopped: Any, gamma: float, random_actions: Any
    ) -> evaluation.Played:
        env.close()
        assert (gamma, random_actions.share) == (0.9, 0.2)
        one, flags = np.ones(episodes), np.ones(episodes, bool)
        discounted, first_q = np.linspace(0.5, 1.5, episodes), np.resize([1.003, second], episodes)
        return evaluation.Played(one, one, flags, discounted, first_q)

    monkeypatch.setattr(evaluator, "play", play)
    scales = {"learner.gamma": 0.9, "learner.reward_scale": 0.5, "learner.value_rescaling": value_rescaling}
    config = config_of(evaluator="inline", **scales)
    asks = evaluator.Evaluator(config, setup.make_network(config))
    asks.ask(setup.make_network(config), 900, None, at_end=True)
    found = asks.evaluated()
    assert found is not None
    assert found.metrics["eval/discounted_return"] == pytest.approx(1.0)
    expected = None if estimate is None else pytest.approx(estimate, rel=1e-6)
    assert found.metrics["eval/value_estimate"] == expected
