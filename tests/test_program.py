"""The command that people have, and a process of this program that works wherever it is started."""

import subprocess
import sys
from pathlib import Path

import pytest

import dtqn
from dtqn import program
from dtqn.settings import layers

_ROOT = Path(dtqn.__file__).parents[1]


@pytest.mark.parametrize(
    ("started", "name"),
    [
        ("run.py", "python run.py"),
        ("../my code/run.py", "python '../my code/run.py'"),
        ("/usr/bin/dtqn", "dtqn"),
        ("dtqn.exe", "dtqn"),
        ("/usr/lib/python3/dtqn/__main__.py", "python -m dtqn"),
        ("-c", "python -m dtqn"),
        ("", "python -m dtqn"),
    ],
)
def test_messages_name_the_command_that_was_used(monkeypatch, started, name):
    monkeypatch.setattr(sys, "argv", [started, "--seed", "1"])
    assert program.program() == name


def _python(*arguments, cwd, **variables):
    environment = program.worker_environment() | variables
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True
    )


def test_a_worker_is_this_very_program_wherever_it_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", ["", *sys.path])  # `python -m` puts the present folder there
    monkeypatch.chdir(_ROOT)
    environment = program.worker_environment()
    for name in ("dtqn", "envs", "torch"):  # of the folder that it starts in nothing is taken
        (tmp_path / f"{name}.py").write_text("raise SystemExit(99)")
    command = [*program.WORKER[:-2], "-c", "import dtqn, envs, torch; print(dtqn.__file__)"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, dtqn.__file__), done.stderr
    done = subprocess.run(
        [*program.WORKER, "--version"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.stdout == dtqn.__version__ + "\n"


@pytest.mark.parametrize("name", ["envs", "replay"])
@pytest.mark.parametrize("file", ["{}.py", "{}/__init__.py"])
def test_a_package_in_the_place_of_ours_is_one_line(tmp_path, name, file):
    (tmp_path / name).mkdir()  # a folder without Python files is none
    done = _python("-m", "dtqn", "--version", cwd=tmp_path, PYTHONPATH=str(_ROOT))
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / file.format(name)).write_text("")
    done = _python("-m", "dtqn", "--version", cwd=tmp_path, PYTHONPATH=str(_ROOT))
    where = tmp_path / file.format(name).removesuffix("/__init__.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: the package {name} is {where}, and not dtqn's own, {_ROOT / name}; "
        "rename it or leave its folder\n"
    )


@pytest.mark.parametrize("module", ["dtqn.program", "dtqn.cli"])
def test_ctrl_c_among_the_first_imports_is_no_traceback(module: str) -> None:
    script = f"""
import builtins, sys
real = builtins.__import__
def pressed(name, globals=None, locals=None, fromlist=(), level=0):
    if {module!r} in (name, *(f"{{name}}.{{part}}" for part in fromlist or ())):
        raise KeyboardInterrupt
    return real(name, globals, locals, fromlist, level)
from dtqn.__main__ import main
builtins.__import__ = pressed
sys.exit(main())
"""
    done = _python("-c", script, cwd=_ROOT)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_presets_lie_beside_the_checkout_or_in_the_package(tmp_path, monkeypatch):
    assert layers.CONFIGS == _ROOT / "configs"
    (tmp_path / "dtqn" / "configs").mkdir(parents=True)
    monkeypatch.setattr(layers.importlib.resources, "files", lambda name: tmp_path / name)
    assert layers._shipped() == tmp_path / "dtqn" / "configs"


def test_a_users_own_envs_and_replay_are_named_in_one_line(tmp_path):
    (tmp_path / "replay.py").write_text("")
    loaded = _python("-c", "import sys; sys.path.insert(0, ''); import dtqn; dtqn.load('x')", cwd=tmp_path)
    last = loaded.stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: the package replay is {tmp_path / 'replay.py'}, and not dtqn's own")
    (tmp_path / "replay.py").unlink()
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs/mine.py").write_text("")
    for arguments in (["envs", "--env", "envs.mine:Task"], ["--env", "envs.mine:Task"]):
        refused = _python(*program.WORKER[1:], *arguments, cwd=tmp_path)
        right = "envs is a package of this program; give your own another name"
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert refused.stderr.endswith(f"needs envs.mine, which cannot be imported: {right}\n")
