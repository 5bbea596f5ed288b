"""The code of docs/extending.md, as it stands there, in a folder that holds nothing else."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tiny import printed

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
HEADINGS = [re.findall(r"^## (.+)$", TEXT[: TEXT.index(block)], re.MULTILINE)[-1] for block in BLOCKS]

_FLAGS = """
    --total-env-steps 200 --warmup-env-steps 100 --evaluation.episodes 2 --evaluation.num-envs 2
    --actor.num-envs 4 --replay.capacity 4000 --task.time-limit 10 --network.width 8 --wandb disabled
"""


def test_each_chapter_has_a_block() -> None:
    assert re.findall(r"^## (.+)$", TEXT, re.MULTILINE) == HEADINGS


def test_the_blocks_run(tmp_path: Path) -> None:
    """In one process, the last first: the blocks before it import all that it imports, and more."""
    files = [tmp_path / f"block_{number}.py" for number in range(len(BLOCKS))]
    for file, block in zip(files, BLOCKS, strict=True):
        file.write_text(block)
    script = "import runpy, sys\nfor file in sys.argv[:0:-1]: runpy.run_path(file, run_name='__main__')"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", script, *(file.name for file in files)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_commands_train(own_folder: Path, capsys: pytest.CaptureFixture) -> None:
    for name, block in zip(("my_core", "my_encoder"), BLOCKS, strict=False):
        (own_folder / f"{name}.py").write_text(block)
    commands = re.findall(r"^    python -m dtqn (.+)$", TEXT, re.MULTILINE)
    core, compared, encoder = map(shlex.split, commands)
    assert "done in" in printed(capsys, *core, *encoder, *_FLAGS.split())
    more = ["--seeds", "1", "--wandb", "disabled", "--total-env-steps", "300", "--warmup-env-steps", "100"]
    assert "average" in printed(capsys, *compared, *more)
