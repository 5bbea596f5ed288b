"""Q before the ends of episodes, beside a plain loop over the rows that the actor handed out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import by_heart
from dtqn import cli
from dtqn.networks.recall import Shown
from dtqn.settings.presets import resolve
from dtqn.training.trainer import Trainer

BEACONS = (11, 12, 13, 14)
SMALL = {
    "env": "gridverse-memory-5x5",
    "task.time_limit": 20,
    "total_env_steps": 100_000,
    "network.width": 8,
    "actor.num_envs": 4,
    "replay.learn_length": 12,  # and three rows behind them
    "wandb": "disabled",
    "threads": 1,
    "evaluator": "inline",
}


def plain_ends(trainer: Trainer, ticks: int) -> list[tuple[float, bool, bool]]:
    """(Q of the last action, good end, cue shown) of each episode that ends itself within 15 rows."""
    rows: list[list[Any]] = [[] for _ in range(4)]
    found = []
    for _ in range(ticks):
        tick = trainer.actor.tick()[0]
        trainer.replay.append(trainer.schema.stored(tick))
        for copy, episode in enumerate(rows):
            if tick.first[copy]:
                episode.clear()
            at = {name: getattr(tick, name)[copy] for name in ("observation", "reward", "q_taken")}
            episode.append(at)
            if tick.last[copy] and not tick.discount[copy] and len(episode) <= 15:
                shown = any(value in BEACONS for row in episode[:-1] for value in row["observation"])
                found.append((float(episode[-2]["q_taken"]), bool(at["reward"] > 0), shown))
    return found


def test_ends_are_those_of_a_plain_loop() -> None:
    """The parameters stay as they are, so Q is what the actor saw."""
    torch.manual_seed(0)
    trainer = Trainer(resolve(None, SMALL, {}))
    expected = plain_ends(trainer, 700)
    told = by_heart.ends(trainer, Shown(trainer.actor.rows.env.single_observation_space), BEACONS)
    trainer.close()
    ours = sorted(zip(told.q.tolist(), told.good.tolist(), told.shown.tolist(), strict=True))
    assert len(ours) == len(expected) > 50
    assert {x[1:] for x in ours} == {(good, shown) for good in (True, False) for shown in (True, False)}
    for one, other in zip(ours, sorted(expected), strict=True):
        assert one[0] == pytest.approx(other[0], abs=1e-5)
    assert sorted(x[1:] for x in ours) == sorted(x[1:] for x in expected)


def test_kinds_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Older half: 0.9 and 0.1 before good ends, 0.5 before the bad one; newer half: one end of each kind."""
    monkeypatch.setattr(by_heart, "LEAST", 1)
    old = by_heart.Ends(
        np.array([1, 2, 3, 7, 8, 9]),
        np.float32([0.9, 0.1, 0.5, 0.2, 0.4, 0.3]),
        np.array([True, True, False, True, False, False]),
        np.zeros(6, bool),
    )
    fresh = by_heart.Ends(np.array([10, 11]), np.float32([1, 1]), np.array([True, False]), np.ones(2, bool))
    found = by_heart.kinds(old, fresh)
    assert [(x["episodes"].split()[-4:][0], x["cue shown"], x["count"], x["auc"]) for x in found] == [
        ("older", False, 3, 0.5),
        ("newer", False, 3, 0.0),
        ("fresh", True, 2, 0.5),
    ]
    assert found[0]["q before a good end"] == pytest.approx(0.5)


def trained(run: Path, env_steps: int) -> Path:
    """A run of so many steps."""
    more = {"total_env_steps": env_steps, "warmup_env_steps": 200, "evaluation.episodes": 4, "run-dir": run}
    assert cli.main([x for name, value in (SMALL | more).items() for x in (f"--{name}", str(value))]) == 0
    return run


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_heart, "LEAST", 2)
    run = trained(tmp_path / "run", 1500)
    kept = sorted((path, path.stat().st_mtime_ns) for path in run.rglob("*"))
    file = tmp_path / "x.json"
    assert by_heart.main([str(run), "--fresh-steps", "3000", "--json", str(file)]) == 0
    printed = capsys.readouterr().out.splitlines()
    told = json.loads(file.read_text())
    assert told["env_steps"] >= 1500 and told["cue"] == list(BEACONS)
    fresh = next(x for x in told["kinds"] if x["episodes"] == "fresh" and not x["cue shown"])
    assert fresh["count"] > 20
    assert any(line.startswith("fresh") and f"{fresh['auc']:.2f}" in line for line in printed)
    assert sorted((path, path.stat().st_mtime_ns) for path in run.rglob("*")) == kept, "the run was changed"


def test_a_checkpoint_of_another_version_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained(tmp_path / "run", 300)
    capsys.readouterr()

    def other(*_: Any) -> None:
        raise ValueError("replay state: fields differ in novel")

    monkeypatch.setattr(Trainer, "set_state", other)
    assert by_heart.main([str(run)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(
        "checkpoint: does not fit this version (ValueError: replay state: fields differ in novel)"
    )


@pytest.mark.parametrize(
    "flags, says",
    [
        (["--cue", "11,x"], "--cue is '11,x'; it must be whole numbers, such as 11,12,13,14"),
        (["--fresh-steps", "0"], "--fresh-steps is 0; it must be at least 1"),
        ([], "missing"),
    ],
)
def test_what_is_wrong_is_one_line(
    flags: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert by_heart.main([str(tmp_path / "missing"), *flags]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
