"""The command `verify`: what it notices, and what it cannot tell."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from dtqn import cli
from dtqn.acting.episode_intervals import wilson_interval
from dtqn.acting.evaluation import EvaluationResult
from dtqn.export import verify
from dtqn.training import trained
from tests.export.edits import edit_json, set_value


def _verified(
    path: Path, capsys: pytest.CaptureFixture[str], *flags: str
) -> tuple[int, dict[str, str], dict[str, str]]:
    """The exit code; the answer to each question, and why."""
    capsys.readouterr()
    code = cli.main(["verify", str(path), *flags])
    lines = capsys.readouterr().out.splitlines()
    words = {line[:18].strip(): line[20:31].strip() for line in lines}
    assert set(words.values()) <= {"ok", "DIFFERS", "cannot tell"}
    return code, words, {line[:18].strip(): line[33:] for line in lines}


def _differing(words: dict[str, str]) -> set[str]:
    return {name for name, word in words.items() if word == "DIFFERS"}


def test_an_export_is_verified(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, words, why = _verified(exported, capsys)
    assert code == 0
    assert words == dict.fromkeys(("files", "task", "score of last", "score of best"), "ok")
    for weights in ("last", "best"):
        assert why[f"score of {weights}"].endswith("the same episodes have the same figures")


@pytest.mark.parametrize("flags", [("--seed", "8"), ("--episodes", "39")])
def test_other_episodes_are_compared_by_intervals(
    exported: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, str]
) -> None:
    code, words, why = _verified(exported, capsys, *flags)
    assert (code, words["score of last"]) == (0, "ok")
    assert why["score of last"].endswith("the intervals overlap")


def _edit_weights(name: str) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        with safe_open(path / name, "pt") as file:
            metadata = file.metadata()
        tensors = load_file(path / name)
        next(iter(tensors.values())).flatten()[0] += 1.0
        save_file(tensors, path / name, metadata)

    return edit


def _append(name: str, text: str) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        with (path / name).open("a") as file:
            file.write(text)

    return edit


def _better(path: Path) -> None:
    low, high = wilson_interval(40, 40)
    for name, value in (("success", 1.0), ("success_low", low), ("success_high", high)):
        set_value(f"scores.last.{name}", value)(path)


@pytest.mark.parametrize(
    ("edit", "differs"),
    [
        (_append("metrics.jsonl", '{"env_steps": 1000}\n'), {"metrics.jsonl"}),
        (_append("README.md", "It is good.\n"), {"README.md"}),
        (_append("config.yaml", "# seed\n"), {"config.yaml"}),
        (_edit_weights("model.safetensors"), {"model.safetensors", "score of last"}),
        (_edit_weights("best.safetensors"), {"best.safetensors", "score of best"}),
        (lambda path: (path / "learning_curve.png").unlink(), {"learning_curve.png"}),
        (lambda path: (path / "task.json").write_text('{"digest": "0"}'), {"task.json", "task"}),
        (_better, {"score of last"}),
        (set_value("scores.last.length", 7.25), {"score of last"}),
        (set_value("scores.last.success", None), {"score of last"}),
        (set_value("scores.best", ...), {"score of best"}),
        (set_value("files.missing", "0" * 64), {"missing"}),
    ],
    ids=[
        *("metrics", "card", "config", "last weights", "best weights", "missing", "task"),
        *("score", "length", "null success", "no best", "file that never was"),
    ],
)
def test_what_has_changed_is_noticed(
    copied: Path,
    edit: Callable[[Path], None],
    differs: set[str],
    capsys: pytest.CaptureFixture[str],
    recwarn: pytest.WarningsRecorder,
) -> None:
    edit(copied)
    code, words, _ = _verified(copied, capsys)
    assert code == 1
    assert _differing(words) == differs


def test_a_file_without_a_digest_counts_where_the_agent_is_made_of_it(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (copied / ".gitattributes").write_text("*.safetensors filter=lfs\n")  # as the Hub adds it
    code, words, _ = _verified(copied, capsys, "--episodes", "0")
    assert (code, words[".gitattributes"]) == (0, "cannot tell")
    assert words.keys() == {".gitattributes", "files", "task"}, "no episodes were asked for"
    set_value("files", {})(copied)
    code, words, _ = _verified(copied, capsys, "--episodes", "0")
    assert code == 1 and words["files"] == "cannot tell"
    assert _differing(words) == {"config.yaml", "task.json", "model.safetensors", "best.safetensors"}


def test_on_another_machine_scores_that_differ_are_compared_by_intervals(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    set_value("scores.last.length", 7.25)(copied)
    set_value("exported.machine", "another")(copied)
    code, words, why = _verified(copied, capsys)
    assert (code, words["score of last"]) == (0, "ok")
    assert why["score of last"].endswith("the intervals overlap")
    _better(copied)
    assert _verified(copied, capsys)[1]["score of last"] == "DIFFERS"


def test_a_task_that_does_not_repeat_itself_is_compared_by_intervals(
    copied: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one which draws from a generator that no seed sets."""
    evaluate, drawn = trained.evaluate_run, itertools.count(1)

    def other_each_time(*args: Any) -> EvaluationResult:
        return evaluate(*args)._replace(length=20.0 + next(drawn))

    monkeypatch.setattr(trained, "evaluate_run", other_each_time)
    _, words, why = _verified(copied, capsys)
    assert words["score of last"] == "ok" and why["score of last"].endswith("the intervals overlap")


def test_weights_that_are_damaged_are_a_difference(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copied / "model.safetensors").write_bytes(b"nothing")
    code, words, _ = _verified(copied, capsys)
    assert code == 1 and _differing(words) == {"model.safetensors", "score of last"}


def _result(successes: int, episodes: int) -> EvaluationResult:
    share = successes / episodes
    return EvaluationResult(share, *wilson_interval(successes, episodes), 0.0, 1.0, episodes, 0.5)


def _mean(value: float, error: float, episodes: int = 9) -> EvaluationResult:
    return EvaluationResult(None, None, None, value, 1.0, episodes, error)


@pytest.mark.parametrize(
    "one, other, answer",
    [
        (_result(50, 100), _result(60, 100), verify.OK),
        (_result(50, 100), _result(80, 100), verify.DIFFERS),
        (_result(50, 100), _mean(0.5, 0.3), verify.DIFFERS),
        (_mean(1.0, 0.3), _mean(2.0, 0.3), verify.OK),
        (_mean(1.0, 0.3), _mean(2.2, 0.3), verify.DIFFERS),
        (_mean(1.0, 0.0), _mean(1.0 + 1e-13, 0.0), verify.OK),
        (_mean(1.0, 0.3), _mean(1.0, 0.0, episodes=1), verify.UNKNOWN),
    ],
)
def test_two_scores_agree_where_their_intervals_have_a_point_in_common(
    one: EvaluationResult, other: EvaluationResult, answer: str
) -> None:
    assert verify.compared(one, other)[0] == verify.compared(other, one)[0] == answer


def test_what_a_certificate_says_forges_no_verdict(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit_json(lambda content: content["files"].update({"\x1b[2Kx\nfiles               ok": "0" * 64}))(copied)
    assert cli.main(["verify", str(copied), "--episodes", "0"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "\\x1b[2Kx files ok   DIFFERS      the file is missing" in lines
    assert sum(line.startswith("files ") for line in lines) == 1
