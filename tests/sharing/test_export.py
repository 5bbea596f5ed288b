"""The commands `export` and `verify` on a short run: its files, what loads them, what is noticed."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import dtqn
from dtqn import cli
from dtqn.acting.evaluation import EvaluationResult
from dtqn.acting.statistics import wilson_interval
from dtqn.sharing import card, certificate, rerun, verify
from dtqn.training import checkpoint, trained
from dtqn.training.directory import RunDir
from dtqn.training.metrics import CLOCK_KEYS, CLOCKS
from dtqn.training.trainer import Trainer

SHORT = [
    *(
        "--env",
        "t-maze-passive-6",
        "--agent",
        "gru",
        "--wandb",
        "disabled",
        "--device",
        "cpu",
        "--threads",
        "1",
    ),
    *(
        "--total-env-steps",
        "900",
        "--warmup-env-steps",
        "200",
        "--metrics-every",
        "100",
        "--actor.num_envs",
        "4",
    ),
    *("--evaluation.period", "150", "--evaluation.episodes", "12", "--learner.batch_size", "4"),
    *("--learner.env_steps_per_update", "20", "--replay.capacity", "2000", "--network.width", "16"),
]


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "gru"
    assert cli.main([*SHORT, "--run-dir", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def exported(run_dir: Path) -> Path:
    to = run_dir.parent / "exported"
    assert cli.main(["export", str(run_dir), "--to", str(to), "--episodes", "40"]) == 0
    return to


@pytest.fixture
def copied(exported: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(exported, tmp_path / "copied"))


def _verified(folder: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, dict[str, str]]:
    """The exit code, and the answer to each question."""
    capsys.readouterr()
    code = cli.main(["verify", str(folder), *flags])
    lines = capsys.readouterr().out.splitlines()
    words = {line[:18].strip(): line[20:31].strip() for line in lines}
    assert set(words.values()) <= {"ok", "DIFFERS", "cannot tell"}
    return code, words


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


def test_the_certificate_says_what_there_is(run_dir: Path, exported: Path) -> None:
    made = json.loads((exported / "certificate.json").read_text())
    for name, digest in made["files"].items():
        assert hashlib.sha256((exported / name).read_bytes()).hexdigest() == digest
    assert {"model.safetensors", "best.safetensors", "config.yaml", "task.json"} <= made["files"].keys()
    result = json.loads((run_dir / "result.json").read_text())
    for name in ("code", "machine", "env_steps", "learner_steps", "threads", "device", "program"):
        assert made["trained"][name] == result[name]
    assert made["trained"]["code"] == [made["exported"]["code"]]
    assert {"python", "torch", "numpy", "gymnasium"} <= made["exported"]["versions"].keys()
    settings = yaml.safe_load((exported / "config.yaml").read_text())
    assert made["settings"] == settings and made["seed"] == settings["seed"] == 1
    rows = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    plain = [{key: value for key, value in row.items() if key not in CLOCK_KEYS} for row in rows]
    assert all(set(CLOCKS) <= row.keys() for row in rows)
    text = "\n".join(json.dumps(row, sort_keys=True) for row in plain) + "\n"
    assert made["metrics"]["digest"] == hashlib.sha256(text.encode()).hexdigest()
    first = made["metrics"]["first_rows"]
    assert first == plain[: len(first)]
    assert [("learner/loss" in row) for row in first].count(True) == 2 and "learner/loss" in first[-1]
    assert made["scores"]["last"]["episodes"] == 40


def test_the_clocks_are_no_part_of_the_digest() -> None:
    row = {"env_steps": 1, "learner/loss": 0.1}
    digest = certificate.metrics_digest([row])
    assert certificate.metrics_digest([row | {"seconds": 1.0}]) == digest
    assert certificate.metrics_digest([row | {"learner/loss": math.nextafter(0.1, 1)}]) != digest
    assert certificate.metrics_digest([row, row]) != digest


def test_the_card_is_one_that_the_hub_reads(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (exported / "README.md").read_text()
    _, header, body = text.split("---\n", 2)
    found = yaml.safe_load(header)
    assert found["library_name"] == "dtqn" and "t-maze-passive-6" in found["tags"]
    (result,) = found["model-index"][0]["results"]
    score = json.loads((exported / "certificate.json").read_text())["scores"]["last"]
    success = next(metric for metric in result["metrics"] if metric["type"] == "success_rate")
    assert success["value"] == pytest.approx(score["success"], abs=1e-4)
    low, high = wilson_interval(round(40 * score["success"]), 40)
    assert f"success {100 * score['success']:.1f} % ({100 * low:.1f} to {100 * high:.1f})" in body
    for part in (
        "![learning curve](learning_curve.png)",
        "dtqn.load(",
        "python -m dtqn --config config.yaml\n",
    ):
        assert part in body
    assert str(exported.parent) not in text, "nothing of this machine's folders"
    capsys.readouterr()
    assert cli.main(["--config", str(exported / "config.yaml"), "--print-config"]) == 0
    assert capsys.readouterr().out == (exported / "config.yaml").read_text(), "the command that made it"


def test_the_card_says_what_is_not_among_the_files(exported: Path) -> None:
    config, made = RunDir(exported).read_config(), certificate.read(exported)
    assert "Not in these files" not in card.text(config, made, [], "", None)
    made["task"]["made_of"], made["own_networks"] = "lamps.py", ["cores:Own"]
    own = card.text(config.model_copy(update={"agent": "mine"}), made, [], "", "me/agent")
    assert "Not in these files, and needed to load it: the task (lamps.py), `cores:Own`." in own
    assert 'folder = snapshot_download("me/agent")' in own
    assert "python -m dtqn --config config.yaml --agent mine=gtrxl\n" in own


def test_the_example_of_the_card_acts(exported: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (exported / "README.md").read_text(), re.DOTALL)
    config = RunDir(exported).read_config()
    env = dtqn.load(exported).make_env(1, seed=1)
    names = {"observation": env.reset()[0][0], "reward": 0.0}
    exec(compile(example.replace("FOLDER", str(exported)), "README.md", "exec"), names)
    assert 0 <= names["action"] < 4 and config.agent == "gru"


def test_an_export_is_verified(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, words = _verified(exported, capsys)
    assert code == 0
    names = {"files", "settings", "metrics", "task", "first updates", "score of last", "score of best"}
    assert words == dict.fromkeys(names, "ok")


def test_a_rerun_writes_the_rows_of_the_run_to_its_end(run_dir: Path) -> None:
    """Evaluations, and the figures of the whole run so far, among them."""
    rows = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    plain = [{key: value for key, value in row.items() if key not in CLOCK_KEYS} for row in rows]
    assert list(rerun.rows(RunDir(run_dir).read_config())) == plain
    assert "eval/success" in plain[-1] and "mean_success" in plain[-1]


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


def _edit_json(change: Callable[[dict], None]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        content = json.loads((folder / "certificate.json").read_text())
        change(content)
        (folder / "certificate.json").write_text(json.dumps(content))

    return edit


def _edit_metrics(folder: Path) -> None:
    text = (folder / "metrics.jsonl").read_text()
    (folder / "metrics.jsonl").write_text(text.replace('"train/episodes": ', '"train/episodes": 1', 1))


def _edit_weights(name: str) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        with safe_open(folder / name, "pt") as file:
            metadata = file.metadata()
        tensors = load_file(folder / name)
        next(iter(tensors.values())).flatten()[0] += 1.0
        save_file(tensors, folder / name, metadata)

    return edit


def _edit_config(folder: Path) -> None:
    path = folder / "config.yaml"
    path.write_text(path.read_text().replace("learning_rate: ", "learning_rate: 1", 1))


def _first_loss(content: dict) -> None:
    """As if the run had gone otherwise: file, digest and certificate agree with each other."""
    content["metrics"]["first_rows"][-1]["learner/loss"] += 1e-12


def _better(content: dict) -> None:
    low, high = wilson_interval(40, 40)
    content["scores"]["last"] |= {"success": 1.0, "success_low": low, "success_high": high}


@pytest.mark.parametrize(
    ("edit", "differs"),
    [
        (_edit_metrics, {"metrics"}),
        (_edit_weights("model.safetensors"), {"model.safetensors", "score of last"}),
        (_edit_weights("best.safetensors"), {"best.safetensors", "score of best"}),
        (_edit_config, {"config.yaml", "settings", "first updates"}),
        (lambda folder: (folder / "learning_curve.png").unlink(), {"learning_curve.png"}),
        (lambda folder: (folder / "task.json").write_text('{"digest": "0"}'), {"task.json", "task"}),
        (_edit_json(_first_loss), {"metrics", "first updates"}),
        (_edit_json(_better), {"score of last"}),
    ],
    ids=["metrics", "last weights", "best weights", "config", "missing", "task", "first rows", "score"],
)
def test_what_has_changed_is_noticed(
    copied: Path,
    edit: Callable[[Path], None],
    differs: set[str],
    capsys: pytest.CaptureFixture[str],
    recwarn: pytest.WarningsRecorder,
) -> None:
    edit(copied)
    code, words = _verified(copied, capsys)
    assert code == 1
    assert {name for name, word in words.items() if word == "DIFFERS"} == differs


def _set(name: str, value: object) -> Callable[[Path], None]:
    """The certificate with a value under a dotted name; an Ellipsis takes it out."""

    def change(content: dict) -> None:
        *parts, last = name.split(".")
        for part in parts:
            content = content[part]
        content[last] = value
        if value is ...:
            del content[last]

    return _edit_json(change)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("metrics.first_rows", 5, "metrics.first_rows is 5; must be a valid array"),
        ("metrics.first_rows", [1], "metrics.first_rows.0 is 1; must be an object"),
        ("metrics.first_rows", [{}], "metrics.first_rows.0.env_steps is missing"),
        (
            "metrics.first_rows",
            [{"env_steps": 1, "learner_steps": 0, "x": "y"}],
            "first_rows.0.x is y; must ",
        ),
        ("trained.inexact_from", "x", "trained.inexact_from is x; must be a valid integer"),
        ("trained.ended", "x", "trained.ended is x; must be a valid array"),
        ("trained.ended", [0, None, 9], "trained.ended.0 is 0; must be greater than or equal to 1"),
        ("trained.program", "x", "trained.program is x; must be an object"),
        ("scores.last.success", "a", "scores.last.success is a; must be a valid number"),
        ("scores.last.success", 1.5, "scores.last.success is 1.5; must be less than or equal to 1"),
        ("scores.last.success_low", None, "must have success between success_low and success_high"),
        ("scores.last.success_low", 0.9, "must have success between success_low and success_high"),
        ("scores.last.seed", None, "scores.last.seed is None; must be a valid integer"),
        ("scores.last.seed", "x", "scores.last.seed is x; must be a valid integer"),
        ("scores.last.seed", ..., "scores.last.seed is missing"),
        ("scores.last.episodes", 0, "scores.last.episodes is 0; must be greater than or equal to 1"),
        ("scores.last.episodes", 10**12, "scores.last.episodes is 1000000000000; must be less than "),
        (
            "scores.last.episode_return",
            math.nan,
            "scores.last.episode_return is nan; must be a finite number",
        ),
        ("scores", {}, "scores.last is missing"),
        ("files", {}, "files is {}; must have at least 1 item"),
        ("files", {"../task.json": "0" * 64}, "must match pattern"),
        ("settings", ..., "settings is missing"),
        ("format", 2, "has format 2; this version reads format 1"),
    ],
)
def test_a_damaged_certificate_is_refused_in_one_line(
    copied: Path, capsys: pytest.CaptureFixture[str], name: str, value: object, told: str
) -> None:
    _set(name, value)(copied)
    capsys.readouterr()
    assert cli.main(["verify", str(copied)]) == 2
    out, error = capsys.readouterr()
    start = f"error: {copied / 'certificate.json'}: is no certificate of this program, or damaged: "
    assert error.startswith(start) and told in error
    assert not out and error.count("\n") == 1


def _no_success(folder: Path) -> None:
    for name in ("success", "success_low", "success_high"):
        _set(f"scores.last.{name}", None)(folder)


def _fewer_rows(folder: Path) -> None:
    """As of an export of a run whose last rows were lost."""
    rows = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)[:-3]
    (folder / "metrics.jsonl").write_text("".join(rows))
    kept = [json.loads(row) for row in rows]
    _set("metrics.rows", len(kept))(folder)
    _set("metrics.digest", certificate.metrics_digest(kept))(folder)
    _set("metrics.first_rows", certificate.first_rows(kept))(folder)


@pytest.mark.parametrize(
    ("edit", "differs"),
    [
        (_set("settings", {}), {"settings"}),
        (_set("settings.replay", ...), {"settings"}),
        (_no_success, {"score of last"}),
        (_set("scores.last.success", None), {"score of last"}),
        (_set("scores.best", ...), {"score of best"}),
        (_set("scores.best", None), {"score of best"}),
        (_set("files", {"task.json": "0" * 64}), {"config.yaml", "task.json", "model.safetensors"}),
        (_set("metrics.rows", 99), {"metrics"}),
        (_set("metrics.first_rows", []), {"metrics"}),
        (_fewer_rows, {"metrics"}),
    ],
    ids=[
        "no settings",
        "no group",
        "no success",
        "null success",
        "no best",
        "null",
        "files",
        "rows",
        "first rows",
        "fewer",
    ],
)
def test_a_claim_that_is_missing_differs(
    copied: Path, capsys: pytest.CaptureFixture[str], edit: Callable[[Path], None], differs: set[str]
) -> None:
    edit(copied)
    code, words = _verified(copied, capsys, "--updates", "0", "--episodes", "20")
    assert code == 1
    found = {name for name, word in words.items() if word == "DIFFERS"}
    assert found - {"best.safetensors"} == differs


def test_a_setting_of_a_later_version_is_no_difference(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The certificate does not state it, and config.yaml has its default."""
    _set("settings.learner.weight_decay", ...)(copied)
    flags = ("--updates", "0", "--episodes", "0")
    assert _verified(copied, capsys, *flags)[1]["settings"] == "ok"


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


def test_on_another_machine_rows_that_differ_tell_nothing(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def elsewhere(content: dict) -> None:
        content["trained"]["machine"] = "another"

    _edit_json(elsewhere)(copied)
    assert _verified(copied, capsys, "--episodes", "0")[1]["first updates"] == "ok"
    _edit_json(_first_loss)(copied)
    code, words = _verified(copied, capsys, "--episodes", "0")
    assert (code, words["first updates"]) == (1, "cannot tell"), "the digest differs all the same"
    assert "score of last" not in words


@pytest.mark.parametrize("went_on_at, answer", [(150, "cannot tell"), (250, "ok")])
def test_rows_after_a_resume_with_new_episodes_tell_nothing(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    went_on_at: int,
    answer: str,
) -> None:
    """Rows come every 200 env steps, so that the first one is before the interruption or after it."""
    run, to = tmp_path / "run", tmp_path / "exported"
    flags = [*SHORT, "--env", "CartPole-v1", "--run-dir", str(run)]
    for name in ("--metrics-every", "--evaluation.period"):
        flags[flags.index(name) + 1] = "200"
    advance = Trainer.advance

    def interrupted(trainer: Trainer) -> dict[str, Any] | None:
        if trainer.env_steps >= went_on_at:
            os.kill(os.getpid(), signal.SIGINT)
        return advance(trainer)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "advance", interrupted)
        assert cli.main(flags) == 128 + signal.SIGINT
    assert cli.main(["--resume", str(run)]) == 0
    assert "not exact" in capsys.readouterr().out
    assert cli.main(["export", str(run), "--to", str(to), "--episodes", "5"]) == 0
    trained = json.loads((to / "certificate.json").read_text())["trained"]
    assert went_on_at <= trained["inexact_from"] < went_on_at + 10
    assert _verified(to, capsys, "--episodes", "0")[1]["first updates"] == answer
    _edit_json(lambda content: content["trained"].pop("inexact_from"))(to)
    assert _verified(to, capsys, "--episodes", "0")[1]["first updates"] == "DIFFERS"


@pytest.mark.parametrize(("first_end", "goal"), [(230, []), (350, []), (350, [900.0])])
def test_rows_of_a_run_that_was_made_longer_are_those_of_its_first_length(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], first_end: int, goal: list[float]
) -> None:
    """Its step size fell faster then, and it has a row where it ended, which a run of its length lacks."""
    run, to = tmp_path / "run", tmp_path / "exported"
    flags = [*SHORT, "--run-dir", str(run), *(f"--stop-at-return={value}" for value in goal)]
    flags[flags.index("--total-env-steps") + 1] = str(first_end)
    assert cli.main(flags) == 0
    assert cli.main(["--resume", str(run), "--total-env-steps", "500"]) == 0
    assert cli.main(["--resume", str(run), "--total-env-steps", "600"]) == 0
    assert cli.main(["export", str(run), "--to", str(to), "--episodes", "5"]) == 0
    trained = json.loads((to / "certificate.json").read_text())["trained"]
    *ended, steps = trained["ended"]
    assert ended == [first_end, None, *goal] and first_end <= steps < first_end + 10
    assert _verified(to, capsys, "--episodes", "0")[1]["first updates"] == "ok"
    _edit_json(lambda content: content["trained"].pop("ended"))(to)
    assert _verified(to, capsys, "--episodes", "0")[1]["first updates"] == "DIFFERS"


def test_one_return_has_no_interval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, to = tmp_path / "run", tmp_path / "exported"
    assert cli.main([*SHORT, "--env", "CartPole-v1", "--run-dir", str(run)]) == 0
    assert cli.main(["export", str(run), "--to", str(to), "--episodes", "5"]) == 0
    words = _verified(to, capsys, "--episodes", "1", "--updates", "0")[1]
    assert (words["score of last"], words["score of best"]) == ("cannot tell", "cannot tell")
    assert card.score(EvaluationResult(None, None, None, 7.5, 9.0, 1)) == "return 7.500, of 1 episode"


def test_so_many_updates_are_trained_as_are_asked_for(
    exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "first updates" not in _verified(exported, capsys, "--updates", "0", "--episodes", "0")[1]
    made = certificate.read(exported)
    rows = [json.loads(line) for line in (exported / "metrics.jsonl").read_text().splitlines()]
    for updates in (1, 20, rows[-1]["learner_steps"]):
        expected = verify._expected(made, rows, updates)
        assert expected[-1]["learner_steps"] >= updates
        assert all(row["learner_steps"] < updates for row in expected[:-1])
    capsys.readouterr()
    assert cli.main(["verify", str(exported), "--updates", "999"]) == 2
    assert f"must be at most {rows[-1]['learner_steps']}" in capsys.readouterr().err


def _result(successes: int, episodes: int) -> EvaluationResult:
    return EvaluationResult(
        successes / episodes, *wilson_interval(successes, episodes), 0.0, 1.0, episodes, 0.5
    )


def test_scores_are_compared_by_their_intervals_and_an_exact_test() -> None:
    """The p-value of 8 of 10 and 1 of 10 beside 3 of 4 and 1 of 4: 34/70 by counting tables."""
    assert verify.p_value(_result(3, 4), _result(1, 4)) == pytest.approx(34 / 70)
    assert verify.intervals_overlap(_result(50, 100), _result(60, 100))
    assert not verify.intervals_overlap(_result(50, 100), _result(80, 100))
    one, other = (EvaluationResult(None, None, None, x, 1.0, 9, 0.3) for x in (1.0, 2.0))
    assert verify.p_value(one, other) == pytest.approx(0.018422, abs=1e-6)  # z = 1 / (0.3 sqrt 2)
    assert verify.intervals_overlap(one, other)
    assert not verify.intervals_overlap(one, other._replace(episode_return=2.2))
    still = one._replace(return_error=0.0)
    assert verify.p_value(still, still) == 1.0
    assert verify.intervals_overlap(still, still._replace(episode_return=1.0 + 1e-13))


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
