"""TensorBoard's event file, read back by its own reader: all rows once, also after a kill and a resume."""

import json

import pytest
from PIL import Image

from dtqn.training import session, tensorboard_tracker
from dtqn.training.directory import RunDir
from dtqn.training.metrics import read_rows
from tests.training import fake

pytest.importorskip("tensorboard")
FLAGS = {"tracker": "tensorboard", "checkpoint_every": 200}


def _events(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (file,) = (folder / "tensorboard").iterdir()
    # Without limits: a reservoir would drop some of the events.
    found = EventAccumulator(str(file), size_guidance={"scalars": 0, "images": 0, "tensors": 0})
    return found.Reload()


def _scalars(folder):
    """Tag -> [(step, value)]"""
    found = _events(folder)
    return {tag: [(x.step, x.value) for x in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def _expected(folder):
    from numpy import float32

    scalars = {}
    for row in read_rows(folder / "metrics.jsonl"):
        for name, value in row.items():
            if value is not None and name != "env_steps":
                scalars.setdefault(name, []).append((row["env_steps"], float(float32(value))))
    return scalars


@pytest.fixture
def trainer(monkeypatch):
    class Trainer(fake.FakeTrainer):
        def film(self, file):
            Image.new("RGB", (6, 4)).save(file)

    kind = Trainer
    monkeypatch.setattr(session, "Trainer", kind)
    return kind


def test_a_run_is_in_the_file_row_by_row(tmp_path, trainer):
    code, lines = fake.start(tmp_path / "run", **FLAGS)
    assert code == 0 and not any("TensorBoard" in line for line in lines)
    scalars = _scalars(tmp_path / "run")
    assert scalars == _expected(tmp_path / "run")
    settings = _events(tmp_path / "run").Tensors("settings/text_summary")[0].tensor_proto.string_val[0]
    assert "    env: gridverse-memory-7x7\n" in settings.decode()
    assert not (tmp_path / "run/wandb").exists()


def test_a_killed_and_resumed_run_has_every_row_once(tmp_path, trainer):
    assert fake.resume(fake.killed(tmp_path / "run", trainer, 530, **FLAGS))[0] == 0
    scalars = _scalars(tmp_path / "run")
    assert scalars == _expected(tmp_path / "run")
    assert len(scalars["learner/loss"]) == 20


def test_a_tracker_that_is_added_at_a_resume_gets_what_came_before(tmp_path, trainer):
    fake.killed(tmp_path / "run", trainer, 530)
    assert not (tmp_path / "run/tensorboard").exists()
    assert fake.resume(tmp_path / "run", tracker="wandb,tensorboard")[0] == 0
    assert _scalars(tmp_path / "run") == _expected(tmp_path / "run")


def test_a_folder_that_cannot_be_written_costs_one_line(tmp_path, trainer):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/tensorboard").write_text("a file")
    code, lines = fake.start(tmp_path / "run", **FLAGS)
    assert code == 0
    told = [line for line in lines if "TensorBoard" in line]
    assert len(told) == 1 and "TensorBoard could not be started, the run goes on without it: " in told[0]
    assert json.loads((tmp_path / "run/result.json").read_text())["env_steps"] == 1000


def test_without_the_package_one_line_says_what_to_install(tmp_path, monkeypatch, trainer):
    import sys

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    code, lines = fake.start(tmp_path / "run", **FLAGS)
    assert code == 0
    (line,) = [line for line in lines if "TensorBoard" in line]
    assert line.endswith('it is not installed; python -m pip install -e ".[tensorboard]"')
    assert tensorboard_tracker.NAME == "TensorBoard"
    assert RunDir(tmp_path / "run").has_result
