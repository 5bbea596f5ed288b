"""Folders of runs that somebody has changed: refused in one line, and nothing beside the run is touched."""

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from dtqn.cli import main
from dtqn.training import checkpoint

_RUN = Path(__file__).parents[1] / "data" / "run-c9b8378"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run in a folder of its own, beside a file of the user's."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "diary").write_text("private\n")
    return Path(shutil.copytree(_RUN, "run"))


def _linked(name: str) -> Callable[[Path], None]:
    def change(run: Path) -> None:
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to("../diary" if "/" not in name else "../../diary")

    return change


def _piped(name: str) -> Callable[[Path], None]:
    def change(run: Path) -> None:
        (run / name).unlink()
        os.mkfifo(run / name)

    return change


def _changed_weights(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Path], None]:
    """Those of `best.safetensors`, with a checksum that fits."""

    def make(run: Path) -> None:
        figures, weights = checkpoint.load_weights(run / "checkpoint", "best")
        name = next(iter(weights))
        weights[name] = change(weights[name])
        checkpoint.save_weights(run / "checkpoint", "best", weights, figures)

    return make


def _byte_of_the_header(run: Path) -> None:
    path = run / "checkpoint/best.safetensors"
    path.write_bytes(path.read_bytes().replace(b'"dtype":"F32"', b'"dtype":"I32"', 1))


def _wide(run: Path) -> None:
    path = run / "config.yaml"
    path.write_text(path.read_text().replace("  width: ", "  width: 1000000 #"))
    _state(run, lambda about: about["config"]["network"].update(width=1_000_000))


def _state(run: Path, change: Callable[[dict], object]) -> None:
    path = checkpoint.current(run / "checkpoint") / "state.json"
    content = json.loads(path.read_text())
    change(content["about"])
    content["checksum"] = checkpoint._checksum_of(content)
    path.write_text(json.dumps(content))


def _without_settings(run: Path) -> None:
    _state(run, lambda about: about.pop("config"))


def _newest_elsewhere(run: Path) -> None:
    newest = checkpoint.current(run / "checkpoint")
    shutil.move(newest, "elsewhere")
    newest.symlink_to(Path("elsewhere").absolute())


def _renamed(run: Path, old: str, new: str) -> None:
    file = run / "config.yaml"
    file.write_text(file.read_text().replace(old, new, 1))


def _task_of_a_pipe(run: Path) -> None:
    os.mkfifo("pipe")
    _renamed(run, "env: ", "env: gridverse:pipe #")


FAULTS = {
    "a curve that is a link": (_linked("learning_curve.png"), "is a link to ../diary, outside of its folder"),
    "rows that are a link": (_linked("metrics.jsonl"), "is a link to ../diary"),
    "weights that are a link": (_linked("checkpoint/best.safetensors"), "is a link to ../../diary"),
    "weights that are a pipe": (
        _piped("checkpoint/best.safetensors"),
        "is a pipe or a device; must be a file",
    ),
    "settings that are a pipe": (_piped("config.yaml"), "is a pipe or a device"),
    "a type in the header": (_byte_of_the_header, "is torch.int32, must be torch.float32"),
    "weights of another type": (
        _changed_weights(torch.Tensor.double),
        "is torch.float64, must be torch.float32",
    ),
    "weights that are NaN": (_changed_weights(lambda x: x * torch.nan), "holds numbers that are not finite"),
    "a network beyond memory": (_wide, "does not fit into this machine's memory"),
    "a checkpoint that is a link, settings in it": (_newest_elsewhere, "is a link to"),
    "an agent that leads out": (
        lambda run: _renamed(run, "agent: dtqn", "agent: ../../diary"),
        "agent is ../../diary: must be a name",
    ),
    "a task that forges lines": (
        lambda run: _renamed(run, "env: ", 'env: "x\\e[2J\\nok" #'),
        "env is 'x\\x1b[2J\\nok': must be a name",
    ),
    "a task whose file is a pipe": (_task_of_a_pipe, "pipe: is a pipe or a device; must be a file"),
    "rows that are text, settings in order": (
        lambda run: _state(run, lambda about: about.update(rows="many")),
        "is damaged: rows is many",
    ),
    "no settings in the checkpoint": (
        lambda run: _state(run, lambda about: about.pop("config")),
        "is damaged",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_changed_folder_is_refused_in_one_line_and_nothing_beside_it_is_read_or_written(run, fault, capsys):
    change, problem = FAULTS[fault]
    change(run)
    weights = "last" if "settings in" in fault else "best"
    commands = (
        ["eval", "run", "--checkpoint", weights, "--episodes", "2"],
        ["watch", "run", "--checkpoint", weights],
        ["export", "run", "--to", "out", "--episodes", "2"],
    )
    for command in commands:
        assert main(command) == 2, command
        said = capsys.readouterr().err
        assert (said.count("\n"), problem in said) == (1, True), said
        assert not Path("out").exists()
    if "weights" not in fault and "header" not in fault:  # best weights that cannot be read give way
        assert main(["--resume", "run", "--total-env-steps", "420"]) == 2
    assert Path("diary").read_text() == "private\n"


def test_a_state_of_other_types_is_refused_before_anything_is_trained(run, capsys):
    path = checkpoint.current(run / "checkpoint") / "state.json"
    content = json.loads(path.read_text())
    content["state"]["tally"][0] = "many"
    content["checksum"] = checkpoint._checksum_of(content)
    path.write_text(json.dumps(content))
    assert main(["--resume", "run", "--total-env-steps", "420"]) == 2
    assert "state/tally/0 is of the type <class 'str'>" in capsys.readouterr().err


def test_the_probe_of_a_folder_follows_no_link(run, capsys):
    (run / ".probe").symlink_to("../diary")
    assert main(["--resume", "run"]) == 0
    assert Path("diary").read_text() == "private\n"


def test_text_of_a_file_cannot_repaint_the_terminal(run, capsys):
    (run / "task.json").write_text(json.dumps({"digest": "\x1b[2J\nok"}))
    assert main(["eval", "run", "--episodes", "1"]) == 0
    assert "(digest \\x1b[2J ok, now" in capsys.readouterr().err


def test_only_checkpoints_of_the_run_are_removed(run):
    folder = run / "checkpoint"
    mine = [folder / "notes/todo.txt", folder / "my-backup/state.json", folder / "12/extra.txt"]
    for file in mine:
        file.parent.mkdir()
        file.write_text("mine")
    old = checkpoint.current(folder)
    about, weights = checkpoint.load_weights(folder)
    checkpoint.save(folder, 999_999, weights, checkpoint.load_state(folder), about)
    assert not old.exists()
    assert [file.read_text() for file in mine] == ["mine"] * 3


def test_a_folder_of_checkpoints_may_be_on_another_disk(run, capsys):
    shutil.move(run / "checkpoint", "disk")
    (run / "checkpoint").symlink_to("../disk")
    assert main(["eval", "run", "--episodes", "2"]) == 0


def test_others_may_read_the_best_weights_too(tmp_path):
    checkpoint.save_weights(tmp_path, "best", {"w": torch.zeros(2)}, {})
    assert stat.S_IMODE((tmp_path / "best.safetensors").stat().st_mode) == 0o644
