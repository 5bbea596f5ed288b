"""Pictures of tasks, read back from the files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import envs
from envs import pictures

ID = "gridverse-memory-7x7"


def test_png_is_the_first_state(tmp_path: Path) -> None:
    env = envs.make_vector(ID, 1, render_mode="rgb_array")
    assert pictures.save(env, tmp_path / "new" / "a.png", seed=5) == 1
    twin = envs.make_vector(ID, 1, seed=5, render_mode="rgb_array")
    twin.reset(seed=5)
    expected = twin.render()
    assert expected is not None
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "new" / "a.png")), expected[0])


def test_gif_is_one_whole_episode(tmp_path: Path) -> None:
    env = envs.make_vector(ID, 1, time_limit=12, render_mode="rgb_array")
    count = pictures.save(env, tmp_path / "a.gif", seed=5)
    image = Image.open(tmp_path / "a.gif")
    # Equal neighbours are one frame of a GIF, shown for longer: its time counts the episode's rows.
    shown = 0
    for frame in range(image.n_frames):  # type: ignore[attr-defined]
        image.seek(frame)
        shown += image.info["duration"]
    assert 2 <= count <= 13
    assert shown == count * pictures.FRAME_MILLISECONDS


def test_long_episodes_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "MAX_FRAMES", 3)
    env = envs.make_vector(ID, 1, render_mode="rgb_array")
    env.reset(seed=1)
    assert len(pictures.random_episode(env, seed=1)) == 3


def test_other_files_are_refused(tmp_path: Path) -> None:
    env = envs.make_vector(ID, 1, render_mode="rgb_array")
    with pytest.raises(ValueError, match=r"must end in \.png .* or \.gif"):
        pictures.save(env, tmp_path / "a.txt", seed=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("id", ["t-maze-passive-6", "CartPole-v1"])
def test_the_pictures_of_some_copies_are_those_of_all(id):
    env = envs.make_vector(id, 3, 1, render_mode="rgb_array")
    env.reset(seed=1)
    env.step(env.action_space.sample())
    some, of_all = pictures.of_copies(env, [2, 0]), env.render()
    np.testing.assert_array_equal(some[0], of_all[2])
    np.testing.assert_array_equal(some[1], of_all[0])
    env.close()
