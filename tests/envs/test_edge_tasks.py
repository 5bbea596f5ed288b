"""Environments that do what Gymnasium allows and few expect: each trains, or is refused in one line."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import envs
from dtqn.cli import main
from dtqn.program import WORKER
from tests.tiny import refused

_TASKS = '''
import os
import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete


class Steps(gymnasium.Env):
    """Four steps with a reward of 1 each."""

    observation_space, action_space, length = Box(-1, 1, (3,), np.float32), Discrete(2), 4

    def shown(self):
        return np.array([self.t / 10, 0, 0], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.shown(), {}

    def step(self, action):
        self.t += 1
        return self.shown(), 1.0, self.t >= self.length, False, {}


ONE = Steps()

def one_object():
    return ONE

class SharedState(Steps):
    """Keeps its time in the class, as does one of a simulator with a single world."""

    def shown(self):
        Steps.t = self.__dict__.pop("t", Steps.__dict__.get("t", 0))
        return super().shown()

class Prints(Steps):
    def step(self, action):
        print("a simulator's banner")
        os.write(1, b"its C library's banner\\n")
        return super().step(action)

class SetsDefaults(Steps):
    def __init__(self):
        import torch

        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(3)
        np.seterr(all="raise")

class NeedsRenderMode(Steps):
    def __init__(self, render_mode):
        self.render_mode = render_mode

class ReadsItem(Steps):
    def step(self, action):
        return super().step(action.item())

class Infinite(Steps):
    observation_space = Box(-np.inf, np.inf, (1,), np.float64)

    def shown(self):
        return np.array([1e300])

class Depth(Steps):
    observation_space = Box(0, 65535, (12, 12), np.uint16)

    def shown(self):
        return np.full((12, 12), 40_000, np.uint16)

class GlobalGenerator(Steps):
    def shown(self):
        return np.random.rand(3).astype(np.float32)

class SeedsGlobalGenerator(GlobalGenerator):
    def reset(self, *, seed=None, options=None):
        if seed is not None:
            np.random.seed(seed)
        return super().reset(seed=seed)
'''
_SMALL = [
    *("--agent", "gru", "--network.width", "16", "--total-env-steps", "160", "--warmup-env-steps", "96"),
    *("--evaluator", "inline", "--evaluation.episodes", "4", "--wandb", "disabled"),
]


@pytest.fixture
def tasks(own_folder: Path) -> Path:
    (own_folder / "edge.py").write_text(_TASKS)
    return own_folder


def _trained(name: str) -> list[dict[str, Any]]:
    """The rows of a run, without their times."""
    assert main(["--env", f"edge:{name}", *_SMALL, "--run-dir", name]) == 0
    rows = [json.loads(line) for line in (Path(name) / "metrics.jsonl").read_text().splitlines()]
    return [
        {key: value for key, value in row.items() if "seconds" not in key and "time" not in key}
        for row in rows
    ]


@pytest.mark.parametrize("name", ["ReadsItem", "NeedsRenderMode", "Depth", "SeedsGlobalGenerator"])
def test_what_gymnasium_allows_trains(tasks, name, capsys):
    evaluated = [row["eval/return"] for row in _trained(name) if "eval/return" in row]
    assert evaluated[-1] == 4.0
    assert "two runs of one seed" not in capsys.readouterr().err


def test_settings_of_the_process_that_a_task_changes_are_the_runs_again(tasks):
    learned = ("loss/total", "train/return", "eval/value_estimate")
    plain, changed = _trained("Steps"), _trained("SetsDefaults")
    assert [row.get(key) for row in plain for key in learned] == [
        row.get(key) for row in changed for key in learned
    ]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("one_object", "its environments are one object"),
        ("SharedState", "two of its environments share what they change"),
        ("Infinite", "its observation holds inf; must be finite in float32"),
    ],
)
def test_what_cannot_be_trained_is_one_line(tasks, name, problem, capfd):
    assert problem in refused(capfd, "--env", f"edge:{name}", *_SMALL, "--run-dir", "run")
    assert not Path("run").exists()


def test_a_task_that_ignores_its_seed_is_named_at_the_start(tasks, capsys):
    _trained("GlobalGenerator")
    assert "edge:GlobalGenerator: does not follow the seed given to reset" in capsys.readouterr().err


def test_json_has_stdout_for_itself(tasks):
    _trained("Prints")
    for command in (["eval", "Prints", "--episodes", "2"], ["debug", "Prints", "--episodes", "3"]):
        ended = subprocess.run([*WORKER, *command, "--json"], capture_output=True, text=True)
        assert isinstance(json.loads(ended.stdout), dict)
        assert "its C library's banner" in ended.stderr


def test_a_picture_of_depth_is_a_picture_in_0_to_1(tasks):
    space = envs.spec("edge:Depth").observation_space
    assert (space.shape, float(space.low.min()), float(space.high.max())) == ((12, 12, 1), 0.0, 1.0)
    env = envs.make_vector("edge:Depth", 2, seed=1)
    assert env.reset()[0].max() == pytest.approx(40_000 / 65_535)


@pytest.mark.parametrize("id", ["LunarLander-v3", "CarRacing-v3", "Ant-v5"])
def test_a_missing_package_is_one_line_with_the_command(id, capsys):
    assert "pip install" in refused(capsys, "envs", "--env", id)


def test_a_limit_that_is_set_in_reset_is_read():
    pytest.importorskip("minigrid")
    assert envs.spec("BabyAI-GoToObj-v0").time_limit == 64


def test_a_limit_that_differs_by_the_episode_is_the_environments():
    pytest.importorskip("minigrid")
    assert envs.spec("BabyAI-GoToSeqS5R2-v0").time_limit == 100  # the first episode's
    env = envs.make_vector("BabyAI-GoToSeqS5R2-v0", 8, seed=1)
    env.reset()
    steps = np.array([env.step(np.full(8, 6))[3] for _ in range(400)]).argmax(axis=0) + 1
    assert set(steps) <= {100, 200, 300, 400} and steps.max() > 100


@pytest.mark.parametrize(
    "argv", ["--config a.yaml", "--env pomdp:a.yaml", "--env gridverse:a.yaml", "sweep a.yaml"]
)
def test_a_pipe_is_one_line_and_does_not_keep_its_reader_waiting(own_folder, argv, capsys):
    os.mkfifo("a.yaml")
    assert "is a pipe or a device; must be a file" in refused(capsys, *argv.split())
