"""Tasks of a user's own, trained from a folder that holds only the user's files."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

import envs
from dtqn.settings.layers import to_yaml
from dtqn.settings.presets import resolve
from tests.tiny import printed, refused

ROOT = Path(__file__).parents[2]

DOCS = (ROOT / "docs" / "tasks" / "your-own.md").read_text()
CORRIDOR, RECALL = (block.split("```")[0] for block in DOCS.split("```python\n")[1:])

FAULTS = """
from corridor import Corridor


class FourTuple(Corridor):
    def step(self, action):
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, info


class Needy(Corridor):
    def __init__(self, size):
        super().__init__(size)


class NoEnv:
    pass


number = 3
"""

SMALL = (
    *("--agent", "drqn", "--total-env-steps", "300", "--evaluation.episodes", "4", "--wandb", "disabled"),
    *("--evaluation.num_envs", "2", "--actor.num_envs", "2", "--replay.capacity", "4000"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mine")
    (folder / "corridor.py").write_text(CORRIDOR)
    (folder / "recall.py").write_text(RECALL)
    (folder / "faults.py").write_text(FAULTS)
    (folder / "broken.py").write_text("x = 1\nx / 0\n")
    (folder / "needy.py").write_text("import math\nimport not_there_xyz\n")
    (folder / "misses.py").write_text("from corridor import Nothing\n")
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The program, with the folder of the user's files as the working directory."""
    return subprocess.run(
        [sys.executable, str(ROOT / "run.py"), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "WANDB_MODE": "disabled"},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_task_beside_the_user_is_trained_and_evaluated(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    task = ("--env", "corridor:Corridor", "--task.kwargs", "{length: 3}", "--task.success", "info:right")
    done = run(folder, *task, *SMALL, "--run-dir", "mine")
    assert done.returncode == 0, done.stderr
    assert "success" in done.stdout
    config = (folder / "mine" / "config.yaml").read_text()
    assert "  kwargs:\n    length: 3\n  success: info:right\n" in config
    monkeypatch.chdir(folder)
    figures = json.loads(printed(capsys, "eval", "mine", "--episodes", "4", "--json"))
    assert figures["length"] == 3.0
    assert figures["success"] == figures["return"]


def test_an_array_program_beside_the_user_is_checked_and_trained(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And, unlike an environment of Gymnasium's, resumed exactly."""
    monkeypatch.chdir(folder)
    envs.check_task("recall:Recall", kwargs={"length": 4})
    spec = envs.spec("recall:Recall")
    assert (spec.success, spec.time_limit) == ("The cue was named.", 27_000)
    task = ("--env", "recall:Recall", "--task.kwargs", "{length: 4}")
    told = printed(capsys, *task, *SMALL, "--run-dir", "recall")
    assert "film" not in told, "a task without pictures has none of its end"
    assert "not exact" not in printed(capsys, "--resume", "recall", "--total-env-steps", "340")


NEEDS = (
    "needs needy, which cannot be imported: it needs not_there_xyz, which is not installed (needy.py, line 2)"
)
MISSES = "needs misses, which cannot be imported: ImportError: cannot import name 'Nothing' from 'corridor'"
CANNOT = "needs coridor, which cannot be imported (No module named 'coridor')"
LENGTH = "task.kwargs is {'lenght': 3}, but corridor:Corridor takes no lenght; did you mean length?"


@pytest.mark.parametrize(
    ("task", "problem"),
    [
        (["coridor:Corridor"], CANNOT),
        (["needy:Task"], NEEDS),
        (["misses:Task"], MISSES),
        (["corridor:Coridor"], "corridor has neither a class nor a registered task 'Coridor' (it is"),
        (["faults:NoEnv"], "task faults:NoEnv is not a gymnasium.Env: it makes a NoEnv"),
        (["faults:number"], "task faults:number is not a gymnasium.Env: it is 3"),
        (["broken:Task"], "task broken:Task: importing broken failed: ZeroDivisionError: "),
        (["faults:FourTuple"], "task faults:FourTuple: its step returns 4 values; it must return five"),
        (["corridor:Corridor", "--task.kwargs", "{lenght: 3}"], LENGTH + " (it takes: length, reward)"),
        (["corridor:Corridor", "--task.kwargs", "{render_mode: x}"], "Corridor takes no render_mode"),
        (["corridor:Corridor", "--task.kwargs", "{length: 3"], "must be a mapping such as {length: 20}"),
        (["corridor:Corridor", "--task.kwargs", "3"],
            "task.kwargs is 3 (from --task.kwargs): must be a mapping such as {length: 20}, from names to "
            "finite numbers, text, true, false, none, and lists and mappings of these, or none"),
        (["corridor:Corridor", "--task.kwargs", "{length: 2020-01-01}"], "its reset failed: TypeError"),
        (["corridor:Corridor", "--task.success", "right"], "it must be info:KEY, return>X or return>=X"),
        (["corridor:Corridor", "--task.success", "info:no"], "has no 'no', which decides on success; it has"),
        (["faults:Needy"], "task faults:Needy needs size; give it in task.kwargs"),
        (["CartPole-v1", "--task.kwargs", "{sutton_bart: 1}"], "did you mean sutton_barto_reward?"),
        (["hallway", "--task.kwargs", "{n: 3}"], "task.kwargs is {'n': 3}, but hallway has no such option"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(
    folder: Path, task: list[str], problem: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Before anything is there."""
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    assert problem in refused(capsys, "--env", *task, *SMALL)
    assert [path for path in sorted(folder.iterdir()) if path.name != "__pycache__"] == [
        path for path in before if path.name != "__pycache__"
    ]


def test_arguments_reach_what_gymnasium_makes() -> None:
    """CartPole's reward of Sutton and Barto is 0 while the pole stands, and -1 at the end."""
    env = envs.make_vector("CartPole-v1", 1, seed=1, kwargs={"sutton_barto_reward": True})
    env.reset()
    timesteps = [env.step(np.zeros(1, np.int64)) for _ in range(20)]
    end = [bool(timestep[2][0]) for timestep in timesteps].index(True)
    assert [float(timestep[1][0]) for timestep in timesteps[: end + 1]] == [0.0] * end + [-1.0]


def test_every_command_of_the_documentation_names_a_task(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each `python run.py --env ...` of the pages is resolved; those of packages where they are installed."""
    monkeypatch.chdir(folder)
    pages = [ROOT / "docs" / "tasks" / name for name in ("your-own.md", "gymnasium.md")]
    commands = [
        shlex.split(line)[2:]
        for page in pages
        for line in page.read_text().splitlines()
        if line.startswith("    python run.py --env ")
    ]
    assert len(commands) >= 6
    for command in commands:
        if command[1].startswith("mypackage"):
            continue
        if command[1].startswith("MiniGrid") and importlib.util.find_spec("minigrid") is None:
            continue
        assert f"env: {command[1]}" in printed(capsys, *command, "--print-config")


def test_a_class_may_need_arguments(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without them there is no such task, so it is asked for with them alone."""
    monkeypatch.chdir(folder)
    printed(capsys, "--env", "faults:Needy", "--task.kwargs", "{size: 5}", "--print-config")
    told = refused(capsys, "--env", "faults:Needy", "--task.kwargs", "{length: 5}")
    assert told.startswith("env is faults:Needy: ")


def test_each_set_of_arguments_is_a_task_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)

    def steps(**kwargs: int) -> int:
        env = envs.make_vector("corridor:Corridor", 1, seed=1, kwargs=kwargs)
        env.reset()
        return [bool(env.step(np.zeros(1, np.int64))[2][0]) for _ in range(12)].index(True) + 1

    assert (steps(), steps(length=7), steps(length=2), steps()) == (10, 7, 2, 10)


def test_arguments_in_a_file_stay_as_they_are(tmp_path: Path, trusting: None) -> None:
    """No dash or dot in them is taken for one of a setting's name; a flag replaces all of them."""
    kwargs = {"sizes": {"a-b": 1, "c.d": [1, None, True]}, "text": "1e3"}
    given = {"env": "corridor:Corridor", "task": {"kwargs": kwargs}}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(given))
    assert resolve(tmp_path / "mine.yaml", {}, {}).task.kwargs == kwargs
    flags = {"task.kwargs": "{length: 3}"}
    config = resolve(tmp_path / "mine.yaml", flags, {})
    assert config.task.kwargs == {"length": 3}
    assert resolve(None, {"task.kwargs": "none"}, {}).task.kwargs is None
    assert to_yaml(config).count("length: 3") == 1


def test_a_users_files_stand_in_nobodys_way(tmp_path: Path) -> None:
    """Modules of the user's with names that the suite and its libraries use are not taken for these."""
    (tmp_path / "corridor.py").write_text(CORRIDOR)
    for name in ("replay", "yaml", "envs"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('not this one')\n")
    done = run(tmp_path, "envs", "--env", "corridor:Corridor", "--task.kwargs", "{length: 7}")
    assert done.returncode == 0, done.stderr
    assert "Walk to the end of a corridor, and say there which of two cues stood at its start." in done.stdout
    assert "corridor.py" in done.stdout


def test_the_folder_of_a_user_comes_last_in_pythons_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that what is imported later, by whomever, is what it was."""
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(tmp_path))])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sched.py").write_text("raise RuntimeError('not this one')\n")
    (tmp_path / "alone.py").write_text("class NoTask: pass\n")
    with pytest.raises(ValueError, match="it makes a NoTask"):
        envs.spec("alone:NoTask")
    assert sys.path[-1] == str(tmp_path)
    monkeypatch.delitem(sys.modules, "sched", raising=False)
    assert importlib.import_module("sched").scheduler
