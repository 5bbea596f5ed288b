"""The command `export` on a short run: its files, what loads them, what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import dtqn
from dtqn import cli
from dtqn.acting.evaluation import EvaluationResult
from dtqn.export import certificate
from dtqn.training import checkpoint, trained
from dtqn.training.directory import RunDir


def test_the_folder_is_a_run_for_load_and_eval(
    run_dir: Path, exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {
        *("README.md", "certificate.json", "config.yaml", "task.json", "metrics.jsonl", "learning_curve.png"),
        *("model.safetensors", "best.safetensors", "evaluation.gif"),
    }
    assert {path.name for path in exported.iterdir()} == names & (
        {path.name for path in run_dir.iterdir()} | names - {"evaluation.gif"}
    )
    for weights in ("last", "best"):
        one, other = dtqn.load(run_dir, weights), dtqn.load(exported, weights)
        env = one.make_env(5, seed=2)
        observation, _ = env.reset()
        for policy in (one, other):
            policy.reset(5)
        for _ in range(4):
            action, q = one.act(observation, np.zeros(5), return_q=True)
            np.testing.assert_array_equal(q, other.act(observation, np.zeros(5), return_q=True)[1])
            observation = env.step(action)[0]
        capsys.readouterr()
        for folder in (run_dir, exported):
            assert cli.main(["eval", str(folder), "--episodes", "20", "--checkpoint", weights, "--json"]) == 0
        of_run, of_export = capsys.readouterr().out.splitlines()
        assert of_run == of_export
    stored = {name: load_file(exported / f"{name}.safetensors") for name in ("model", "best")}
    kept = load_file(next(run_dir.glob("checkpoint/*/network.safetensors")))
    assert all((kept[name] == x).all() for name, x in stored["model"].items()) and len(kept) > 3


def test_rows_after_the_checkpoint_are_left_out(run_dir: Path, tmp_path: Path) -> None:
    """As of a run that trains on: they are not of the weights that are exported."""
    going, to = tmp_path / "run", tmp_path / "to"
    shutil.copytree(run_dir, going)
    with (going / "metrics.jsonl").open("a") as file:
        file.write('{"env_steps": 999999, "learner_steps": 9999}\n')
    assert cli.main(["export", str(going), "--to", str(to), "--episodes", "2"]) == 0
    assert (to / "metrics.jsonl").read_bytes() == (run_dir / "metrics.jsonl").read_bytes()
    metrics = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    assert certificate.read(to)["metrics"]["rows"] == len(metrics)


def test_the_scores_are_of_the_weights_that_are_exported(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that trains on replaces its weights while the first ones are played."""
    going, to = Path(shutil.copytree(run_dir, tmp_path / "run")), tmp_path / "to"
    evaluate = trained.evaluate_run

    def meanwhile(directory: RunDir, episodes: int, seed: int, weights: str) -> EvaluationResult:
        folder = going / "checkpoint"
        about, kept = checkpoint.load_described(folder)
        worse = {name: torch.zeros_like(x) for name, x in kept.items()}
        checkpoint.save_best(folder, worse, {"env_steps": 9999})
        checkpoint.save(folder, 9999, worse, {}, about)
        return evaluate(directory, episodes, seed, weights)

    monkeypatch.setattr(trained, "evaluate_run", meanwhile)
    assert cli.main(["export", str(going), "--to", str(to), "--episodes", "8", "--seed", "3"]) == 0
    for weights in ("last", "best"):
        made = certificate.score_of(certificate.read(to), weights)
        assert made == evaluate(RunDir(run_dir), 8, 3, weights)
        assert made == evaluate(RunDir(to), 8, 3, weights) != evaluate(RunDir(going), 8, 3, weights)


def test_a_task_that_has_changed_is_told(
    run_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = Path(shutil.copytree(run_dir, tmp_path / "run"))
    (changed / "task.json").write_text('{"digest": "0"}')
    capsys.readouterr()
    assert cli.main(["export", str(changed), "--to", str(tmp_path / "to"), "--episodes", "2"]) == 0
    error = capsys.readouterr().err
    assert error.startswith("warning: ") and "has changed since the run began" in error


def test_a_run_that_lacks_rows_is_not_exported(
    run_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lacking, to = Path(shutil.copytree(run_dir, tmp_path / "run")), tmp_path / "to"
    rows = (lacking / "metrics.jsonl").read_text().splitlines(keepends=True)
    (lacking / "metrics.jsonl").write_text("".join(rows[:-1]))
    capsys.readouterr()
    assert cli.main(["export", str(lacking), "--to", str(to)]) == 2
    error = capsys.readouterr().err
    count = len(rows)
    told = f"metrics.jsonl: ends after line {count - 1}, but the checkpoint was made after {count} rows; put"
    assert told in error and error.count("\n") == 1
    assert not to.exists()


def test_the_folder_that_one_is_in_is_filled(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["export", str(run_dir), "--episodes", "2", "--to"]
    (tmp_path / ".export.tmp").mkdir()  # of an export that was killed
    assert cli.main([*command, "."]) == 0
    assert Path("certificate.json").exists() and not Path(".export.tmp").exists()
    Path("empty").mkdir()
    Path("link").symlink_to("empty")
    assert cli.main([*command, "link"]) == 0
    assert Path("link").is_symlink() and Path("empty/certificate.json").exists()
    assert cli.main([*command, "empty/../new"]) == 0
    assert Path("new/certificate.json").exists()


def test_an_export_that_fails_leaves_an_empty_folder_empty(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def full(path: Path, to: Path) -> Path:
        if path.name == "config.yaml":
            raise OSError("no space")
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", full)
    assert cli.main(["export", str(run_dir), "--to", str(tmp_path), "--episodes", "2"]) == 2
    assert not list(tmp_path.iterdir())


def test_mistakes_are_one_line(
    run_dir: Path, exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty, damaged = tmp_path / "empty", tmp_path / "damaged"
    empty.mkdir()
    shutil.copytree(exported, damaged)
    (damaged / "certificate.json").write_text('{"format": 1}')
    for command, message in (
        (["export", str(run_dir), "--to", str(exported)], "it is there already"),
        (["export", str(exported), "--to", str(empty)], "is an exported agent already"),
        (["export", str(empty), "--to", str(tmp_path / "new")], "holds no run"),
        (["export", str(run_dir), "--to", str(empty), "--push", "name"], "must be a name such as"),
        (["verify", str(run_dir)], "is no exported agent (there is no certificate.json)"),
        (["verify", str(damaged)], "is no certificate of this program, or damaged: "),
        (["--resume", str(exported)], "is an exported agent, which has no checkpoint to go on from"),
    ):
        capsys.readouterr()
        assert cli.main(command) == 2
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1
    assert not list(empty.iterdir()) and not (tmp_path / "new").exists()
    assert cli.main(["export", str(run_dir), "--to", str(empty), "--episodes", "2"]) == 0
    assert (empty / "certificate.json").exists(), "an empty folder is taken"
