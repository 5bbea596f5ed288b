"""The main job learns: minutes of training, so by its own command, `python -m pytest -m slow`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

RUN = str(Path(__file__).resolve().parents[1] / "run.py")


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_the_default_agent_solves_the_default_task(tmp_path: Path) -> None:
    run_dir = str(tmp_path / "run")
    subprocess.run([sys.executable, RUN, "--run-dir", run_dir, "--wandb", "disabled"], check=True)
    command = [sys.executable, RUN, "eval", run_dir, "--episodes", "500", "--seed", "7", "--json"]
    evaluated = subprocess.run(command, check=True, capture_output=True, text=True)
    assert json.loads(evaluated.stdout)["success"] >= 0.95
