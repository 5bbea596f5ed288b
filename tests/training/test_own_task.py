"""Runs on a `Dynamics` of a user's own that fails: one line, what was learned is saved, and it goes on."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from dtqn import cli
from dtqn.training import checkpoint
from tests import tiny
from tests.test_api import CELL

_TASK = """
import os
import sys


class Fails(Count):
    steps = 0

    def step(self, action, rng):
        self.steps += 1
        self.fail("step")
        return super().step(action, rng)

    def get(self):
        self.fail("get")
        return super().get()

    def put(self, state):
        self.fail("put")
        super().put(state)

    def picture(self, env_id):
        self.fail("picture")
        return np.zeros((8, 8, 3), np.uint8)

    def fail(self, method):
        name, least, exits = f"{os.environ.get('COUNT_FAILS', '')},,".split(",")[:3]
        if name == method and self.steps >= int(least):
            if exits:
                sys.exit(0)
            raise KeyError("door")
"""
_FLAGS = """
    --total-env-steps 240 --warmup-env-steps 40 --checkpoint-every 80 --wandb disabled --device cpu
    --learner.batches.size 4 --replay.capacity 4000 --actor.num_envs 4 --network.width 8
    --network.head_width 8 --learner.gamma 0.9 --learner.reward_scale 1
    --evaluation.episodes 2 --evaluation.num_envs 2 --evaluation.period 1000
"""


@pytest.fixture
def task(own_folder: Path) -> Path:
    (own_folder / "own_count.py").write_text(CELL + _TASK)
    return own_folder


def _run(*arguments: str) -> int:
    return cli.main(["--env", "own_count:Fails", "--run-dir", "run", *_FLAGS.split(), *arguments])


_SAVED = "saved; to continue"
_EDITED = r" \(with --accept-changed-code once the task has been edited\)"


def _fails(method: str) -> str:
    return rf"task own_count:Fails: its {method} failed: KeyError: 'door' \(own_count.py, line \d+\)"


@pytest.mark.parametrize("method", ["step", "get"])
def test_a_run_is_saved_and_goes_on_with_new_episodes(
    method: str, task: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNT_FAILS", f"{method},45")  # after the trial and the first checkpoint
    assert _run() == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert re.fullmatch(rf"error: {_fails(method)}; {_SAVED}: .* --resume run{_EDITED}", last)
    assert checkpoint.read_about(task / "run/checkpoint")["env_steps"] > 80
    monkeypatch.delenv("COUNT_FAILS")
    assert "not exact: with new episodes" in tiny.printed(capsys, "--resume", "run")
    assert (task / "run/result.json").exists()


def test_an_exit_of_the_task_is_not_the_runs(
    task: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = r"task own_count:Fails: its step failed: SystemExit: 0 \(own_count.py, line \d+\)"
    monkeypatch.setenv("COUNT_FAILS", "step,0,exits")
    assert _run() == 2
    assert re.fullmatch(f"error: {failed}\n", capsys.readouterr().err)

    def hooked(plain: Callable[[int], NoReturn]) -> Callable[[int], NoReturn]:
        def exit(code: int) -> NoReturn:  # as W&B's hook, which may be there once for each run
            plain(code)

        return exit

    monkeypatch.setattr(sys, "exit", hooked(hooked(sys.exit)))
    monkeypatch.setenv("COUNT_FAILS", "step,45,exits")  # after the trial and the first checkpoint
    assert _run() == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert re.fullmatch(rf"error: {failed}; {_SAVED}: .* --resume run{_EDITED}", last)
    assert checkpoint.read_about(task / "run/checkpoint")["env_steps"] > 80


@pytest.mark.usefixtures("task")
def test_a_state_that_cannot_be_put_names_the_task(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _run() == 0
    monkeypatch.setenv("COUNT_FAILS", "put,0")
    monkeypatch.setattr("envs.try_task", lambda *_, **__: {})  # which would tell it before
    error = tiny.refused(capsys, "--resume", "run", "--total-env-steps", "320")
    assert re.fullmatch(rf"run/checkpoint: cannot be resumed from: {_fails('put')}", error)


@pytest.mark.usefixtures("task")
def test_commands_on_a_trained_run_have_the_same_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _run() == 0
    monkeypatch.setenv("COUNT_FAILS", "step,3")
    for command in (
        *(["eval", "run"], ["debug", "run"], ["report", "run"], ["watch", "run"]),
        ["export", "run", "--to", "exported"],
    ):
        assert cli.main(command) == 2, command
        assert re.fullmatch(f"error: {_fails('step')}\n", capsys.readouterr().err), command
    monkeypatch.setenv("COUNT_FAILS", "picture,1")
    assert cli.main(["watch", "run", "--gif", "film.gif"]) == 2
    assert re.search(f"error: {_fails('picture')}\n$", capsys.readouterr().err)
    told = tiny.refused(capsys, "envs", "--env", "own_count:Fails", "--render", "film.gif")
    assert re.fullmatch(f"--render is film.gif: {_fails('picture')}", told)
