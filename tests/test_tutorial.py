"""The commands of docs/tutorial.md, as they stand there, with small numbers after them."""

import shlex
from pathlib import Path

from dtqn import cli

_ROOT = Path(__file__).parents[1]
_TRAINING = """
    --total-env-steps 300 --metrics-every 100 --warmup-env-steps 100 --evaluation.period 150
    --evaluation.episodes 4 --evaluation.num-envs 4 --actor.num-envs 4 --replay.capacity 4000
    --network.core.memory_length 5 --network.width 8 --network.core.num_layers 1 --network.core.mlp_width 8
    --task.time-limit 20 --network.head-width 8 --learner.batches.size 2 --wandb disabled
"""
_SMALL = {
    "train": _TRAINING,
    "eval": "--episodes 4",
    "envs": "",
    "compare": f"{_TRAINING} --seeds 1",
    "sweep": f"{_TRAINING} --run-cap 1",
}


def _commands():
    lines = (_ROOT / "docs" / "tutorial.md").read_text().splitlines()
    commands = [shlex.split(line) for line in lines if line.startswith("    python ")]
    return [command[2:] for command in commands if command[1] == "run.py"]


def test_the_tutorial(tmp_path, monkeypatch, capsys):
    (tmp_path / "configs").symlink_to(_ROOT / "configs")
    monkeypatch.chdir(tmp_path)
    commands, printed = _commands(), []
    for command in commands:
        name = "train" if command[0].startswith("-") else command[0]
        assert cli.main([*command, *_SMALL[name].split()]) == 0, capsys.readouterr()
        printed.append(capsys.readouterr().out)
    names = ["envs", "train", "compare", "sweep", "train", "eval"]
    assert [command[0] if command[0][0] != "-" else "train" for command in commands] == names
    assert "learning_curve.png" in {file.name for file in (tmp_path / "runs").rglob("*")}
    assert "2 runs: 1 finished" in printed[2] or "gtrxl seed 1: finished" in printed[2]
    begun = list((tmp_path / "runs").rglob("output.log"))
    assert len(begun) == 2, "the comparison trains drqn alone, the sweep one configuration"
    assert "gtrxl" in (tmp_path / "table/table.md").read_text()
    assert "drqn" in (tmp_path / "table/table.md").read_text()
    for file in ("task.gif", "sweep/leaderboard.csv", "sweep/best.yaml", "tuned/evaluation.gif"):
        assert (tmp_path / file).stat().st_size > 0
    assert "4 episodes" in printed[-1]
