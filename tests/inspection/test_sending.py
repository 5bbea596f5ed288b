"""The page at W&B, by offline files, and by none where a run was not tracked."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtqn import cli
from dtqn.inspection import report
from dtqn.inspection.page_runs import Run
from dtqn.settings import presets
from dtqn.training.directory import RunDir
from tests.training import wandb_file


def _run(folder: Path, mode: str = "offline", tracked: bool = True) -> Run:
    folder.mkdir()
    directory = RunDir(folder)
    if tracked:
        directory.wandb_id = "abcd1234"
    config = presets.resolve(None, {"wandb": mode}, {})
    rows = [{"env_steps": 100 * n, "eval/return": 0.5} for n in range(3)]
    return Run("run", config, rows, True, directory)


def test_the_page_is_an_artifact_of_its_run(tmp_path: Path) -> None:
    run, page, said = _run(tmp_path / "run"), tmp_path / "report.html", list[str]()
    page.write_text("<p>")
    report.send(run, page, None, said.append)
    wandb_file.wait()
    (file,) = tmp_path.glob("run/wandb/offline-run-*/run-*.wandb")
    assert [row["env_steps"] for row in wandb_file.history(file)] == [0, 100, 200]
    (artifact,) = wandb_file.artifacts(file)
    assert (artifact.name, artifact.type) == ("report-abcd1234", "report")
    assert [entry.path for entry in artifact.manifest.contents] == ["report.html"]
    assert said == ["sending the page to W&B"]


@pytest.mark.parametrize(
    "mode, tracked, asked",
    [("disabled", True, None), ("offline", False, None), ("offline", True, "disabled")],
)
def test_where_wandb_has_no_run_nothing_is_sent(
    mode: str, tracked: bool, asked: str | None, tmp_path: Path
) -> None:
    run = _run(tmp_path / "run", mode, tracked)
    report.send(run, tmp_path / "report.html", asked, pytest.fail)
    assert not (tmp_path / "run/wandb").exists()


def test_a_mode_that_there_is_not_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.main(["report", str(tmp_path), "--wandb", "later"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: wandb is later (from --wandb): must be ") and error.count("\n") == 1
    monkeypatch.setenv("WANDB_MODE", "never")
    assert cli.main(["report", str(tmp_path)]) == 2
    assert "WANDB_MODE" in capsys.readouterr().err
