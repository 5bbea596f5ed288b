"""A worker that is lost costs no run."""

from __future__ import annotations

import random
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.kills import CASES, FIGURES, Endured, endured, wait
from dtqn.settings.config import ConfigError
from dtqn.training.pool import MOST_LOSSES
from envs import TaskError
from tests.training import pools
from tests.training.pools import LOST, Here, note_steps, resume, start, train, trainer_of

here = pools.here
_no_pictures = pools.no_pictures


def lose_at(here: type[Here], monkeypatch: pytest.MonkeyPatch, fates: dict[tuple[int, int], str]) -> None:
    """{(number of the worker as it was made, its vector step): what becomes of it}."""

    def at_step(worker: Here) -> None:
        fate = fates.get((here.made.index(worker), worker.steps))
        match fate:
            case "die":
                worker.is_lost = True
            case "hang":
                worker.hangs = True
            case "fail":
                worker._served = None, TaskError("a task", "its step failed", 4)

    monkeypatch.setattr(here, "at_step", staticmethod(at_step))


@pytest.mark.parametrize(("fate", "at_once"), [("die", True), ("hang", False), ("fail", True)])
def test_a_lost_worker_is_replaced_and_its_episodes_are_cut(
    here: type[Here], monkeypatch: pytest.MonkeyPatch, fate: str, at_once: bool
) -> None:
    monkeypatch.setattr(here, "at_once", at_once)
    random_only = {"warmup_env_steps": 420}
    undisturbed, trainer = trainer_of(**random_only), trainer_of(**random_only)
    lose_at(here, monkeypatch, {(3, 25): fate})  # the first trainer has made 0 and 1
    theirs, ours = note_steps(undisturbed), note_steps(trainer)
    train(undisturbed, 200)
    news = []
    while trainer.env_steps < 200:
        trainer.advance()
        news += trainer.news()
    why = {
        "die": LOST.format("steps environments 3 to 4"),
        "hang": "the process that steps environments 3 to 4 does not answer: it hangs, or takes more than "
        "300 seconds for a step of all of them (actor.pool.step_timeout)",
        "fail": "task a task, environment 4: its step failed",
    }[fate]
    assert news == [f"{why}; restarted, and the open episodes of environments 3 to 4 were cut short"]
    assert trainer.actor.metrics()["actor/restarts"] == 1
    assert len(here.made) == 5
    for number, (step, twin) in enumerate(zip(ours, theirs, strict=False)):
        for name in step:
            same = slice(0, 5 if number < 24 else 3)
            np.testing.assert_array_equal(step[name][same], twin[name][same])
    assert ours[24]["first"][3:].all() and not ours[23]["last"][3:].all()
    stored = trainer.replay.get_state()["rows"]
    counts = np.minimum(
        trainer.replay.get_state()["accumulator"]["num_rows"], trainer.replay.steps_per_stream
    )
    start = int(counts[:3].sum())
    assert stored["last"][start + 23] and stored["first"][start + 24] and stored["discount"][start + 23]


def test_a_worker_that_is_lost_again_and_again_ends_the_run(
    here: type[Here], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With its own error in one line, and all that was learned is saved."""
    fates = {(n, 40 if n == 1 else 1): "fail" if n == 3 else "die" for n in range(1, 4)}
    lose_at(here, monkeypatch, fates)
    flags = {"actor.pool": "process", "evaluator": "inline", "actor.num_envs": 5, "total_env_steps": 420}
    code, printed = start(tmp_path / "run", **flags)
    assert code == 1
    lines = [line for line in printed.splitlines() if "environments 3 to 4" in line or "error" in line]
    told = LOST.format("steps environments 3 to 4")
    assert [line.partition(";")[0].strip() for line in lines[:2]] == [told] * 2
    assert lines[2].startswith("error: task a task, environment 4: its step failed; saved; to continue: ")
    assert len(lines) == 3 == MOST_LOSSES
    monkeypatch.setattr(here, "at_step", staticmethod(lambda worker: None))
    code, printed = resume(tmp_path / "run")
    assert code == 0 and "not exact: with new episodes" in printed


def test_an_episode_between_two_losses_makes_them_single_ones(
    here: type[Here], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Episodes have 20 steps at most."""
    trainer = trainer_of(1, 2)
    lose_at(here, monkeypatch, dict.fromkeys([(number, 30) for number in range(6)], "die"))
    train(trainer)
    assert trainer.actor.metrics()["actor/restarts"] >= MOST_LOSSES


def test_a_fault_of_the_rewards_ends_the_run_at_once(
    here: type[Here], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the inline run: it is no loss of a worker."""
    from dtqn.types import NonFiniteError

    trainer = trainer_of()

    def at_step(worker: Here) -> None:
        worker._served = None, NonFiniteError("the task gave the reward nan")

    monkeypatch.setattr(here, "at_step", staticmethod(at_step))
    with pytest.raises(NonFiniteError, match="the reward nan"):
        trainer.advance()


def test_no_process_outlives_a_run_that_is_killed(tmp_path: Path) -> None:
    """Real ones: a worker is killed and replaced, then the run is killed."""
    case, choice = CASES["its workers"], random.Random(1)
    run, printed = Endured(tmp_path / "run", case), tmp_path / "run/printed.log"
    try:
        run.give()
        wait(lambda: list((tmp_path / "run").glob("runs/*/*/*/metrics.jsonl")) != [])
        assert run.hit(signal.SIGKILL, choice)
        wait(lambda: "restarted, and" in printed.read_text())
        assert " has ended: killed by SIGKILL" in printed.read_text()
        run.case = case._replace(child=False, is_replaced=False)
        assert run.hit(signal.SIGKILL, choice) and run.figures["left"] == 0
    finally:
        run.end()


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.on_ray])
def test_kills_cost_nothing(tmp_path: Path, name: str) -> None:
    figures = endured([name], 6, tmp_path)[name]
    assert figures["hits"] == 6
    assert not any(figures[bad] for bad in FIGURES[3:]), figures


def test_workers_that_die_before_they_begin_are_tried_again(
    here: type[Here], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stillborn(worker: Here, method: str, *arguments: Any) -> None:
        worker.is_lost = here.made.index(worker) in lost
        Here.ask(worker, method, *arguments)

    monkeypatch.setattr(here, "ask", stillborn)
    lost = {1, 2}
    trainer = trainer_of()
    assert trainer.actor.metrics()["actor/restarts"] == 2
    train(trainer, 50)
    lost = set(range(100))
    with pytest.raises(ConfigError, match="is process, but the process that steps environments 0 to 2 has"):
        trainer_of()
