"""The page on architecture: its files and symbols exist, and its examples run as they stand."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest

import envs
from dtqn import cli

_ROOT = Path(__file__).parents[1]
_PAGE = (_ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
_ANSWERS = re.findall(r"^\| [^|]+ \| `([\w/]+\.py)` \| `(\w+)` \|$", _PAGE, re.MULTILINE)
_FILES = re.findall(r"Save this as `([\w.]+)`:\n\n```\w+\n(.*?)```", _PAGE, re.DOTALL)
_COMMANDS = re.findall(r"^    python -m dtqn (.*)$", _PAGE, re.MULTILINE)
_SHORT = [
    *("--total-env-steps", "300", "--warmup-env-steps", "100", "--wandb", "disabled", "--device", "cpu"),
    *("--learner.batches.size", "4", "--evaluation.episodes", "4", "--replay.capacity", "8000"),
    *("--task.time-limit", "30", "--network.width", "16", "--network.head-width", "16"),
]


def _defined(file: str) -> set[str]:
    """Names of all functions, classes, methods and constants in a file."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((_ROOT / file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def test_it_answers_ten_questions() -> None:
    assert len(_ANSWERS) >= 10


@pytest.mark.parametrize(("file", "symbol"), _ANSWERS)
def test_a_named_file_defines_the_named_symbol(file: str, symbol: str) -> None:
    assert symbol in _defined(file)


def test_the_tree_names_every_folder_and_small_module() -> None:
    tree = _PAGE.partition("\n\n    envs/")[2].partition("\n\nThe first line")[0]
    folders = {
        path.name for path in (_ROOT / "dtqn").iterdir() if path.is_dir() and path.name != "__pycache__"
    }
    assert set(re.findall(r"^      (\w+)/", tree, re.MULTILINE)) == folders
    named = set(re.findall(r"\w+\.py", tree.rpartition("--")[2]))
    assert named <= {path.name for path in (_ROOT / "dtqn").glob("*.py")}


def test_the_first_line_of_every_file_says_what_it_holds() -> None:
    for top in ("dtqn", "envs", "replay"):
        for path in (_ROOT / top).rglob("*.py"):
            assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path


@pytest.mark.parametrize("command", _COMMANDS)
def test_an_example_runs_from_a_folder_that_holds_only_its_files(
    command: str, own_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, content in _FILES:
        (own_folder / name).write_text(content, encoding="utf-8")
    code = cli.main([*shlex.split(command), *_SHORT])
    assert code == 0, "".join(capsys.readouterr())
    assert list(own_folder.glob("runs/**/result.json"))


def test_its_task_refuses_a_state_that_is_none(own_folder: Path) -> None:
    (own_folder / "lamps.py").write_text(dict(_FILES)["lamps.py"], encoding="utf-8")
    envs.check_task("lamps:Lamp")
    env = envs.make_vector("lamps:Lamp", 2, seed=1)
    for state, problem in (({"lamp": 1}, "has no 'elapsed'"), ({"lamp": 2, "elapsed": 0}, "'lamp' holds 2")):
        with pytest.raises(ValueError, match=problem):
            env.reset(options={"state": state})
