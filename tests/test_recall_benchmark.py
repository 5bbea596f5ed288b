"""Recall by age, beside hand-made numbers and a plain loop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import envs
from benchmarks import recall
from dtqn import cli
from dtqn.acting.rows import VectorRows
from dtqn.networks.recall import Shown


def test_the_area_under_the_curve_by_hand() -> None:
    """Six pairs: 0.9 is above three, 0.2 above one, and one pair is equal."""
    positive, negative = np.float32([0.9, 0.2]), np.float32([0.1, 0.2, 0.5])
    assert recall.auc(positive, negative) == pytest.approx((3 + 1 + 0.5) / 6)


def test_ages_are_those_of_a_plain_loop() -> None:
    env = envs.make_vector("gridverse-memory-5x5", 3, 0, time_limit=6)
    rows, generator = VectorRows(env), np.random.default_rng(0)
    ages = recall.Ages(Shown(env.single_observation_space), 3)
    seen: list[dict[int, int]] = [{}, {}, {}]
    oldest = 0
    for t in range(40):
        ages.look(rows)
        for copy, last_seen in enumerate(seen):
            if rows.first[copy]:
                last_seen.clear()
            last_seen.update(dict.fromkeys(rows.observation[copy].tolist(), t))
            assert ages.age[copy].tolist() == [t - last_seen.get(value, t + 1) for value in range(21)]
        oldest = max(oldest, int(ages.age.max()))
        rows.step(generator.integers(6, size=3))
    assert oldest > 3


def test_a_memory_that_fades_is_told_by_age(monkeypatch: pytest.MonkeyPatch) -> None:
    """p = 1 / (1 + age) where it was shown, 0 elsewhere; a value that is always in sight is left out."""
    monkeypatch.setattr(recall, "LEAST", 2)
    monkeypatch.setattr(recall, "AGES", (0, 1, 3, 10))
    age = np.array([[0, 0], [1, 0], [2, 0], [-1, 0], [-1, 0], [4, 0]])
    probability = np.where(age < 0, 0.0, 1 / (1 + age.clip(0))).astype(np.float32)
    (found,) = recall.by_age(age, probability)
    assert found == {
        "from": 1,
        "below": 3,
        "p": pytest.approx((1 / 2 + 1 / 3) / 2),
        "auc": 1.0,
        "values": 1,
        "steps": 2,
    }


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _trained(tmp_path_factory.mktemp("run"))


def _trained(folder: Path, **settings: Any) -> Path:
    flags = {
        "env": "gridverse-memory-5x5",
        "agent": "mingru",
        "network.width": 8,
        "total-env-steps": 300,
        "warmup-env-steps": 100,
        "evaluation.period": 300,
        "evaluation.episodes": 4,
        "evaluation.num-envs": 4,
        "wandb": "disabled",
        "run-dir": folder,
        **settings,
    }
    words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    assert cli.main(words) == 0
    return folder


def test_a_run_is_measured(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "recall.json"
    flags = ["--copies", "32", "--ticks", "60", "--json", str(file)]
    assert recall.main([str(run), *flags]) == 0
    measured = json.loads(file.read_text())
    assert measured["env_steps"] >= 300 and measured["ages"][0]["from"] == 0
    assert all(0 <= x["p"] <= 1 and 0 <= x["auc"] <= 1 and x["steps"] >= 30 for x in measured["ages"])
    assert "0 to 0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--ticks", "0"], "error: --ticks is 0; it must be at least 1"),
        (["--epsilon", "2"], "error: --epsilon is 2.0; it must be from 0 to 1"),
    ],
)
def test_a_bad_flag_is_one_line(run: Path, flags: list[str], said: str, capsys: Any) -> None:
    assert recall.main([str(run), *flags]) == 2
    assert capsys.readouterr().err == said + "\n"


def test_a_run_without_recall_is_one_line(tmp_path: Path, capsys: Any) -> None:
    run = _trained(tmp_path / "run", **{"network.recall_weight": 0})
    capsys.readouterr()
    assert recall.main([str(run)]) == 2
    said = capsys.readouterr().err
    assert said.endswith("network.recall_weight is 0.0; it must be above 0\n") and said.count("\n") == 1
    assert recall.main([str(tmp_path / "absent")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
