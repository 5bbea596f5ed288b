"""Pictures of tasks, read back from the files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gymnasium
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
    assert shown == (count - 1) * pictures.FRAME_MILLISECONDS + pictures.LAST_MILLISECONDS


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


class Drawn(gymnasium.Env[Any, Any]):
    """Its picture is an argument, as the name of what it draws."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    observation_space = action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, picture: str, render_mode: str | None = None) -> None:
        self.picture = picture

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return 0, {}

    def step(self, action: Any) -> Any:
        return 0, 0.0, True, False, {}

    def render(self) -> Any:
        match self.picture:
            case "raises":
                raise OSError("no GL")
            case "exits":
                sys.exit(0)
            case _:
                return PICTURES[self.picture]


PICTURES: dict[str, Any] = {
    "none": None,
    "real": np.full((4, 5, 3), 0.5),
    "large": np.full((4, 5, 3), 256),
    "channels first": np.zeros((3, 4, 5), np.uint8),
    "coloured": np.full((4, 5, 3), 7, np.uint8),
    "whole": np.full((4, 5, 3), 7),
    "alpha": np.full((4, 5, 4), 7, np.uint8),
    "grey": np.full((4, 5), 7, np.uint8),
}


@pytest.mark.parametrize(
    ("picture", "problem"),
    [
        ("raises", r"its render failed: OSError: no GL \(test_pictures.py, line \d+\)"),
        ("exits", r"its render failed: SystemExit: 0 \(test_pictures.py, line \d+\)"),
        ("none", "its picture is one NoneType; it must be uint8 "),
        ("real", r"its picture is float64 of the shape \(4, 5, 3\); it must be uint8 "),
        ("large", r"its picture is int64 of the shape \(4, 5, 3\); it must be uint8 "),
        ("channels first", r"its picture is uint8 of the shape \(3, 4, 5\); it must be uint8 "),
    ],
)
def test_what_is_no_picture_is_one_line(picture: str, problem: str, tmp_path: Path) -> None:
    id, kwargs = f"{__name__}:Drawn", {"picture": picture}
    env = envs.make_vector(id, 1, render_mode="rgb_array", kwargs=kwargs)
    env.reset()
    for draw in (lambda: pictures.save(env, tmp_path / "a.gif", 1), lambda: pictures.of_envs(env, [0])):
        with pytest.raises(envs.TaskError, match=f"task {id}: {problem}"):
            draw()
    assert envs.make_vector(id, 1, kwargs=kwargs).render() == (None,)  # nobody has asked it to draw


@pytest.mark.parametrize("picture", ["coloured", "whole", "alpha", "grey"])
def test_pictures_of_other_kinds_are_read(picture: str) -> None:
    env = envs.make_vector(f"{__name__}:Drawn", 1, render_mode="rgb_array", kwargs={"picture": picture})
    env.reset()
    for found in (pictures.frame(env), *pictures.of_envs(env, [0])):
        assert found.dtype == np.uint8
        np.testing.assert_array_equal(found, np.full((4, 5, 3), 7))


@pytest.mark.parametrize("id", ["t-maze-passive-6", "CartPole-v1"])
def test_the_pictures_of_some_copies_are_those_of_all(id):
    env = envs.make_vector(id, 3, 1, render_mode="rgb_array")
    env.reset(seed=1)
    env.step(env.action_space.sample())
    some, of_all = pictures.of_envs(env, [2, 0]), env.render()
    np.testing.assert_array_equal(some[0], of_all[2])
    np.testing.assert_array_equal(some[1], of_all[0])
    env.close()
