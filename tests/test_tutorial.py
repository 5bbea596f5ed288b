"""The commands of docs/tutorial.md, as they stand there, with small numbers after them."""

import re
import shlex
from pathlib import Path

from dtqn import cli

_DOCS = Path(__file__).parents[1] / "docs"
_TEXT = (_DOCS / "tutorial.md").read_text(encoding="utf-8")
_OWN_CORE = """
    --total-env-steps 300 --metrics-every 100 --warmup-env-steps 100 --evaluation.period 150
    --evaluation.episodes 4 --evaluation.num-envs 4 --actor.num-envs 4 --replay.capacity 4000
    --network.width 8 --task.time-limit 20 --network.head-width 8 --learner.batches.size 2 --wandb disabled
"""
_TRAINING = (
    f"{_OWN_CORE} --network.core.memory_length 5 --network.core.num_layers 1 --network.core.mlp_width 8"
)
_SMALL = {
    "train": _TRAINING,
    "eval": "--episodes 4",
    "envs": "",
    "compare": f"{_TRAINING} --seeds 1",
    "debug": "--episodes 4",
    "report": "--episodes 4",
    "sweep": f"{_TRAINING} --run-cap 1",
}


def _commands():
    lines = [shlex.split(line) for line in _TEXT.splitlines() if line.startswith("    python ")]
    return [words[2:] for words in lines if words[1] == "run.py"]


def _small(command):
    if "--network.core" in command:  # whose settings are not those of a transformer
        return _OWN_CORE.split()
    return _SMALL[_name(command)].split()


def _name(command):
    return "train" if command[0].startswith("-") else command[0]


def _python_of(page):
    return re.findall(r"```python\n(.*?)```", page, re.DOTALL)


def test_the_tutorial(own_folder, capsys):
    (own_folder / "configs").symlink_to(_DOCS.parent / "configs")
    (environment,) = _python_of(_TEXT)
    (own_folder / "lamp.py").write_text(environment)
    core = _python_of((_DOCS / "extending.md").read_text(encoding="utf-8"))[0]
    (own_folder / "my_core.py").write_text(core)
    commands, printed = _commands(), []
    for command in commands:
        assert cli.main([*command, *_small(command)]) == 0, capsys.readouterr()
        printed.append(capsys.readouterr().out)
    names = ["envs", "train", "compare", "train", "train", "debug", "report", "sweep", "train", "eval"]
    assert [_name(command) for command in commands] == names
    assert "learning_curve.png" in {file.name for file in (own_folder / "runs").rglob("*")}
    assert "2 runs: 1 finished" in printed[2] or "gtrxl seed 1: finished" in printed[2]
    begun = list((own_folder / "runs").rglob("output.log"))
    assert len(begun) == 2, "the comparison trains drqn alone, the sweep one configuration"
    assert "gtrxl" in (own_folder / "table/table.md").read_text()
    assert "drqn" in (own_folder / "table/table.md").read_text()
    assert "uses its memory?" in printed[5]
    for file in (
        *("task.gif", "sweep/leaderboard.csv", "sweep/best.yaml", "tuned/evaluation.gif"),
        *("average/result.json", "mine/debug/debug.json", "mine/report.html"),
    ):
        assert (own_folder / file).stat().st_size > 0
    assert "4 episodes" in printed[-1]
