"""Real faults of a run's files and of its terminal: each is told in one clear line, and nothing is lost."""

from __future__ import annotations

import os
import pty
import resource
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from dtqn import cli
from dtqn.settings.config import ConfigError
from dtqn.training import checkpoint, session, trained
from dtqn.training.checkpoint import CheckpointError
from dtqn.training.directory import RunDir
from dtqn.training.metrics import read_rows
from tests import tiny
from tests.training import fake

_FLAGS = ["--total-env-steps", "1000", "--checkpoint-every", "200", "--wandb", "disabled"]


@contextmanager
def _largest_file(size: int):
    """No file of this process may grow beyond `size` bytes, as where a disk is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _refused(path: Path, capsys, *flags: str) -> str:
    """The one line of a resume that is refused; no file of the run has changed."""
    before = tiny.files(path)
    line = tiny.refused(capsys, "--resume", path, *flags)
    assert tiny.files(path) == before
    return line


# Checkpoints


def test_without_its_pointer_a_run_goes_on_from_its_only_checkpoint(tmp_path, trainer, capsys):
    path = fake.killed(tmp_path / "run", trainer, 590)
    folder = path / "checkpoint"
    (folder / "latest").unlink()
    shutil.copytree(folder / "400", folder / "500")
    assert "latest: names no checkpoint in its folder; must hold 400 or 500" in _refused(path, capsys)
    shutil.rmtree(folder / "500")
    fake.assert_goes_on(path)


def test_where_no_checkpoint_is_whole_nothing_is_begun_anew(tmp_path, trainer, capsys):
    path = fake.killed(tmp_path / "run", trainer)
    (path / "checkpoint/latest").unlink()
    (path / "checkpoint/400/state.safetensors").write_bytes(b"damaged")
    assert "checkpoint/400/state.safetensors: is damaged" in _refused(path, capsys)


def test_a_finished_run_without_its_checkpoint_is_not_trained_again(tmp_path, trainer, capsys):
    fake.start(tmp_path / "run")
    shutil.rmtree(tmp_path / "run/checkpoint")
    assert "has finished once, as its result.json says, but has no" in _refused(tmp_path / "run", capsys)


def test_the_same_step_twice_without_a_pointer_keeps_a_checkpoint_at_any_moment(tmp_path, monkeypatch):
    def save(value):
        about = {"env_steps": 10, "seconds": value}
        return checkpoint.save(tmp_path, 10, {"w": torch.zeros(1)}, {"value": value}, about)

    save(1)
    (tmp_path / "latest").unlink()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(checkpoint, "write_whole", _interrupted)
        save(2)
    assert checkpoint.load_state(tmp_path) == {"value": 1}
    save(3)
    assert checkpoint.load_state(tmp_path) == {"value": 3}


def _interrupted(*args, **kwargs):
    raise KeyboardInterrupt


@pytest.mark.parametrize("file", ["10/state.json", "10/state.safetensors", "10/network.safetensors", "best"])
def test_no_changed_bit_of_a_checkpoint_is_taken_for_the_truth(tmp_path, file):
    weights = {"layer": torch.arange(6.0)}
    checkpoint.save(tmp_path, 10, weights, {"x": 1, "a": np.ones(3)}, {"env_steps": 10, "seconds": 1.0})
    checkpoint.save_weights(tmp_path, "best", weights, {"eval/success": 0.5})
    path = tmp_path / (file if file != "best" else "best.safetensors")
    whole = path.read_bytes()
    generator = np.random.default_rng(1)
    for position in generator.choice(len(whole), min(len(whole), 150), replace=False):
        changed = bytearray(whole)
        changed[position] ^= 1 << int(generator.integers(8))
        path.write_bytes(changed)
        with pytest.raises(CheckpointError, match=path.name):
            if file == "best":
                checkpoint.load_weights(tmp_path, "best")[1]
            elif file == "10/network.safetensors":
                checkpoint.load_weights(tmp_path)[1]
            else:
                checkpoint.load_state(tmp_path)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"last_evaluation": {"env_steps": 1000}}, "last_evaluation must have eval/return"),
        ({"held": [{"env_steps": 1, "eval/success": 7}]}, "eval/success is 7; must be a number from 0 to 1"),
    ],
)
def test_what_a_checkpoint_holds_of_a_run_are_rows(tmp_path, trainer, capsys, change, why):
    fake.start(tmp_path / "run")
    with fake.edited_checkpoint(checkpoint.current(tmp_path / "run/checkpoint")) as content:
        content["about"] |= change
    assert f"checkpoint: is damaged: {why}" in _refused(tmp_path / "run", capsys)


def test_damaged_best_weights_are_refused_and_without_them_the_next_ones_are_the_best(
    tmp_path, trainer, capsys
):
    path = fake.killed(tmp_path / "run", trainer)
    file = path / "checkpoint/best.safetensors"
    file.write_bytes(b"junk")
    assert "the next full evaluation's weights count as the best" in _refused(path, capsys)
    file.unlink()
    assert fake.resume(path)[0] == 0
    later = [row for row in fake.rows(path) if "eval/success" in row and row["env_steps"] > 400]
    best = max(later, key=lambda row: row["eval/success"])
    assert checkpoint.best_figures(path / "checkpoint")["env_steps"] == best["env_steps"]


def test_a_full_disk_keeps_the_old_checkpoint_and_the_run_goes_on_from_it(tmp_path, trainer):
    trainer.extra = 0

    def at_step(running):
        trainer.extra = 1 << 20 if running.env_steps >= 500 else 0

    trainer.at_step = staticmethod(at_step)
    get_state = trainer.get_state
    trainer.get_state = lambda self, lazily: (
        get_state(self, lazily) | {"extra": np.zeros(trainer.extra, np.uint8)}
    )
    path = tmp_path / "run"
    with _largest_file(1 << 19), pytest.raises(ConfigError) as error:
        fake.start(path)
    folder = path / "checkpoint"
    assert str(error.value).startswith(f"{folder / '600'}: cannot be written: ")
    assert "File too large" in str(error.value)
    assert str(error.value).endswith(
        f"; what the run had at 400 env steps is kept; to continue: python -m dtqn --resume {path}"
    )
    assert sorted(file.name for file in folder.iterdir()) == ["400", "best.safetensors", "latest"]
    fake.assert_goes_on(path)


def test_a_full_disk_that_takes_no_row_ends_the_run_in_a_line(tmp_path, trainer, capsys):
    path = tmp_path / "run"

    def fill():
        size = (path / "metrics.jsonl").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 5, limits[1]))

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    fake.at(trainer, 450, fill)
    try:
        with pytest.raises(ConfigError) as error:
            fake.start(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(error.value) == (
        f"{path / 'metrics.jsonl'}: cannot be written: File too large; what the run had at 400 env steps is "
        f"kept; to continue: python -m dtqn --resume {path}"
    )
    rows = read_rows(path / "metrics.jsonl")
    assert rows[-1]["env_steps"] == 400
    fake.at(trainer, None, fill)
    fake.assert_goes_on(path)


# Metrics


def _damage_line(path: Path, number: int, line: bytes) -> None:
    file = path / "metrics.jsonl"
    parts = file.read_bytes().split(b"\n")
    parts[number - 1] = line
    file.write_bytes(b"\n".join(parts))


@pytest.mark.parametrize(
    "line",
    [b"", b"\0\0", b"[1]", b'{"env_steps": 1', b'{"env_steps": "1"}', b"{}", b'{"env_steps": 1, "x": []}'],
)
def test_a_bad_row_in_the_middle_is_named_by_its_line(tmp_path, trainer, capsys, line):
    path = fake.killed(tmp_path / "run", trainer)
    _damage_line(path, 3, line)
    assert f"{path / 'metrics.jsonl'}: line 3 is damaged; must be a JSON object" in _refused(path, capsys)
    with pytest.raises(ConfigError, match="line 3 is damaged"):
        read_rows(path / "metrics.jsonl")


@pytest.mark.parametrize("finishes", [False, True])
def test_fewer_rows_than_the_checkpoint_counts_are_refused(tmp_path, trainer, capsys, finishes):
    path, counted = tmp_path / "run", 20 if finishes else 8
    fake.start(path) if finishes else fake.killed(path, trainer)
    file = path / "metrics.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[: counted - 1]))
    told = f"{file}: ends after line {counted - 1}, but the checkpoint was made after {counted} rows"
    assert told in _refused(path, capsys)
    file.write_bytes(b"".join(lines))
    assert fake.resume(path)[0] == 0


@pytest.mark.parametrize("content", ["", "learner: {n_step: 3}\n"])
def test_a_settings_file_without_its_settings_is_damaged(tmp_path, content):
    """Else the run would be read as one with all defaults."""
    directory = RunDir(tmp_path)
    directory.config_file.write_text(content)
    with pytest.raises(ConfigError, match=r"config.yaml: has no env; a run's own file has every setting"):
        directory.read_config()
    directory.metrics_file.write_text("")
    directory.config_file.unlink()
    with pytest.raises(ConfigError, match=r"there is no config.yaml\); put that file back"):
        directory.read_config()


# A folder, a list, a file in place of another


def _folder(file: Path) -> None:
    file.unlink(missing_ok=True)
    file.mkdir()
    (file / "something").write_text("of the user's")


def _file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("a file")


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("config.yaml", _folder),
        ("metrics.jsonl", _folder),
        ("checkpoint/best.safetensors", _folder),
        ("checkpoint/latest", _folder),
        ("checkpoint/latest", lambda file: file.write_bytes(b"\xff\xfe")),
        ("checkpoint/latest", lambda file: file.write_text("77")),
        ("checkpoint/1000/state.json", _folder),
        ("checkpoint/1000/state.safetensors", _folder),
        ("checkpoint", _file),
        ("config.yaml", lambda file: file.write_text("- a\n- list\n")),
    ],
)
def test_what_lies_in_place_of_a_file_is_one_line(tmp_path, trainer, capsys, name, damage):
    fake.start(tmp_path / "run")
    damage(tmp_path / "run" / name)
    error = _refused(tmp_path / "run", capsys, "--total-env-steps", "1500")
    assert error.startswith(f"{tmp_path / 'run' / name}: ")


@pytest.mark.parametrize("name", ["wandb-id.txt", "result.json"])
def test_a_folder_in_place_of_a_file_that_is_written_is_one_line(tmp_path, trainer, capsys, name):
    fake.start(tmp_path / "run")
    _folder(tmp_path / "run" / name)
    capsys.readouterr()
    assert cli.main(["--resume", str(tmp_path / "run"), "--total-env-steps", "1500"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {tmp_path / 'run' / name}: cannot be written: ")
    assert error.count("\n") == 1
    assert (tmp_path / "run" / name / "something").exists()


@pytest.mark.parametrize("content", ["[]", "", "{}", "3", "null", '{"ends_at": 5}', "\0"])
def test_a_result_that_is_none_is_written_again_from_the_checkpoint(tmp_path, trainer, content):
    fake.start(tmp_path / "run")
    directory, file = RunDir(tmp_path / "run"), tmp_path / "run/result.json"
    whole = directory.read_result()
    file.write_text(content)
    assert directory.read_result() is None
    assert "has finished" in fake.resume(tmp_path / "run")[1][0]
    assert directory.read_result() == whole


@pytest.mark.parametrize("content", [b"", b"\n", b"a/b", b"\xff", b"two words"])
def test_an_id_that_wandb_would_not_take_is_one_line(tmp_path, trainer, capsys, content):
    """It is read where a run starts anew; later the checkpoint knows it."""
    path = fake.killed(tmp_path / "run", trainer, 150)
    (path / "wandb-id.txt").write_bytes(content)
    capsys.readouterr()
    assert cli.main(["--resume", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {path / 'wandb-id.txt'}: holds ")
    assert error.count("\n") == 1


def test_settings_that_were_changed_behind_a_checkpoint_are_named(tmp_path, trainer, capsys):
    path = fake.killed(tmp_path / "run", trainer)
    file = path / "config.yaml"
    file.write_text(file.read_text().replace("n_step: 3", "n_step: 4"))
    told = f"{file}: learner.n_step is 4, but the run's checkpoint was made with 3"
    assert _refused(path, capsys) == told
    with pytest.raises(ConfigError, match=r"learner\.n_step is 4"):
        trained.evaluate_run(RunDir(path), 1, 1, "last")


# A picture is worth no run


def test_a_picture_that_cannot_be_written_ends_no_run(tmp_path, trainer):
    path = tmp_path / "run"
    (path / "learning_curve.png").mkdir(parents=True)
    (path / "evaluation.gif").mkdir()
    code, said = fake.start(path)
    assert code == 0
    assert any(line.startswith("no learning curve: IsADirectoryError") for line in said)
    assert any(line.startswith("no film of an episode: IsADirectoryError") for line in said)
    assert RunDir(path).read_result() is not None


# The terminal goes away


def _gone(path, trainer, out, close) -> int:
    """The exit code of a run whose output goes away at 450 environment steps, before an evaluation."""
    fake.at(trainer, 450, close)
    code = session.start(fake.config_of(), RunDir(path), out)
    fake.at(trainer, None, close)
    return code


@pytest.mark.parametrize("kind", ["pipe", "terminal", "full"])
def test_an_output_that_goes_away_saves_like_sigterm(tmp_path, trainer, kind):
    """`head` closes a pipe; a terminal that is closed fails in another way, and a full disk too."""
    path = tmp_path / "run"
    reader, writer = pty.openpty() if kind == "terminal" else os.pipe()
    with os.fdopen(writer, "w") as out:
        if kind == "full":
            code = _gone(path, trainer, out, lambda: os.dup2(os.open("/dev/full", os.O_WRONLY), writer))
        else:
            code = _gone(path, trainer, out, lambda: os.close(reader))
    assert code == 141
    assert 500 <= checkpoint.read_about(path / "checkpoint")["env_steps"] < 1000
    fake.assert_goes_on(path)


def test_a_run_needs_no_output(tmp_path, trainer, monkeypatch):
    monkeypatch.setattr("sys.stdout", None)  # as a program has it that is started with `>&-`
    assert session.start(fake.config_of(), RunDir(tmp_path / "run")) == 0


# Others in the same folder


def test_of_two_that_start_at_once_one_is_told(tmp_path, trainer, capsys):
    path, flags = tmp_path / "run", ["--run-dir", str(tmp_path / "run"), *_FLAGS]
    with RunDir(path).lock():
        told = tiny.refused(capsys, *flags)
    assert told == f"run_dir {path} is in use: another process trains there"
    assert cli.main(flags) == 0
    other = "choose another seed or run_dir"
    done = f"to evaluate it: python -m dtqn eval {path}"
    assert tiny.refused(capsys, *flags) == f"run_dir {path} holds a finished run; {done}; or {other}"
    (path / "result.json").unlink()
    on = f"to continue it: python -m dtqn --resume {path}"
    assert tiny.refused(capsys, *flags) == f"run_dir {path} holds a run; {on}; or {other}"


def test_a_folder_that_cannot_be_written_is_one_line(trainer, capsys):
    with tempfile.TemporaryDirectory() as parent:  # of pytest's own no other user may read
        os.chmod(parent, 0o755)
        path = Path(parent) / "run"
        fake.start(path)
        path.chmod(0o555)
        root = os.geteuid() == 0
        try:
            if root:  # who may write everywhere
                os.seteuid(65534)
            assert cli.main(["--resume", str(path), "--total-env-steps", "1500"]) == 2
            assert cli.main(["--run-dir", str(path / "new"), *_FLAGS]) == 2
        finally:
            if root:
                os.seteuid(0)
            path.chmod(0o755)
        errors = capsys.readouterr().err.splitlines()
        assert errors == [
            f"error: run_dir {path} cannot be written: Permission denied",
            f"error: run_dir {path / 'new'} cannot be written: Permission denied",
        ]


# The price of a run


def test_the_price_is_said_before_it_starts(tmp_path, trainer):
    learner = {"env_steps_per_update": 48}
    _, said = fake.start(tmp_path / "run", total_env_steps=5000, warmup_env_steps=200, learner=learner)
    steps = next(line for line in said if line.startswith("steps"))
    assert steps == "steps    5 000 env steps, 200 of them at random; 100 learner updates"  # 4800 / 48
    memory = next(line for line in said if line.startswith("memory"))
    assert memory.startswith("memory   replay 1 kB, networks 500 bytes of the machine's ")
