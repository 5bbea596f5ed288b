"""The command `watch` on short runs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dtqn import cli
from dtqn.inspection.recorder import load
from dtqn.inspection.watch import record
from dtqn.training.directory import RunDir
from envs import pictures
from tests import tiny


def test_without_a_terminal_a_step_is_a_line(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gif = tmp_path / "film.gif"
    command = ["watch", tiny_run, "--episodes", 2, "--seed", 3]
    lines = tiny.printed(capsys, *command, "--gif", gif).splitlines()
    ends = [number for number, line in enumerate(lines) if line.startswith("episode ")]
    assert len(ends) == 2 and lines[-1] == f"film of episode 1: {gif}"
    steps = [line for line in lines if line.startswith("step ")]
    assert all(
        re.search(r"action (right|up|left|down)  reward -?\d+\.\d+  Q .*\[-?\d+\.\d+\]", line)
        for line in steps
    )
    assert f"in {ends[0]} steps" in lines[ends[0]], "a line for each step"
    rewards = [float(re.findall(r"reward (\S+)", line)[0]) for line in lines[: ends[0]]]
    told = float(re.findall(r"return (\S+) in", lines[ends[0]])[0])
    assert sum(rewards) == pytest.approx(told, abs=0.01)
    with Image.open(gif) as picture:
        assert 1 < picture.n_frames <= ends[0] + 1, "those that are the same are joined"
        assert picture.info["duration"] >= 4 * pictures.FRAME_MILLISECONDS
    assert tiny.printed(capsys, *command).splitlines() == lines[:-1], "the seed decides"


def test_a_recording_is_the_network_on_what_it_saw(tiny_run: Path) -> None:
    run = load(RunDir(tiny_run), "last", 1, 5)
    found = record(run, 1, True)
    episode, steps = found.episode, found.episode.length
    assert episode.pictures is not None and len(episode.pictures) == steps + 1
    assert episode.pictures[0].ndim == 3
    assert found.q.shape == (steps, 4) and (found.q.argmax(axis=1) == episode.action).all()
    assert episode.reward.shape == (steps,)
    assert found.dependence is not None and found.dependence.shape == (steps, steps)
    assert np.triu(found.dependence, 1).max() == 0 < found.dependence.max()
    assert episode.cue is not None and episode.cue[0] and not episode.cue[1:].any()
    assert record(run, 2, False).episode.pictures is None


def test_a_gif_has_the_first_pictures_each_shown_longer(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pictures, "MAX_FRAMES", 3)
    file = tmp_path / "film.gif"
    assert cli.main(["watch", str(tiny_run), "--seed", "3", "--gif", str(file)]) == 0
    with Image.open(file) as image:
        shown = [image.seek(n) or image.info["duration"] for n in range(image.n_frames)]
    assert sum(shown) == 2 * 4 * pictures.FRAME_MILLISECONDS + 1500, "the last one for a while"


def test_what_is_refused_is_one_line(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    undrawn = tiny.train(
        tmp_path / "run", "gru", "--env", "tests.envs.test_own:Recall", "--task.time-limit", "9"
    )
    for flags, message in (
        ([str(tiny_run), "--gif", "film.mov"], "--gif is film.mov: its name must end in .gif"),
        ([str(undrawn), "--gif", str(tmp_path / "a.gif")], "the task cannot be drawn"),
        (["nowhere"], "holds no run"),
        ([str(tiny_run), "--delay", "-1"], "must be a number of at least 0 and at most 3600"),
        ([str(tiny_run), "--delay", "1e300"], "must be a number of at least 0 and at most 3600"),
    ):
        assert message in tiny.refused(capsys, "watch", *flags)
    assert cli.main(["watch", str(undrawn)]) == 0, "a task without a picture has lines all the same"
