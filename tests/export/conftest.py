"""The export of a short run, made once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dtqn import cli


@pytest.fixture(scope="session")
def exported(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("exports") / "exported"
    assert cli.main(["export", str(tiny_run), "--to", str(to), "--episodes", "40"]) == 0
    return to


@pytest.fixture
def copied(exported: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(exported, tmp_path / "copied"))
