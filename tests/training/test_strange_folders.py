"""Folders of runs that somebody has changed: refused in one line, and nothing beside the run is touched."""

import json
import shutil
import stat
from pathlib import Path

import pytest
import torch

from dtqn.cli import main
from dtqn.settings.config import ConfigError
from dtqn.training import checkpoint
from tests import hostile
from tests.tiny import refused

_RUN = Path(__file__).parents[1] / "data" / "run-c9b8378"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run in a folder of its own, beside a file of the user's."""
    for name in ("work", "vault"):
        (tmp_path / name).mkdir()
    (tmp_path / "vault/diary").write_text("private\n")
    monkeypatch.chdir(tmp_path / "work")
    return Path(shutil.copytree(_RUN, "runs/one/dtqn/seed1"))


_FIRST, _STATE = "checkpoint/best.safetensors", "checkpoint/NEWEST/state.json"
FAULTS = {
    "learning_curve.png is a link": "vault/diary, outside of its folder",
    "metrics.jsonl is a link": "metrics.jsonl: is a link to ",
    f"{_FIRST} is a link": "best.safetensors: is a link to ",
    "links in a circle": "is a link to config.yaml, in a circle",
    f"{_FIRST} is a pipe": "is a pipe or a device; must be a file",
    "config.yaml is a pipe": "is a pipe or a device",
    "weights are of another type": "is torch.float64, must be torch.float32",
    "weights are NaN": "holds numbers that are not finite",
    "a network beyond memory": "does not fit into this machine's memory",
    "the newest checkpoint is a link": "is a link to",
    "agent leads out of the folder": "agent is ../../../vault/agent: must be a name",
    "env forges lines": "env is '\\x1b[2J\\x1b[31mok\\nerror: all is well",
    "env is a pipe": "pipe: is a pipe or a device; must be a file",
}
"""Names of `hostile.FOLDERS`, and what is said of them."""
STATES = {
    "rows that are text": ({"rows": "many"}, "is damaged: rows is many"),
    "no settings": ({"config": None}, "is damaged"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_changed_folder_is_refused_in_one_line_and_nothing_beside_it_is_read_or_written(run, fault, capsys):
    hostile.change(run, hostile.FOLDERS[fault])
    weights = "last" if "newest" in fault else "best"
    _refuses(run, weights, FAULTS[fault], capsys)
    if "weights" not in fault and _FIRST not in fault:  # best weights that cannot be read give way
        assert main(["--resume", str(run), "--total-env-steps", "420"]) == 2
    assert Path("../vault/diary").read_text() == "private\n"


@pytest.mark.parametrize("state", STATES)
def test_a_changed_state_is_refused_in_one_line(run, state, capsys):
    about, problem = STATES[state]
    hostile.change(run, {"merge": {_STATE: {"about": about}}})
    _refuses(run, "last", problem, capsys)


def test_a_type_in_the_header_is_refused(run, capsys):
    path = run / _FIRST
    path.write_bytes(path.read_bytes().replace(b'"dtype":"F32"', b'"dtype":"I32"', 1))
    _refuses(run, "best", "is torch.int32, must be torch.float32", capsys)


def _refuses(run: Path, weights: str, problem: str, capsys) -> None:
    commands = (
        ["eval", str(run), "--checkpoint", weights, "--episodes", "2"],
        ["watch", str(run), "--checkpoint", weights],
        ["export", str(run), "--to", "out", "--episodes", "2"],
    )
    for command in commands:
        assert problem in refused(capsys, *command)
        assert not Path("out").exists()


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ({"updates_summed": "many"}, "state/updates_summed is of the type <class 'str'>"),
        ({"updates": {"credit": 1e40}}, "updates/credit is 1e+40, must be from 0 to below 1"),
    ],
)
def test_a_state_is_refused_before_anything_is_trained(run, state, problem, capsys):
    hostile.change(run, {"merge": {_STATE: {"state": state}}})
    assert problem in refused(capsys, "--resume", run, "--total-env-steps", "420")


def test_the_probe_of_a_folder_follows_no_link(run, capsys):
    hostile.change(run, hostile.FOLDERS[".probe is a link"])
    assert main(["--resume", str(run)]) == 0
    assert Path("../vault/diary").read_text() == "private\n"


def test_text_of_a_file_cannot_repaint_the_terminal(run, capsys):
    (run / "task.json").write_text(json.dumps({"digest": "\x1b[2J\nok"}))
    assert main(["eval", str(run), "--episodes", "1"]) == 0
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
    with pytest.raises(ConfigError, match="cannot be written"):
        checkpoint.save(folder, 12, weights, checkpoint.load_state(folder), about)
    assert [file.read_text() for file in mine] == ["mine"] * 3
    assert not (folder / ".12.tmp").exists() and checkpoint.current(folder).name == "999999"


def test_a_folder_of_checkpoints_may_be_on_another_disk(run, capsys):
    shutil.move(run / "checkpoint", "disk")
    (run / "checkpoint").symlink_to(Path("disk").absolute())
    assert main(["eval", str(run), "--episodes", "2"]) == 0


def test_others_may_read_the_best_weights_too(tmp_path):
    checkpoint.save_weights(tmp_path, "best", {"w": torch.zeros(2)}, {})
    assert stat.S_IMODE((tmp_path / "best.safetensors").stat().st_mode) == 0o644
