"""`compare --also`: trained agents on other tasks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dtqn
from dtqn.experiments import also
from dtqn.experiments.comparison_pictures import draw_also
from dtqn.settings.config import ConfigError
from dtqn.settings.presets import resolve
from dtqn.training import trained
from dtqn.training.directory import RunDir
from tests import tiny

TASK, LONGER = "t-maze-passive-6", "t-maze-passive-9"


@pytest.mark.parametrize(
    ("names", "tasks"),
    [
        (["car-flag"], ["car-flag"]),
        (["t-maze-passive-{30,100}", "hallway"], ["t-maze-passive-30", "t-maze-passive-100", "hallway"]),
        (["a{1}b", "{x,y}"], ["a1b", "x", "y"]),
    ],
)
def test_braces_stand_for_several_tasks(names, tasks):
    assert also.read_tasks(names) == tasks


def test_figures_are_those_of_eval_and_nothing_is_played_twice(tmp_path, monkeypatch, capsys):
    config = resolve(None, {"env": TASK, "agent": "gru", "seed": "1"}, {})
    run = tiny.train(RunDir.of_config(config, tmp_path).path, "gru")
    monkeypatch.setattr(also, "config_hash", lambda config: "digest")  # the tiny run has other settings
    monkeypatch.setattr(also.RunDir, "of_config", lambda config, runs_dir: RunDir(run))
    file = tmp_path / "also.json"
    played = also.measured([config], tmp_path, [LONGER], file)
    for one, timesteps in zip(played, (8, 11), strict=True):
        result = dtqn.evaluate(run, also.EPISODES, also.SEED, other_task={"env": one.env})
        assert (one.name, one.value, one.timesteps) == ("success", result.success, timesteps)
    assert [one.env for one in played] == [TASK, LONGER]
    assert capsys.readouterr().out.count(f" {also.EPISODES} episodes of gru seed 1") == 2
    monkeypatch.setattr(trained, "evaluate_run", None)
    assert (
        also.measured([config], tmp_path, [LONGER], file)
        == played
        == [also.Played(**one) for one in json.loads(file.read_text())]
    )
    table = also.lines(played)
    assert len(table) == 3 and table[2].startswith(f"{TASK}  gru    {LONGER}  11")
    draw_also(played, tmp_path)
    assert (tmp_path / "also.png").stat().st_size > 5000
    (tmp_path / "empty").mkdir()
    draw_also([one._replace(timesteps=None) for one in played], tmp_path / "empty")
    assert not list((tmp_path / "empty").iterdir())

    file.write_text("[{}]")
    with pytest.raises(ConfigError, match=r"also.json: is damaged; put it back"):
        also.measured([config], tmp_path, [LONGER], file)


def test_what_does_not_fit_is_refused_before_a_run_begins(tmp_path: Path, capsys):
    command = ["compare", "--env", TASK, "--agents", "gru", "--runs-dir", tmp_path / "runs"]
    for other, why in (("hallway", "its observation space is "), ("t-maze-7", "unknown task ")):
        assert why in tiny.refused(capsys, *command, "--also", other)
    assert not (tmp_path / "runs").exists()
