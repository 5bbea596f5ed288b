"""T-Maze's last decision: what was tried, beside the dynamics' own state; Q of a hand-made policy."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import envs
from benchmarks import junction
from dtqn import cli
from dtqn.settings.presets import resolve
from dtqn.training.trainer import Trainer
from envs.vector import NativeVectorEnv

SMALL = {
    "env": "t-maze-passive-2",
    "total_env_steps": 2000,
    "warmup_env_steps": 500,
    "network.width": 8,
    "actor.num_envs": 4,
    "evaluation.episodes": 4,
    "evaluation.num_envs": 4,
    "wandb": "disabled",
    "threads": 1,
    "evaluator": "inline",
}


@pytest.mark.parametrize("env", ["t-maze-passive-2", "t-maze-active-1"])
def test_tried_is_what_the_mazes_saw(env: str) -> None:
    torch.manual_seed(0)
    trainer = Trainer(
        resolve(None, SMALL | {"env": env, "total_env_steps": 100_000, "warmup_env_steps": 100_000}, {})
    )
    mazes = trainer.actor.rows.env
    assert isinstance(mazes, NativeVectorEnv)
    start = int(env == "t-maze-active-1")
    junction_x = start + (2 if start == 0 else 1)
    expected: Counter[tuple[int, int]] = Counter()
    shown = np.zeros(4, np.int64)
    for _ in range(3000):
        before = mazes.get_state()["state"]
        tick = trainer.actor.tick()[0]
        trainer.replay.append(trainer.schema.stored(tick))
        after_action = np.array(trainer.actor.rows.prev_action)
        seen = (before["position"][:, 0] == 0) & ~before["visited"]
        shown = np.where(tick.first, 0, shown) + seen
        for copy in range(4):
            if tick.last[copy]:
                continue
            over = before["time"][copy] == junction_x + start
            if over and before["position"][copy, 0] == junction_x and shown[copy]:
                expected[int(before["goal"][copy]), int(after_action[copy])] += 1
    counts = junction.tried(trainer)
    trainer.close()
    open_episodes = 4  # those that end after the last tick are not stored yet
    told = {(side, a): int(counts[row, a]) for row, side in enumerate((1, -1)) for a in range(4)}
    assert min(told.values()) > 0, "every case occurs"
    difference = Counter(expected)
    difference.subtract(told)
    assert min(difference.values()) >= 0 and sum(difference.values()) <= open_episodes


class _Remembering:
    """Knows the side: Q of the goal's action is 1, that of the other -1, and 0.5 of going on."""

    def __init__(self, env: Any) -> None:
        self._env, self.told = env, []

    def make_env(self, count: int) -> Any:
        return self._env(count)

    def reset(self, count: int) -> None:
        self.side = np.zeros(count)

    def acted(self, action: np.ndarray) -> None:
        self.told.append(action.tolist())

    def act(self, observation: np.ndarray, return_q: bool = False) -> Any:
        at_junction, y = observation.T
        self.side = np.where((self.side == 0) & (at_junction == 0), y, self.side)
        q = np.stack([np.full(len(y), 0.5), self.side, at_junction, -self.side], axis=1)
        return (q.argmax(axis=1), q) if return_q else q.argmax(axis=1)


@pytest.mark.parametrize("env, way", [("t-maze-passive-3", [0] * 3), ("t-maze-active-3", [2, *[0] * 4])])
def test_values_are_those_at_the_junction(env: str, way: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    policy = _Remembering(lambda count: envs.make_vector(env, count, seed=0))
    monkeypatch.setattr(junction.dtqn, "load", lambda run: policy)
    assert junction.shortest_way(env) == way
    assert junction.values(Path("run"), way) == {1: [0.5, 1, 1, -1], -1: [0.5, -1, 1, 1]}
    assert policy.told == [[action] * junction.COPIES for action in way]


def trained(run: Path, **settings: Any) -> Path:
    flags = SMALL | settings | {"run-dir": run}
    assert cli.main([x for name, value in flags.items() for x in (f"--{name}", str(value))]) == 0
    return run


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    run = trained(tmp_path / "run")
    capsys.readouterr()
    assert junction.main([str(run), "--json", str(tmp_path / "x.json")]) == 0
    printed = capsys.readouterr().out.splitlines()
    told = json.loads((tmp_path / "x.json").read_text())
    assert told["env"] == "t-maze-passive-2" and told["env_steps"] == 2000
    assert [(x["goal"], x["action"]) for x in told["junction"]] == [
        (goal, action) for goal in ("up", "down") for action in ("right", "up", "left", "down")
    ]
    assert sum(x["tried"] for x in told["junction"]) > 20
    for row, line in zip(told["junction"], printed[1:], strict=True):
        assert line.split() == [row["goal"], row["action"], f"{row['q']:.3f}", str(row["tried"])]


def test_another_task_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    run = trained(tmp_path / "run", env="memory-cards", total_env_steps=300, warmup_env_steps=100)
    capsys.readouterr()
    assert junction.main([str(run)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "error: env is memory-cards; it must be a T-Maze, such as t-maze-passive-10"
    assert junction.main([str(tmp_path / "missing")]) == 2


def test_sequences_that_hold_no_episode_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    flags = [x for name, value in SMALL.items() for x in (f"--{name}", str(value))]
    flags += ["--replay.learn_length", "2", "--run-dir", str(run), "--total_env_steps", "600"]
    assert cli.main(flags) == 0
    capsys.readouterr()
    assert junction.main([str(run)]) == 2
    assert capsys.readouterr().err == (
        "error: replay.learn_length is 2: of episodes of 3 steps or more no stored sequence is a whole one, "
        "so none can be counted\n"
    )
