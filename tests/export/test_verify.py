"""The command `verify`: what it notices, and what it cannot tell."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from dtqn import cli
from dtqn.acting.evaluation import EvaluationResult
from dtqn.acting.statistics import wilson_interval
from dtqn.export import card, certificate, verify
from dtqn.settings.config import Config
from dtqn.training.metrics import Row
from dtqn.training.trainer import Trainer
from tests.export.conftest import SHORT
from tests.export.edits import edit_json, set_value


def _verified(folder: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, dict[str, str]]:
    """The exit code, and the answer to each question."""
    capsys.readouterr()
    code = cli.main(["verify", str(folder), *flags])
    lines = capsys.readouterr().out.splitlines()
    words = {line[:18].strip(): line[20:31].strip() for line in lines}
    assert set(words.values()) <= {"ok", "DIFFERS", "cannot tell"}
    return code, words


def test_an_export_is_verified(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, words = _verified(exported, capsys)
    assert code == 0
    names = {"files", "settings", "metrics", "task", "first updates", "score of last", "score of best"}
    assert words == dict.fromkeys(names, "ok")


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
        (edit_json(_first_loss), {"metrics", "first updates"}),
        (edit_json(_better), {"score of last"}),
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


def _no_success(folder: Path) -> None:
    for name in ("success", "success_low", "success_high"):
        set_value(f"scores.last.{name}", None)(folder)


def _fewer_rows(folder: Path) -> None:
    """As of an export of a run whose last rows were lost."""
    rows = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)[:-3]
    (folder / "metrics.jsonl").write_text("".join(rows))
    kept = [json.loads(row) for row in rows]
    set_value("metrics.rows", len(kept))(folder)
    set_value("metrics.digest", certificate.metrics_digest(kept))(folder)
    set_value("metrics.first_rows", certificate.first_rows(kept))(folder)


@pytest.mark.parametrize(
    ("edit", "differs"),
    [
        (set_value("settings", {}), {"settings"}),
        (set_value("settings.replay", ...), {"settings"}),
        (_no_success, {"score of last"}),
        (set_value("scores.last.success", None), {"score of last"}),
        (set_value("scores.best", ...), {"score of best"}),
        (set_value("scores.best", None), {"score of best"}),
        (set_value("files", {"task.json": "0" * 64}), {"config.yaml", "task.json", "model.safetensors"}),
        (set_value("metrics.rows", 99), {"metrics"}),
        (set_value("metrics.first_rows", []), {"metrics"}),
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
    set_value("settings.learner.weight_decay", ...)(copied)
    flags = ("--updates", "0", "--episodes", "0")
    assert _verified(copied, capsys, *flags)[1]["settings"] == "ok"


def test_on_another_machine_rows_that_differ_tell_nothing(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def elsewhere(content: dict) -> None:
        content["trained"]["machine"] = "another"

    edit_json(elsewhere)(copied)
    assert _verified(copied, capsys, "--episodes", "0")[1]["first updates"] == "ok"
    edit_json(_first_loss)(copied)
    code, words = _verified(copied, capsys, "--episodes", "0")
    assert (code, words["first updates"]) == (1, "cannot tell"), "the digest differs all the same"
    assert "score of last" not in words


def test_the_rows_of_code_that_has_changed_tell_nothing(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def changed(content: dict) -> None:
        content["trained"]["changed_at"] = [150]

    edit_json(changed)(copied)
    assert _verified(copied, capsys, "--episodes", "0")[1]["first updates"] == "cannot tell"


@pytest.mark.parametrize("repeats, answer", [(False, "cannot tell"), (True, "DIFFERS")])
def test_a_training_that_does_not_repeat_itself_tells_nothing(
    repeats: bool,
    answer: str,
    copied: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As that of a task which draws from a generator that no seed sets."""
    rows, drawn = verify.rerun.rows, itertools.count(1)

    def other_rows(config: Config) -> Generator[Row, None, None]:
        number = 0 if repeats else next(drawn)
        for row in rows(config):
            yield row | {"train/return": -100.0 - number}

    monkeypatch.setattr(verify.rerun, "rows", other_rows)
    assert _verified(copied, capsys, "--episodes", "0")[1]["first updates"] == answer


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
    edit_json(lambda content: content["trained"].pop("inexact_from"))(to)
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
    edit_json(lambda content: content["trained"].pop("ended"))(to)
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
