"""The page at W&B, by offline files, and by none where a run was not tracked."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtqn import cli
from dtqn.experiments.records import Outcome
from dtqn.inspection import sending
from dtqn.inspection.page_runs import Run
from dtqn.settings import presets
from dtqn.training.directory import RunDir
from tests.training import wandb_file


def _run(folder: Path, label: str, mode: str = "offline", tracked: bool = True) -> Run:
    folder.mkdir()
    directory = RunDir(folder)
    if tracked:
        directory.wandb_id = f"id-{label}"
    config = presets.resolve(None, {"wandb": mode}, {})
    rows = [{"env_steps": 100 * n, "eval/return": 0.5} for n in range(3)]
    return Run(label, Outcome(config, "finished", rows, None, str(folder), ""), directory)


def test_the_page_is_an_artifact_of_its_run_or_of_a_run_of_its_own(tmp_path: Path) -> None:
    one, two = (_run(tmp_path / name, name) for name in ("one", "two"))
    page, said = tmp_path / "report.html", list[str]()
    page.write_text("<p>")
    sending.send([one], page, "title", None, said.append)
    sending.send([one, two], page, "title", None, said.append)
    wandb_file.wait()
    (of_one,), (of_both,) = (
        folder.glob("wandb/offline-run-*/run-*.wandb") for folder in (tmp_path / "one", tmp_path)
    )
    assert [row["env_steps"] for row in wandb_file.history(of_one)] == [0, 100, 200]
    for file, name in ((of_one, "id-one"), (of_both, wandb_file.run(of_both).run_id)):
        (artifact,) = wandb_file.artifacts(file)
        assert (artifact.name, artifact.type) == (f"report-{name}", "report")
        assert [entry.path for entry in artifact.manifest.contents] == ["report.html"]
    run = wandb_file.run(of_both)
    assert (run.display_name, run.job_type) == ("title", "report")
    assert wandb_file.config(of_both)["runs"] == ["id-one", "id-two"]
    assert said == ["sending the page to W&B"] * 2


@pytest.mark.parametrize(
    "mode, tracked, asked",
    [("disabled", True, None), ("offline", False, None), ("offline", True, "disabled")],
)
def test_where_wandb_has_no_run_nothing_is_sent(
    mode: str, tracked: bool, asked: str | None, tmp_path: Path
) -> None:
    run = _run(tmp_path / "run", "run", mode, tracked)
    sending.send([run], tmp_path / "report.html", "title", asked, pytest.fail)
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
