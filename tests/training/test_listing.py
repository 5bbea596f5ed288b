"""The command `runs`: what is told of good folders, and of a stranger's."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from dtqn.training.directory import RunDir
from tests.tiny import printed


@pytest.fixture
def folder(tiny_run, tmp_path):
    """Runs that finished and stopped, one of other settings, and what is none."""
    for name in ("deep/a", "b", "c"):
        shutil.copytree(tiny_run, tmp_path / name)
    config = (tmp_path / "b/config.yaml").read_text()
    assert "use_prev_reward: false" in config
    (tmp_path / "b/config.yaml").write_text(config.replace("use_prev_reward: false", "use_prev_reward: true"))
    (tmp_path / "c/result.json").unlink()
    rows = (tmp_path / "c/metrics.jsonl").read_text().splitlines()[:4]
    (tmp_path / "c/metrics.jsonl").write_text("".join(f"{row}\n" for row in rows))
    for name in ("forged", "pipe", "huge", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "forged/config.yaml").write_text('env: "\\e[2Jx"\nagent: gtrxl\nseed: 1\n')
    os.mkfifo(tmp_path / "pipe/metrics.jsonl")
    shutil.copy(tiny_run / "config.yaml", tmp_path / "huge")
    (tmp_path / "huge/metrics.jsonl").write_text(f'{{"env_steps": 1{"0" * 400}}}\n' * 2)
    (tmp_path / "away").symlink_to("/etc")
    (tmp_path / "again").symlink_to(tmp_path / "b")
    return tmp_path


def test_a_program_gets_states_figures_and_commands(folder, capsys):
    told = json.loads(printed(capsys, "runs", folder, "--json"))
    runs = {str(Path(run["run_dir"]).relative_to(folder)): run for run in told["runs"]}
    assert {name: run["state"] for name, run in runs.items()} == {
        **{"b": "finished", "c": "stopped", "deep/a": "finished", "huge": "stopped"},
    }
    rows = [json.loads(line) for line in (folder / "c/metrics.jsonl").read_text().splitlines()]
    last = [row for row in rows if row.get("eval/return") is not None][-1]
    assert (runs["c"]["env_steps"], runs["c"]["total_env_steps"]) == (rows[-1]["env_steps"], 600)
    assert runs["c"]["evaluation"] == {name: last[name] for name in last if name.startswith("eval/")}
    assert runs["c"]["command"].endswith(f" --resume {folder / 'c'}") and not runs["b"]["command"]
    assert {Path(path).name for path in told["broken"]} == {"away", "forged", "pipe"}
    with RunDir(folder / "c").lock():
        (run,) = json.loads(printed(capsys, "runs", folder / "c", "--json"))["runs"]
    assert run["state"] == "running"


def test_people_get_lines_that_fit(folder, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    lines = printed(capsys, "runs", folder).splitlines()
    told = "".join("".join(lines).split())  # as lines break anywhere in a long path
    for head, state in (
        ("gtrxl", "cstopped400of600"),
        ("gtrxlnetwork.encoder.use_prev_reward=true", "bfinished600"),
    ):
        assert f"t-maze-passive-6{head},in{folder}{state}success" in told
    assert f"t-maze-passive-6gtrxl,in{folder}/deepafinished600success" in told
    assert max(len(line) for line in lines if "--resume" not in line) <= 80
    assert "\x1b" not in told and f"{folder}/away:broken:isalinkto/etc,outside" in told
    assert printed(capsys, "runs", folder / "empty") == f"no runs in {folder}/empty\n"
