"""The code of docs/extending.md, as it stands there, in a folder that holds nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
HEADINGS = [re.findall(r"^## (.+)$", TEXT[: TEXT.index(block)], re.MULTILINE)[-1] for block in BLOCKS]

_FLAGS = """
    --total-env-steps 200 --warmup-env-steps 100 --evaluation.episodes 2 --evaluation.num-envs 2
    --actor.num-envs 4 --replay.capacity 4000 --task.time-limit 10 --network.width 8 --wandb disabled
"""


def run(folder: Path, *arguments: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_chapter_has_a_block() -> None:
    assert re.findall(r"^## (.+)$", TEXT, re.MULTILINE) == HEADINGS


def test_the_blocks_run(tmp_path: Path) -> None:
    """In one process, the last first: the blocks before it import all that it imports, and more."""
    files = [tmp_path / f"block_{number}.py" for number in range(len(BLOCKS))]
    for file, block in zip(files, BLOCKS, strict=True):
        file.write_text(block)
    script = "import runpy, sys\nfor file in sys.argv[:0:-1]: runpy.run_path(file, run_name='__main__')"
    run(tmp_path, "-c", script, *(file.name for file in files))


def test_the_commands_train(tmp_path: Path) -> None:
    for name, block in zip(("my_core", "my_encoder"), BLOCKS, strict=False):
        (tmp_path / f"{name}.py").write_text(block)
    commands = re.findall(r"^    python -m dtqn (.+)$", TEXT, re.MULTILINE)
    assert len(commands) == 2
    flags = [word for command in commands for word in command.split()]
    assert "done in" in run(tmp_path, "-m", "dtqn", *flags, *_FLAGS.split())
