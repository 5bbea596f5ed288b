"""Code that files name is not run unless the user asked for it."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import dtqn
from dtqn.cli import main
from dtqn.program import WORKER
from dtqn.settings import trust
from tests.fuzz.damage import CASES
from tests.tiny import refused

_TASK = """
import pathlib
import gymnasium
pathlib.Path("ran").touch()

class Cue(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)

    def __init__(self, steps=3):
        self.steps = steps

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = self.steps
        return 0, {}

    def step(self, action):
        self.left -= 1
        return 1, 1.0, self.left == 0, False, {}
"""
_SMALL = [
    *("--total-env-steps", "40", "--warmup-env-steps", "20", "--agent", "gru", "--network.width", "8"),
    *("--evaluator", "inline", "--evaluation.episodes", "2", "--run-dir", "mine"),
]


@pytest.fixture
def folder(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with a task, and a home of their own."""
    (own_folder / "cue.py").write_text(_TASK)
    monkeypatch.setenv("XDG_STATE_HOME", str(own_folder / "state"))
    monkeypatch.setattr(trust, "_of_this_process", set())
    return own_folder


@pytest.fixture
def strangers(folder: Path) -> Path:
    """A run that somebody else has made of that task: the user has never named it."""
    assert main(["--env", "cue:Cue", *_SMALL]) == 0
    (folder / "mine").rename(folder / "theirs")
    trust.known_file().unlink()
    trust._of_this_process.clear()
    (folder / "ran").unlink()
    for name in [name for name in sys.modules if name == "cue"]:
        del sys.modules[name]
    return folder / "theirs"


_COMMANDS = (
    ["eval", "theirs", "--episodes", "1"],
    ["debug", "theirs", "--episodes", "2"],
    ["watch", "theirs"],
    ["report", "theirs"],
    ["export", "theirs", "--to", "out"],
    ["--resume", "theirs"],
    ["--config", "theirs/config.yaml", "--run-dir", "other"],
    ["--config", "theirs/config.yaml", "--print-config"],
)


def test_no_command_runs_what_a_strangers_folder_names(strangers, capsys):
    for command in _COMMANDS:
        said = refused(capsys, *command)
        assert said.startswith("theirs/config.yaml: env is cue:Cue, which is code"), command
    with pytest.raises(ValueError, match="--trust-code"):
        dtqn.load("theirs")
    assert not Path("ran").exists()


def test_it_runs_where_the_user_says_so_and_is_forgotten_after(strangers, capsys):
    assert main(["eval", "theirs", "--episodes", "1", "--trust-code"]) == 0
    assert Path("ran").exists()
    assert dtqn.load("theirs", trust_code=True).action_space.n == 2
    assert main(["eval", "theirs", "--episodes", "1"]) == 2


def test_a_run_of_ones_own_is_known_in_another_process_until_that_is_taken_back(folder, capsys):
    assert main(["--env", "cue:Cue", *_SMALL]) == 0
    again = [*WORKER, "eval", "mine", "--episodes", "1"]
    assert subprocess.run(again, capture_output=True).returncode == 0
    trust.known_file().write_text("")
    refused = subprocess.run(again, capture_output=True, text=True)
    assert (refused.returncode, "--trust-code" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    "change",
    [
        {"env": "subprocess:getoutput", "task": {"kwargs": {"cmd": "touch ran"}}},
        {"task": {"kwargs": {"steps": 9}}},
    ],
)
def test_other_code_or_other_arguments_than_ones_own_are_strange(folder, change, capsys):
    assert main(["--env", "cue:Cue", *_SMALL]) == 0
    file = Path("mine/config.yaml")
    config = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump({**config, **change, "task": config["task"] | change["task"]}))
    Path("ran").unlink()
    assert "which is code; give --trust-code" in refused(capsys, "eval", "mine")
    assert not Path("ran").exists()


def test_the_same_name_in_another_folder_is_other_code(folder, monkeypatch, tmp_path_factory):
    assert main(["--env", "cue:Cue", *_SMALL]) == 0
    other = tmp_path_factory.mktemp("other")
    (other / "cue.py").write_text(_TASK)
    run = subprocess.run([*WORKER, "eval", str(folder / "mine")], cwd=other, capture_output=True, text=True)
    assert (run.returncode, (other / "ran").exists()) == (2, False)


@pytest.mark.parametrize(
    ("case", "command"),
    [
        ("an agent names code", "--agent file.yaml"),
        ("settings of single agents name code", "--config file.yaml --agent gru"),
        ("a suite names code", "compare --agents gru --suite file.yaml"),
        ("a sweep names code", "sweep file.yaml"),
    ],
)
def test_files_of_settings_suites_and_sweeps_are_files_like_any_other(folder, case, command, capsys):
    (folder / "evil.py").write_text(_TASK)
    Path("file.yaml").write_text(yaml.safe_dump(CASES["others"][case]))
    said = refused(capsys, *command.split())
    assert "file.yaml" in said and "which is code; give --trust-code" in said
    assert not Path("ran").exists()


def test_typed_over_a_file_a_name_is_the_users(folder):
    Path("net.yaml").write_text("env: strange:Task\n")
    assert main(["--config", "net.yaml", "--env", "cue:Cue", *_SMALL]) == 0
