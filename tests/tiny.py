"""Runs of seconds, for tests of what is done with a trained run."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtqn import cli
from dtqn.settings.presets import resolve

_FLAGS = (
    *("--env", "t-maze-passive-6", "--wandb", "disabled", "--threads", "1", "--device", "cpu"),
    *("--evaluator", "inline", "--total-env-steps", "600", "--warmup-env-steps", "200"),
    *("--metrics-every", "100", "--evaluation.period", "200", "--evaluation.episodes", "20"),
    *("--evaluation.first-episodes", "10", "--actor.num_envs", "4", "--replay.capacity", "2000"),
    *("--learner.batches.env_steps_per_update", "40", "--learner.batches.size", "4"),
    *("--network.width", "16"),
)


def train(folder: Path, agent: str, *flags: str) -> Path:
    """The directory of a run, by default in a T-Maze of seven steps; it begins with seed 1."""
    inside = ("--replay.learn_length", "3", "--replay.burn_in_length", "0") if agent == "gtrxl" else ()
    if hasattr(resolve(None, {"agent": agent}, {}).network.core, "mlp_width"):
        inside += ("--network.core.mlp_width", "16")
    command = [*_FLAGS, "--agent", agent, "--seed", "1", *inside, *flags, "--run-dir", str(folder)]
    assert cli.main(command) == 0
    return folder


def printed(capsys: pytest.CaptureFixture[str], *command: object) -> str:
    """What a command says that ends well."""
    capsys.readouterr()
    assert cli.main(list(map(str, command))) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *command: object) -> str:
    """The one line with which a command is refused, before it says anything, without its `error: `."""
    capsys.readouterr()
    assert cli.main(list(map(str, command))) == 2
    out, error = capsys.readouterr()
    assert not out and error.count("\n") == 1 and error.startswith("error: ")
    return error.removeprefix("error: ").removesuffix("\n")


def files(folder: Path) -> dict[str, bytes]:
    """What every file below a folder holds."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
