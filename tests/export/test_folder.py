"""The command `export` on a short run: its files, what loads them, their certificate, what is refused."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import dtqn
from dtqn import cli
from dtqn.acting.evaluation import EvaluationResult
from dtqn.export import folder
from dtqn.training import checkpoint, trained
from dtqn.training.directory import RunDir
from tests import tiny
from tests.export.edits import set_value


def test_the_folder_is_a_run_for_load_and_eval(
    tiny_run: Path, exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {
        *("README.md", "certificate.json", "config.yaml", "task.json", "metrics.jsonl", "learning_curve.png"),
        *("model.safetensors", "best.safetensors", "evaluation.gif"),
    }
    assert {path.name for path in exported.iterdir()} == names & (
        {path.name for path in tiny_run.iterdir()} | names - {"evaluation.gif"}
    )
    for weights in ("last", "best"):
        one, other = dtqn.load(tiny_run, weights), dtqn.load(exported, weights)
        env = one.make_env(5, seed=2)
        observation, _ = env.reset()
        for policy in (one, other):
            policy.reset(5)
        for _ in range(4):
            action, q = one.act(observation, np.zeros(5), return_q=True)
            np.testing.assert_array_equal(q, other.act(observation, np.zeros(5), return_q=True)[1])
            observation = env.step(action)[0]
        flags = ["--episodes", 20, "--checkpoint", weights, "--json"]
        of_run = tiny.printed(capsys, "eval", tiny_run, *flags)
        assert of_run == tiny.printed(capsys, "eval", exported, *flags)
    stored = {name: load_file(exported / f"{name}.safetensors") for name in ("model", "best")}
    kept = load_file(next(tiny_run.glob("checkpoint/*/network.safetensors")))
    assert all((kept[name] == x).all() for name, x in stored["model"].items()) and len(kept) > 3


def test_rows_after_the_checkpoint_are_left_out(tiny_run: Path, tmp_path: Path) -> None:
    """As of a run that trains on: they are not of the weights that are exported."""
    going, to = tmp_path / "run", tmp_path / "to"
    shutil.copytree(tiny_run, going)
    with (going / "metrics.jsonl").open("a") as file:
        file.write('{"env_steps": 999999, "learner_steps": 9999}\n')
    assert cli.main(["export", str(going), "--to", str(to), "--episodes", "2"]) == 0
    assert (to / "metrics.jsonl").read_bytes() == (tiny_run / "metrics.jsonl").read_bytes()


def test_the_scores_are_of_the_weights_that_are_exported(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that trains on replaces its weights while the first ones are played."""
    going, to = Path(shutil.copytree(tiny_run, tmp_path / "run")), tmp_path / "to"
    evaluate = trained.evaluate_run

    def meanwhile(directory: RunDir, episodes: int, seed: int, weights: str) -> EvaluationResult:
        there = going / "checkpoint"
        about, kept = checkpoint.load_weights(there)
        worse = {name: torch.zeros_like(x) for name, x in kept.items()}
        checkpoint.save_weights(there, "best", worse, {"env_steps": 9999})
        checkpoint.save(there, 9999, worse, {}, about)
        return evaluate(directory, episodes, seed, weights)

    monkeypatch.setattr(trained, "evaluate_run", meanwhile)
    assert cli.main(["export", str(going), "--to", str(to), "--episodes", "8", "--seed", "3"]) == 0
    for weights in ("last", "best"):
        made = folder.read(to).scores[weights].result
        assert made == evaluate(RunDir(tiny_run), 8, 3, weights)
        assert made == evaluate(RunDir(to), 8, 3, weights) != evaluate(RunDir(going), 8, 3, weights)


def test_the_certificate_says_what_there_is(tiny_run: Path, exported: Path) -> None:
    made = json.loads((exported / "certificate.json").read_text())
    for path in exported.iterdir():
        if path.name != "certificate.json":
            assert made["files"].pop(path.name) == hashlib.sha256(path.read_bytes()).hexdigest()
    assert not made["files"]
    assert made["command"] == "python -m dtqn --config config.yaml"
    result = json.loads((tiny_run / "result.json").read_text())
    for name in ("code", "machine", "env_steps", "learner_steps", "threads", "device", "program"):
        assert made["trained"][name] == result[name]
    assert made["trained"]["code"] == [made["exported"]["code"]]
    assert {"python", "torch", "numpy", "gymnasium"} <= made["exported"]["versions"].keys()
    assert [made["scores"][name]["episodes"] for name in ("last", "best")] == [40, 40]


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("scores.last.success", "a", "scores.last.success is a: must be a valid number"),
        (
            "scores.last.episode_return",
            math.nan,
            "scores.last.episode_return is nan: must be a finite number",
        ),
        ("scores.last.seed", None, "scores.last.seed is None: must be a valid integer"),
        ("scores.last.seed", -1, "scores.last.seed is -1: must be greater than or equal to 0"),
        ("scores.last.seed", ..., "scores.last.seed is missing"),
        ("scores.last.episodes", 0, "scores.last.episodes is 0: must be greater than or equal to 1"),
        ("scores.last.episodes", 10**12, "scores.last.episodes is 1000000000000: must be less than "),
        ("scores.best", None, "scores.best is None: must be "),
        ("exported", ..., "exported is missing"),
        ("files", 5, "files is 5: must be "),
        ("format", 1, "format is 1: must be 2"),
    ],
)
def test_a_damaged_certificate_is_refused_in_one_line(
    copied: Path, capsys: pytest.CaptureFixture[str], name: str, value: object, told: str
) -> None:
    set_value(name, value)(copied)
    error = tiny.refused(capsys, "verify", copied)
    start = f"{copied / 'certificate.json'}: is no certificate of this program, or damaged: "
    assert error.startswith(start) and told in error


def test_a_task_that_has_changed_is_told(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = Path(shutil.copytree(tiny_run, tmp_path / "run"))
    (changed / "task.json").write_text('{"digest": "0"}')
    capsys.readouterr()
    assert cli.main(["export", str(changed), "--to", str(tmp_path / "to"), "--episodes", "2"]) == 0
    error = capsys.readouterr().err
    assert error.startswith("warning: ") and "has changed since the run began" in error


def test_a_run_that_lacks_rows_is_not_exported(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lacking, to = Path(shutil.copytree(tiny_run, tmp_path / "run")), tmp_path / "to"
    rows = (lacking / "metrics.jsonl").read_text().splitlines(keepends=True)
    (lacking / "metrics.jsonl").write_text("".join(rows[:-1]))
    count = len(rows)
    told = f"metrics.jsonl: ends after line {count - 1}, but the checkpoint was made after {count} rows; put"
    assert told in tiny.refused(capsys, "export", lacking, "--to", to)
    assert not to.exists()


def test_the_folder_that_one_is_in_is_filled(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["export", str(tiny_run), "--episodes", "2", "--to"]
    assert cli.main([*command, "."]) == 0
    assert Path("certificate.json").exists()
    Path("empty").mkdir()
    Path("link").symlink_to("empty")
    assert cli.main([*command, "link"]) == 0
    assert Path("link").is_symlink() and Path("empty/certificate.json").exists()
    assert cli.main([*command, "empty/../new"]) == 0
    assert Path("new/certificate.json").exists()


@pytest.mark.parametrize("is_there", [True, False])
def test_an_export_that_fails_leaves_no_file(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    def full(*args: object) -> str:
        raise OSError("no space")

    to = tmp_path / "to"
    if is_there:
        to.mkdir()
    monkeypatch.setattr(folder, "text", full)
    assert cli.main(["export", str(tiny_run), "--to", str(to), "--episodes", "2"]) == 2
    assert to.exists() == is_there and not list(tmp_path.glob("*/*"))


def test_mistakes_are_one_line(
    tiny_run: Path, exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for command, message in (
        (["export", str(tiny_run), "--to", str(exported)], "it is there already"),
        (["export", str(tiny_run), "--to", str(exported / "README.md")], "it is there already"),
        (["export", str(exported), "--to", str(empty)], "is an exported agent already"),
        (["export", str(empty), "--to", str(tmp_path / "new")], "holds no run"),
        (["verify", str(tiny_run)], "is not an exported agent (there is no certificate.json)"),
        (["--resume", str(exported)], "is an exported agent, which has no checkpoint to continue from"),
    ):
        assert message in tiny.refused(capsys, *command)
    assert not list(empty.iterdir()) and not (tmp_path / "new").exists()
    assert cli.main(["export", str(tiny_run), "--to", str(empty), "--episodes", "2"]) == 0
    assert (empty / "certificate.json").exists(), "an empty folder is taken"
